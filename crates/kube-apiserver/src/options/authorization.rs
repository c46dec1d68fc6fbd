//! Flags of authorization.

use super::files::read_error;
use crate::flags::{EFFECTIVE, Given, Strings, section};
use kevel_api::duration::Duration;
use kevel_api::quote::quote;
use kevel_auth::authorization::AuthorizationConfiguration;
use std::collections::BTreeSet;

section! {
    /// Options of authorization.
    Authorization, "authorization" {
        /// File with the chain of authorizers, in place of --authorization-mode and the
        /// --authorization-webhook-* flags.
        authorization_config: String, EFFECTIVE;
        /// Authorizers in order, comma separated: AlwaysAllow, AlwaysDeny, ABAC, Webhook, RBAC, Node. AlwaysAllow
        /// unless given here or in --authorization-config.
        authorization_mode: Strings, EFFECTIVE;
        /// File with the policy of the ABAC mode, a JSON object per line.
        authorization_policy_file: String, EFFECTIVE;
        /// Cache lifetime of the webhook's allowed requests.
        authorization_webhook_cache_authorized_ttl: Duration = "5m0s", EFFECTIVE;
        /// Cache lifetime of the webhook's denied requests.
        authorization_webhook_cache_unauthorized_ttl: Duration = "30s", EFFECTIVE;
        /// Kubeconfig file of the webhook of the Webhook mode.
        authorization_webhook_config_file: String, EFFECTIVE;
        /// Version of the SubjectAccessReview that is sent to the webhook.
        authorization_webhook_version: String = "v1beta1", EFFECTIVE;
    }
}

/// The modes that there are.
pub(super) const MODES: [&str; 6] =
    ["AlwaysAllow", "AlwaysDeny", "ABAC", "Webhook", "RBAC", "Node"];

impl Authorization {
    /// Without a word about authorizers, everything is allowed.
    pub(super) fn complete(&mut self) {
        if self.authorization_config.is_empty() && self.authorization_mode.is_empty() {
            self.authorization_mode.push("AlwaysAllow".to_owned());
        }
    }

    /// Validation errors of these options alone.
    pub(super) fn validate(&self, given: &Given) -> Vec<String> {
        if !self.authorization_config.is_empty() {
            if given.has("authorization_mode") || given.has_prefix("authorization_webhook_") {
                return vec![
                    "--authorization-config can not be specified when --authorization-mode or \
                     --authorization-webhook-* flags are defined"
                        .to_owned(),
                ];
            }
            return self.config_error().into_iter().collect();
        }
        self.mode_errors()
    }

    fn config_error(&self) -> Option<String> {
        let path = self.authorization_config.as_str();
        if let Some(error) = read_error(path) {
            return Some(error);
        }
        let text = std::fs::read(path).map_err(|error| format!("read {path}: {error}"));
        let config =
            text.and_then(|text| AuthorizationConfiguration::load(&text, &BTreeSet::new()));
        config.err()
    }

    fn mode_errors(&self) -> Vec<String> {
        let modes = &self.authorization_mode;
        let has = |wanted: &str| modes.iter().any(|mode| mode == wanted);
        let mut errors = Vec::new();
        if modes.is_empty() {
            errors.push("at least one authorization-mode must be passed".to_owned());
        }
        for mode in modes.iter() {
            if !MODES.contains(&mode.as_str()) {
                errors.push(format!("authorization-mode {} is not a valid mode", quote(mode)));
            }
            if mode == "ABAC" && self.authorization_policy_file.is_empty() {
                errors.push(
                    "authorization-mode ABAC's authorization policy file not passed".to_owned(),
                );
            }
            if mode == "Webhook" && self.authorization_webhook_config_file.is_empty() {
                errors.push(
                    "authorization-mode Webhook's authorization config file not passed".to_owned(),
                );
            }
        }
        for (file, flag, mode) in [
            (&self.authorization_policy_file, "policy-file", "ABAC"),
            (&self.authorization_webhook_config_file, "webhook-config-file", "Webhook"),
        ] {
            if !file.is_empty() && !has(mode) {
                errors.push(format!("cannot specify --authorization-{flag} without mode {mode}"));
            }
        }
        if modes.iter().collect::<BTreeSet<_>>().len() != modes.len() {
            let quoted: Vec<String> = modes.iter().map(|mode| quote(mode)).collect();
            errors.push(format!(
                "authorization-mode [{}] has mode specified more than once",
                quoted.join(" ")
            ));
        }
        errors
    }
}
