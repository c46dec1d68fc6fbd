//! Kind ReplicaSet: strategy and validation.

use kevel_features::{Feature, Gated, drop_gated};

use kevel_registry::scale::Selector;

use super::{immutable_selector, replica_counts, selector_and_template};
use crate::columns;
use crate::kind::{Kind, Subresource};
use crate::pod::template;
use crate::rules::Rules;
use crate::validation::Field;

/// `replicasets`
pub static KIND: Kind = Kind {
    counts_generation: true,
    subresources: &[("scale", Subresource::Scale(Selector::Object))],
    columns: columns::apps::REPLICA_SET,
    rules: Rules {
        prepare_for_create: |set, capabilities| {
            template::prepare_at(set, None, template::IN_SPEC, capabilities)
        },
        validate_create: |set| spec(set.at("spec"), None),
        prepare_for_update: |set, old, capabilities| {
            template::prepare_at(set, Some(old), template::IN_SPEC, capabilities)
        },
        validate_update,
        prepare_for_status_update: |set, old, capabilities| {
            drop_gated(set, Some(old), GATED_STATUS, &capabilities.features);
        },
        validate_status_update: |set, _| status(set.at("status")),
        warnings: |set, old| template::object_warnings(set, old),
        ..Rules::NONE
    },
    ..Kind::new("apps", "replicasets")
};

/// Fields of the status that only a feature lets in.
const GATED_STATUS: &[Gated] = &[Gated::new(
    &[Feature::DeploymentReplicaSetTerminatingReplicas],
    &["status.terminatingReplicas"],
)];

fn spec(spec: Field, old: Option<Field>) {
    spec.at("replicas").non_negative();
    spec.at("minReadySeconds").non_negative();
    selector_and_template(spec, old.as_ref().map(|old| old.at("template")), "deployment");
}

fn validate_update(set: Field, old: Field) {
    spec(set.at("spec"), Some(old.at("spec")));
    immutable_selector(set.at("spec"), old.at("spec"));
}

/// Checks the status of a ReplicaSet or ReplicationController.
pub fn status(status: Field) {
    replica_counts(
        status,
        &[
            "replicas",
            "fullyLabeledReplicas",
            "readyReplicas",
            "availableReplicas",
            "observedGeneration",
            "terminatingReplicas",
        ],
        &["fullyLabeledReplicas", "readyReplicas", "availableReplicas"],
        "cannot be greater than readyReplicas",
    );
}
