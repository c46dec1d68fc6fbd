//! Kind ValidatingAdmissionPolicy: validation.

use std::collections::HashSet;

use kevel_admission::cel::{Compiler, OptionalVariableDeclarations, Returns};
use kevel_api::json_path::JsonPath;
use kevel_api::name;
use kevel_registry::strategy::{RESET_ALL_BUT_STATUS, STATUS_METADATA};

use super::expression::{compile, in_scope, match_conditions, report};
use super::policy::{match_conditions_changed, policy, variables};
use crate::columns;
use crate::kind::Kind;
use crate::rules::Rules;
use crate::validation::Field;

/// `validatingadmissionpolicies`
pub static KIND: Kind = Kind {
    kept_by_status: &STATUS_METADATA,
    reset_by_status: RESET_ALL_BUT_STATUS,
    columns: columns::admissionregistration::VALIDATING_ADMISSION_POLICY,
    ..super::kind("validatingadmissionpolicies", RULES)
};

const RULES: Rules = Rules {
    validate_create: |new| {
        check(new, true);
        super::static_suffix(new);
    },
    validate_update: |new, old| check(new, match_conditions_changed(new, old)),
    validate_status_update: |new, _| check_status(new.at("status")),
    status_warnings: |policy| super::warnings(policy, None),
    ..Rules::NONE
};

const MAX_AUDIT_ANNOTATIONS: usize = 20;
/// Maximum length of a `valueExpression`: half of an audit annotation's, because the value is often longer than the
/// expression.
const MAX_VALUE_EXPRESSION: usize = 5 << 10;
const REASONS: &[&str] = &["Forbidden", "Invalid", "RequestEntityTooLarge"];
const NOTHING_CHECKED: &str = "validations or auditAnnotations must contain at least one item";

fn check(object: Field, conditions_changed: bool) {
    let spec = object.at("spec");
    policy(spec);
    let has_params = spec.at("paramKind").is_set();
    if conditions_changed {
        match_conditions(spec.at("matchConditions"), has_params);
    }
    let own = spec.at("variables");
    let mut compiler = if own.is_empty() { Compiler::new() } else { Compiler::composited() };
    variables(own, has_params, &mut compiler);
    let (validations, annotations) = (spec.at("validations"), spec.at("auditAnnotations"));
    if validations.is_empty() && annotations.is_empty() {
        validations.required(NOTHING_CHECKED);
        annotations.required(NOTHING_CHECKED);
        return;
    }
    validations.items().for_each(|one| validation(one, has_params, &compiler));
    if annotations.len() > MAX_AUDIT_ANNOTATIONS {
        let why = format!("must not have more than {MAX_AUDIT_ANNOTATIONS} auditAnnotations");
        annotations.invalid_as(annotations.bad_value(), why);
    }
    let mut keys = HashSet::new();
    for annotation in annotations.items() {
        audit_annotation(annotation, object.down("metadata.name").str(), has_params, &compiler);
        let key = annotation.at("key");
        key.unique(&mut keys, key.str());
    }
}

fn validation(validation: Field, has_params: bool, compiler: &Compiler) {
    let expression = validation.at("expression");
    match expression.str().trim() {
        "" => expression.required("expression is not specified"),
        _ => {
            compile(expression, expression.str(), compiler, Returns::Bool, in_scope(has_params));
        }
    }
    let expression = validation.at("messageExpression");
    let without_authorizer =
        OptionalVariableDeclarations { has_authorizer: false, ..in_scope(has_params) };
    match expression.str().trim() {
        "" if expression.is_empty() => {}
        "" => expression.invalid("must be non-empty if specified"),
        _ => {
            compile(expression, expression.str(), compiler, Returns::String, without_authorizer);
        }
    }
    let message = validation.at("message");
    match message.str().trim() {
        "" if message.is_empty() => {}
        "" => message.invalid("must be non-empty if specified"),
        text if text.contains(['\n', '\r']) => message.invalid("must not contain line breaks"),
        _ => {}
    }
    let reason = validation.at("reason");
    if reason.is_set() {
        reason.one_of(REASONS);
    }
}

fn audit_annotation(annotation: Field, policy: &str, has_params: bool, compiler: &Compiler) {
    let (key, expression) = (annotation.at("key"), annotation.at("valueExpression"));
    match policy {
        "" => key.invalid("requires metadata.name be non-empty"),
        policy => {
            let qualified = format!("{policy}/{}", key.str());
            for problem in name::is_label_key(&qualified) {
                key.invalid_as(qualified.as_str(), problem);
            }
        }
    }
    match expression.str().trim() {
        "" => expression.required("valueExpression is not specified"),
        text if text.len() > MAX_VALUE_EXPRESSION => {
            let why = format!("must not exceed {MAX_VALUE_EXPRESSION} bytes in length");
            expression.required(why);
        }
        text => {
            let compiled = compiler.compile(text, Returns::StringOrNull, in_scope(has_params));
            if let Err(error) = compiled.program {
                report(expression, expression.str(), error);
            }
        }
    }
}

fn check_status(status: Field) {
    for warning in status.down("typeChecking.expressionWarnings").items() {
        warning.at("warning").must("");
        let reference = warning.at("fieldRef");
        match reference.str().trim() {
            "" => reference.required(""),
            text => {
                if let Err(why) = JsonPath::parse(text) {
                    reference.invalid_as(text, format!("invalid JSONPath: {why}"));
                }
            }
        }
    }
    status.at("conditions").conditions();
}
