//! The rest of the core group.

use kevel_api::value::Value;
use kevel_server::columns::Column;

use super::Kind;
use super::cell::{Part, Shown, cells};

pub(super) const KINDS: &[Kind] = &[
    Kind {
        plural: "componentstatuses",
        definitions: &[
            Column::NAME,
            Column::text("Status", "Whether the component is well."),
            Column::text("Message", "What the component says."),
            Column::text("Error", "What went wrong when it was asked."),
        ],
        cells: component_statuses,
        ..Kind::PLAIN
    },
    Kind {
        plural: "configmaps",
        definitions: &[Column::NAME, Column::text("Data", "core.v1.ConfigMap#data"), Column::AGE],
        cells: |o| cells![o.name(), o.count("data") + o.count("binaryData"), o.age()],
        ..Kind::PLAIN
    },
    Kind {
        plural: "namespaces",
        definitions: &[
            Column::NAME,
            Column::text("Status", "Whether the namespace is in use or going away."),
            Column::AGE,
        ],
        cells: |o| cells![o.name(), o.text("status.phase"), o.age()],
        ..Kind::PLAIN
    },
    Kind {
        plural: "podtemplates",
        definitions: &[
            Column::NAME,
            Column::text("Containers", "The names of the template's containers."),
            Column::text("Images", "The images of the template's containers."),
            Column::text("Pod Labels", "The labels that pods get."),
        ],
        cells: |o| {
            let (names, images) = o.containers("template");
            cells![o.name(), names, images, o.labels("template.metadata.labels")]
        },
        ..Kind::PLAIN
    },
    Kind {
        plural: "replicationcontrollers",
        definitions: &[
            Column::NAME,
            Column::integer("Desired", "core.v1.ReplicationControllerSpec#replicas"),
            Column::integer("Current", "core.v1.ReplicationControllerStatus#replicas"),
            Column::integer("Ready", "core.v1.ReplicationControllerStatus#readyReplicas"),
            Column::AGE,
            Column::text("Containers", "The names of the template's containers.").wide(),
            Column::text("Images", "The images of the template's containers.").wide(),
            Column::text("Selector", "core.v1.ReplicationControllerSpec#selector").wide(),
        ],
        cells: replication_controllers,
        ..Kind::PLAIN
    },
    Kind {
        plural: "resourcequotas",
        definitions: &[
            Column::NAME,
            Column::text("Request", "What is used and allowed of each resource."),
            Column::text("Limit", "What is used and allowed of each resource's limits."),
            Column::AGE,
        ],
        cells: resource_quotas,
        ..Kind::PLAIN
    },
    Kind {
        plural: "secrets",
        definitions: &[
            Column::NAME,
            Column::text("Type", "core.v1.Secret#type"),
            Column::text("Data", "core.v1.Secret#data"),
            Column::AGE,
        ],
        cells: |o| cells![o.name(), o.text("type"), o.count("data"), o.age()],
        ..Kind::PLAIN
    },
    Kind { plural: "serviceaccounts", ..Kind::PLAIN },
];

fn component_statuses(o: &Shown<'_>) -> Vec<Value> {
    let healthy = o.each("conditions").find(|condition| condition.text("type") == "Healthy");
    let status = match healthy.map(|condition| condition.text("status")) {
        Some("True") => "Healthy",
        Some(_) => "Unhealthy",
        None => "Unknown",
    };
    let healthy = healthy.unwrap_or(Part(None));
    cells![o.name(), status, healthy.text("message"), healthy.text("error")]
}

fn replication_controllers(o: &Shown<'_>) -> Vec<Value> {
    let (names, images) = o.containers("spec.template");
    cells![
        o.name(),
        o.int("spec.replicas"),
        o.int("status.replicas"),
        o.int("status.readyReplicas"),
        o.age(),
        names,
        images,
        o.labels("spec.selector"),
    ]
}

fn resource_quotas(o: &Shown<'_>) -> Vec<Value> {
    let (mut requests, mut limits) = (Vec::new(), Vec::new());
    let used = o.at("status.used").0.and_then(Value::as_map);
    for (resource, hard) in o.entries("status.hard") {
        let used = Part(used.and_then(|used| used.get(resource))).written();
        let used = used.unwrap_or_else(|| "0".into());
        let hard = hard.written().unwrap_or_else(|| "0".into());
        let column = if resource.starts_with("limits.") { &mut limits } else { &mut requests };
        column.push(format!("{resource}: {used}/{hard}"));
    }
    cells![o.name(), requests.join(", "), limits.join(", "), o.age()]
}
