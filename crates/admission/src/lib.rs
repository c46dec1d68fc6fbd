//! Admission by others: webhooks, and policies that are written in CEL.
//!
//! Both are objects of `admissionregistration.k8s.io`. They are compiled when they change, never for
//! a request; a request loads what is compiled, asks the [`predicates`] whom it concerns, and then
//! asks those. Where nothing is configured, that is one load.
//!
//! - [`predicates`]: which writes a webhook or policy is about: rules, namespace and object selectors,
//!   equivalent versions
//! - [`cel`]: the environments that expressions are compiled in, and what they are evaluated with
//! - [`webhook`]: `MutatingAdmissionWebhook` and `ValidatingAdmissionWebhook`
//! - [`policy`]: `MutatingAdmissionPolicy` and `ValidatingAdmissionPolicy`

pub mod cel;
pub mod policy;
pub mod predicates;
mod scheme;
pub mod webhook;
