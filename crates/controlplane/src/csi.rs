//! Storage drivers, the nodes that have them, and what they have left.

use crate::columns;
use crate::kind::Kind;

/// `csidrivers`
pub static CSI_DRIVER: Kind = Kind {
    returns_deleted_object: true,
    allow_unconditional_update: false,
    columns: columns::storage::CSI_DRIVER,
    ..Kind::new("storage.k8s.io", "csidrivers")
};

/// `csinodes`
pub static CSI_NODE: Kind = Kind {
    returns_deleted_object: true,
    allow_unconditional_update: false,
    columns: columns::storage::CSI_NODE,
    ..Kind::new("storage.k8s.io", "csinodes")
};

/// `csistoragecapacities`
pub static CSI_STORAGE_CAPACITY: Kind = Kind {
    allow_unconditional_update: false,
    ..Kind::new("storage.k8s.io", "csistoragecapacities")
};
