//! Conversion of Events: the core form is the main one; `events.k8s.io` has other field names.

use super::{ReadJson, rename};
use crate::value::Map;

/// Field names in core and in `events.k8s.io`.
const NAMES: [(&str, &str); 7] = [
    ("count", "deprecatedCount"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("involvedObject", "regarding"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("message", "note"),
    ("reportingComponent", "reportingController"),
    ("source", "deprecatedSource"),
];

pub(super) fn from_core(event: &mut Map, _: ReadJson<'_>) -> Result<(), String> {
    rename(event, NAMES);
    Ok(())
}

pub(super) fn to_core(event: &mut Map, _: ReadJson<'_>) -> Result<(), String> {
    rename(event, NAMES.map(|(core, events)| (events, core)));
    Ok(())
}
