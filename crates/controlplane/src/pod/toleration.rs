//! Validation of tolerations.

use std::collections::HashSet;

use kevel_api::field_error::BadValue;
use kevel_api::name;

use crate::validation::Field;

/// Effects of taints.
const EFFECTS: &[&str] = &["NoSchedule", "PreferNoSchedule", "NoExecute"];

pub fn check(tolerations: Field) {
    for toleration in tolerations.items() {
        let (key, operator) = (toleration.at("key"), toleration.at("operator"));
        let (value, effect) = (toleration.at("value"), toleration.at("effect"));
        if !key.is_empty() {
            key.label_name();
        } else if operator.str() != "Exists" {
            let shown = BadValue::named_string(operator.str());
            operator.invalid_as(
                shown,
                "operator must be Exists when `key` is empty, which means \"match all values and \
                 all keys\"",
            );
        }
        if toleration.at("tolerationSeconds").is_set() && effect.str() != "NoExecute" {
            let shown = BadValue::named_string(effect.str());
            effect.invalid_as(shown, "effect must be 'NoExecute' when `tolerationSeconds` is set");
        }
        match operator.str() {
            "Equal" | "" => {
                let problems = name::is_label_value(value.str());
                if !problems.is_empty() {
                    operator.invalid_as(value.str(), problems.join(";"));
                }
            }
            "Exists" => {
                if !value.is_empty() {
                    let why = "value must be empty when `operator` is 'Exists'";
                    operator.invalid_as(value.str(), why);
                }
            }
            "Lt" | "Gt" => operator.unsupported(&["Equal", "Exists", "Lt", "Gt"]),
            _ => operator.unsupported(&["Equal", "Exists"]),
        }
        if !effect.is_empty() {
            effect.one_of(EFFECTS);
        }
    }
}

/// Checks the effect of a taint.
pub fn taint_effect(effect: Field) {
    effect.must_one_of("", EFFECTS);
}

/// Identity of a toleration.
pub fn parts<'v>(toleration: Field<'v, '_>) -> [&'v str; 4] {
    ["key", "operator", "value", "effect"].map(|part| toleration.at(part).str())
}

/// Checks that an update only adds tolerations or changes their `tolerationSeconds`.
pub fn only_added(tolerations: Field, old: Field) {
    let new: HashSet<_> = tolerations.items().map(parts).collect();
    if old.items().any(|old| !new.contains(&parts(old))) {
        let why = "existing toleration can not be modified except its tolerationSeconds";
        return tolerations.forbidden(why);
    }
    check(tolerations);
}
