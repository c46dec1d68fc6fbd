//! The columns of the built-in kinds: one file a group, one entry a kind.
//!
//! Cells are read from objects in the version in which they are stored.

mod admissionregistration;
mod apiregistration;
mod apps;
mod autoscaling;
mod batch;
mod cell;
mod certificates;
mod coordination;
mod core;
mod discovery;
mod event;
mod flowcontrol;
mod internal;
mod networking;
mod node;
mod pod;
mod policy;
mod rbac;
mod resource;
mod scheduling;
mod service;
mod storage;
mod storagemigration;
#[cfg(test)]
mod tests;
mod volume;

use std::sync::Arc;

use kevel_api::time::MicroTime;
use kevel_api::value::Value;
use kevel_server::columns::{Column, Columns, Completed, NameAndCreation};

use self::cell::Shown;

/// The columns of a kind.
#[derive(Clone, Copy)]
struct Kind {
    plural: &'static str,
    definitions: &'static [Column],
    cells: fn(&Shown<'_>) -> Vec<Value>,
    completed: fn(&Value) -> Option<Completed>,
    rank: Option<fn(&Value) -> i64>,
}

impl Kind {
    /// What most kinds are: a name and an age, no end and no order of their own.
    const PLAIN: Kind = Kind {
        plural: "",
        definitions: &[Column::NAME, Column::AGE],
        cells: |o| cell::cells![o.name(), o.age()],
        completed: |_| None,
        rank: None,
    };
}

/// The kinds that have columns of their own, by group.
const GROUPS: &[(&str, &[&[Kind]])] = &[
    ("", &[pod::KINDS, service::KINDS, node::NODES, volume::KINDS, event::KINDS, core::KINDS]),
    ("admissionregistration.k8s.io", &[admissionregistration::KINDS]),
    ("apiregistration.k8s.io", &[apiregistration::KINDS]),
    ("apps", &[apps::KINDS]),
    ("autoscaling", &[autoscaling::KINDS]),
    ("batch", &[batch::KINDS]),
    ("certificates.k8s.io", &[certificates::KINDS]),
    ("coordination.k8s.io", &[coordination::KINDS]),
    ("discovery.k8s.io", &[discovery::KINDS]),
    ("events.k8s.io", &[event::KINDS]),
    ("flowcontrol.apiserver.k8s.io", &[flowcontrol::KINDS]),
    ("internal.apiserver.k8s.io", &[internal::KINDS]),
    ("networking.k8s.io", &[networking::KINDS]),
    ("node.k8s.io", &[node::KINDS]),
    ("policy", &[policy::KINDS]),
    ("rbac.authorization.k8s.io", &[rbac::KINDS]),
    ("resource.k8s.io", &[resource::KINDS]),
    ("scheduling.k8s.io", &[scheduling::KINDS]),
    ("storage.k8s.io", &[storage::KINDS]),
    ("storagemigration.k8s.io", &[storagemigration::KINDS]),
];

/// What people see of a kind's objects.
pub fn of(group: &str, plural: &str) -> Arc<dyn Columns> {
    let files = GROUPS.iter().find(|(name, _)| *name == group).map_or(&[][..], |(_, files)| files);
    match files.iter().copied().flatten().find(|kind| kind.plural == plural) {
        Some(kind) => Arc::new(*kind),
        None => Arc::new(NameAndCreation),
    }
}

impl Columns for Kind {
    fn definitions(&self) -> &[Column] {
        self.definitions
    }

    fn cells(&self, object: &Value, now: MicroTime) -> Vec<Value> {
        (self.cells)(&Shown::new(object, now))
    }

    fn completed(&self, object: &Value) -> Option<Completed> {
        (self.completed)(object)
    }

    fn rank(&self) -> Option<fn(&Value) -> i64> {
        self.rank
    }
}
