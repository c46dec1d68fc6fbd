//! Conversion of HorizontalPodAutoscalers: v2 is the main form. v1 has CPU utilization alone, and keeps the rest in
//! annotations, in forms that are older than v2.

use thin_vec::ThinVec;

use super::{ReadJson, annotations, made_in, metric};
use crate::value::{Map, Value};

const METRICS: &str = "autoscaling.alpha.kubernetes.io/metrics";
const CURRENT_METRICS: &str = "autoscaling.alpha.kubernetes.io/current-metrics";
const CONDITIONS: &str = "autoscaling.alpha.kubernetes.io/conditions";
const BEHAVIOR: &str = "autoscaling.alpha.kubernetes.io/behavior";
const ANNOTATIONS: [&str; 6] = [
    METRICS,
    CURRENT_METRICS,
    CONDITIONS,
    BEHAVIOR,
    "autoscaling.alpha.kubernetes.io/scale-down-tolerance",
    "autoscaling.alpha.kubernetes.io/scale-up-tolerance",
];

/// Default target utilization, in percent.
const CPU_UTILIZATION: i64 = 80;

/// Drops the annotations of v1: in v2 the fields are used.
pub(super) fn drop_annotations(autoscaler: &mut Map, _: ReadJson<'_>) -> Result<(), String> {
    if let Some(annotations) = annotations(autoscaler) {
        annotations.retain(|name, _| !ANNOTATIONS.contains(&name));
    }
    Ok(())
}

pub(super) fn to_v1(autoscaler: &mut Map, json: ReadJson<'_>) -> Result<(), String> {
    drop_annotations(autoscaler, json)?;
    let mut annotations = Vec::new();
    if let Some(Value::Map(spec)) = autoscaler.get_mut("spec") {
        let (cpu, others): (Vec<_>, Vec<_>) =
            take_list(spec, "metrics").into_iter().partition(|m| cpu_utilization(m).is_some());
        if let Some(target) = cpu.first().and_then(cpu_utilization) {
            spec.insert("targetCPUUtilizationPercentage", target.clone());
        }
        if !others.is_empty() {
            annotations.push((METRICS, metric::write_specs(&others)));
        }
        if let Some(behavior) = spec.remove("behavior") {
            annotations.push((BEHAVIOR, metric::write_behavior(&behavior)));
        }
    }
    if let Some(Value::Map(status)) = autoscaler.get_mut("status") {
        let metrics = take_list(status, "currentMetrics");
        let cpu = metrics.iter().rev().filter(|m| is_cpu(m));
        let cpu = cpu.filter_map(|m| m.at(&["resource", "current", "averageUtilization"])).next();
        if let Some(utilization) = cpu {
            status.insert("currentCPUUtilizationPercentage", utilization.clone());
        }
        if !metrics.is_empty() {
            annotations.push((CURRENT_METRICS, metric::write_statuses(&metrics)));
        }
        let conditions = take_list(status, "conditions");
        if !conditions.is_empty() {
            annotations.push((CONDITIONS, metric::write_conditions(&conditions)));
        }
    }
    for (name, text) in annotations {
        if let Some(known) = made_in(autoscaler, "metadata").and_then(|m| made_in(m, "annotations"))
        {
            known.insert(name, text.as_str().into());
        }
    }
    Ok(())
}

pub(super) fn from_v1(autoscaler: &mut Map, json: ReadJson<'_>) -> Result<(), String> {
    let annotations = autoscaler.get("metadata").and_then(|m| m.at(&["annotations"]));
    let annotation = |name| {
        let text = annotations.and_then(|a| a.at(&[name])).and_then(Value::as_str)?;
        json(text)
    };
    let others = annotation(METRICS).and_then(|v| metric::read_specs(&v));
    let statuses = annotation(CURRENT_METRICS).and_then(|v| metric::read_statuses(&v));
    let conditions = annotation(CONDITIONS).and_then(|v| metric::read_conditions(&v));
    let behavior = annotation(BEHAVIOR).and_then(|v| metric::read_behavior(&v));
    drop_annotations(autoscaler, json)?;

    if let Some(spec) = made_in(autoscaler, "spec") {
        let mut metrics = others.unwrap_or_default();
        metrics.extend(spec.remove("targetCPUUtilizationPercentage").map(cpu_metric));
        if metrics.is_empty() {
            metrics.push(cpu_metric(Value::Int(CPU_UTILIZATION)));
        }
        spec.insert("metrics", Value::List(metrics));
        if let Some(behavior) = behavior {
            spec.insert("behavior", behavior);
        }
    }
    let Some(status) = made_in(autoscaler, "status") else { return Ok(()) };
    let utilization = status.remove("currentCPUUtilizationPercentage").map(|utilization| {
        let current = Map::from_iter([("averageUtilization", utilization)]);
        ThinVec::from_iter([cpu_resource("current", current)])
    });
    // The annotation has more than the one number.
    if let Some(metrics) = statuses.or(utilization) {
        status.insert("currentMetrics", Value::List(metrics));
    }
    if let Some(conditions) = conditions {
        status.insert("conditions", Value::List(conditions));
    }
    Ok(())
}

fn is_cpu(metric: &Value) -> bool {
    metric.str_at(&["type"]) == "Resource" && metric.str_at(&["resource", "name"]) == "cpu"
}

fn cpu_utilization(metric: &Value) -> Option<&Value> {
    let target = metric.at(&["resource", "target", "averageUtilization"]);
    target.filter(|_| is_cpu(metric))
}

fn cpu_metric(utilization: Value) -> Value {
    let target =
        Map::from_iter([("averageUtilization", utilization), ("type", "Utilization".into())]);
    cpu_resource("target", target)
}

fn cpu_resource(field: &'static str, amount: Map) -> Value {
    let resource = Map::from_iter([(field, Value::Map(amount)), ("name", "cpu".into())]);
    Value::Map(Map::from_iter([("resource", Value::Map(resource)), ("type", "Resource".into())]))
}

fn take_list(map: &mut Map, field: &str) -> ThinVec<Value> {
    match map.remove(field) {
        Some(Value::List(list)) => list,
        _ => ThinVec::new(),
    }
}
