//! The authorizers that a configuration names, and those of its file as it changes.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use kevel_api::quote::quote;
use kevel_clock::Clock;
use kevel_component::future::Pending;
use kevel_registry::user::User;
use kevel_server::authorization::{
    AlwaysAllow, AlwaysDeny, Attributes, Authorizer, Decision, Opinion, PrivilegedGroups, Rules,
    Union,
};
use kevel_server::certificates::Dynamic;
use kevel_server::egress::Dialer;
use kevel_server::webhook::{Backoff, Client, Endpoint};

use super::configuration::{AuthorizationConfiguration, WebhookConfiguration};
use super::match_conditions::MatchConditions;
use super::metrics::{AuthorizationMetrics, Instrumented};
use super::{Abac, NodeAuthorizer, ReviewVersion, Webhook, WebhookConfig};
use crate::Rbac;

/// Authorizers that are made once, whatever becomes of the configuration.
#[derive(Clone, Debug)]
pub struct Lasting {
    /// Roles and bindings.
    pub rbac: Arc<Rbac>,
    /// Node authorizer, if a configuration uses it.
    pub node: Option<Arc<NodeAuthorizer>>,
    /// The policy file, where it is asked.
    pub abac: Option<Arc<Abac>>,
    /// The way to webhooks.
    pub dialer: Dialer,
    /// Metrics of decisions.
    pub metrics: Arc<AuthorizationMetrics>,
    /// Time of the server, by which answers of webhooks expire.
    pub clock: Clock,
}

impl Lasting {
    /// The authorizers of a configuration, behind the group that may do everything.
    pub fn union(&self, config: &AuthorizationConfiguration) -> Result<Union, String> {
        if config.authorizers.is_empty() {
            return Err("at least one authorization mode must be passed".to_owned());
        }
        let mut members: Vec<Arc<dyn Authorizer>> = vec![Arc::new(PrivilegedGroups::default())];
        for authorizer in &config.authorizers {
            let (mode, name) = (authorizer.mode.as_str(), authorizer.name.as_str());
            let member = self.member(mode, name, authorizer.webhook.as_ref())?;
            members.push(Arc::new(Instrumented::new(member, mode, name, &self.metrics)));
        }
        Ok(Union::new(members))
    }

    fn member(
        &self,
        mode: &str,
        name: &str,
        webhook: Option<&WebhookConfiguration>,
    ) -> Result<Arc<dyn Authorizer>, String> {
        let late = || {
            format!(
                "authorizer type {mode} is not allowed if it was not enabled at initial server \
                 startup"
            )
        };
        Ok(match mode {
            "AlwaysAllow" => Arc::new(AlwaysAllow),
            "AlwaysDeny" => Arc::new(AlwaysDeny),
            "RBAC" => self.rbac.clone(),
            "Node" => self.node.clone().ok_or_else(late)?,
            "ABAC" => self.abac.clone().ok_or_else(late)?,
            "Webhook" => {
                Arc::new(self.webhook(name, webhook.ok_or("a webhook needs to be described")?)?)
            }
            mode => return Err(format!("unknown authorization mode {mode} specified")),
        })
    }

    fn webhook(&self, name: &str, config: &WebhookConfiguration) -> Result<Webhook, String> {
        let file = config.kube_config_file.as_deref();
        let file = file.ok_or("a webhook without a kubeConfigFile cannot be asked")?;
        let endpoint = Endpoint::from_kubeconfig(Path::new(file))?;
        let client = Client::new(Endpoint { dialer: self.dialer.clone(), ..endpoint })?;
        let version = config.subject_access_review_version.as_str();
        let version = ReviewVersion::of(version).ok_or_else(|| {
            format!(
                "unsupported webhook authorizer version {}, supported versions are \"v1\", \
                 \"v1beta1\"",
                quote(version)
            )
        })?;
        let path = kevel_api::field_error::Path::NONE;
        let match_conditions = MatchConditions::compile(&config.match_conditions, &path)
            .map_err(|errors| kevel_api::field_error::aggregate(errors).unwrap_or_default())?;
        let ttl = |cached: bool, ttl| if cached { span(ttl) } else { Duration::ZERO };
        let config = WebhookConfig {
            name: name.to_owned(),
            version,
            timeout: span(config.timeout),
            backoff: Backoff::default(),
            authorized_ttl: ttl(config.cache_authorized_requests, config.authorized_ttl),
            unauthorized_ttl: ttl(config.cache_unauthorized_requests, config.unauthorized_ttl),
            on_error: match config.failure_policy.as_str() {
                "NoOpinion" => Decision::NoOpinion,
                "Deny" => Decision::Deny,
                policy => return Err(format!("unknown failurePolicy {}", quote(policy))),
            },
            match_conditions,
        };
        Ok(Webhook::new(client, config, self.metrics.clone(), &self.clock))
    }
}

/// The authorizers of a configuration file, which is read again when it changes. One that is not
/// valid leaves everything as it was.
#[derive(Debug)]
pub struct Configured {
    current: Dynamic<Arc<Union>>,
}

impl Configured {
    /// Reads the file, for the first time: `config` is what it says.
    pub fn load(
        path: &Path,
        lasting: impl FnOnce(&AuthorizationConfiguration) -> Result<Lasting, String>,
    ) -> Result<Self, String> {
        let text = std::fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
        let config = AuthorizationConfiguration::load(&text, &BTreeSet::new())?;
        let lasting = lasting(&config)?;
        let required = config.lasting_modes();
        let union = Arc::new(lasting.union(&config)?);
        lasting.metrics.reloads.loaded(&text);
        let last = Mutex::new((text, config, union));
        let current = Dynamic::load("authorization-config", &[path], move |files| {
            let [text] = files else { return Err("no file".to_owned()) };
            let mut last = last.lock().unwrap_or_else(PoisonError::into_inner);
            if last.0 == *text {
                return Ok(last.2.clone());
            }
            let reloaded = AuthorizationConfiguration::load(text, &required).and_then(|config| {
                // What webhooks have answered is worth keeping.
                let same = config == last.1;
                let union = if same { last.2.clone() } else { Arc::new(lasting.union(&config)?) };
                *last = (text.clone(), config, union.clone());
                Ok(union)
            });
            match reloaded {
                Ok(_) => lasting.metrics.reloads.succeeded(text),
                Err(_) => lasting.metrics.reloads.failed(),
            }
            reloaded
        })?;
        Ok(Configured { current })
    }

    /// Looks at the file at every use: for tests.
    pub fn impatient(self) -> Self {
        Configured { current: self.current.impatient() }
    }
}

impl Authorizer for Configured {
    fn authorize<'a>(&'a self, attributes: &'a Attributes<'a>) -> Pending<'a, Opinion> {
        Box::pin(async move {
            let current = self.current.current();
            current.authorize(attributes).await
        })
    }

    fn rules_for(&self, user: &User, namespace: &str) -> Rules {
        self.current.current().rules_for(user, namespace)
    }
}

/// Converts a duration; a negative one becomes zero.
fn span(duration: kevel_api::duration::Duration) -> Duration {
    Duration::from_nanos(u64::try_from(duration.0).unwrap_or(0))
}
