//! Columns of the core group's other kinds.

use kevel_api::value::Value;
use kevel_registry::columns::Column;

use super::cell::FieldValue;
use super::{Columns, columns};

pub(crate) const COMPONENT_STATUS: Columns = columns!(
    |o| where {
        let healthy = o.each("conditions").find(|condition| condition.text("type") == "Healthy");
        let status = match healthy.map(|condition| condition.text("status")) {
            Some("True") => "Healthy",
            Some(_) => "Unhealthy",
            None => "Unknown",
        };
        let healthy = healthy.unwrap_or(FieldValue(None));
    }
    Column::NAME => o.name(),
    Column::text("Status", "Whether the component is well.") => status,
    Column::text("Message", "What the component says.") => healthy.text("message"),
    Column::text("Error", "What went wrong when it was asked.") => healthy.text("error"),
);

pub(crate) const CONFIG_MAP: Columns = columns!(|o|
    Column::NAME => o.name(),
    Column::text("Data", "core.v1.ConfigMap#data") => o.count("data") + o.count("binaryData"),
    Column::AGE => o.age(),
);

pub(crate) const NAMESPACE: Columns = columns!(|o|
    Column::NAME => o.name(),
    Column::text("Status", "Whether the namespace is in use or going away.") =>
        o.text("status.phase"),
    Column::AGE => o.age(),
);

pub(crate) const POD_TEMPLATE: Columns = columns!(
    |o| where {
        let (names, images) = o.containers("template");
    }
    Column::NAME => o.name(),
    Column::text("Containers", "The names of the template's containers.") => names,
    Column::text("Images", "The images of the template's containers.") => images,
    Column::text("Pod Labels", "The labels that pods get.") => o.labels("template.metadata.labels"),
);

pub(crate) const REPLICATION_CONTROLLER: Columns = columns!(
    |o| where {
        let (names, images) = o.containers("spec.template");
    }
    Column::NAME => o.name(),
    Column::integer("Desired", "core.v1.ReplicationControllerSpec#replicas") =>
        o.int("spec.replicas"),
    Column::integer("Current", "core.v1.ReplicationControllerStatus#replicas") =>
        o.int("status.replicas"),
    Column::integer("Ready", "core.v1.ReplicationControllerStatus#readyReplicas") =>
        o.int("status.readyReplicas"),
    Column::AGE => o.age(),
    Column::text("Containers", "The names of the template's containers.").wide() => names,
    Column::text("Images", "The images of the template's containers.").wide() => images,
    Column::text("Selector", "core.v1.ReplicationControllerSpec#selector").wide() =>
        o.labels("spec.selector"),
);

pub(crate) const RESOURCE_QUOTA: Columns = columns!(
    |o| where {
        let (mut requests, mut limits) = (Vec::new(), Vec::new());
        let used = o.at("status.used").0.and_then(Value::as_map);
        for (resource, hard) in o.entries("status.hard") {
            let used = FieldValue(used.and_then(|used| used.get(resource))).written();
            let used = used.unwrap_or_else(|| "0".into());
            let hard = hard.written().unwrap_or_else(|| "0".into());
            let column = if resource.starts_with("limits.") { &mut limits } else { &mut requests };
            column.push(format!("{resource}: {used}/{hard}"));
        }
    }
    Column::NAME => o.name(),
    Column::text("Request", "What is used and allowed of each resource.") => requests.join(", "),
    Column::text("Limit", "What is used and allowed of each resource's limits.") =>
        limits.join(", "),
    Column::AGE => o.age(),
);

pub(crate) const SECRET: Columns = columns!(|o|
    Column::NAME => o.name(),
    Column::text("Type", "core.v1.Secret#type") => o.text("type"),
    Column::text("Data", "core.v1.Secret#data") => o.count("data"),
    Column::AGE => o.age(),
);
