//! admissionregistration.k8s.io: webhook configurations, admission policies and their bindings.

mod expression;
mod match_resources;
mod mutating_admission_policy;
mod policy;
mod policy_binding;
mod validating_admission_policy;
mod webhook_configuration;

pub use mutating_admission_policy::KIND as MUTATING_ADMISSION_POLICY;
pub use policy_binding::{MUTATING_ADMISSION_POLICY_BINDING, VALIDATING_ADMISSION_POLICY_BINDING};
pub use validating_admission_policy::KIND as VALIDATING_ADMISSION_POLICY;
pub use webhook_configuration::{MUTATING_WEBHOOK_CONFIGURATION, VALIDATING_WEBHOOK_CONFIGURATION};

use kevel_api::value::Value;

use crate::kind::{Kind, MetadataChecks};
use crate::rules::Rules;

const GROUP: &str = "admissionregistration.k8s.io";
/// Suffix of the names of static webhooks and policies, which are in files and not in the API.
const STATIC_SUFFIX: &str = ".static.k8s.io";

const FAILURE_POLICIES: &[&str] = &["Fail", "Ignore"];
const MATCH_POLICIES: &[&str] = &["Equivalent", "Exact"];
const REINVOCATION_POLICIES: &[&str] = &["IfNeeded", "Never"];

/// Declaration that all kinds of the group share.
const fn kind(plural: &'static str, rules: Rules) -> Kind {
    Kind {
        counts_generation: true,
        allow_unconditional_update: false,
        standard_finalizers: false,
        rules: Rules { warnings, ..rules },
        metadata_checks: MetadataChecks::Meta,
        ..Kind::new(GROUP, plural)
    }
}

fn warnings(object: &Value, _: Option<&Value>) -> Vec<String> {
    match object.str_at(&["metadata", "name"]).ends_with(STATIC_SUFFIX) {
        true => vec![format!(
            "metadata.name: names ending with \"{STATIC_SUFFIX}\" are reserved for static \
             manifest-based configurations and cannot be managed via the API"
        )],
        false => Vec::new(),
    }
}
