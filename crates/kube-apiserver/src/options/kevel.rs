//! Flags that the reference does not have.

use kevel_controllers::ControllerSelection;

use crate::flags::{EFFECTIVE, Section as _, Strings, Value, ValueType, section};
use crate::nearest::nearest;

section! {
    /// Options that the reference does not have.
    Kevel, "kevel" {
        /// Directory for what the server keeps itself: the embedded storage, and the keys,
        /// certificates and admin kubeconfig that it makes on its first start.
        data_dir: String = "./kevel-data", EFFECTIVE;
        /// Store of objects: embedded (in --data-dir), memory (nowhere else) or etcd (in --etcd-servers). Without the
        /// flag: etcd if there are --etcd-servers, else embedded.
        storage: Option<StorageKind>, EFFECTIVE;
        /// Controllers of kube-controller-manager that run in this server while no controller manager holds its
        /// lease, in its syntax: '*' enables all that are on by default, 'foo' enables the controller named 'foo',
        /// '-foo' disables it. Without the flag: all if the storage is embedded or memory, none if it is etcd.
        controllers: Strings, EFFECTIVE;
        /// Page for browsers at /ui/. Without the flag: served if the storage is embedded or memory, not if it is etcd.
        ui: bool, EFFECTIVE;
    }
}

impl Kevel {
    /// Fields of the flags that the reference does not have.
    pub fn flag_names(&self) -> Vec<&'static str> {
        self.flags().iter().map(|flag| flag.field).collect()
    }

    /// Wrong names of controllers.
    pub(super) fn validate(&self) -> Vec<String> {
        let errors = ControllerSelection::parse(&self.controllers).err().unwrap_or_default();
        errors.iter().map(ToString::to_string).collect()
    }
}

impl super::CompletedOptions {
    /// Controllers that run in the server.
    pub fn controllers(&self) -> ControllerSelection {
        let flags = &self.flags;
        match (flags.given.has("controllers"), self.storage) {
            (true, _) => ControllerSelection::parse(&flags.kevel.controllers).unwrap_or_default(),
            (false, StorageKind::Embedded | StorageKind::Memory) => {
                ControllerSelection::standalone()
            }
            (false, StorageKind::Etcd | StorageKind::StandIn) => ControllerSelection::none(),
        }
    }
}

impl super::CompletedOptions {
    /// Whether the page for browsers is served.
    pub fn ui(&self) -> bool {
        match (self.flags.given.has("ui"), self.storage) {
            (true, _) => self.flags.kevel.ui,
            (false, StorageKind::Embedded | StorageKind::Memory) => true,
            (false, StorageKind::Etcd | StorageKind::StandIn) => false,
        }
    }
}

/// Kind of store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StorageKind {
    /// A database of the server's own.
    Embedded,
    /// Memory: objects are lost when the server stops.
    Memory,
    /// An etcd cluster.
    Etcd,
    /// In the folder of the stand-in for etcd that controller tests start. Found at the start behind `--etcd-servers`;
    /// not a value of the flag.
    StandIn,
}

const STORAGE_KINDS: [(&str, StorageKind); 3] = [
    ("embedded", StorageKind::Embedded),
    ("memory", StorageKind::Memory),
    ("etcd", StorageKind::Etcd),
];

impl Value for Option<StorageKind> {
    fn value_type(&self) -> ValueType {
        ValueType::new("string", "")
    }

    fn set(&mut self, text: &str, _: bool) -> Result<(), String> {
        let known = STORAGE_KINDS.iter().find(|(name, _)| *name == text);
        let &(_, kind) = known.ok_or_else(|| {
            let meant = nearest(text, STORAGE_KINDS.map(|(name, _)| name));
            let hint = meant.map_or_else(String::new, |name| format!("\ndid you mean {name}?"));
            format!("must be one of embedded, memory, etcd{hint}")
        })?;
        *self = Some(kind);
        Ok(())
    }

    fn text(&self) -> String {
        let known = STORAGE_KINDS.iter().find(|(_, kind)| Some(*kind) == *self);
        known.map_or("", |(name, _)| name).to_owned()
    }
}
