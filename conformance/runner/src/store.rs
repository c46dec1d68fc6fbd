//! The store below an API server that is compared with the reference.

/// Store of a Kevel. The reference has etcd alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Store {
    /// Kevel's own, in its data folder.
    #[default]
    Embedded,
    /// An etcd that is started for it: objects are stored as protobuf.
    Etcd,
}

impl Store {
    /// The store of a name.
    pub fn parse(name: &str) -> Option<Self> {
        match name {
            "embedded" => Some(Store::Embedded),
            "etcd" => Some(Store::Etcd),
            _ => None,
        }
    }
}
