//! Validation of tolerations.

use std::collections::HashSet;
use std::num::IntErrorKind;

use kevel_api::field_error::BadValue;
use kevel_api::name;
use kevel_api::quote::quote;
use kevel_features::Feature;

use crate::validation::Field;

/// Effects of taints.
const EFFECTS: &[&str] = &["NoSchedule", "PreferNoSchedule", "NoExecute"];

/// Checks tolerations. `comparable`: `Lt` and `Gt` are operators.
pub fn check(tolerations: Field, comparable: bool) {
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
            "Lt" | "Gt" if comparable => number(value),
            "Lt" | "Gt" => operator.unsupported(&["Equal", "Exists", "Lt", "Gt"]),
            _ => operator.unsupported(&["Equal", "Exists"]),
        }
        if !effect.is_empty() {
            effect.one_of(EFFECTS);
        }
    }
}

/// Whether tolerations may compare numbers: with the gate, or if the stored ones do.
pub fn are_comparable(tolerations: Field, stored: bool) -> bool {
    let gate = Feature::TaintTolerationComparisonOperators;
    stored || tolerations.capabilities().features.has(gate)
}

/// Whether a toleration compares numbers.
pub fn compares(toleration: Field) -> bool {
    matches!(toleration.at("operator").str(), "Lt" | "Gt")
}

/// A value that is compared: a decimal integer of 64 bits without leading zeros.
fn number(value: Field) {
    let text = value.str();
    let digits = text.strip_prefix('-').unwrap_or(text);
    let canonical = digits.bytes().all(|byte| byte.is_ascii_digit())
        && !digits.is_empty()
        && (!digits.starts_with('0') || text == "0");
    if text.is_empty() {
        value.invalid_as(text, "must be non-empty");
    } else if !canonical {
        value.invalid_as(text, "must be a valid decimal integer in canonical form");
    }
    if let Err(error) = text.parse::<i64>() {
        let why = match error.kind() {
            IntErrorKind::NegOverflow | IntErrorKind::PosOverflow => "value out of range",
            _ => "invalid syntax",
        };
        value.invalid_as(text, format!("strconv.ParseInt: parsing {}: {why}", quote(text)));
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
    check(tolerations, are_comparable(tolerations, old.items().any(compares)));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::cases::value;
    use crate::validation::errors;

    #[test]
    fn compared_value_is_a_canonical_integer_of_64_bits() {
        for (text, problems) in [
            ("0", &[][..]),
            ("-17", &[]),
            ("9223372036854775807", &[]),
            ("007", &["must be a valid decimal integer in canonical form"]),
            ("-0", &["must be a valid decimal integer in canonical form"]),
            (
                "x",
                &[
                    "must be a valid decimal integer in canonical form",
                    r#"strconv.ParseInt: parsing "x": invalid syntax"#,
                ],
            ),
            ("", &["must be non-empty", r#"strconv.ParseInt: parsing "": invalid syntax"#]),
            (
                "9223372036854775808",
                &[r#"strconv.ParseInt: parsing "9223372036854775808": value out of range"#],
            ),
        ] {
            let list = format!(r#"[{{"key": "k", "operator": "Lt", "value": "{text}"}}]"#);
            let told = errors(&value(&list), |list| check(list, true)).into_told();
            let told: Vec<String> = told.iter().map(ToString::to_string).collect();
            assert_eq!(told.len(), problems.len(), "{text}: {told:?}");
            for (told, problem) in told.iter().zip(problems) {
                assert!(told.ends_with(problem), "{told}");
            }
        }
    }
}
