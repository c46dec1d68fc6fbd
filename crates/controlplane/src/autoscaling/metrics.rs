//! Validation of a HorizontalPodAutoscaler's `metrics`.

use kevel_api::name;

use super::{ApiVersion, api_version, object_reference};
use crate::pod::resources;
use crate::validation::Field;

/// A metric source: type, field, and check.
type MetricSource = (&'static str, &'static str, fn(Field, ApiVersion));

/// Metric sources, in the order in which they are checked.
const SOURCES: [MetricSource; 5] = [
    ("Object", "object", object),
    ("External", "external", |source, _| external(source)),
    ("Pods", "pods", |source, _| pods(source)),
    ("Resource", "resource", |source, _| resource(source)),
    ("ContainerResource", "containerResource", |source, _| container_resource(source)),
];

const TYPES: &[&str] = &["ContainerResource", "External", "Object", "Pods", "Resource"];

/// Checks metrics; `old` is the spec that is replaced.
pub(super) fn check(metrics: Field, old: Option<Field>) {
    let odd = old.is_some_and(|old| old.at("metrics").items().any(|metric| is_odd(metric)));
    let version = if odd { ApiVersion::Unchecked } else { ApiVersion::Any };
    for metric in metrics.items() {
        check_metric(metric, version);
    }
}

/// True if a metric can be read without pods, as a scale to zero needs.
pub(super) fn works_without_pods(metrics: Field) -> bool {
    metrics.items().any(|metric| matches!(metric.at("type").str(), "Object" | "External"))
}

/// True if an Object metric names an object with an invalid `apiVersion`.
fn is_odd(metric: Field) -> bool {
    let version = metric.down("object.describedObject.apiVersion");
    metric.at("type").str() == "Object" && version.fails(|it| api_version(it, ApiVersion::Any))
}

fn check_metric(metric: Field, version: ApiVersion) {
    let ty = metric.at("type");
    ty.must("must specify a metric source type");
    ty.one_of(TYPES);
    let present = || SOURCES.iter().filter(|(_, field, _)| metric.at(field).is_set());
    // Of several sources, the first is checked.
    if let Some((_, field, check)) = present().next() {
        check(metric.at(field), version);
    }
    let wanted = SOURCES.iter().find(|(name, ..)| *name == ty.str()).map(|(_, field, _)| *field);
    match wanted {
        None => ty.one_of(TYPES),
        Some(field) if metric.at(field).is_absent() => {
            metric.at(field).required("must populate information for the given metric source");
        }
        Some(_) => {}
    }
    if present().count() > 1 {
        for (_, field, _) in present().filter(|(_, field, _)| Some(*field) != wanted) {
            metric.at(field).forbidden("must populate the given metric source only");
        }
    }
}

fn object(source: Field, version: ApiVersion) {
    object_reference(source.at("describedObject"), version);
    identifier(source.at("metric"));
    let target = source.at("target");
    check_target(target);
    if !has(target, "value") && !has(target, "averageValue") {
        target.at("averageValue").required("must set either a target value or averageValue");
    }
}

fn external(source: Field) {
    identifier(source.at("metric"));
    let target = source.at("target");
    check_target(target);
    match (has(target, "value"), has(target, "averageValue")) {
        (false, false) => target
            .at("averageValue")
            .required("must set either a target value for metric or a per-pod target"),
        (true, true) => target
            .at("value")
            .forbidden("may not set both a target value for metric and a per-pod target"),
        _ => {}
    }
}

fn pods(source: Field) {
    identifier(source.at("metric"));
    let target = source.at("target");
    check_target(target);
    if !has(target, "averageValue") {
        target.at("averageValue").required("must specify a positive target averageValue");
    }
}

fn resource(source: Field) {
    source.at("name").must("must specify a resource name");
    utilization(source.at("target"));
}

fn container_resource(source: Field) {
    let (name, container) = (source.at("name"), source.at("container"));
    if name.must("must specify a resource name") {
        resources::container_resource_name(name, name.str());
    }
    container.must_form("must specify a container", name::is_dns1123_label);
    utilization(source.at("target"));
}

/// Checks a target of a resource metric: a value or a utilization.
fn utilization(target: Field) {
    check_target(target);
    match (has(target, "averageUtilization"), has(target, "averageValue")) {
        (false, false) => target
            .at("averageUtilization")
            .required("must set either a target raw value or a target utilization"),
        (true, true) => target
            .at("averageValue")
            .forbidden("may not set both a target raw value and a target utilization"),
        _ => {}
    }
}

fn check_target(target: Field) {
    let ty = target.at("type");
    ty.must("must specify a metric target type");
    if !["Utilization", "Value", "AverageValue"].contains(&ty.str()) {
        ty.invalid_as(ty.bad_value_as_json(), "must be either Utilization, Value, or AverageValue");
    }
    for amount in [target.at("value"), target.at("averageValue")] {
        match amount.quantity() {
            Some(quantity) if quantity.signum() <= 0 => {
                amount.invalid_as(amount.quantity_text(), "must be positive");
            }
            _ => {}
        }
    }
    let utilization = target.at("averageUtilization");
    if utilization.is_set() && utilization.int() < 1 {
        utilization.invalid("must be greater than 0");
    }
}

fn identifier(metric: Field) {
    let name = metric.at("name");
    if name.must("must specify a metric name") {
        name.object_name(name::is_path_segment_name);
    }
}

fn has(target: Field, field: &str) -> bool {
    target.at(field).is_set()
}
