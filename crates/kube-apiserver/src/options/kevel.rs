//! Flags that the reference does not have.

use crate::flags::{EFFECTIVE, Value, ValueType, section};

section! {
    /// Options that the reference does not have.
    Kevel, "kevel" {
        /// Directory for what the server keeps itself: the embedded storage, and the keys,
        /// certificates and admin kubeconfig that it makes on its first start.
        data_dir: String = "./kevel-data", EFFECTIVE;
        /// Where objects are kept: embedded (in --data-dir), memory (nowhere else) or etcd (in
        /// --etcd-servers). Without the flag: etcd if there are --etcd-servers, else embedded.
        storage: Option<StorageKind>, EFFECTIVE;
    }
}

/// Where objects are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StorageKind {
    /// In a database of the server's own.
    Embedded,
    /// In memory: they are gone when the server stops.
    Memory,
    /// In etcd.
    Etcd,
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
        let &(_, kind) = known.ok_or("must be one of embedded, memory, etcd")?;
        *self = Some(kind);
        Ok(())
    }

    fn text(&self) -> String {
        let known = STORAGE_KINDS.iter().find(|(_, kind)| Some(*kind) == *self);
        known.map_or("", |(name, _)| name).to_owned()
    }
}
