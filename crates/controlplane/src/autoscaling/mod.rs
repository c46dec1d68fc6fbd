//! Kind HorizontalPodAutoscaler.

mod behavior;
mod metrics;

use kevel_api::convert;
use kevel_api::gvk::{GroupVersion, GroupVersionKind};
use kevel_api::name;
use kevel_api::value::Value;
use kevel_codec::json::{Unknown, decode_any};
use kevel_features::{Feature, Gated, drop_gated};

use crate::capabilities::Capabilities;
use crate::columns;
use crate::kind::Kind;
use crate::rules::Rules;
use crate::validation::Field;

/// `horizontalpodautoscalers`
pub static HORIZONTAL_POD_AUTOSCALER: Kind = Kind {
    columns: columns::autoscaling::HORIZONTAL_POD_AUTOSCALER,
    rules: Rules {
        prepare_for_create: |autoscaler, capabilities| prepare(autoscaler, None, capabilities),
        validate_create: |autoscaler| check(autoscaler, None),
        prepare_for_update: |autoscaler, old, capabilities| {
            prepare(autoscaler, Some(old), capabilities)
        },
        validate_update: |autoscaler, old| check(autoscaler, Some(old)),
        validate_status_update: |autoscaler, _| {
            let status = autoscaler.at("status");
            status.at("currentReplicas").non_negative();
            status.at("desiredReplicas").non_negative();
        },
        ..Rules::NONE
    },
    ..Kind::new(GROUP, "horizontalpodautoscalers")
};

const GROUP: &str = "autoscaling";

/// Annotations of v1 that hold status fields of other versions.
const TOLD_STATUS: [&str; 2] = [
    "autoscaling.alpha.kubernetes.io/current-metrics",
    "autoscaling.alpha.kubernetes.io/conditions",
];

/// Fields that only a feature lets in.
const GATED: &[Gated] = &[Gated::new(
    &[Feature::HPAConfigurableTolerance],
    &["spec.behavior.scaleDown|scaleUp.tolerance"],
)];

fn prepare(autoscaler: &mut Value, old: Option<&Value>, capabilities: &Capabilities) {
    drop_gated(autoscaler, old, GATED, &capabilities.features);
    keep_told_status(autoscaler, old);
}

/// Annotations that are a part of the status are left alone where that is.
fn keep_told_status(autoscaler: &mut Value, old: Option<&Value>) {
    let old = old.and_then(|old| old.at(&["metadata", "annotations"])).and_then(Value::as_map);
    for name in TOLD_STATUS {
        let was = old.and_then(|old| old.get(name)).cloned();
        let annotations = autoscaler.at_mut(&["metadata", "annotations"]);
        match (was, annotations.and_then(Value::as_map_mut)) {
            (Some(was), Some(annotations)) => drop(annotations.insert(name, was)),
            (None, Some(annotations)) => drop(annotations.remove(name)),
            (Some(was), None) => {
                autoscaler.make_map(&["metadata", "annotations"]).insert(name, was);
            }
            (None, None) => {}
        }
    }
    let empty = |annotations: &Value| annotations.as_map().is_some_and(|map| map.is_empty());
    if autoscaler.at(&["metadata", "annotations"]).is_some_and(empty)
        && let Some(metadata) = autoscaler.at_mut(&["metadata"]).and_then(Value::as_map_mut)
    {
        metadata.remove("annotations");
    }
}

/// Groups that an object reference may name.
#[derive(Clone, Copy)]
enum ApiVersion {
    /// The group is required: references to the core group are refused.
    Grouped,
    /// The core group's is a version like any other.
    Any,
    /// Not validated, because the stored object is invalid, or unchanged.
    Unchecked,
}

/// Checks an autoscaler of any version: what v1 says in annotations is held to the same rules.
fn check(autoscaler: Field, old: Option<Field>) {
    let Some(new) = as_v2(autoscaler) else { return };
    let was = old.map(as_v2);
    autoscaler.converted(&new, |autoscaler| {
        let was = was.as_ref().map(|was| autoscaler.with(was.as_ref()));
        spec(autoscaler.at("spec"), was.as_ref().map(|was| was.at("spec")));
    });
}

fn as_v2(autoscaler: Field) -> Option<Value> {
    let object = autoscaler.get()?;
    let version: GroupVersion = object.str_at(&["apiVersion"]).parse().ok()?;
    let kind = GroupVersionKind::new(GROUP, version.version.as_str(), "HorizontalPodAutoscaler");
    let json = |text: &str| Some(decode_any(text.as_bytes(), Unknown::Ignore).ok()?.value);
    convert::convert(object.clone(), &kind, &GroupVersion::new(GROUP, "v2"), &json).ok()
}

fn spec(spec: Field, old: Option<Field>) {
    let (min, max) = (spec.at("minReplicas"), spec.at("maxReplicas"));
    let had_none = old.is_some_and(|old| old.at("minReplicas").int_or_absent() == Some(0));
    let to_zero = spec.capabilities().features.has(Feature::HPAScaleToZero) || had_none;
    let lowest = if to_zero { 0 } else { 1 };
    if min.is_set() && min.int() < lowest {
        min.invalid(format!("must be greater than or equal to {lowest}"));
    }
    match max.int() {
        0 => max.required("must be set and greater than 0"),
        ..0 => max.invalid("must be greater than or equal to 1"),
        _ => {}
    }
    if min.is_set() && max.int() < min.int() {
        max.invalid_as(max.int(), "must be greater than or equal to `minReplicas`");
    }
    let target = spec.at("scaleTargetRef");
    let same = |old: Field| {
        let was = old.at("scaleTargetRef");
        ["apiVersion", "kind"].iter().all(|name| was.at(name).str() == target.at(name).str())
    };
    let version = match target.at("kind").str() {
        _ if old.is_some_and(same) => ApiVersion::Unchecked,
        "ReplicationController" => ApiVersion::Any,
        _ => ApiVersion::Grouped,
    };
    object_reference(target, version);
    metrics::check(spec.at("metrics"), old);
    if min.int_or_absent() == Some(0) && !metrics::works_without_pods(spec.at("metrics")) {
        spec.at("metrics").forbidden(
            "must specify at least one Object or External metric to support scaling to zero \
             replicas",
        );
    }
    behavior::check(spec.at("behavior"));
}

/// An object by its kind and name, in some version.
fn object_reference(reference: Field, version: ApiVersion) {
    for field in ["kind", "name"] {
        if reference.at(field).must("") {
            reference.at(field).object_name(name::is_path_segment_name);
        }
    }
    api_version(reference.at("apiVersion"), version);
}

fn api_version(field: Field, version: ApiVersion) {
    let text = field.str();
    let group = text.split_once('/').map_or("", |(group, _)| group);
    match version {
        ApiVersion::Unchecked => {}
        _ if text.matches('/').count() > 1 => {
            field.invalid(format!("unexpected GroupVersion string: {text}"));
        }
        ApiVersion::Grouped if group.is_empty() => {
            field.invalid("apiVersion must specify API group");
        }
        _ => {}
    }
}
