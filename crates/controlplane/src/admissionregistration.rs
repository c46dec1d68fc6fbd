//! Who else decides about writes: webhooks and policies, with their bindings.

use kevel_server::strategy::STATUS_METADATA;

use crate::columns;
use crate::kind::Kind;

/// `mutatingadmissionpolicies`
pub static MUTATING_ADMISSION_POLICY: Kind = Kind {
    storage_version: Some("v1beta1"),
    counts_generation: true,
    allow_unconditional_update: false,
    columns: columns::admissionregistration::MUTATING_ADMISSION_POLICY,
    ..Kind::new("admissionregistration.k8s.io", "mutatingadmissionpolicies")
};

/// `mutatingadmissionpolicybindings`
pub static MUTATING_ADMISSION_POLICY_BINDING: Kind = Kind {
    storage_version: Some("v1beta1"),
    counts_generation: true,
    allow_unconditional_update: false,
    columns: columns::admissionregistration::BINDINGS,
    ..Kind::new("admissionregistration.k8s.io", "mutatingadmissionpolicybindings")
};

/// `mutatingwebhookconfigurations`
pub static MUTATING_WEBHOOK_CONFIGURATION: Kind = Kind {
    counts_generation: true,
    allow_unconditional_update: false,
    columns: columns::admissionregistration::WEBHOOKS,
    ..Kind::new("admissionregistration.k8s.io", "mutatingwebhookconfigurations")
};

/// `validatingadmissionpolicies`
pub static VALIDATING_ADMISSION_POLICY: Kind = Kind {
    kept_by_status: &STATUS_METADATA,
    counts_generation: true,
    allow_unconditional_update: false,
    columns: columns::admissionregistration::VALIDATING_ADMISSION_POLICY,
    ..Kind::new("admissionregistration.k8s.io", "validatingadmissionpolicies")
};

/// `validatingadmissionpolicybindings`
pub static VALIDATING_ADMISSION_POLICY_BINDING: Kind = Kind {
    counts_generation: true,
    allow_unconditional_update: false,
    columns: columns::admissionregistration::BINDINGS,
    ..Kind::new("admissionregistration.k8s.io", "validatingadmissionpolicybindings")
};

/// `validatingwebhookconfigurations`
pub static VALIDATING_WEBHOOK_CONFIGURATION: Kind = Kind {
    counts_generation: true,
    allow_unconditional_update: false,
    columns: columns::admissionregistration::WEBHOOKS,
    ..Kind::new("admissionregistration.k8s.io", "validatingwebhookconfigurations")
};
