//! Strategy of a resource (upstream: `RESTCreateStrategy`, `RESTUpdateStrategy`, `RESTDeleteStrategy`): how objects are
//! prepared and validated before they are stored.

use kevel_api::field_error::FieldErrors;
use kevel_api::value::Value;

use crate::user::User;

/// Metadata validations of an update that a kind's own validation makes, and their order. Each one adds its errors, so
/// a client gets an error's cause once per validation. The strategy's mark is a call of `metadata_again`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetadataChecks {
    /// Metadata is not validated.
    None,
    /// `ValidateObjectMetaUpdate`, first or at the strategy's mark.
    Update,
    /// `ValidateObjectMetaUpdate`, then `ValidateObjectMeta`, first or at the strategy's mark.
    UpdateThenMeta,
    /// `ValidateObjectMeta`, first.
    Meta,
    /// `ValidateObjectMeta`, first, and again at the strategy's mark.
    MetaTwice,
    /// `ValidateObjectMeta`, then `ValidateObjectMetaUpdate`, both first.
    MetaAndUpdate,
    /// `ValidateObjectMeta` first; `ValidateObjectMetaUpdate` last, or at the strategy's mark.
    MetaThenUpdate,
}

/// Strategy of a resource. The defaults suit any kind without rules of its own.
pub trait Strategy: Send + Sync + 'static {
    /// Prepares a new object, after defaulting and before validation (upstream: `PrepareForCreate`, `Canonicalize`).
    fn prepare_for_create(&self, _object: &mut Value) {}

    /// Validates a new object, beyond its schema and metadata (upstream: `Validate`).
    fn validate_create(&self, _object: &Value) -> FieldErrors {
        FieldErrors::new()
    }

    /// Whether a new object is of the kind at all. If not, its metadata is not validated.
    fn is_of_kind(&self, _object: &Value) -> bool {
        true
    }

    /// Prepares an updated object (upstream: `PrepareForUpdate`).
    fn prepare_for_update(&self, _object: &mut Value, _old: &Value) {}

    /// Validates an update (upstream: `ValidateUpdate`).
    fn validate_update(&self, _object: &Value, _old: &Value) -> FieldErrors {
        FieldErrors::new()
    }

    /// Prepares an object for an update of its status.
    fn prepare_for_status_update(&self, _object: &mut Value, _old: &Value) {}

    /// Validates an update of the status.
    fn validate_status_update(&self, _object: &Value, _old: &Value) -> FieldErrors {
        FieldErrors::new()
    }

    /// Metadata fields that an update of the status does not change.
    fn kept_by_status(&self) -> &'static [&'static str] {
        &[]
    }

    /// Fields that an update of the status does not own (upstream: `GetResetFields` of the status strategy): those that
    /// it does not change, with all of [`Strategy::kept_by_status`].
    fn reset_by_status(&self) -> &'static [&'static [&'static str]] {
        RESET_SPEC
    }

    /// Whether the status subresource supports Tables, as the object does.
    fn status_has_rows(&self) -> bool {
        true
    }

    /// Validates finalizers that are neither qualified nor known, where the kind does so.
    fn validate_finalizers(&self, _object: &Value) -> FieldErrors {
        FieldErrors::new()
    }

    /// Writes the creating user into the object, where the kind records it.
    fn sign(&self, _object: &mut Value, _user: &User) {}

    /// Warnings about a new object as sent, before it is prepared.
    fn warnings_as_sent(&self, _object: &Value) -> Vec<String> {
        Vec::new()
    }

    /// Warnings about an accepted object; `old` is the object that it replaces (upstream: `WarningsOnCreate`,
    /// `WarningsOnUpdate`).
    fn warnings(&self, _object: &Value, _old: Option<&Value>) -> Vec<String> {
        Vec::new()
    }

    /// Warnings about an update of the status.
    fn status_warnings(&self, _object: &Value) -> Vec<String> {
        Vec::new()
    }

    /// Whether an update may omit the resourceVersion (upstream: `AllowUnconditionalUpdate`).
    fn allow_unconditional_update(&self) -> bool {
        true
    }

    /// Metadata validations that the kind's own validation makes on update, after those common to all kinds.
    fn metadata_checks(&self) -> MetadataChecks {
        MetadataChecks::Update
    }

    /// Validates a name; `prefix` if it is a `generateName`.
    fn validate_name(&self, name: &str, prefix: bool) -> Vec<String> {
        kevel_api::name::name_is_dns_subdomain(name, prefix)
    }

    /// Generates a name from `generateName` (upstream: `NameGenerator`).
    fn generate_name(&self, base: &str) -> String {
        kevel_api::name::generate_name(base)
    }

    /// Warning of a deprecated version, sent with every response.
    fn deprecation(&self) -> Option<&str> {
        None
    }

    /// Changes an object when its deletion begins. `true` if it then stays until it is finalized (namespaces).
    fn begin_delete(&self, _object: &mut Value) -> bool {
        false
    }

    /// Whether an object that is being deleted must stay, beyond its finalizers.
    fn held(&self, _object: &Value) -> bool {
        false
    }

    /// Stored name of a field of field selectors; `None` if it is not selectable.
    fn selectable<'f>(&self, field: &'f str) -> Option<&'f str> {
        Some(field)
    }

    /// Selectable fields of a custom resource, for OpenAPI.
    fn selectable_fields(&self) -> &[String] {
        &[]
    }

    /// Whether a custom resource keeps fields that its schema does not have (`preserveUnknownFields`).
    fn preserves_unknown(&self) -> bool {
        false
    }

    /// Whether a custom resource's schema is structural, as OpenAPI requires. Computed for each document, as it takes
    /// time.
    fn is_structural(&self) -> bool {
        true
    }

    /// Whether an object can be created with a status.
    fn keeps_status(&self) -> bool {
        false
    }

    /// Fields that a write to the object itself neither changes nor owns, besides those of subresources (upstream:
    /// `GetResetFields`).
    fn reset_fields(&self) -> &'static [&'static str] {
        &[]
    }

    /// Whether changes of the spec increment `metadata.generation`.
    fn counts_generation(&self) -> bool {
        false
    }

    /// Whether a change between an empty list and an absent one increments `metadata.generation`.
    fn counts_empty_lists(&self) -> bool {
        false
    }

    /// Default treatment of dependents on deletion (upstream: `DefaultGarbageCollectionPolicy`).
    fn default_dependents(&self) -> Dependents {
        Dependents::Collected
    }

    /// Warning for deletions without a propagation policy.
    fn deletion_warning(&self) -> Option<&str> {
        None
    }

    /// Whether an update may create the object (upstream: `AllowCreateOnUpdate`).
    fn allow_create_on_update(&self) -> bool {
        false
    }

    /// Whether deletion is graceful.
    fn graceful(&self) -> bool {
        false
    }

    /// Grace period of a graceful deletion (upstream: `CheckGracefulDelete`).
    fn grace_period(&self, _object: &Value, _asked: Option<i64>) -> Option<i64> {
        None
    }

    /// Whether a deletion responds with the object instead of a `Status` (upstream: `ReturnDeletedObject`).
    fn returns_deleted_object(&self) -> bool {
        false
    }
}

