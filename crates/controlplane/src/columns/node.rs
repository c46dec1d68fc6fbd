//! Columns of Node and of `node.k8s.io`.

use std::collections::BTreeSet;

use kevel_registry::columns::Column;

use super::cell::{NONE, Shown, UNKNOWN, some_or_none};
use super::{Columns, columns};

pub(crate) const NODE: Columns = columns!(
    |o| where {
        let info = o.at("status.nodeInfo");
        let architecture = match info.text("architecture") {
            "" => String::new(),
            architecture => format!(" ({architecture})"),
        };
    }
    Column::NAME => o.name(),
    Column::text("Status", "Whether the node is ready, and whether it takes pods.") => status(o),
    Column::text("Roles", "What the node's labels say it is for.") => some_or_none(roles(o)),
    Column::AGE => o.age(),
    Column::text("Version", "core.v1.NodeSystemInfo#kubeletVersion") => info.text("kubeletVersion"),
    Column::text("Internal-IP", "core.v1.NodeStatus#addresses").wide() => address(o, "InternalIP"),
    Column::text("External-IP", "core.v1.NodeStatus#addresses").wide() => address(o, "ExternalIP"),
    Column::text("OS-Image", "core.v1.NodeSystemInfo#osImage").wide() =>
        info.text_or("osImage", UNKNOWN),
    Column::text("Kernel-Version", "core.v1.NodeSystemInfo#kernelVersion").wide() =>
        info.text_or("kernelVersion", UNKNOWN).to_owned() + &architecture,
    Column::text("Container-Runtime", "core.v1.NodeSystemInfo#containerRuntimeVersion").wide() =>
        info.text_or("containerRuntimeVersion", UNKNOWN),
);

pub(crate) const RUNTIME_CLASS: Columns = columns!(|o|
    Column::NAME => o.name(),
    Column::text("Handler", "What the container runtime calls it.") => o.text("handler"),
    Column::AGE => o.age(),
);

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
