//! `scheduling.k8s.io`

use kevel_api::value::Value;
use kevel_server::columns::Column;

use super::Kind;
use super::cell::{NONE, Shown, cells};

pub(super) const KINDS: &[Kind] = &[
    Kind {
        plural: "podgroups",
        definitions: &[
            Column::NAME,
            Column::text("Policy", "How the group is scheduled."),
            Column::text("Workload", "The workload that it belongs to."),
            Column::text("Status", "How the group stands."),
            Column::AGE,
        ],
        cells: pod_groups,
        ..Kind::PLAIN
    },
    Kind {
        plural: "priorityclasses",
        definitions: &[
            Column::NAME,
            Column::integer("Value", "scheduling.v1.PriorityClass#value"),
            Column::boolean("Global-Default", "scheduling.v1.PriorityClass#globalDefault"),
            Column::AGE,
            Column::text("PreemptionPolicy", "scheduling.v1.PriorityClass#preemptionPolicy"),
        ],
        cells: |o| {
            let default = o.flag("globalDefault");
            cells![o.name(), o.int("value"), default, o.age(), o.text("preemptionPolicy")]
        },
        ..Kind::PLAIN
    },
    Kind { plural: "workloads", ..Kind::PLAIN },
];

fn pod_groups(o: &Shown<'_>) -> Vec<Value> {
    let last = |ty: &str| o.each("status.conditions").rfind(|c| c.text("type") == ty);
    let scheduled = last("PodGroupScheduled").map(|condition| condition.text("status"));
    let status = match (last("DisruptionTarget"), scheduled) {
        (Some(disrupted), _) => disrupted.text("reason"),
        (None, Some("True")) => "Scheduled",
        (None, Some(_)) => "Unschedulable",
        (None, None) => "Pending",
    };
    let template = o.at("spec.podGroupTemplateRef");
    cells![
        o.name(),
        if o.at("spec.schedulingPolicy.gang").is_set() { "Gang" } else { "Basic" },
        if template.is_set() { template.text("workload.workloadName") } else { NONE },
        status,
        o.age(),
    ]
}
