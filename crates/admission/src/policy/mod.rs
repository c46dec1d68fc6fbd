//! Policies in CEL: `ValidatingAdmissionPolicy` and `MutatingAdmissionPolicy`, with their bindings and parameters.
//!
//! ```text
//! policies, bindings (cache, files) ── compiled on change ──▶ Source ── load ──▶ Hooks
//! request ─▶ Hooks ─▶ predicates of policy and binding ─▶ parameters ─▶ Invocations ─▶ match conditions ─▶ expressions
//! ```
//!
//! - `definition`: policies and bindings, parsed
//! - `source`: the current policies with their bindings, from the cache and from files
//! - `params`: the objects that `paramKind` and `paramRef` name
//! - `dispatch`: the policies, bindings and parameters that apply to a request
//! - `versions`: the request's objects in the version that a policy matches
//! - [`validating`] and [`mutating`]: the plug-ins

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
use kevel_component::future::Pending;
use kevel_registry::admission::Attributes;
use kevel_registry::resource::Resources;
use kevel_registry::storage::Storage;
use kevel_server::authorization::Authorizer;
use kevel_server::metrics::Metrics;

use crate::cel::MatchConditionMetrics;
use crate::manifest::ManifestFolder;
use crate::predicates::{GROUP, Matcher};

pub use mutating::MutatingAdmissionPolicy;
pub use validating::ValidatingAdmissionPolicy;

/// Dependencies of the policy plug-ins.
pub struct Config {
    /// Storage of the policies.
    pub policies: Arc<Storage>,
    /// Storage of the bindings.
    pub bindings: Arc<Storage>,
    /// Folder with policies and bindings in files, if there is one.
    pub manifests: Option<ManifestFolder>,
    /// Namespaces and resources, for predicates.
    pub matcher: Arc<Matcher>,
    /// Resources of all servers in the chain; their objects may be parameters.
    pub tables: Vec<Arc<Resources>>,
    /// Authorizer behind `authorizer` in expressions.
    pub authorizer: Arc<dyn Authorizer>,
    /// Metrics registry for checks.
    pub metrics: Arc<Metrics>,
    /// Metrics of match conditions.
    pub match_conditions: MatchConditionMetrics,
}

impl std::fmt::Debug for Config {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Config").field("policies", &self.policies).finish_non_exhaustive()
    }
}

/// Background task that keeps a plug-in's policies up to date while the server runs.
pub type Follow = Pending<'static, ()>;

/// Resources that hold policies. They are exempt from policies of the API, so that a policy that refuses every write can
/// be deleted.
const POLICY_RESOURCES: [&str; 4] = [
    "mutatingadmissionpolicies",
    "mutatingadmissionpolicybindings",
    "validatingadmissionpolicies",
    "validatingadmissionpolicybindings",
];

/// Reviews: requests with the verb create that store no object, and without which no cluster works.
const REVIEWS: [(&str, &str); 6] = [
    ("authentication.k8s.io", "selfsubjectreviews"),
    ("authentication.k8s.io", "tokenreviews"),
    ("authorization.k8s.io", "localsubjectaccessreviews"),
    ("authorization.k8s.io", "selfsubjectaccessreviews"),
    ("authorization.k8s.io", "selfsubjectrulesreviews"),
    ("authorization.k8s.io", "subjectaccessreviews"),
];

/// Policies that a request is exempt from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Exemption {
    None,
    /// Policies of the API. Those of files cannot lock themselves in.
    OfApi,
    All,
}

impl Exemption {
    fn of(attributes: &Attributes<'_>) -> Self {
        let resource = attributes.resource;
        let (group, plural) = (&*resource.kind.group, resource.plural.as_str());
        if REVIEWS.contains(&(group, plural)) {
            return Exemption::All;
        }
        match group == GROUP && POLICY_RESOURCES.contains(&plural) {
            true => Exemption::OfApi,
            false => Exemption::None,
        }
    }
}

/// Refusal before the policies are loaded.
fn not_ready(attributes: &Attributes<'_>) -> StatusError {
    attributes.forbidden(None, "not yet ready to handle request")
}
