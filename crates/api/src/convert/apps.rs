//! Conversion of workloads: annotations for fields of older versions, and fields that were not pointers.

use super::{ReadJson, annotations, made_in, pod};
use crate::value::{Map, Value};

const ROLLBACK: &str = "deprecated.deployment.rollback.to";
const TEMPLATE_GENERATION: &str = "deprecated.daemonset.template.generation";

pub(super) fn deployment(deployment: &mut Map, json: ReadJson<'_>) -> Result<(), String> {
    if let Some(annotations) = annotations(deployment) {
        let revision = match annotations.get(ROLLBACK).and_then(Value::as_str) {
            None | Some("") => None,
            Some(text) => Some(integer(text).map_err(|error| {
                format!("failed to parse annotation[{ROLLBACK}]={text} as int64: {error}")
            })?),
        };
        match revision {
            Some(revision) => annotations.insert(ROLLBACK, revision.to_string().as_str().into()),
            None => annotations.remove(ROLLBACK),
        };
    }
    zeros(deployment, &["strategy", "rollingUpdate"], &["maxSurge", "maxUnavailable"]);
    pod::template_in_spec(deployment, json)
}

pub(super) fn daemon_set(set: &mut Map, json: ReadJson<'_>) -> Result<(), String> {
    let annotation = annotations(set).and_then(|a| a.get(TEMPLATE_GENERATION));
    let generation = annotation.and_then(Value::as_str).map_or(Ok(0), integer)?;
    if let Some(annotations) = made_in(set, "metadata").and_then(|m| made_in(m, "annotations")) {
        annotations.insert(TEMPLATE_GENERATION, generation.to_string().as_str().into());
    }
    zeros(set, &["updateStrategy", "rollingUpdate"], &["maxSurge", "maxUnavailable"]);
    pod::template_in_spec(set, json)
}

pub(super) fn stateful_set(set: &mut Map, json: ReadJson<'_>) -> Result<(), String> {
    let spec = set.get_mut("spec");
    let claims = spec.and_then(|spec| spec.at_mut(&["volumeClaimTemplates"]));
    let claims = claims.and_then(Value::as_list_mut).into_iter().flatten();
    for claim in claims.filter_map(Value::as_map_mut) {
        claim.insert("apiVersion", "v1".into());
        claim.insert("kind", "PersistentVolumeClaim".into());
    }
    zeros(set, &["updateStrategy", "rollingUpdate"], &["partition"]);
    pod::template_in_spec(set, json)
}

/// Sets the missing integer fields of a struct in `spec` to zero.
fn zeros(object: &mut Map, path: &[&str], fields: &[&str]) {
    let found = object.get_mut("spec").and_then(|spec| spec.at_mut(path));
    if let Some(Value::Map(map)) = found {
        for field in fields {
            map.entry_or_insert_with(field, || Value::Int(0));
        }
    }
}

/// Parses an integer as Go does, with Go's error messages.
fn integer(text: &str) -> Result<i64, String> {
    text.parse().map_err(|error: std::num::ParseIntError| {
        use std::num::IntErrorKind::{NegOverflow, PosOverflow};
        let what = match error.kind() {
            NegOverflow | PosOverflow => "value out of range",
            _ => "invalid syntax",
        };
        format!("strconv.ParseInt: parsing {}: {what}", crate::quote::quote(text))
    })
}
