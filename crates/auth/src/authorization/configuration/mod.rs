//! `AuthorizationConfiguration`: who is asked, in which order.

mod read;
#[cfg(test)]
mod tests;
mod validation;

use std::collections::BTreeSet;

use kevel_api::duration::Duration;

/// The configuration.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AuthorizationConfiguration {
    /// In the order in which they are asked.
    pub authorizers: Vec<AuthorizerConfiguration>,
}

/// One authorizer.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AuthorizerConfiguration {
    /// `type`: `Node`, `RBAC`, `Webhook`, ...
    pub mode: String,
    /// How metrics call it.
    pub name: String,
    /// How it is asked, for webhooks.
    pub webhook: Option<WebhookConfiguration>,
}

/// How a webhook is asked.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WebhookConfiguration {
    /// How long a permission is remembered.
    pub authorized_ttl: Duration,
    /// Whether permissions are remembered at all.
    pub cache_authorized_requests: bool,
    /// How long a refusal is remembered.
    pub unauthorized_ttl: Duration,
    /// Whether refusals are remembered at all.
    pub cache_unauthorized_requests: bool,
    /// How long the webhook may take.
    pub timeout: Duration,
    /// `v1` or `v1beta1`
    pub subject_access_review_version: String,
    /// `v1`
    pub match_condition_subject_access_review_version: String,
    /// `NoOpinion` or `Deny`
    pub failure_policy: String,
    /// `KubeConfigFile` or `InClusterConfig`
    pub connection_type: String,
    /// The file that says where the webhook is; without it, this cluster's own address.
    pub kube_config_file: Option<String>,
    /// CEL expressions.
    pub match_conditions: Vec<String>,
}

impl AuthorizationConfiguration {
    /// Reads a configuration file's text and checks it. `required` are the modes that must be in it
    /// because the server began with them.
    pub fn load(text: &[u8], required: &BTreeSet<String>) -> Result<Self, String> {
        let config = read::configuration(text).map_err(|error| {
            format!("failed to load AuthorizationConfiguration from file: {error}")
        })?;
        validation::check(&config, required)?;
        Ok(config)
    }

    /// The modes that are in it, webhooks excepted: those that a running server cannot do without.
    pub fn lasting_modes(&self) -> BTreeSet<String> {
        let modes = self.authorizers.iter().map(|authorizer| authorizer.mode.clone());
        modes.filter(|mode| mode != validation::WEBHOOK).collect()
    }
}
