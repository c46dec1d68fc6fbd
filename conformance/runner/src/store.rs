//! Store of an API server that is compared with the reference.

/// Store of Kevel. The reference has only etcd.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StoreKind {
    /// Kevel's own store, in its data folder.
    #[default]
    Embedded,
    /// An etcd that is started for it: objects are stored as protobuf.
    Etcd,
}

impl StoreKind {
    /// Store by name.
    pub fn parse(name: &str) -> Option<Self> {
        match name {
            "embedded" => Some(StoreKind::Embedded),
            "etcd" => Some(StoreKind::Etcd),
            _ => None,
        }
    }
}
