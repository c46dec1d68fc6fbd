//! Authorization, from the options.

use std::path::Path;
use std::sync::Arc;

use kevel_auth::authorization::{
    Abac, AuthorizationConfiguration, AuthorizationMetrics, AuthorizerConfiguration, Configured,
    Lasting, NodeAuthorizer, NodeFeatures, WebhookConfiguration,
};
use kevel_auth::reviews::{AccessReview, RulesReview};
use kevel_auth::{Rbac, Sources};
use kevel_controlplane::Creaters;
use kevel_features::Feature;
use kevel_registry::storages::Storages;
use kevel_server::authorization::Authorizer;
use kevel_server::egress::{EgressSelector, EgressType};
use kevel_server::lifecycle::Tasks;
use kevel_server::metrics::Metrics;

use crate::options::CompletedOptions;

/// The name of a webhook that flags describe.
const WEBHOOK: &str = "default";
/// Timeout of authorization webhooks.
const WEBHOOK_TIMEOUT: kevel_api::duration::Duration =
    kevel_api::duration::Duration(30_000_000_000);

/// Whether the server was started without a word about permission, on keys of its own.
pub fn alone(options: &CompletedOptions) -> bool {
    let given = &options.flags.given;
    options.own_pki.is_some()
        && !given.has("authorization_mode")
        && !given.has("authorization_config")
}

/// The configured authorizers, in order.
pub struct Authorization {
    /// Union of all authorizers, in order.
    pub authorizer: Arc<dyn Authorizer>,
    pub rbac: Arc<Rbac>,
    /// Whether roles and bindings decide.
    pub uses_rbac: bool,
    node: Option<Arc<NodeAuthorizer>>,
}

impl std::fmt::Debug for Authorization {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Authorization")
    }
}

impl Authorization {
    /// Authorizers that the flags configure; `storages` has the objects that they read.
    pub fn new(
        options: &CompletedOptions,
        storages: &Storages,
        egress: &EgressSelector,
        metrics: &Metrics,
    ) -> Result<Self, String> {
        let flags = &options.flags.authorization;
        let rbac = Arc::new(Rbac::new(Sources::of(storages)?));
        let all = metrics;
        let metrics = Arc::new(AuthorizationMetrics::new(all, &options.server_id()));
        let (mut uses_rbac, mut node) = (false, None);
        // What the configuration names of those that last as long as the server.
        let mut lasting = |config: &AuthorizationConfiguration| {
            let modes = config.lasting_modes();
            uses_rbac = modes.contains("RBAC");
            if modes.contains("Node") {
                let authorizer = NodeAuthorizer::new(node_features(options));
                node = Some(Arc::new(authorizer.measured(all)));
            }
            let abac = modes
                .contains("ABAC")
                .then(|| Abac::load(Path::new(&flags.authorization_policy_file)).map(Arc::new));
            Ok(Lasting {
                rbac: rbac.clone(),
                node: node.clone(),
                abac: abac.transpose()?,
                dialer: egress.dialer(EgressType::ControlPlane),
                metrics: metrics.clone(),
                clock: options.clock.clone(),
            })
        };
        let authorizer: Arc<dyn Authorizer> = match flags.authorization_config.as_str() {
            "" => {
                let config = configuration(options);
                Arc::new(lasting(&config)?.union(&config)?)
            }
            file => Arc::new(Configured::load(Path::new(file), lasting)?),
        };
        Ok(Authorization { authorizer, rbac, uses_rbac, node })
    }

    /// Adds the creaters of access reviews.
    pub fn add_creaters(&self, creaters: &mut Creaters) {
        let (group, authorizer) = ("authorization.k8s.io", || self.authorizer.clone());
        creaters.add(group, "subjectaccessreviews", AccessReview::of_subject(authorizer()));
        creaters.add(group, "localsubjectaccessreviews", AccessReview::local(authorizer()));
        creaters.add(group, "selfsubjectaccessreviews", AccessReview::of_oneself(authorizer()));
        creaters.add(group, "selfsubjectrulesreviews", RulesReview::new(authorizer()));
    }

    /// Follows the objects of the RBAC and Node authorizers, from the start on.
    pub fn follow(&self, storages: &Storages, tasks: &Tasks) {
        self.rbac.follow(tasks);
        if let Some(node) = &self.node {
            node.follow(storages, tasks);
        }
    }
}

/// Flags as an AuthorizationConfiguration.
fn configuration(options: &CompletedOptions) -> AuthorizationConfiguration {
    let flags = &options.flags.authorization;
    let plain = |mode: &str| AuthorizerConfiguration {
        mode: mode.to_owned(),
        name: mode.to_lowercase(),
        webhook: None,
    };
    // A server that was started without a word about permission goes by the roles.
    if alone(options) {
        return AuthorizationConfiguration { authorizers: vec![plain("RBAC")] };
    }
    let authorized_ttl = flags.authorization_webhook_cache_authorized_ttl;
    let unauthorized_ttl = flags.authorization_webhook_cache_unauthorized_ttl;
    let webhook = || AuthorizerConfiguration {
        mode: "Webhook".to_owned(),
        name: WEBHOOK.to_owned(),
        webhook: Some(WebhookConfiguration {
            authorized_ttl,
            cache_authorized_requests: authorized_ttl.0 != 0,
            unauthorized_ttl,
            cache_unauthorized_requests: unauthorized_ttl.0 != 0,
            timeout: WEBHOOK_TIMEOUT,
            subject_access_review_version: flags.authorization_webhook_version.clone(),
            failure_policy: "NoOpinion".to_owned(),
            connection_type: "KubeConfigFile".to_owned(),
            kube_config_file: Some(flags.authorization_webhook_config_file.clone()),
            ..WebhookConfiguration::default()
        }),
    };
    let modes = flags.authorization_mode.0.iter();
    let authorizers = modes.map(|mode| if mode == "Webhook" { webhook() } else { plain(mode) });
    AuthorizationConfiguration { authorizers: authorizers.collect() }
}

fn node_features(options: &CompletedOptions) -> NodeFeatures {
    let enabled = |name| options.feature_gates.enabled(name);
    NodeFeatures {
        cluster_trust_bundle: enabled(Feature::ClusterTrustBundle),
        service_account_token_for_credential_providers: enabled(
            Feature::KubeletServiceAccountTokenForCredentialProviders,
        ),
        pod_certificate_request: enabled(Feature::PodCertificateRequest),
    }
}
