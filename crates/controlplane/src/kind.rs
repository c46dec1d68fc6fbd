//! Declaration of a built-in kind: everything beyond its definition in `api/`, in one value.

mod strategy;

pub(crate) use strategy::KindStrategy;

use std::fmt;

use kevel_api::builtin;
use kevel_api::name;
pub use kevel_registry::resource::FieldLabels;
use kevel_registry::scale::Selector;
use kevel_registry::storage::SelectableField;
pub use kevel_registry::strategy::MetadataChecks;
use kevel_registry::strategy::{Dependents, RESET_SPEC};
use kevel_store::keys::{self, Origin};

use crate::columns::Columns;
use crate::rules::Rules;

/// A built-in kind. The kind's file declares this value, and [`KINDS`](crate::kinds::KINDS) lists it.
///
/// Verbs, schemas, names and scope come from the definition; fields that are not set have the defaults of
/// [`Kind::new`].
#[derive(Clone, Copy)]
pub struct Kind {
    /// Group of the definition.
    pub group: &'static str,
    /// Plural of the definition.
    pub plural: &'static str,
    /// Problems of a name; with `true`, of a prefix that will be completed (upstream: ValidateNameFunc).
    pub validate_name: fn(&str, bool) -> Vec<String>,
    /// Order of the metadata checks in the kind's rules on an update.
    pub metadata_checks: MetadataChecks,
    /// Generates a name from `generateName`.
    pub generate_name: fn(&str) -> String,
    /// Fields for field selectors, besides name and namespace.
    pub selectable_fields: &'static [Selectable],
    /// Labels of selectable fields, where they differ from the names.
    pub field_labels: &'static [(&'static str, &'static str)],
    /// Handling of unknown field labels, where kinds with selectable fields differ.
    pub unknown_field_labels: FieldLabels,
    /// Server of the chain that stores the kind; determines storage key and format.
    pub origin: Origin,
    /// Storage key below the prefix, if it is not the plural.
    pub storage_key: Option<&'static str>,
    /// Storage version, if it is not the preferred one.
    pub storage_version: Option<&'static str>,
    /// Kind in another group that has the same stored objects.
    pub stored_with: Option<&'static Kind>,
    /// True if objects expire after `--event-ttl`.
    pub expires: bool,
    /// True if objects may be created with a status.
    pub keeps_status: bool,
    /// Fields that updates do not change, whatever they contain.
    pub reset_fields: &'static [&'static str],
    /// Metadata fields that a status write leaves unchanged.
    pub kept_by_status: &'static [&'static str],
    /// True if changes of the desired state raise `metadata.generation`.
    pub counts_generation: bool,
    /// True if an empty list counts as different from an absent one.
    pub counts_empty_lists: bool,
    /// Annotations that conversions make of fields, which do not count as metadata.
    pub converted_annotations: &'static [&'static str],
    /// Fields that a status write does not own (upstream: GetResetFields).
    pub reset_by_status: &'static [&'static [&'static str]],
    /// True if the status subresource can be printed as a table.
    pub status_has_rows: bool,
    /// True if an update creates a missing object (upstream: AllowCreateOnUpdate).
    pub allow_create_on_update: bool,
    /// True if an update may omit resourceVersion (upstream: AllowUnconditionalUpdate).
    pub allow_unconditional_update: bool,
    /// True if a deletion returns the object (upstream: ReturnDeletedObject).
    pub returns_deleted_object: bool,
    /// Handling of dependents if a deletion does not set it (upstream: DefaultGarbageCollectionPolicy).
    pub default_dependents: Dependents,
    /// Warning to clients that delete without a propagation policy.
    pub deletion_warning: Option<&'static str>,
    /// True if objects are only created by POST and not stored, as reviews are.
    pub creater: bool,
    /// Subresources other than `status`, which is the same for all kinds.
    pub subresources: &'static [(&'static str, Subresource)],
    /// Preparation and validation of objects.
    pub rules: Rules,
    /// Table columns.
    pub columns: Columns,
    /// True if finalizers without a domain must be standard ones, as for most kinds.
    pub standard_finalizers: bool,
}

