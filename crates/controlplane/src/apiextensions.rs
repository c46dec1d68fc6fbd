//! Kind CustomResourceDefinition: the facts that the extensions crate does not declare.

use kevel_store::keys::Origin;

use crate::kind::Kind;

/// `customresourcedefinitions`
pub static CUSTOM_RESOURCE_DEFINITION: Kind = Kind {
    origin: Origin::Extension,
    counts_generation: true,
    allow_unconditional_update: false,
    ..Kind::new("apiextensions.k8s.io", "customresourcedefinitions")
};
