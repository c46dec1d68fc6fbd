//! Validation that validating and mutating admission policies share.

use kevel_admission::cel::Compiler;
use kevel_api::name;

use super::FAILURE_POLICIES;
use super::expression::{in_scope, report};
use super::match_resources::match_resources;
use crate::validation::Field;

/// Reserved words, which cannot be names of variables.
const RESERVED: &[&str] = &[
    "true",
    "false",
    "null",
    "in",
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "package",
    "namespace",
    "return",
    "var",
    "void",
    "while",
];

/// Checks `failurePolicy`, `paramKind` and the match constraints of a policy.
pub(super) fn policy(spec: Field) {
    let failure = spec.at("failurePolicy");
    match failure.is_set() {
        true => failure.one_of(FAILURE_POLICIES),
        false => failure.required(""),
    }
    param_kind(spec.at("paramKind"));
    let constraints = spec.at("matchConstraints");
    match constraints.is_set() {
        true => {
            match_resources(constraints);
            constraints.at("resourceRules").must("");
        }
        false => constraints.required(""),
    }
}

/// True if match conditions or `paramKind` changed, so that the conditions must be compiled again.
pub(super) fn match_conditions_changed(new: Field, old: Field) -> bool {
    let (new, old) = (new.at("spec"), old.at("spec"));
    ["paramKind", "matchConditions"].iter().any(|field| !new.at(field).same(&old.at(field)))
}

/// Checks `paramKind`.
fn param_kind(kind: Field) {
    if kind.is_absent() {
        return;
    }
    let version = kind.at("apiVersion");
    if version.must("") {
        api_version(version);
    }
    let kind = kind.at("kind");
    if kind.must("") {
        let problems = name::is_dns1035_label(&kind.str().to_lowercase());
        if !problems.is_empty() {
            let why = "may have mixed case, but should otherwise match: ";
            kind.invalid(format!("{why}{}", problems.join(",")));
        }
    }
}

fn api_version(field: Field) {
    let said = field.str();
    let (group, version) = match said.split_once('/') {
        Some((_, version)) if version.contains('/') => {
            return field.invalid(format!("unexpected GroupVersion string: {said}"));
        }
        Some(parts) => parts,
        None => ("", said),
    };
    let problems = name::is_dns1123_subdomain(group);
    if !group.is_empty() && !problems.is_empty() {
        field.invalid_as(group, problems.join(","));
    }
    let problems = name::is_dns1035_label(version);
    if version.is_empty() {
        field.invalid("version must be specified");
    } else if !problems.is_empty() {
        field.invalid_as(version, problems.join(","));
    }
}

/// Checks the variables of a policy, and declares them to the compiler.
pub(super) fn variables(variables: Field, has_params: bool, compiler: &mut Compiler) {
    for variable in variables.items() {
        let (name, expression) = (variable.at("name"), variable.at("expression"));
        if name.str().trim().is_empty() {
            name.required("name is not specified");
        } else if !is_identifier(name.str()) {
            name.invalid("must be a valid CEL identifier");
        }
        let text = expression.str();
        if text.trim().is_empty() {
            expression.required("expression is not specified");
        } else if let Err(error) = compiler.variable(name.str(), text, in_scope(has_params)) {
            report(expression, text, error);
        }
    }
}

fn is_identifier(name: &str) -> bool {
    let begins = name.starts_with(|c: char| c == '_' || c.is_ascii_alphabetic());
    begins
        && name.bytes().all(|byte| byte == b'_' || byte.is_ascii_alphanumeric())
        && !RESERVED.contains(&name)
}
