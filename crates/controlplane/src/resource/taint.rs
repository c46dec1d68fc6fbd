//! Validation of device taints and tolerations.

use kevel_api::name;

use crate::validation::Field;

const EFFECTS: &[&str] = &["NoExecute", "NoSchedule", "None"];

/// Checks a taint; `old` is the one that it replaces: an unchanged effect is not checked.
pub(super) fn check(taint: Field, old: Option<Field>) {
    taint.at("key").label_name();
    let (value, effect) = (taint.at("value"), taint.at("effect"));
    if !value.is_empty() {
        value.form(name::is_label_value);
    }
    if old.is_none_or(|old| old.at("effect").str() != effect.str()) {
        effect.must_one_of("", EFFECTS);
    }
}

pub(super) fn toleration(toleration: Field) {
    let (key, value) = (toleration.at("key"), toleration.at("value"));
    let (operator, effect) = (toleration.at("operator"), toleration.at("effect"));
    if !key.is_empty() {
        key.label_name();
    }
    match operator.str() {
        "Exists" if !value.is_empty() => value.invalid("must be empty for operator `Exists`"),
        "Equal" => value.form(name::is_label_value),
        _ => operator.must_one_of("", &["Equal", "Exists"]),
    }
    if !effect.is_empty() {
        effect.one_of(EFFECTS);
    }
}
