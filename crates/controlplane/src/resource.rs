//! Devices, and claims to them (`resource.k8s.io`).

use kevel_server::strategy::STATUS_METADATA;

use crate::columns::{self, Columns};
use crate::kind::{Kind, Selectable, deprecated_since};
use crate::rules::Rules;

/// `deviceclasses`
pub static DEVICE_CLASS: Kind = Kind {
    returns_deleted_object: true,
    counts_generation: true,
    columns: Columns::NAME_AND_AGE,
    deprecated_versions: &[
        ("v1beta1", deprecated_since!("resource.k8s.io/v1beta1", "DeviceClass", 35, 38)),
        ("v1beta2", deprecated_since!("resource.k8s.io/v1beta2", "DeviceClass", 36, 39)),
    ],
    ..Kind::new("resource.k8s.io", "deviceclasses")
};

/// `devicetaintrules`
pub static DEVICE_TAINT_RULE: Kind = Kind {
    storage_version: Some("v1alpha3"),
    kept_by_status: &STATUS_METADATA,
    counts_generation: true,
    columns: columns::resource::DEVICE_TAINT_RULE,
    deprecated_versions: &[(
        "v1alpha3",
        deprecated_since!("resource.k8s.io/v1alpha3", "DeviceTaintRule", 36, 39),
    )],
    ..Kind::new("resource.k8s.io", "devicetaintrules")
};

/// `resourceclaims`
pub static RESOURCE_CLAIM: Kind = Kind {
    returns_deleted_object: true,
    kept_by_status: &STATUS_METADATA,
    columns: columns::resource::RESOURCE_CLAIM,
    rules: CLAIMED,
    deprecated_versions: &[
        ("v1beta1", deprecated_since!("resource.k8s.io/v1beta1", "ResourceClaim", 35, 38)),
        ("v1beta2", deprecated_since!("resource.k8s.io/v1beta2", "ResourceClaim", 36, 39)),
    ],
    ..Kind::new("resource.k8s.io", "resourceclaims")
};

/// `resourceclaimtemplates`
pub static RESOURCE_CLAIM_TEMPLATE: Kind = Kind {
    returns_deleted_object: true,
    columns: Columns::NAME_AND_AGE,
    rules: CLAIMED,
    deprecated_versions: &[
        ("v1beta1", deprecated_since!("resource.k8s.io/v1beta1", "ResourceClaimTemplate", 35, 38)),
        ("v1beta2", deprecated_since!("resource.k8s.io/v1beta2", "ResourceClaimTemplate", 36, 39)),
    ],
    ..Kind::new("resource.k8s.io", "resourceclaimtemplates")
};

/// `resourcepoolstatusrequests`
pub static RESOURCE_POOL_STATUS_REQUEST: Kind = Kind {
    storage_version: Some("v1alpha3"),
    kept_by_status: &STATUS_METADATA,
    allow_unconditional_update: false,
    columns: columns::resource::RESOURCE_POOL_STATUS_REQUEST,
    ..Kind::new("resource.k8s.io", "resourcepoolstatusrequests")
};

/// `resourceslices`
pub static RESOURCE_SLICE: Kind = Kind {
    selectable_fields: &[Selectable::field("spec.nodeName"), Selectable::field("spec.driver")],
    returns_deleted_object: true,
    counts_generation: true,
    columns: columns::resource::RESOURCE_SLICE,
    deprecated_versions: &[
        ("v1beta1", deprecated_since!("resource.k8s.io/v1beta1", "ResourceSlice", 35, 38)),
        ("v1beta2", deprecated_since!("resource.k8s.io/v1beta2", "ResourceSlice", 36, 39)),
    ],
    ..Kind::new("resource.k8s.io", "resourceslices")
};

/// What is asked for does not change.
const CLAIMED: Rules = Rules {
    validate_update: |claim, old| claim.at("spec").immutable(&old.at("spec")),
    ..Rules::NONE
};
