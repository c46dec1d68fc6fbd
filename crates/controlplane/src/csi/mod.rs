//! CSI kinds of storage.k8s.io: CSIDriver, CSINode and CSIStorageCapacity.

pub mod driver;
pub mod node;
pub mod storage_capacity;
