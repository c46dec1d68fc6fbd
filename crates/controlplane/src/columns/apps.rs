//! Columns of `apps`.

use kevel_registry::columns::Column;

use super::cell::{NONE, Shown};
use super::{Columns, columns};

const CONTAINERS: Column =
    Column::text("Containers", "The names of the template's containers.").wide();
const IMAGES: Column = Column::text("Images", "The images of the template's containers.").wide();

pub(crate) const CONTROLLER_REVISION: Columns = columns!(|o|
    Column::NAME => o.name(),
    Column::text("Controller", "Whose revision it is.") => controller(o),
    Column::text("Revision", "apps.v1.ControllerRevision#revision") => o.int("revision"),
    Column::AGE => o.age(),
);

pub(crate) const DAEMON_SET: Columns = columns!(
    |o| where {
        let (names, images) = o.containers("spec.template");
    }
    Column::NAME => o.name(),
    Column::integer("Desired", "apps.v1.DaemonSetStatus#desiredNumberScheduled") =>
        o.int("status.desiredNumberScheduled"),
    Column::integer("Current", "apps.v1.DaemonSetStatus#currentNumberScheduled") =>
        o.int("status.currentNumberScheduled"),
    Column::integer("Ready", "apps.v1.DaemonSetStatus#numberReady") => o.int("status.numberReady"),
    Column::integer("Up-to-date", "apps.v1.DaemonSetStatus#updatedNumberScheduled") =>
        o.int("status.updatedNumberScheduled"),
    Column::integer("Available", "apps.v1.DaemonSetStatus#numberAvailable") =>
        o.int("status.numberAvailable"),
    Column::text("Node Selector", "core.v1.PodSpec#nodeSelector") =>
        o.labels("spec.template.spec.nodeSelector"),
    Column::AGE => o.age(),
    CONTAINERS => names,
    IMAGES => images,
    Column::text("Selector", "apps.v1.DaemonSetSpec#selector").wide() => o.selector("spec.selector"),
);

pub(crate) const DEPLOYMENT: Columns = columns!(
    |o| where {
        let (names, images) = o.containers("spec.template");
    }
    Column::NAME => o.name(),
    Column::text("Ready", "How many pods are ready, of how many there should be.") => ready(o),
    Column::text("Up-to-date", "apps.v1.DeploymentStatus#updatedReplicas") =>
        o.int("status.updatedReplicas"),
    Column::text("Available", "apps.v1.DeploymentStatus#availableReplicas") =>
        o.int("status.availableReplicas"),
    Column::AGE => o.age(),
    CONTAINERS => names,
    IMAGES => images,
    Column::text("Selector", "apps.v1.DeploymentSpec#selector").wide() => o.try_selector("spec.selector").unwrap_or_else(|| "<invalid>".into()),
);

pub(crate) const REPLICA_SET: Columns = columns!(
    |o| where {
        let (names, images) = o.containers("spec.template");
    }
    Column::NAME => o.name(),
    Column::integer("Desired", "apps.v1.ReplicaSetSpec#replicas") => o.int("spec.replicas"),
    Column::integer("Current", "apps.v1.ReplicaSetStatus#replicas") => o.int("status.replicas"),
    Column::integer("Ready", "apps.v1.ReplicaSetStatus#readyReplicas") =>
        o.int("status.readyReplicas"),
    Column::AGE => o.age(),
    CONTAINERS => names,
    IMAGES => images,
    Column::text("Selector", "apps.v1.ReplicaSetSpec#selector").wide() => o.selector("spec.selector"),
);

pub(crate) const STATEFUL_SET: Columns = columns!(
    |o| where {
        let (names, images) = o.containers("spec.template");
    }
    Column::NAME => o.name(),
    Column::text("Ready", "How many pods are ready, of how many there should be.") => ready(o),
    Column::AGE => o.age(),
    CONTAINERS => names,
    IMAGES => images,
);

fn ready(o: &Shown<'_>) -> String {
    format!("{}/{}", o.int("status.readyReplicas"), o.int("spec.replicas"))
}

/// Controller of a ControllerRevision: `statefulset.apps/web`.
fn controller(o: &Shown<'_>) -> String {
    let owner = o.each("metadata.ownerReferences").find(|owner| owner.flag("controller"));
    let Some(owner) = owner else { return NONE.into() };
    let (kind, name) = (owner.text("kind"), owner.text("name"));
    let group = owner.text("apiVersion").split_once('/').map_or("", |(group, _)| group);
    match (kind, group) {
        ("", "") => name.into(),
        (kind, "") => format!("{}/{name}", kind.to_lowercase()),
        (kind, group) => format!("{}.{}/{name}", kind.to_lowercase(), group.to_lowercase()),
    }
}
