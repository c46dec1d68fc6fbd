//! Columns of `scheduling.k8s.io`.

use kevel_registry::columns::Column;

use super::cell::NONE;
use super::{Columns, columns};

pub(crate) const POD_GROUP: Columns = columns!(
    |o| where {
        let last = |ty: &str| o.each("status.conditions").rfind(|c| c.text("type") == ty);
        let scheduled = last("PodGroupScheduled").map(|condition| condition.text("status"));
        let status = match (last("DisruptionTarget"), scheduled) {
            (Some(disrupted), _) => disrupted.text("reason"),
            (None, Some("True")) => "Scheduled",
            (None, Some(_)) => "Unschedulable",
            (None, None) => "Pending",
        };
        let template = o.at("spec.podGroupTemplateRef");
    }
    Column::NAME => o.name(),
    Column::text("Policy", "How the group is scheduled.") =>
        if o.at("spec.schedulingPolicy.gang").is_set() { "Gang" } else { "Basic" },
    Column::text("Workload", "The workload that it belongs to.") =>
        if template.is_set() { template.text("workload.workloadName") } else { NONE },
    Column::text("Status", "How the group stands.") => status,
    Column::AGE => o.age(),
);

pub(crate) const PRIORITY_CLASS: Columns = columns!(
    |o| where {
        let default = o.flag("globalDefault");
    }
    Column::NAME => o.name(),
    Column::integer("Value", "scheduling.v1.PriorityClass#value") => o.int("value"),
    Column::boolean("Global-Default", "scheduling.v1.PriorityClass#globalDefault") => default,
    Column::AGE => o.age(),
    Column::text("PreemptionPolicy", "scheduling.v1.PriorityClass#preemptionPolicy") =>
        o.text("preemptionPolicy"),
);
