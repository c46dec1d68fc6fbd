//! Kind APIService: the facts that the aggregator crate does not declare.

use kevel_store::keys::Origin;

use crate::columns;
use crate::kind::{Kind, MetadataChecks};

/// `apiservices`
pub static API_SERVICE: Kind = Kind {
    origin: Origin::Extension,
    allow_unconditional_update: false,
    columns: columns::apiregistration::API_SERVICE,
    metadata_checks: MetadataChecks::UpdateThenMeta,
    ..Kind::new("apiregistration.k8s.io", "apiservices")
};
