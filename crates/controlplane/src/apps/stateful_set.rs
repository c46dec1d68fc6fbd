//! Kind StatefulSet: strategy and validation.

use kevel_api::field_error::BadValue;
use kevel_api::name;
use kevel_api::value::{Map, Value};
use kevel_features::Feature;
use kevel_registry::scale::Selector;

use super::{
    int_or_percent, is_broken, matches_template, not_decremented, replica_counts, runs_for_good,
    selector,
};
use crate::capabilities::Capabilities;
use crate::columns;
use crate::kind::{Kind, Subresource};
use crate::persistent_volume_claim;
use crate::pod::template;
use crate::rules::Rules;
use crate::validation::Field;

/// `statefulsets`
pub static KIND: Kind = Kind {
    validate_name: name::name_is_dns_label,
    counts_generation: true,
    subresources: &[("scale", Subresource::Scale(Selector::Object))],
    columns: columns::apps::STATEFUL_SET,
    rules: Rules {
        prepare_for_create: |set, capabilities| prepare(set, None, capabilities),
        validate_create: |set| spec(set.at("spec"), None, Checks::default()),
        prepare_for_update: |set, old, capabilities| prepare(set, Some(old), capabilities),
        validate_update,
        validate_status_update,
        warnings,
        ..Rules::NONE
    },
    ..Kind::new("apps", "statefulsets")
};

/// Fields of the spec that an update may change.
const CHANGEABLE: &[&str] = &[
    "replicas",
    "ordinals",
    "template",
    "updateStrategy",
    "revisionHistoryLimit",
    "persistentVolumeClaimRetentionPolicy",
    "minReadySeconds",
];

/// Prepares a StatefulSet for storage: `maxUnavailable` of a rolling update is 1 by default with the gate
/// `MaxUnavailableStatefulSet`, and dropped without it unless the stored object has it.
fn prepare(set: &mut Value, old: Option<&Value>, capabilities: &Capabilities) {
    template::prepare_at(set, old, template::IN_SPEC, capabilities);
    let path = ["spec", "updateStrategy", "rollingUpdate"];
    let used = old.and_then(|old| old.at(&path)).and_then(|old| old.at(&["maxUnavailable"]));
    let rolls = set.str_at(&["spec", "updateStrategy", "type"]) == "RollingUpdate";
    let Some(rolling) = set.at_mut(&path).and_then(Value::as_map_mut) else { return };
    if capabilities.features.has(Feature::MaxUnavailableStatefulSet) {
        if rolls {
            rolling.entry_or_insert_with("maxUnavailable", || Value::Int(1));
        }
    } else if used.is_none() {
        rolling.remove("maxUnavailable");
    }
}

/// Checks to make; fields that cannot change are not checked again.
#[derive(Clone, Copy)]
struct Checks {
    service_name: bool,
    template: bool,
    claims: bool,
}

impl Default for Checks {
    fn default() -> Self {
        Checks { service_name: true, template: true, claims: true }
    }
}

fn spec(spec: Field, old: Option<Field>, checks: Checks) {
    let management = spec.at("podManagementPolicy");
    if management.must("") && !matches!(management.str(), "OrderedReady" | "Parallel") {
        let shown = BadValue::named_string(management.str());
        management.invalid_as(shown, "must be 'OrderedReady' or 'Parallel'");
    }
    update_strategy(spec.at("updateStrategy"));
    let retention = spec.at("persistentVolumeClaimRetentionPolicy");
    if retention.is_set() {
        retention.at("whenDeleted").one_of(&["Retain", "Delete"]);
        retention.at("whenScaled").one_of(&["Retain", "Delete"]);
    }
    if checks.claims {
        for claim in spec.at("volumeClaimTemplates").items() {
            persistent_volume_claim::check_spec(claim.at("spec"));
        }
    }
    spec.at("replicas").non_negative();
    spec.at("minReadySeconds").non_negative();
    spec.down("ordinals.start").non_negative();
    if checks.service_name && !spec.at("serviceName").is_empty() {
        spec.at("serviceName").form(name::is_dns1123_label);
    }
    selector(spec.at("selector"), "statefulset");
    if is_broken(spec.at("selector")) {
        spec.at("selector").invalid("");
    } else {
        matches_template(spec);
        check_template(spec, old, checks);
    }
    runs_for_good(spec.at("template"), "StatefulSet");
}

fn update_strategy(strategy: Field) {
    let rolling = strategy.at("rollingUpdate");
    match (strategy.at("type").str(), rolling.is_set()) {
        ("", _) => strategy.required(""),
        ("OnDelete", true) => rolling.invalid("only allowed for updateStrategy 'RollingUpdate'"),
        ("RollingUpdate", true) => rolling_update(rolling),
        ("OnDelete" | "RollingUpdate", false) => {}
        _ => strategy.invalid("must be 'RollingUpdate' or 'OnDelete'"),
    }
}

