//! Webhooks, parsed from their configurations.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use kevel_api::value::Value;
use kevel_server::webhook::Client;

use crate::cel::{Compiler, FailurePolicy, MatchConditions, Matcher, OptionalVariableDeclarations};
use crate::predicates::MatchCriteria;

use super::client::{ClientConfig, ClientManager};
use super::review::ReviewVersion;

/// The plug-in that a webhook belongs to: mutating or validating.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Admit,
    Validate,
}

impl Step {
    /// `type` label in metrics of webhooks.
    pub const fn name(self) -> &'static str {
        match self {
            Step::Admit => "admit",
            Step::Validate => "validating",
        }
    }

    /// `type` label in metrics of match conditions.
    const fn conditions_name(self) -> &'static str {
        match self {
            Step::Admit => "admit",
            Step::Validate => "validate",
        }
    }
}

/// `sideEffects` of a webhook.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SideEffects {
    /// `None` or `NoneOnDryRun`: the webhook may be called in a dry run.
    None,
    /// `Some` or `Unknown`: dry runs are refused.
    Some,
    /// `sideEffects` is not set.
    Unsaid,
}

/// A parsed webhook.
#[derive(Debug)]
pub(super) struct Webhook {
    /// Name of its webhook configuration.
    pub configuration: Arc<str>,
    /// `name.example.com`: not unique.
    pub name: Arc<str>,
    /// Unique key: origin, configuration, name, and the number of earlier webhooks with the same name.
    pub uid: String,
    pub step: Step,
    pub criteria: MatchCriteria,
    pub conditions: MatchConditions,
    pub failure_policy: FailurePolicy,
    pub side_effects: SideEffects,
    pub timeout: Option<Duration>,
    /// Whether `reinvocationPolicy` is `IfNeeded`.
    pub reinvoke_if_needed: bool,
    /// The first of its `admissionReviewVersions` that this server supports.
    pub review: Option<ReviewVersion>,
    pub client_config: ClientConfig,
    client: OnceLock<Result<Arc<Client>, String>>,
}

impl Webhook {
    /// Webhooks of a configuration, in order.
    pub fn of_configuration(configuration: &Value, step: Step) -> Vec<Arc<Webhook>> {
        Webhook::of_origin("", configuration, step)
    }

    /// Webhooks of a configuration in a manifest file, in order.
    pub fn of_manifest(configuration: &Value, step: Step) -> Vec<Arc<Webhook>> {
        Webhook::of_origin("manifest/", configuration, step)
    }

    fn of_origin(origin: &str, configuration: &Value, step: Step) -> Vec<Arc<Webhook>> {
        let name: Arc<str> = configuration.str_at(&["metadata", "name"]).into();
        let webhooks = configuration.list_at(&["webhooks"]);
        let before = |index: usize, name: &str| {
            webhooks.iter().take(index).filter(|webhook| webhook.str_at(&["name"]) == name).count()
        };
        let webhooks = webhooks.iter().enumerate().map(|(index, webhook)| {
            let which = before(index, webhook.str_at(&["name"]));
            Arc::new(Webhook::new(origin, &name, webhook, which, step))
        });
        webhooks.collect()
    }

    fn new(
        origin: &str,
        configuration: &Arc<str>,
        webhook: &Value,
        which: usize,
        step: Step,
    ) -> Self {
        let name: Arc<str> = webhook.str_at(&["name"]).into();
        let text = |field| webhook.at(&[field]).and_then(Value::as_str);
        let failure_policy = FailurePolicy::new(text("failurePolicy"));
        let conditions = webhook.list_at(&["matchConditions"]).iter();
        let conditions = conditions.map(|c| (c.str_at(&["name"]), c.str_at(&["expression"])));
        let matcher = Matcher { kind: "webhook", step: step.conditions_name(), name: name.clone() };
        let declarations =
            OptionalVariableDeclarations { has_authorizer: true, ..Default::default() };
        let seconds = webhook.at(&["timeoutSeconds"]).and_then(Value::as_int);
        Webhook {
            configuration: configuration.clone(),
            uid: format!("{origin}{configuration}/{name}/{which}"),
            step,
            criteria: MatchCriteria::of_webhook(webhook),
            conditions: MatchConditions::compile(
                &Compiler::new(),
                conditions,
                declarations,
                failure_policy,
                matcher,
            ),
            failure_policy,
            side_effects: match text("sideEffects") {
                None => SideEffects::Unsaid,
                Some("None" | "NoneOnDryRun") => SideEffects::None,
                Some(_) => SideEffects::Some,
            },
            timeout: seconds.and_then(|s| u64::try_from(s).ok()).map(Duration::from_secs),
            reinvoke_if_needed: text("reinvocationPolicy") == Some("IfNeeded"),
            review: ReviewVersion::first_of(webhook.list_at(&["admissionReviewVersions"])),
            client_config: ClientConfig::new(webhook.at(&["clientConfig"])),
            client: OnceLock::new(),
            name,
        }
    }

    /// Client that calls the webhook.
    pub fn client(&self, clients: &ClientManager) -> Result<Arc<Client>, String> {
        self.client.get_or_init(|| clients.client(&self.client_config)).clone()
    }
}
