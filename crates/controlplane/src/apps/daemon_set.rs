//! Kind DaemonSet: strategy and validation.

use kevel_api::value::{Map, Value, equivalent};

use super::{immutable_selector, int_or_percent, is_empty, not_decremented, runs_for_good};
use crate::capabilities::Capabilities;
use crate::columns;
use crate::kind::Kind;
use crate::pod::template;
use crate::rules::Rules;
use crate::validation::Field;

/// `daemonsets`
pub static KIND: Kind = Kind {
    counts_generation: true,
    converted_annotations: &[TEMPLATE_GENERATION],
    columns: columns::apps::DAEMON_SET,
    rules: Rules {
        prepare_for_create,
        validate_create: |set| spec(set.at("spec"), None),
        prepare_for_update,
        validate_update,
        prepare_for_status_update: |set, old, _| {
            set_template_generation(set, template_generation(old))
        },
        validate_status_update,
        warnings: |set, old| template::template_warnings(set, old, template::IN_SPEC),
        ..Rules::NONE
    },
    ..Kind::new("apps", "daemonsets")
};

/// Annotation with the number of template changes, which was a field once.
const TEMPLATE_GENERATION: &str = "deprecated.daemonset.template.generation";

fn prepare_for_create(set: &mut Value, capabilities: &Capabilities) {
    template::prepare_at(set, None, template::IN_SPEC, capabilities);
    let generation = template_generation(set).max(1);
    set_template_generation(set, generation);
}

fn prepare_for_update(set: &mut Value, old: &Value, capabilities: &Capabilities) {
    template::prepare_at(set, Some(old), template::IN_SPEC, capabilities);
    let same = equivalent(set.at(template::IN_SPEC), old.at(template::IN_SPEC));
    set_template_generation(set, template_generation(old) + i64::from(!same));
}

fn template_generation(set: &Value) -> i64 {
    let text = set.str_at(&["metadata", "annotations", TEMPLATE_GENERATION]);
    text.parse().unwrap_or_default()
}

fn set_template_generation(set: &mut Value, generation: i64) {
    let Some(metadata) = set.at_mut(&["metadata"]).and_then(Value::as_map_mut) else { return };
    let annotations = metadata.entry_or_insert_with("annotations", || Map::new().into());
    if let Some(annotations) = annotations.as_map_mut() {
        annotations.insert(TEMPLATE_GENERATION, generation.to_string().as_str().into());
    }
}

fn spec(spec: Field, old: Option<Field>) {
    let selector = spec.at("selector");
    selector.label_selector(old.is_some_and(|old| old.at("selector").has_odd_values()));
    let labels = spec.down("template.metadata.labels");
    if selector.selects(&labels) == Some(false) {
        let why = "`selector` does not match template `labels`";
        labels.invalid(why);
    }
    if selector.is_set() && is_empty(selector) {
        let why = "empty selector is invalid for daemonset";
        selector.invalid(why);
    }
    template::check(spec.at("template"), old.as_ref().map(|old| old.at("template")));
    runs_for_good(spec.at("template"), "DaemonSet");
    spec.at("minReadySeconds").non_negative();
    update_strategy(spec.at("updateStrategy"));
    spec.at("revisionHistoryLimit").non_negative();
}

fn update_strategy(strategy: Field) {
    let rolling = strategy.at("rollingUpdate");
    match (strategy.at("type").str(), rolling.is_set()) {
        ("OnDelete", _) => {}
        ("RollingUpdate", false) => rolling.required(""),
        ("RollingUpdate", true) => rolling_update(rolling),
        _ => strategy.unsupported(&["RollingUpdate", "OnDelete"]),
    }
}

fn rolling_update(rolling: Field) {
    let (unavailable, surge) = (rolling.at("maxUnavailable"), rolling.at("maxSurge"));
    unavailable.non_negative_or_percent();
    surge.non_negative_or_percent();
    unavailable.at_most_all();
    surge.at_most_all();
    match (int_or_percent(unavailable) != 0, int_or_percent(surge) != 0) {
        (true, true) => {
            let why = "may not be set when maxUnavailable is non-zero";
            surge.invalid_as(surge.bad_value_as_json(), why);
        }
        (false, false) => unavailable.required("cannot be 0 when maxSurge is 0"),
        _ => {}
    }
}

fn validate_update(set: Field, old: Field) {
    immutable_selector(set.at("spec"), old.at("spec"));
    spec(set.at("spec"), Some(old.at("spec")));
}

fn validate_status_update(set: Field, old: Field) {
    let (status, was) = (set.at("status"), old.at("status"));
    for field in [
        "currentNumberScheduled",
        "numberMisscheduled",
        "desiredNumberScheduled",
        "numberReady",
        "observedGeneration",
        "updatedNumberScheduled",
        "numberAvailable",
        "numberUnavailable",
        "collisionCount",
    ] {
        status.at(field).non_negative();
    }
    not_decremented(status.at("collisionCount"), was.at("collisionCount"));
}