/// Metadata that an update of the status does not change, for kinds that only take the status (upstream:
/// `ResetObjectMetaForStatus`).
pub const STATUS_METADATA: [&str; 5] =
    ["annotations", "deletionTimestamp", "finalizers", "labels", "ownerReferences"];

/// Fields not owned by status updates of most kinds, which take metadata, too.
pub const RESET_SPEC: &[&[&str]] = &[&["spec"]];

/// Fields not owned by status updates of kinds that only take the status.
pub const RESET_ALL_BUT_STATUS: &[&[&str]] = &[&["metadata"], &["spec"]];

/// All metadata except `managedFields` and `resourceVersion`, which every write sets.
pub const ALL_METADATA: [&str; 13] = [
    "annotations",
    "creationTimestamp",
    "deletionGracePeriodSeconds",
    "deletionTimestamp",
    "finalizers",
    "generateName",
    "generation",
    "labels",
    "name",
    "namespace",
    "ownerReferences",
    "selfLink",
    "uid",
];

/// Treatment of a deleted object's dependents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dependents {
    /// The garbage collector deletes them.
    Collected,
    /// Dependents are orphaned.
    Orphaned,
    /// The kind has no dependents.
    Ignored,
}

/// Strategy of a kind without rules of its own.
#[derive(Clone, Copy, Debug)]
pub struct Generic;

impl Strategy for Generic {}
