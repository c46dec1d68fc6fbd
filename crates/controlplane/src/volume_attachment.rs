//! Volumes that are attached to nodes.

use kevel_server::strategy::STATUS_METADATA;

use crate::columns;
use crate::kind::Kind;

/// `volumeattachments`
pub static VOLUME_ATTACHMENT: Kind = Kind {
    returns_deleted_object: true,
    kept_by_status: &STATUS_METADATA,
    allow_unconditional_update: false,
    columns: columns::storage::VOLUME_ATTACHMENT,
    ..Kind::new("storage.k8s.io", "volumeattachments")
};
