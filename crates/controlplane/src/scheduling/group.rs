//! Validation that pod groups and their templates share.

use kevel_api::name;
use kevel_api::value::Value;
use kevel_features::Feature;

use super::{form_if_set, one_of, unique};
use crate::capabilities::Capabilities;
use crate::validation::Field;

/// A field that is there only while a gate is on.
type GatedField = (&'static str, Feature);

/// Gated fields of a group.
pub(super) const GATED: [GatedField; 5] = [
    ("schedulingConstraints", Feature::TopologyAwareWorkloadScheduling),
    ("resourceClaims", Feature::DRAWorkloadResourceClaims),
    ("disruptionMode", Feature::WorkloadAwarePreemption),
    ("priorityClassName", Feature::WorkloadAwarePreemption),
    ("priority", Feature::WorkloadAwarePreemption),
];

const MAX_CLAIMS: usize = 4;
const MAX_TOPOLOGIES: usize = 1;
/// The most that is not the system's.
const MAX_PRIORITY: i64 = 1_000_000_000;

/// Drops gated fields that the old object does not have.
pub(super) fn drop_gated(group: &mut Value, old: Option<&Value>, capabilities: &Capabilities) {
    let Some(group) = group.as_map_mut() else { return };
    for (field, gate) in GATED {
        let had = old.and_then(|old| old.at(&[field])).is_some_and(|old| match old {
            Value::List(list) => !list.is_empty(),
            Value::String(text) => !text.is_empty() || field == "disruptionMode",
            value => !value.is_null(),
        });
        if !capabilities.features.has(gate) && !had {
            group.remove(field);
        }
    }
}

/// Checks a policy, of which there is one.
pub(super) fn policy(policy: Field) {
    one_of(policy, &["basic", "gang"]);
    let gang = policy.at("gang");
    let count = gang.at("minCount");
    if gang.is_set() && count.must("") && count.int() < 1 {
        count.invalid("must be greater than or equal to 1");
    }
}

/// Validates gated fields.
pub(super) fn gated(group: Field) {
    let topology = group.at("schedulingConstraints");
    let topology = topology.at("topology");
    if topology.at_most(MAX_TOPOLOGIES) {
        for constraint in topology.items() {
            constraint.at("key").must_form("", name::is_label_key);
        }
    }
    let claims = group.at("resourceClaims");
    if claims.at_most(MAX_CLAIMS) {
        unique(claims, "name");
        claims.items().for_each(claim);
    }
    let mode = group.at("disruptionMode");
    if mode.is_set() {
        mode.one_of(&["Pod", "PodGroup"]);
    }
    if !group.at("priorityClassName").is_empty() {
        group.at("priorityClassName").form(name::is_long_name);
    }
    let priority = group.at("priority");
    if priority.int() > MAX_PRIORITY {
        priority.invalid(format!("must be less than or equal to {MAX_PRIORITY}"));
    }
}

/// Limits the number of claims, also for unchanged ones.
pub(super) fn count_claims(claims: Field) {
    claims.at_most(MAX_CLAIMS);
}

fn claim(claim: Field) {
    let members = ["resourceClaimName", "resourceClaimTemplateName"];
    one_of(claim, &members);
    claim.at("name").must_form("", name::is_short_name);
    for member in members {
        form_if_set(claim.at(member), name::is_long_name);
    }
}

/// Validates the status of a group's claims.
pub(super) fn claim_statuses(statuses: Field, old: Field) {
    if statuses.same(&old) || !statuses.at_most(MAX_CLAIMS) {
        return;
    }
    unique(statuses, "name");
    for status in statuses.items() {
        form_if_set(status.at("resourceClaimName"), name::is_long_name);
    }
}

#[cfg(test)]
mod tests {
    use kevel_features::FeatureSet;

    use super::*;
    use crate::rules::cases::value;

    #[test]
    fn gated_fields_are_dropped_unless_already_stored() {
        let full = value(
            r#"{"schedulingConstraints": {}, "resourceClaims": [{"name": "c"}], "priority": 0,
                "disruptionMode": "Pod", "priorityClassName": "p", "schedulingPolicy": {}}"#,
        );
        let on = Capabilities { features: FeatureSet::new(|_| true), ..Capabilities::default() };
        let off = Capabilities::default();
        for (old, capabilities, left) in
            [(None, &off, 1), (Some(&full), &off, 6), (None, &on, 6), (Some(&value("{}")), &off, 1)]
        {
            let mut group = full.clone();
            drop_gated(&mut group, old, capabilities);
            assert_eq!(group.as_map().map(|group| group.len()), Some(left), "{old:?}");
        }
    }
}
