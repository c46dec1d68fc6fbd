//! Kinds ValidatingAdmissionPolicyBinding and MutatingAdmissionPolicyBinding: validation.

use std::collections::HashSet;

use kevel_api::field_error::BadValue;
use kevel_api::name;

use super::match_resources::match_resources;
use super::{kind, mutating_admission_policy, static_suffix};
use crate::columns;
use crate::kind::Kind;
use crate::rules::Rules;
use crate::validation::Field;

/// `mutatingadmissionpolicybindings`
pub static MUTATING_ADMISSION_POLICY_BINDING: Kind = Kind {
    storage_version: Some("v1beta1"),
    columns: columns::admissionregistration::BINDINGS,
    ..kind("mutatingadmissionpolicybindings", MUTATING_RULES)
};

/// `validatingadmissionpolicybindings`
pub static VALIDATING_ADMISSION_POLICY_BINDING: Kind = Kind {
    columns: columns::admissionregistration::BINDINGS,
    ..kind("validatingadmissionpolicybindings", VALIDATING_RULES)
};

const ACTIONS: &[&str] = &["Audit", "Deny", "Warn"];
const NOT_FOUND_ACTIONS: &[&str] = &["Deny", "Allow"];

const MUTATING_RULES: Rules = Rules {
    validate_create: |new| {
        mutating(new);
        static_suffix(new);
    },
    validate_update: |new, _| mutating(new),
    ..Rules::NONE
};

const VALIDATING_RULES: Rules = Rules {
    validate_create: |new| {
        validating(new);
        static_suffix(new);
    },
    validate_update: |new, _| validating(new),
    ..Rules::NONE
};

fn mutating(binding: Field) {
    let spec = binding.at("spec");
    check(spec);
    mutating_admission_policy::operations(spec.at("matchResources"));
}

fn validating(binding: Field) {
    let spec = binding.at("spec");
    check(spec);
    actions(spec.at("validationActions"));
}

fn check(spec: Field) {
    let policy = spec.at("policyName");
    if policy.must("") {
        policy.object_name(name::name_is_dns_subdomain);
    }
    param_ref(spec.at("paramRef"));
    match_resources(spec.at("matchResources"));
}

/// Checks `paramRef`.
fn param_ref(reference: Field) {
    const EXCLUSIVE: &str = "name and selector are mutually exclusive";
    if reference.is_absent() {
        return;
    }
    let (name, selector) = (reference.at("name"), reference.at("selector"));
    let (named, selected) = (!name.is_empty(), selector.is_set());
    if named {
        name.object_name(name::is_path_segment_name);
    }
    if named && selected {
        name.forbidden(EXCLUSIVE);
    }
    if selected {
        selector.label_selector(false);
    }
    if named && selected {
        selector.forbidden(EXCLUSIVE);
    }
    if !named && !selected {
        reference.required("one of name or selector must be specified");
    }
    reference.at("parameterNotFoundAction").must_one_of("", NOT_FOUND_ACTIONS);
}

/// Checks `validationActions`.
fn actions(actions: Field) {
    let mut seen = HashSet::new();
    for action in actions.items() {
        action.one_of(ACTIONS);
        if !seen.insert(action.str()) {
            action.duplicate_as(BadValue::named_string(action.str()));
        }
    }
    if seen.contains("Deny") && seen.contains("Warn") {
        actions.invalid(
            "must not contain both Deny and Warn (repeating the same validation failure \
             information in the API response and headers serves no purpose)",
        );
    }
    actions.must("at least one validation action is required");
}
