//! Versions in which servers store objects, and migrations between them.

use kevel_server::strategy::STATUS_METADATA;

use crate::columns;
use crate::kind::Kind;

/// `storageversions`
pub static STORAGE_VERSION: Kind = Kind {
    kept_by_status: &STATUS_METADATA,
    allow_unconditional_update: false,
    columns: columns::internal::STORAGE_VERSION,
    ..Kind::new("internal.apiserver.k8s.io", "storageversions")
};

/// `storageversionmigrations`
pub static STORAGE_VERSION_MIGRATION: Kind = Kind {
    kept_by_status: &STATUS_METADATA,
    allow_unconditional_update: false,
    columns: columns::storagemigration::STORAGE_VERSION_MIGRATION,
    ..Kind::new("storagemigration.k8s.io", "storageversionmigrations")
};
