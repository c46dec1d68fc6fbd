//! Columns of `autoscaling`.

use kevel_registry::columns::Column;

use super::cell::{FieldValue, NONE, Shown, UNKNOWN, UNSET};
use super::{Columns, columns};

/// Maximum number of metrics in the cell.
const METRICS: usize = 2;

pub(crate) const HORIZONTAL_POD_AUTOSCALER: Columns = columns!(
    |o| where {
        let target = o.at("spec.scaleTargetRef");
        let least = o.at("spec.minReplicas");
    }
    Column::NAME => o.name(),
    Column::text("Reference", "autoscaling.v2.HorizontalPodAutoscalerSpec#scaleTargetRef") =>
        format!("{}/{}", target.text("kind"), target.text("name")),
    Column::text("Targets", "autoscaling.v2.HorizontalPodAutoscalerSpec#metrics") => metrics(o),
    Column::text("MinPods", "autoscaling.v2.HorizontalPodAutoscalerSpec#minReplicas") =>
        least.written().unwrap_or_else(|| UNSET.into()),
    Column::text("MaxPods", "autoscaling.v2.HorizontalPodAutoscalerSpec#maxReplicas") =>
        o.int("spec.maxReplicas"),
    Column::text("Replicas", "autoscaling.v2.HorizontalPodAutoscalerStatus#currentReplicas") =>
        o.int("status.currentReplicas"),
    Column::AGE => o.age(),
);

fn metrics(o: &Shown<'_>) -> String {
    let specs = o.each("spec.metrics");
    let count = specs.len();
    if count == 0 {
        return NONE.into();
    }
    let statuses = o.each("status.currentMetrics").map(Some).chain(std::iter::repeat(None));
    let shown = specs.zip(statuses).take(METRICS).map(|(spec, status)| metric(spec, status));
    let shown = shown.collect::<Vec<_>>().join(", ");
    match count.saturating_sub(METRICS) {
        0 => shown,
        more => format!("{shown} + {more} more..."),
    }
}

/// Current value and target of a metric.
fn metric(spec: FieldValue<'_>, status: Option<FieldValue<'_>>) -> String {
    let source = match spec.text("type") {
        "External" => "external",
        "Pods" => "pods",
        "Object" => "object",
        "Resource" => "resource",
        "ContainerResource" => "containerResource",
        _ => return "<unknown type>".into(),
    };
    let spec = spec.at(source);
    let status = status.map(|status| status.at(source)).filter(|status| status.is_set());
    let target = |field: &str| quantity(spec.at("target").at(field));
    let current = |field: &str| {
        status.map_or_else(|| UNKNOWN.into(), |status| quantity(status.at("current").at(field)))
    };
    let known = |field: &str| status.is_some_and(|s| s.at("current").at(field).is_set());
    let averaged = spec.at("target.averageValue").is_set();
    match source {
        "pods" => format!("{}/{}", current("averageValue"), target("averageValue")),
        "external" | "object" if averaged => {
            let now = if known("averageValue") { current("averageValue") } else { UNKNOWN.into() };
            format!("{now}/{} (avg)", target("averageValue"))
        }
        "external" | "object" => format!("{}/{}", current("value"), target("value")),
        _ if averaged => {
            let (now, wanted) = (current("averageValue"), target("averageValue"));
            format!("{}: {now}/{wanted}", spec.text("name"))
        }
        _ => {
            let percent = |part: FieldValue<'_>| part.written().map(|written| written + "%");
            let now = status.and_then(|status| percent(status.at("current.averageUtilization")));
            let wanted = percent(spec.at("target.averageUtilization"));
            let now = now.unwrap_or_else(|| UNKNOWN.into());
            format!("{}: {now}/{}", spec.text("name"), wanted.unwrap_or_else(|| "<auto>".into()))
        }
    }
}

fn quantity(part: FieldValue<'_>) -> String {
    part.written().unwrap_or_else(|| "<nil>".into())
}
