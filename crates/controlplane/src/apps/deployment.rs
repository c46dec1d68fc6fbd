//! Kind Deployment: strategy and validation.

use kevel_api::value::{Value, equivalent};
use kevel_features::{Feature, Gated, drop_gated};
use kevel_registry::metadata::count_generation;
use kevel_registry::scale::Selector;

use super::{
    immutable_selector, int_or_percent, not_decremented, replica_counts, selector_and_template,
};
use crate::capabilities::Capabilities;
use crate::columns;
use crate::kind::{Kind, Subresource};
use crate::pod::template;
use crate::rules::Rules;
use crate::validation::Field;

/// `deployments`
pub static KIND: Kind = Kind {
    kept_by_status: &["labels"],
    reset_by_status: &[&["spec"], &["metadata", "labels"]],
    counts_generation: true,
    subresources: &[("scale", Subresource::Scale(Selector::Object))],
    columns: columns::apps::DEPLOYMENT,
    rules: Rules {
        prepare_for_create: |deployment, capabilities| {
            template::prepare_at(deployment, None, template::IN_SPEC, capabilities)
        },
        validate_create: |deployment| spec(deployment.at("spec"), None),
        prepare_for_update,
        validate_update,
        prepare_for_status_update: |deployment, old, capabilities| {
            drop_gated(deployment, Some(old), GATED_STATUS, &capabilities.features);
        },
        validate_status_update,
        warnings: |deployment, old| template::object_warnings(deployment, old),
        ..Rules::NONE
    },
    ..Kind::new("apps", "deployments")
};

/// Fields of the status that only a feature lets in.
const GATED_STATUS: &[Gated] = &[Gated::new(
    &[Feature::DeploymentReplicaSetTerminatingReplicas],
    &["status.terminatingReplicas"],
)];

/// Changed annotations raise the generation too, because they are copied to the ReplicaSets.
fn prepare_for_update(deployment: &mut Value, old: &Value, capabilities: &Capabilities) {
    template::prepare_at(deployment, Some(old), template::IN_SPEC, capabilities);
    let path = ["metadata", "annotations"];
    if !equivalent(deployment.at(&path), old.at(&path)) {
        count_generation(deployment, old);
    }
}

fn spec(spec: Field, old: Option<Field>) {
    spec.at("replicas").non_negative();
    selector_and_template(spec, old.as_ref().map(|old| old.at("template")), "deployment");
    strategy(spec.at("strategy"));
    spec.at("minReadySeconds").non_negative();
    spec.at("revisionHistoryLimit").non_negative();
    let deadline = spec.at("progressDeadlineSeconds");
    if deadline.is_set() {
        deadline.non_negative();
        if deadline.int() <= spec.at("minReadySeconds").int() {
            deadline.invalid("must be greater than minReadySeconds");
        }
    }
}

fn strategy(strategy: Field) {
    let rolling = strategy.at("rollingUpdate");
    match (strategy.at("type").str(), rolling.is_set()) {
        ("Recreate", false) => {}
        ("Recreate", true) => {
            rolling.forbidden("may not be specified when strategy `type` is 'Recreate'");
        }
        ("RollingUpdate", false) => rolling.required("this should be defaulted and never be nil"),
        ("RollingUpdate", true) => rolling_update(rolling),
        _ => strategy.unsupported(&["Recreate", "RollingUpdate"]),
    }
}

fn rolling_update(rolling: Field) {
    let (unavailable, surge) = (rolling.at("maxUnavailable"), rolling.at("maxSurge"));
    unavailable.non_negative_or_percent();
    surge.non_negative_or_percent();
    if int_or_percent(unavailable) == 0 && int_or_percent(surge) == 0 {
        unavailable
            .invalid_as(unavailable.bad_value_as_json(), "may not be 0 when `maxSurge` is 0");
    }
    unavailable.at_most_all();
}

fn validate_update(deployment: Field, old: Field) {
    spec(deployment.at("spec"), Some(old.at("spec")));
    immutable_selector(deployment.at("spec"), old.at("spec"));
}

fn validate_status_update(deployment: Field, old: Field) {
    let (status, was) = (deployment.at("status"), old.at("status"));
    replica_counts(
        status,
        &[
            "observedGeneration",
            "replicas",
            "updatedReplicas",
            "readyReplicas",
            "availableReplicas",
            "unavailableReplicas",
            "terminatingReplicas",
            "collisionCount",
        ],
        &["updatedReplicas", "readyReplicas", "availableReplicas"],
        "cannot be greater than readyReplicas",
    );
    not_decremented(status.at("collisionCount"), was.at("collisionCount"));
}
