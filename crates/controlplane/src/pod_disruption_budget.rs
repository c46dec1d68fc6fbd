//! Kind PodDisruptionBudget: validation.

use crate::columns;
use crate::kind::{Kind, MetadataChecks};
use crate::rules::Rules;
use crate::validation::Field;

/// `poddisruptionbudgets`
pub static KIND: Kind = Kind {
    counts_generation: true,
    allow_unconditional_update: false,
    columns: columns::policy::POD_DISRUPTION_BUDGET,
    rules: Rules {
        validate_create: |budget| spec(budget.at("spec"), false),
        validate_update: |budget, old| {
            let odd = old.down("spec.selector").fails(|selector| selector.label_selector(false));
            spec(budget.at("spec"), odd);
        },
        validate_status_update: |budget, _| {
            let status = budget.at("status");
            status.at("conditions").conditions();
            for count in ["disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods"]
            {
                status.at(count).non_negative();
            }
        },
        ..Rules::NONE
    },
    // Any path segment is a valid name.
    validate_name: kevel_api::name::is_path_segment_name,
    metadata_checks: MetadataChecks::None,
    ..Kind::new("policy", "poddisruptionbudgets")
};

fn spec(spec: Field, any_values: bool) {
    let (min, max) = (spec.at("minAvailable"), spec.at("maxUnavailable"));
    if min.is_set() && max.is_set() {
        spec.invalid("minAvailable and maxUnavailable cannot be both set");
    }
    for limit in [min, max] {
        limit.non_negative_or_percent();
        limit.at_most_all();
    }
    spec.at("selector").label_selector(any_values);
    let policy = spec.at("unhealthyPodEvictionPolicy");
    if policy.is_set() {
        policy.one_of(&["AlwaysAllow", "IfHealthyBudget"]);
    }
}
