//! Groups of pods that are scheduled together.

use kevel_server::strategy::STATUS_METADATA;

use crate::columns::{self, Columns};
use crate::kind::Kind;

/// `podgroups`
pub static POD_GROUP: Kind = Kind {
    storage_version: Some("v1alpha2"),
    kept_by_status: &STATUS_METADATA,
    columns: columns::scheduling::POD_GROUP,
    ..Kind::new("scheduling.k8s.io", "podgroups")
};

/// `workloads`
pub static WORKLOAD: Kind = Kind {
    storage_version: Some("v1alpha2"),
    columns: Columns::NAME_AND_AGE,
    ..Kind::new("scheduling.k8s.io", "workloads")
};