fn rolling_update(rolling: Field) {
    rolling.at("partition").non_negative();
    let unavailable = rolling.at("maxUnavailable");
    if unavailable.is_set() {
        unavailable.non_negative_or_percent();
        if int_or_percent(unavailable) == 0 {
            unavailable.invalid_as(unavailable.bad_value_as_json(), "cannot be 0");
        }
        unavailable.at_most_all();
    }
}

/// Checks the template with the volumes of the claim templates added, and without the hostname and subdomain that the
/// controller sets.
fn check_template(spec: Field, old: Option<Field>, checks: Checks) {
    let Some(whole) = spec.at("template").get() else { return };
    let mut value = whole.clone();
    if let Some(pod) = value.at_mut(&["spec"]).and_then(Value::as_map_mut) {
        pod.remove("hostname");
        pod.remove("subdomain");
        add_claims(pod, spec.at("volumeClaimTemplates").list());
    }
    let field = spec.at("template");
    let template = field.with(Some(&value));
    if checks.template {
        template::check(template, old.as_ref().map(|old| old.at("template")));
    }
    template::check_metadata(template);
}

fn add_claims(pod: &mut Map, claims: &[Value]) {
    if claims.is_empty() {
        return;
    }
    let name = |claim: &Value| claim.str_at(&["metadata", "name"]).to_owned();
    let mut names: Vec<String> = claims.iter().map(name).collect();
    names.sort();
    names.dedup();
    let own = pod.get("volumes").and_then(Value::as_list).unwrap_or_default().to_vec();
    let own = own
        .into_iter()
        .filter(|v| names.binary_search_by(|name| (**name).cmp(v.str_at(&["name"]))).is_err());
    let claimed = names.iter().map(|name| {
        let source = Map::from_iter([("claimName", Value::from(name.as_str()))]);
        Value::from(Map::from_iter([
            ("name", Value::from(name.as_str())),
            ("persistentVolumeClaim", source.into()),
        ]))
    });
    let volumes = Value::List(claimed.chain(own).collect());
    pod.insert("volumes", volumes);
}

fn validate_update(set: Field, old: Field) {
    let (new, was) = (set.at("spec"), old.at("spec"));
    let mut checks = Checks { service_name: false, claims: false, template: true };
    checks.template = !was.fails(|was| spec(was, Some(was), checks));
    spec(new, Some(was), checks);
    let mut keys = new.keys().chain(was.keys()).filter(|key| !CHANGEABLE.contains(key));
    if keys.any(|key| !new.at(key).same(&was.at(key))) {
        new.forbidden(
            "updates to statefulset spec for fields other than 'replicas', 'ordinals', \
             'template', 'updateStrategy', 'revisionHistoryLimit', \
             'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden",
        );
    }
}

fn validate_status_update(set: Field, old: Field) {
    let (status, was) = (set.at("status"), old.at("status"));
    replica_counts(
        status,
        &[
            "replicas",
            "readyReplicas",
            "currentReplicas",
            "updatedReplicas",
            "availableReplicas",
            "observedGeneration",
            "collisionCount",
        ],
        &["readyReplicas", "currentReplicas", "updatedReplicas", "availableReplicas"],
        "cannot be greater than status.readyReplicas",
    );
    not_decremented(status.at("collisionCount"), was.at("collisionCount"));
}

fn warnings(set: &Value, old: Option<&Value>) -> Vec<String> {
    let mut warnings = template::template_warnings(set, old, template::IN_SPEC);
    let limit = set.at(&["spec", "revisionHistoryLimit"]).and_then(Value::as_int);
    if limit.is_some_and(|limit| limit < 0) {
        warnings.push(
            "spec.revisionHistoryLimit: a negative value retains all historical revisions; a value \
             >= 0 is recommended"
                .to_owned(),
        );
    }
    warnings
}

#[cfg(test)]
mod tests {
    use kevel_features::FeatureSet;

    use super::*;
    use crate::rules::cases::value;

    #[test]
    fn gate_decides_on_max_unavailable_of_rolling_updates() {
        let set =
            |strategy: &str| value(&format!(r#"{{"spec": {{"updateStrategy": {strategy}}}}}"#));
        let bare = r#"{"type": "RollingUpdate", "rollingUpdate": {}}"#;
        let two = r#"{"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 2}}"#;
        for (new, old, gate, expected) in [
            (bare, None, false, None),
            (two, None, false, None),
            (two, Some(bare), false, None),
            (two, Some(two), false, Some(2)),
            (bare, None, true, Some(1)),
            (two, None, true, Some(2)),
            (r#"{"type": "OnDelete", "rollingUpdate": {}}"#, None, true, None),
        ] {
            let features = FeatureSet::default().with(Feature::MaxUnavailableStatefulSet, gate);
            let capabilities = Capabilities { features, ..Capabilities::default() };
            let (mut made, old) = (set(new), old.map(set));
            prepare(&mut made, old.as_ref(), &capabilities);
            let path = ["spec", "updateStrategy", "rollingUpdate", "maxUnavailable"];
            assert_eq!(made.at(&path).and_then(Value::as_int), expected, "{new} {old:?} {gate}");
        }
    }
}
