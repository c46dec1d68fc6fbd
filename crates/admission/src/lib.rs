//! Dynamic admission: webhooks, and policies in CEL.
//!
//! Both are objects of `admissionregistration.k8s.io`. They are compiled when they change, never for a request. A
//! request loads the compiled list, matches it with the [`predicates`], and runs the webhooks and policies that match.
//! Without any configuration, that is one load.
//!
//! - [`predicates`]: matching of requests by rules, namespace and object selectors, and equivalent versions
//! - [`cel`]: the environments of expressions, their compilation and evaluation
//! - [`webhook`]: `MutatingAdmissionWebhook` and `ValidatingAdmissionWebhook`
//! - [`manifest`]: webhooks and policies from files
//! - [`pod_security`]: metrics of `PodSecurity`, which is a plug-in of the built-in kinds
//! - [`policy`]: `MutatingAdmissionPolicy` and `ValidatingAdmissionPolicy`

pub mod cel;
pub mod manifest;
pub mod pod_security;
pub mod policy;
pub mod predicates;
mod scheme;
pub mod webhook;
