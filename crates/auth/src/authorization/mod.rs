//! Authorizers beside RBAC: a policy file, a webhook, and what nodes may do; and the configuration
//! file that puts all of them in order.

mod abac;
mod node;

pub use abac::Abac;
pub use node::{NodeAuthorizer, NodeFeatures};