impl Kind {
    /// Kind with the defaults of most kinds.
    pub const fn new(group: &'static str, plural: &'static str) -> Self {
        Kind {
            group,
            plural,
            validate_name: name::name_is_dns_subdomain,
            metadata_checks: MetadataChecks::Update,
            generate_name: name::generate_name,
            selectable_fields: &[],
            field_labels: &[],
            unknown_field_labels: FieldLabels::Own,
            origin: Origin::BuiltIn,
            storage_key: None,
            storage_version: None,
            stored_with: None,
            expires: false,
            keeps_status: false,
            reset_fields: &[],
            kept_by_status: &[],
            counts_generation: false,
            counts_empty_lists: false,
            converted_annotations: &[],
            reset_by_status: RESET_SPEC,
            status_has_rows: true,
            allow_create_on_update: false,
            allow_unconditional_update: true,
            returns_deleted_object: false,
            default_dependents: Dependents::Collected,
            deletion_warning: None,
            creater: false,
            subresources: &[],
            rules: Rules::NONE,
            columns: Columns::NAME_AND_CREATION,
            standard_finalizers: true,
        }
    }

    /// Definitions of the kind in each of its versions.
    pub fn definitions(&self) -> impl Iterator<Item = &'static builtin::Resource> {
        let name = (self.group, self.plural);
        builtin::resources().iter().filter(move |resource| (resource.group, resource.path) == name)
    }

    /// Declaration of a subresource; `None` if there is none.
    pub fn subresource(&self, name: &str) -> Option<Subresource> {
        match name {
            "status" => Some(Subresource::Status),
            name => self.subresources.iter().find(|(told, _)| *told == name).map(|(_, told)| *told),
        }
    }

    /// Key prefix of the kind's objects, below the root of all keys.
    pub fn storage_prefix(&self, root: &str) -> String {
        let key = self.storage_key.unwrap_or(self.plural);
        keys::resource_prefix(root, self.origin, self.group, key)
    }
}

/// As `pods`, `deployments.apps`.
impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.group {
            "" => f.write_str(self.plural),
            group => write!(f, "{}.{group}", self.plural),
        }
    }
}

/// A selectable field.
#[derive(Clone, Copy, Debug)]
pub struct Selectable {
    /// Name in selectors.
    pub name: &'static str,
    /// Path in the stored object.
    pub path: &'static str,
    /// Path that is read if the first one is empty.
    pub otherwise: Option<&'static str>,
    /// True if watchers are indexed by the field.
    pub indexed: bool,
}

impl Selectable {
    /// Selectable field named by its path.
    pub const fn field(path: &'static str) -> Self {
        Selectable::named(path, path)
    }

    /// Selectable field with another name.
    pub const fn named(name: &'static str, path: &'static str) -> Self {
        Selectable { name, path, otherwise: None, indexed: false }
    }

    /// Adds a path that is read if the first one is empty.
    pub const fn otherwise(mut self, path: &'static str) -> Self {
        self.otherwise = Some(path);
        self
    }

    /// The field as a storage declares it.
    pub fn as_stored(&self) -> SelectableField {
        let Selectable { name, path, otherwise, .. } = *self;
        SelectableField { name: name.into(), path: path.into(), otherwise }
    }

    /// Indexes watchers by the field.
    pub const fn indexed(mut self) -> Self {
        self.indexed = true;
        self
    }
}

/// Declaration of a subresource.
#[derive(Clone, Copy)]
pub enum Subresource {
    /// Writes `status` and some metadata of the object, by the kind's rules for status.
    Status,
    /// Writes some fields of the object, by rules of its own.
    Fields {
        /// Paths of the fields; `*` is every item of a list.
        paths: &'static [&'static [&'static str]],
        /// True if labels, annotations and other metadata are written too.
        metadata: bool,
        /// Rules for updates: `validate_update` and the like.
        rules: Rules,
    },
    /// Scale of the object: [`REPLICAS`], [`STATUS_REPLICAS`], and [`SELECTOR`] in one of two forms.
    Scale(fn(Vec<String>) -> Selector),
    /// Created by POST below an object (upstream: NamedCreater).
    NamedCreater,
    /// Connection or read elsewhere (upstream: Connecter), declared by [`Connecters`].
    ///
    /// [`Connecters`]: crate::connect::Connecters
    Connecter,
}

/// Path of the desired replicas in kinds with a scale.
pub const REPLICAS: [&str; 2] = ["spec", "replicas"];
/// Path of the actual replicas in kinds with a scale.
pub const STATUS_REPLICAS: [&str; 2] = ["status", "replicas"];
/// Path of the selector in kinds with a scale.
pub const SELECTOR: [&str; 2] = ["spec", "selector"];
