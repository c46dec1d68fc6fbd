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
//!
//! # Design
//!
//! ```text
//! configurations, policies, bindings (cache) ── compiled on change ──▶ ArcSwap<Compiled>
//! write ─▶ load ─▶ predicates (rules, selectors, equivalent version) ─▶ match conditions ─▶ webhook | expressions
//! ```
//!
//! - `controlplane` registers the four plug-ins and validates their kinds with the same CEL environments (`cel`).
//! - A webhook or policy sees the version that its rule names: with `matchPolicy: Equivalent` the predicate returns the
//!   row of the same storage in that version, and the object is converted there and back (`Matched`).
//! - Mutating plug-ins can ask for another round: `Admission::admit` runs the plug-ins once more if one has not seen
//!   what a later one changed (`Reinvocation`), at most once.
//! - Expressions read the stored tree through its schema (`kevel_cel::Value::from_object`), without a copy, and see the
//!   zero values that a client would see. `request`, `namespaceObject` and the authorizer are built only if a policy
//!   mentions them (`Mentions`).
//! - Evaluation does not wait. An authorizer check without an immediate answer ends the evaluation; the authorizer is
//!   asked, and the expression is evaluated again with its answer.
//! - `failurePolicy` applies to a webhook or policy that cannot be evaluated.
//! - Webhooks and policies can also be in files (`manifest`, gate `ManifestBasedAdmissionControlConfig`): a folder per
//!   plug-in, loaded before the server starts, reloaded on change, and refused whole if one document is invalid. They
//!   run before those of the API, and also see writes of webhook configurations and policies, which those of the API do
//!   not.

pub mod cel;
pub mod manifest;
pub mod pod_security;
pub mod policy;
pub mod predicates;
mod scheme;
pub mod webhook;
