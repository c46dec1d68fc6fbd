//! Authorizers beside RBAC: a policy file, webhooks, and what nodes may do; and the configuration
//! that puts all of them in order.

mod abac;
mod configuration;
mod configured;
mod match_conditions;
mod metrics;
mod node;
mod webhook;

pub use abac::Abac;
pub use configuration::{
    AuthorizationConfiguration, AuthorizerConfiguration, WebhookConfiguration,
};
pub use configured::{Configured, Lasting};
pub use match_conditions::MatchConditions;
pub use metrics::AuthorizationMetrics;
pub use node::{NodeAuthorizer, NodeFeatures};
pub use webhook::{ReviewVersion, Webhook, WebhookConfig};
