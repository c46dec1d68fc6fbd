//! Choice of the volume for a claim.

use std::collections::BTreeMap;

use kevel_api::selector::label::LabelSelector;
use kevel_api::value::Value;

use super::facts::{
    allows_access, capacity, claim_ref, class_of, differ_in_attributes, differ_in_mode,
    is_bound_to, requested,
};
use crate::object::{is_deleted, name};
use crate::reconcile_error::ReconcileError;

/// The best volume for a claim: with the fewest access modes; of these, one that is reserved for the claim, else the
/// smallest (upstream: `findBestMatchForClaim`, `FindMatchingVolume`).
pub(super) fn best_match<'a>(
    claim: &Value,
    volumes: &'a [Value],
    delayed: bool,
) -> Result<Option<&'a Value>, ReconcileError> {
    let selector = match claim.at(&["spec", "selector"]) {
        None => None,
        selector => Some(LabelSelector::from_value(selector).map_err(|error| {
            let key = super::facts::key(claim);
            let text = "error creating internal label selector for claim";
            ReconcileError::Objects(format!(
                "error finding PV for claim {key:?}: {text}: {key}: {error}"
            ))
        })?),
    };
    let mut by_modes: BTreeMap<(usize, Vec<&str>), Vec<&Value>> = BTreeMap::new();
    for volume in volumes.iter().filter(|volume| allows_access(claim, volume)) {
        kevel_compute::charge(1);
        let modes = volume.list_at(&["spec", "accessModes"]).iter().filter_map(Value::as_str);
        let modes: Vec<&str> = modes.collect();
        by_modes.entry((modes.len(), modes)).or_default().push(volume);
    }
    let fits = |volume: &&&Value| {
        (claim_ref(volume).is_none() || is_bound_to(volume, claim))
            && capacity(volume) >= requested(claim)
            && !differ_in_mode(claim, volume)
            && !differ_in_attributes(claim, volume)
            && !is_deleted(volume)
    };
    let is_free = |volume: &&&Value| {
        !delayed
            && volume.str_at(&["status", "phase"]) == "Available"
            && class_of(volume) == class_of(claim)
            && selector.as_ref().is_none_or(|selector| {
                selector.selects(&volume.at(&["metadata", "labels"]).and_then(Value::as_map))
            })
    };
    for group in by_modes.values() {
        let fitting: Vec<&Value> = group.iter().filter(fits).copied().collect();
        let reserved = fitting.iter().find(|volume| is_bound_to(volume, claim));
        let smallest = || fitting.iter().filter(is_free).min_by_key(|it| (capacity(it), name(it)));
        if let Some(found) = reserved.or_else(smallest) {
            return Ok(Some(found));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use kevel_codec::json::{Unknown, decode_any};

    use super::*;

    fn read(text: &str) -> Value {
        decode_any(text.as_bytes(), Unknown::Ignore).unwrap().value
    }

    fn volume(name: &str, size: &str, modes: &str, more: &str) -> Value {
        read(&format!(
            r#"{{"metadata":{{"name":"{name}"}},"spec":{{"capacity":{{"storage":"{size}"}},
            "accessModes":[{modes}]{more}}},"status":{{"phase":"Available"}}}}"#
        ))
    }

    #[test]
    fn reserved_then_smallest_volume_with_fewest_modes_is_chosen() {
        let claim = read(
            r#"{"metadata":{"namespace":"n","name":"c","uid":"u"},"spec":{"accessModes":["A"],
            "resources":{"requests":{"storage":"2Gi"}}}}"#,
        );
        let reserved = r#","claimRef":{"namespace":"n","name":"c"}"#;
        let taken = r#","claimRef":{"namespace":"n","name":"other"}"#;
        let mut volumes = vec![
            volume("wide", "2Gi", r#""A","B""#, ""),
            volume("small", "1Gi", r#""A""#, ""),
            volume("taken", "2Gi", r#""A""#, taken),
            volume("classed", "2Gi", r#""A""#, r#","storageClassName":"s""#),
            volume("large", "4Gi", r#""A""#, ""),
            volume("fit", "3Gi", r#""A""#, ""),
        ];
        let chosen = |volumes: &[Value], delayed: bool| {
            let best = best_match(&claim, volumes, delayed).unwrap();
            best.map(|volume| name(volume).to_owned())
        };
        assert_eq!(chosen(&volumes, false).as_deref(), Some("fit"));
        assert_eq!(chosen(&volumes, true), None);
        volumes.push(volume("reserved", "9Gi", r#""A""#, reserved));
        assert_eq!(chosen(&volumes, false).as_deref(), Some("reserved"));
        assert_eq!(chosen(&volumes, true).as_deref(), Some("reserved"));
    }
}
