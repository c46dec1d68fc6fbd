//! Nodes, and `node.k8s.io`.

use std::collections::BTreeSet;

use kevel_api::value::Value;
use kevel_server::columns::Column;

use super::Kind;
use super::cell::{NONE, Shown, UNKNOWN, cells, some_or_none};

pub(super) const NODES: &[Kind] = &[Kind {
    plural: "nodes",
    definitions: &[
        Column::NAME,
        Column::text("Status", "Whether the node is ready, and whether it takes pods."),
        Column::text("Roles", "What the node's labels say it is for."),
        Column::AGE,
        Column::text("Version", "core.v1.NodeSystemInfo#kubeletVersion"),
        Column::text("Internal-IP", "core.v1.NodeStatus#addresses").wide(),
        Column::text("External-IP", "core.v1.NodeStatus#addresses").wide(),
        Column::text("OS-Image", "core.v1.NodeSystemInfo#osImage").wide(),
        Column::text("Kernel-Version", "core.v1.NodeSystemInfo#kernelVersion").wide(),
        Column::text("Container-Runtime", "core.v1.NodeSystemInfo#containerRuntimeVersion").wide(),
    ],
    cells: nodes,
    ..Kind::PLAIN
}];

pub(super) const KINDS: &[Kind] = &[Kind {
    plural: "runtimeclasses",
    definitions: &[
        Column::NAME,
        Column::text("Handler", "What the container runtime calls it."),
        Column::AGE,
    ],
    cells: |o| cells![o.name(), o.text("handler"), o.age()],
    ..Kind::PLAIN
}];

fn nodes(o: &Shown<'_>) -> Vec<Value> {
    let info = o.at("status.nodeInfo");
    let architecture = match info.text("architecture") {
        "" => String::new(),
        architecture => format!(" ({architecture})"),
    };
    cells![
        o.name(),
        status(o),
        some_or_none(roles(o)),
        o.age(),
        info.text("kubeletVersion"),
        address(o, "InternalIP"),
        address(o, "ExternalIP"),
        info.text_or("osImage", UNKNOWN),
        info.text_or("kernelVersion", UNKNOWN).to_owned() + &architecture,
        info.text_or("containerRuntimeVersion", UNKNOWN),
    ]
}

fn status(o: &Shown<'_>) -> String {
    let ready = o.each("status.conditions").rfind(|c| c.text("type") == "Ready");
    let status = match ready.map(|condition| condition.text("status")) {
        Some("True") => "Ready",
        Some(_) => "NotReady",
        None => "Unknown",
    };
    match o.flag("spec.unschedulable") {
        true => format!("{status},SchedulingDisabled"),
        false => status.into(),
    }
}

fn roles(o: &Shown<'_>) -> String {
    let roles = o.entries("metadata.labels").filter_map(|(label, value)| {
        let role = match label {
            "kubernetes.io/role" => Some(value.as_text()),
            label => label.strip_prefix("node-role.kubernetes.io/"),
        };
        role.filter(|role| !role.is_empty())
    });
    roles.collect::<BTreeSet<_>>().into_iter().collect::<Vec<_>>().join(",")
}

fn address<'a>(o: &Shown<'a>, ty: &str) -> &'a str {
    let mut addresses = o.each("status.addresses");
    addresses.find(|address| address.text("type") == ty).map_or(NONE, |a| a.text("address"))
}
