//! `AuthorizationConfiguration`: the authorizers and their order.

mod read;
#[cfg(test)]
mod tests;
mod validation;

use std::collections::BTreeSet;

use kevel_api::duration::Duration;

/// The configuration.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AuthorizationConfiguration {
    /// Authorizers, in order.
    pub authorizers: Vec<AuthorizerConfiguration>,
}

/// An authorizer.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AuthorizerConfiguration {
    /// `type`: `Node`, `RBAC`, `Webhook`, ...
    pub mode: String,
    /// Name in metrics.
    pub name: String,
    /// Configuration of a webhook.
    pub webhook: Option<WebhookConfiguration>,
}

/// Configuration of a webhook authorizer.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WebhookConfiguration {
    /// Cache time of allowed requests.
    pub authorized_ttl: Duration,
    /// True if allowed requests are cached.
    pub cache_authorized_requests: bool,
    /// Cache time of other decisions.
    pub unauthorized_ttl: Duration,
    /// True if other decisions are cached.
    pub cache_unauthorized_requests: bool,
    /// Timeout of a call.
    pub timeout: Duration,
    /// `v1` or `v1beta1`
    pub subject_access_review_version: String,
    /// `v1`
    pub match_condition_subject_access_review_version: String,
    /// `NoOpinion` or `Deny`
    pub failure_policy: String,
    /// `KubeConfigFile` or `InClusterConfig`
    pub connection_type: String,
    /// kubeconfig of the webhook; `None` for the in-cluster address.
    pub kube_config_file: Option<String>,
    /// Match conditions (CEL).
    pub match_conditions: Vec<String>,
}

impl AuthorizationConfiguration {
    /// Loads and validates a configuration file. `required` are the modes that must not be removed at run time.
    pub fn load(text: &[u8], required: &BTreeSet<String>) -> Result<Self, String> {
        let config = read::configuration(text).map_err(|error| {
            format!("failed to load AuthorizationConfiguration from file: {error}")
        })?;
        validation::check(&config, required)?;
        Ok(config)
    }

    /// Modes other than Webhook, which cannot be removed from a running server.
    pub fn lasting_modes(&self) -> BTreeSet<String> {
        let modes = self.authorizers.iter().map(|authorizer| authorizer.mode.clone());
        modes.filter(|mode| mode != validation::WEBHOOK).collect()
    }
}
