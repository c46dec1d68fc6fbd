//! Bootstrap FlowSchemas and PriorityLevelConfigurations (upstream: apis/flowcontrol/bootstrap).
//!
//! Mandatory objects are always in effect, suggested ones may be changed by administrators. The
//! numbers, names and rules are the reference's.

mod ensurer;
mod objects;
#[cfg(test)]
mod tests;

use kevel_api::value::Value;

pub use self::ensurer::{Action, FIELD_MANAGER, Resource, ensure};
use self::objects::{
    Distinguisher::{ByNamespace, ByUser},
    Level, Schema,
    Subject::{Group, KubeSystemServiceAccounts, User},
    level, schema,
};
use crate::{CATCH_ALL, EXEMPT};

/// Annotation that tells whether the server keeps an object's spec up to date.
pub const AUTO_UPDATE_ANNOTATION: &str = "apf.kubernetes.io/autoupdate-spec";

const UNAUTHENTICATED: &str = "system:unauthenticated";
const AUTHENTICATED: &str = "system:authenticated";
const NODES: &str = "system:nodes";
const KUBE_CONTROLLER_MANAGER: &str = "system:kube-controller-manager";
const KUBE_SCHEDULER: &str = "system:kube-scheduler";

/// Mandatory priority levels, in the order of creation.
const MANDATORY_LEVELS: [Level; 2] = [level(CATCH_ALL, 5, 0), Level::EXEMPT];

const MANDATORY_SCHEMAS: [Schema; 2] = [
    schema(EXEMPT, EXEMPT, 1).of(&[Group("system:masters")]).everything(),
    schema(CATCH_ALL, CATCH_ALL, 10_000)
        .by(ByUser)
        .of(&[Group(UNAUTHENTICATED), Group(AUTHENTICATED)])
        .everything(),
];

const SUGGESTED_LEVELS: [Level; 6] = [
    level("system", 30, 33).queues(64, 6, 50),
    level("node-high", 40, 25).queues(64, 6, 50),
    level("leader-election", 10, 0).queues(16, 4, 50),
    level("workload-high", 40, 50).queues(128, 6, 50),
    level("workload-low", 100, 90).queues(128, 6, 50),
    level("global-default", 20, 50).queues(128, 6, 50),
];

const SUGGESTED_SCHEMAS: [Schema; 9] = [
    schema("system-nodes", "system", 500).by(ByUser).of(&[Group(NODES)]).everything(),
    schema("system-node-high", "node-high", 400).by(ByUser).of(&[Group(NODES)]).resources(&[
        objects::on("*", "", "nodes nodes/status").in_cluster(),
        objects::on("*", "coordination.k8s.io", "leases"),
    ]),
    schema("probes", EXEMPT, 2)
        .of(&[Group(UNAUTHENTICATED), Group(AUTHENTICATED)])
        .urls("get", "/healthz /readyz /livez"),
    schema("system-leader-election", "leader-election", 100)
        .by(ByUser)
        .of(&[User(KUBE_CONTROLLER_MANAGER), User(KUBE_SCHEDULER), KubeSystemServiceAccounts])
        .resources(&[objects::on("get create update", "coordination.k8s.io", "leases")]),
    schema("kube-controller-manager", "workload-high", 800)
        .by(ByNamespace)
        .of(&[User(KUBE_CONTROLLER_MANAGER)])
        .everything(),
    schema("kube-scheduler", "workload-high", 800)
        .by(ByNamespace)
        .of(&[User(KUBE_SCHEDULER)])
        .everything(),
    schema("kube-system-service-accounts", "workload-high", 900)
        .by(ByNamespace)
        .of(&[KubeSystemServiceAccounts])
        .everything(),
    schema("service-accounts", "workload-low", 9000)
        .by(ByUser)
        .of(&[Group("system:serviceaccounts")])
        .everything(),
    schema("global-default", "global-default", 9900)
        .by(ByUser)
        .of(&[Group(UNAUTHENTICATED), Group(AUTHENTICATED)])
        .everything(),
];

/// The mandatory PriorityLevelConfigurations.
pub fn mandatory_priority_levels() -> impl Iterator<Item = Value> {
    MANDATORY_LEVELS.iter().map(Level::object)
}

/// The mandatory FlowSchemas.
pub fn mandatory_flow_schemas() -> impl Iterator<Item = Value> {
    MANDATORY_SCHEMAS.iter().map(Schema::object)
}

/// The suggested PriorityLevelConfigurations.
pub fn suggested_priority_levels() -> impl Iterator<Item = Value> {
    SUGGESTED_LEVELS.iter().map(Level::object)
}

/// The suggested FlowSchemas.
pub fn suggested_flow_schemas() -> impl Iterator<Item = Value> {
    SUGGESTED_SCHEMAS.iter().map(Schema::object)
}
