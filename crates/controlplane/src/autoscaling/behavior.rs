//! Validation of a HorizontalPodAutoscaler's `behavior`.

use crate::validation::{Field, NOT_POSITIVE};

/// Maximum `stabilizationWindowSeconds`.
const MAX_STABILIZATION_WINDOW: i64 = 3600;
/// Maximum `periodSeconds` of a scaling policy.
const MAX_PERIOD: i64 = 1800;

/// Checks `scaleUp` and `scaleDown`.
pub(super) fn check(behavior: Field) {
    for direction in ["scaleUp", "scaleDown"] {
        if behavior.at(direction).is_set() {
            rules(behavior.at(direction));
        }
    }
}

fn rules(rules: Field) {
    let window = rules.at("stabilizationWindowSeconds");
    if window.int() < 0 {
        window.invalid("must be greater than or equal to zero");
    }
    at_most(window, MAX_STABILIZATION_WINDOW);
    if rules.at("selectPolicy").is_set() {
        rules.at("selectPolicy").one_of(&["Disabled", "Max", "Min"]);
    }
    rules.at("policies").must("must specify at least one Policy");
    for policy in rules.at("policies").items() {
        policy.at("type").one_of(&["Percent", "Pods"]);
        let period = policy.at("periodSeconds");
        for amount in [policy.at("value"), period] {
            if amount.int() <= 0 {
                amount.invalid_as(amount.int(), NOT_POSITIVE);
            }
        }
        at_most(period, MAX_PERIOD);
    }
    rules.at("tolerance").non_negative_quantity();
}

fn at_most(field: Field, max: i64) {
    if field.int() > max {
        field.invalid(format!("must be less than or equal to {max}"));
    }
}
