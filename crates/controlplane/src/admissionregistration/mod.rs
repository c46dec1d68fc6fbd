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

use kevel_admission::manifest::STATIC_SUFFIX;
use kevel_api::field_error::{FieldErrors, Path};
use kevel_api::quote::quote;
use kevel_api::value::Value;
use kevel_features::{Feature, FeatureSet};
use kevel_registry::metadata;

use crate::capabilities::Capabilities;
use crate::kind::{Kind, MetadataChecks};
use crate::rules::Rules;
use crate::validation::Field;

const GROUP: &str = "admissionregistration.k8s.io";
/// Version of objects in manifest files.
const MANIFEST_VERSION: &str = "v1";

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
        true => vec![format!("metadata.name: {}", reserved())],
        false => Vec::new(),
    }
}

/// Refuses a new object with the suffix of objects in manifest files, if the server may have such files. Otherwise the
/// client is warned.
fn static_suffix(object: Field) {
    let name = object.down("metadata.name");
    let gate = Feature::ManifestBasedAdmissionControlConfig;
    if object.capabilities().features.has(gate) && name.str().ends_with(STATIC_SUFFIX) {
        name.invalid(reserved());
    }
}

fn reserved() -> String {
    format!(
        "names ending with {} are reserved for static manifest-based configurations and cannot be \
         managed via the API",
        quote(STATIC_SUFFIX)
    )
}

/// Kinds whose objects can be in manifest files.
const IN_MANIFESTS: [&Kind; 6] = [
    &MUTATING_ADMISSION_POLICY,
    &MUTATING_ADMISSION_POLICY_BINDING,
    &MUTATING_WEBHOOK_CONFIGURATION,
    &VALIDATING_ADMISSION_POLICY,
    &VALIDATING_ADMISSION_POLICY_BINDING,
    &VALIDATING_WEBHOOK_CONFIGURATION,
];

/// Problems of an object in a manifest file: those of a new object in the API, but that the reserved suffix is allowed.
pub fn manifest_errors(kind: &str, object: &Value) -> FieldErrors {
    let is_named = |known: &&&Kind| {
        known.definitions().any(|it| it.version == MANIFEST_VERSION && it.kind == kind)
    };
    let Some(known) = IN_MANIFESTS.iter().find(is_named) else { return FieldErrors::new() };
    let metadata = object.at(&["metadata"]).unwrap_or(&Value::Null);
    let root = Path::new("metadata");
    let mut errors = metadata::check_metadata(metadata, &root, false, &known.validate_name);
    let features = FeatureSet::default().with(Feature::ManifestBasedAdmissionControlConfig, false);
    let capabilities = Capabilities { features, ..Capabilities::default() };
    errors.append(capabilities.errors(object, known.rules.validate_create));
    errors
}
