//! Policies in CEL: `ValidatingAdmissionPolicy` and `MutatingAdmissionPolicy`, with their bindings and parameters.
//!
//! ```text
//! policies, bindings (cache) ── compiled on change ──▶ Source ── load ──▶ Hooks
//! write ─▶ Hooks ─▶ predicates of policy and binding ─▶ parameters ─▶ Invocations ─▶ match conditions ─▶ expressions
//! ```
//!
//! - `definition`: a policy and its bindings, read once
//! - `source`: all of them, as they are now
//! - `params`: the objects that a policy is told apart by
//! - `dispatch`: which policies, bindings and parameters a write concerns
//! - `versions`: the write, as a policy sees it
//! - [`validating`] and [`mutating`]: what is done then

mod definition;
mod dispatch;
mod metrics;
pub mod mutating;
mod params;
mod source;
pub mod validating;
mod versions;

use std::sync::Arc;

use kevel_api::status::StatusError;
use kevel_server::admission::Attributes;
use kevel_server::authorization::Authorizer;
use kevel_server::future::Pending;
use kevel_server::metrics::Metrics;
use kevel_server::resource::Resources;
use kevel_server::storage::Storage;

use crate::cel::MatchConditionMetrics;
use crate::predicates::{GROUP, Matcher};

pub use mutating::MutatingAdmissionPolicy;
pub use validating::ValidatingAdmissionPolicy;

/// What the plug-ins of policies are made of.
pub struct Config {
    /// Where the policies are.
    pub policies: Arc<Storage>,
    /// Where their bindings are.
    pub bindings: Arc<Storage>,
    /// What predicates look up.
    pub matcher: Arc<Matcher>,
    /// The resources of all servers, whose objects may be parameters.
    pub tables: Vec<Arc<Resources>>,
    /// Who answers the questions of expressions.
    pub authorizer: Arc<dyn Authorizer>,
    /// Where what is decided is counted.
    pub metrics: Arc<Metrics>,
    /// The same, of match conditions.
    pub match_conditions: MatchConditionMetrics,
}

impl std::fmt::Debug for Config {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Config").field("policies", &self.policies).finish_non_exhaustive()
    }
}

/// What keeps a plug-in's policies up to date, for as long as the server runs.
pub type Follow = Pending<'static, ()>;

/// The resources of policies themselves: who locks everybody out by one must be able to mend it.
const POLICY_RESOURCES: [&str; 4] = [
    "mutatingadmissionpolicies",
    "mutatingadmissionpolicybindings",
    "validatingadmissionpolicies",
    "validatingadmissionpolicybindings",
];

/// Requests that are written as creations and store nothing, without which no cluster works.
const REVIEWS: [(&str, &str); 6] = [
    ("authentication.k8s.io", "selfsubjectreviews"),
    ("authentication.k8s.io", "tokenreviews"),
    ("authorization.k8s.io", "localsubjectaccessreviews"),
    ("authorization.k8s.io", "selfsubjectaccessreviews"),
    ("authorization.k8s.io", "selfsubjectrulesreviews"),
    ("authorization.k8s.io", "subjectaccessreviews"),
];

/// Whether no policy is asked about a write.
fn is_excluded(attributes: &Attributes<'_>) -> bool {
    let (group, plural) = (&*attributes.resource.kind.group, attributes.resource.plural.as_str());
    group == GROUP && POLICY_RESOURCES.contains(&plural) || REVIEWS.contains(&(group, plural))
}

/// The refusal while policies are not loaded yet.
fn not_ready(attributes: &Attributes<'_>) -> StatusError {
    attributes.forbidden(None, "not yet ready to handle request")
}
