//! What is special about a kind: how an object is made ready to be stored, and what may not be stored.

use kevel_api::field_error::FieldErrors;
use kevel_api::value::Value;

use crate::user::User;

/// How often, and where, the rules of a kind look at the metadata of an object that is updated. It shows in
/// the causes that a client gets: what is wrong is told once for each look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetadataChecks {
    /// Not at all.
    None,
    /// At what changed (`ValidateObjectMetaUpdate`), before everything else or where the rules have their mark.
    Update,
    /// At what changed, then at all of it (`ValidateObjectMeta`), before everything else or where the rules
    /// have their mark.
    UpdateThenMeta,
    /// At all of it, before everything else.
    Meta,
    /// Twice at all of it, the second time where the rules have their mark.
    MetaTwice,
    /// At all of it, then at what changed, before everything else.
    MetaAndUpdate,
    /// At all of it before everything else, and at what changed after it or where the rules have their mark.
    MetaThenUpdate,
}

/// The rules of a kind. The defaults serve any kind that has no rules of its own.
pub trait Strategy: Send + Sync + 'static {
    /// Makes a new object ready, after defaulting and before admission and validation
    /// (`PrepareForCreate`).
    fn prepare_for_create(&self, _object: &mut Value) {}

    /// What is wrong with a new object, beyond its schema and metadata (`Validate`).
    fn validate_create(&self, _object: &Value) -> FieldErrors {
        FieldErrors::new()
    }

    /// Whether a new object is of the kind at all. Of one that is not, its metadata is not looked at.
    fn is_of_kind(&self, _object: &Value) -> bool {
        true
    }

    /// Makes an object ready that replaces another (`PrepareForUpdate`).
    fn prepare_for_update(&self, _object: &mut Value, _old: &Value) {}

    /// What is wrong with a change (`ValidateUpdate`).
    fn validate_update(&self, _object: &Value, _old: &Value) -> FieldErrors {
        FieldErrors::new()
    }

    /// Makes an object ready whose status is written.
    fn prepare_for_status_update(&self, _object: &mut Value, _old: &Value) {}

    /// What is wrong with a change of the status.
    fn validate_status_update(&self, _object: &Value, _old: &Value) -> FieldErrors {
        FieldErrors::new()
    }

    /// What of the metadata a write to the status leaves alone, whatever it says.
    fn kept_by_status(&self) -> &'static [&'static str] {
        &[]
    }

    /// The fields that a write to the status does not own (`GetResetFields` of the status): those that it leaves
    /// alone, of metadata all of [`Strategy::kept_by_status`].
    fn reset_by_status(&self) -> &'static [&'static [&'static str]] {
        RESET_SPEC
    }

    /// Whether the status can be shown in columns, as the object can.
    fn status_has_rows(&self) -> bool {
        true
    }

    /// The finalizers of an object that are neither qualified nor known, where the kind minds.
    fn validate_finalizers(&self, _object: &Value) -> FieldErrors {
        FieldErrors::new()
    }

    /// Writes the creating user into the object, where the kind keeps that.
    fn sign(&self, _object: &mut Value, _user: &User) {}

    /// What the client should know about a new object as it was sent, before it is made ready.
    fn warnings_as_sent(&self, _object: &Value) -> Vec<String> {
        Vec::new()
    }

    /// What the client should know about an object that is accepted; `old` is what it replaces
    /// (`WarningsOnCreate`, `WarningsOnUpdate`).
    fn warnings(&self, _object: &Value, _old: Option<&Value>) -> Vec<String> {
        Vec::new()
    }

    /// The same about an object whose status is written.
    fn status_warnings(&self, _object: &Value) -> Vec<String> {
        Vec::new()
    }

    /// Whether an update may come without a resourceVersion (`AllowUnconditionalUpdate`).
    fn allow_unconditional_update(&self) -> bool {
        true
    }

    /// How the kind's own rules look at the metadata of an object that is updated, after those of all kinds
    /// have.
    fn metadata_checks(&self) -> MetadataChecks {
        MetadataChecks::Update
    }

    /// What is wrong with a name; `prefix` when it is one to be completed.
    fn validate_name(&self, name: &str, prefix: bool) -> Vec<String> {
        kevel_api::name::name_is_dns_subdomain(name, prefix)
    }

    /// A name that begins as its maker wants.
    fn generate_name(&self, base: &str) -> String {
        kevel_api::name::generate_name(base)
    }

    /// The warning that a deprecated version sends with every response.
    fn deprecation(&self) -> Option<&str> {
        None
    }

    /// Changes an object when its deletion begins. `true` if it stays until it is let go.
    fn begin_delete(&self, _object: &mut Value) -> bool {
        false
    }

    /// Whether an object that is being deleted must stay, beyond its finalizers.
    fn held(&self, _object: &Value) -> bool {
        false
    }

    /// What objects call a field that clients may select by; `None` for one that they may not.
    fn selectable<'f>(&self, field: &'f str) -> Option<&'f str> {
        Some(field)
    }

    /// Selectable fields that OpenAPI tells of a custom kind.
    fn selectable_fields(&self) -> &[String] {
        &[]
    }

    /// Whether a custom kind's definition keeps fields that its schema does not name (`preserveUnknownFields`).
    fn preserves_unknown(&self) -> bool {
        false
    }

    /// Whether a custom kind's schema is structural: OpenAPI tells no other. Asked for each document, as it takes time.
    fn is_structural(&self) -> bool {
        true
    }

    /// Whether an object may be made with a status.
    fn keeps_status(&self) -> bool {
        false
    }

    /// The fields that a write to the object itself leaves alone, and does not own, besides those
    /// that have a path of their own (`GetResetFields`).
    fn reset_fields(&self) -> &'static [&'static str] {
        &[]
    }

    /// Whether changes of what is wanted are counted in `metadata.generation`.
    fn counts_generation(&self) -> bool {
        false
    }

    /// Whether a list that is empty counts as another than none in `metadata.generation`.
    fn counts_empty_lists(&self) -> bool {
        false
    }

    /// What becomes of an object's dependents by default (`DefaultGarbageCollectionPolicy`).
    fn default_dependents(&self) -> Dependents {
        Dependents::Collected
    }

    /// The warning to clients who delete without saying what becomes of dependents.
    fn deletion_warning(&self) -> Option<&str> {
        None
    }

    /// Whether an update of an object that is not there makes it (`AllowCreateOnUpdate`).
    fn allow_create_on_update(&self) -> bool {
        false
    }

    /// Whether objects are given time to end by themselves.
    fn graceful(&self) -> bool {
        false
    }

    /// How long an object has to end by itself, where it may take its time (`CheckGracefulDelete`).
    fn grace_period(&self, _object: &Value, _asked: Option<i64>) -> Option<i64> {
        None
    }

    /// Whether a deletion answers with the object rather than with a `Status`
    /// (`ReturnDeletedObject`).
    fn returns_deleted_object(&self) -> bool {
        false
    }
}

/// The metadata that a write to the status leaves alone where a kind's status says nothing but the
/// status (`ResetObjectMetaForStatus`).
pub const STATUS_METADATA: [&str; 5] =
    ["annotations", "deletionTimestamp", "finalizers", "labels", "ownerReferences"];

/// The fields that writes to the status of most kinds do not own: metadata can be written there.
pub const RESET_SPEC: &[&[&str]] = &[&["spec"]];

/// The fields that writes to the status do not own where it says nothing but the status.
pub const RESET_ALL_BUT_STATUS: &[&[&str]] = &[&["metadata"], &["spec"]];

/// All metadata but what every write says: `managedFields` and the `resourceVersion` that it replaces.
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

/// What becomes of the dependents of an object that is deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dependents {
    /// The garbage collector deletes them.
    Collected,
    /// They stay, without an owner.
    Orphaned,
    /// The kind has none.
    Ignored,
}

/// A kind without rules of its own.
#[derive(Clone, Copy, Debug)]
pub struct Generic;

impl Strategy for Generic {}
