//! `apps`

use kevel_api::value::Value;
use kevel_server::columns::Column;

use super::Kind;
use super::cell::{NONE, Shown, cells};

const CONTAINERS: Column =
    Column::text("Containers", "The names of the template's containers.").wide();
const IMAGES: Column = Column::text("Images", "The images of the template's containers.").wide();
const SELECTOR: Column = Column::text("Selector", "Which pods are its own.").wide();

pub(super) const KINDS: &[Kind] = &[
    Kind {
        plural: "controllerrevisions",
        definitions: &[
            Column::NAME,
            Column::text("Controller", "Whose revision it is."),
            Column::text("Revision", "apps.v1.ControllerRevision#revision"),
            Column::AGE,
        ],
        cells: |o| cells![o.name(), controller(o), o.int("revision"), o.age()],
        ..Kind::PLAIN
    },
    Kind {
        plural: "daemonsets",
        definitions: &[
            Column::NAME,
            Column::integer("Desired", "apps.v1.DaemonSetStatus#desiredNumberScheduled"),
            Column::integer("Current", "apps.v1.DaemonSetStatus#currentNumberScheduled"),
            Column::integer("Ready", "apps.v1.DaemonSetStatus#numberReady"),
            Column::integer("Up-to-date", "apps.v1.DaemonSetStatus#updatedNumberScheduled"),
            Column::integer("Available", "apps.v1.DaemonSetStatus#numberAvailable"),
            Column::text("Node Selector", "core.v1.PodSpec#nodeSelector"),
            Column::AGE,
            CONTAINERS,
            IMAGES,
            SELECTOR,
        ],
        cells: daemon_sets,
        ..Kind::PLAIN
    },
    Kind {
        plural: "deployments",
        definitions: &[
            Column::NAME,
            Column::text("Ready", "How many pods are ready, of how many there should be."),
            Column::text("Up-to-date", "apps.v1.DeploymentStatus#updatedReplicas"),
            Column::text("Available", "apps.v1.DeploymentStatus#availableReplicas"),
            Column::AGE,
            CONTAINERS,
            IMAGES,
            SELECTOR,
        ],
        cells: deployments,
        ..Kind::PLAIN
    },
    Kind {
        plural: "replicasets",
        definitions: &[
            Column::NAME,
            Column::integer("Desired", "apps.v1.ReplicaSetSpec#replicas"),
            Column::integer("Current", "apps.v1.ReplicaSetStatus#replicas"),
            Column::integer("Ready", "apps.v1.ReplicaSetStatus#readyReplicas"),
            Column::AGE,
            CONTAINERS,
            IMAGES,
            SELECTOR,
        ],
        cells: replica_sets,
        ..Kind::PLAIN
    },
    Kind {
        plural: "statefulsets",
        definitions: &[
            Column::NAME,
            Column::text("Ready", "How many pods are ready, of how many there should be."),
            Column::AGE,
            CONTAINERS,
            IMAGES,
        ],
        cells: |o| {
            let (names, images) = o.containers("spec.template");
            cells![o.name(), ready(o), o.age(), names, images]
        },
        ..Kind::PLAIN
    },
];

fn daemon_sets(o: &Shown<'_>) -> Vec<Value> {
    let (names, images) = o.containers("spec.template");
    cells![
        o.name(),
        o.int("status.desiredNumberScheduled"),
        o.int("status.currentNumberScheduled"),
        o.int("status.numberReady"),
        o.int("status.updatedNumberScheduled"),
        o.int("status.numberAvailable"),
        o.labels("spec.template.spec.nodeSelector"),
        o.age(),
        names,
        images,
        o.selector("spec.selector"),
    ]
}

fn deployments(o: &Shown<'_>) -> Vec<Value> {
    let (names, images) = o.containers("spec.template");
    cells![
        o.name(),
        ready(o),
        o.int("status.updatedReplicas"),
        o.int("status.availableReplicas"),
        o.age(),
        names,
        images,
        o.try_selector("spec.selector").unwrap_or_else(|| "<invalid>".into()),
    ]
}

fn replica_sets(o: &Shown<'_>) -> Vec<Value> {
    let (names, images) = o.containers("spec.template");
    cells![
        o.name(),
        o.int("spec.replicas"),
        o.int("status.replicas"),
        o.int("status.readyReplicas"),
        o.age(),
        names,
        images,
        o.selector("spec.selector"),
    ]
}

fn ready(o: &Shown<'_>) -> String {
    format!("{}/{}", o.int("status.readyReplicas"), o.int("spec.replicas"))
}

/// `statefulset.apps/web`
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
