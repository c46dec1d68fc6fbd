//! What a built-in kind is beyond its definition in `api/`: all of it in one value.

mod strategy;

pub(crate) use strategy::KindStrategy;

use std::fmt;

use kevel_api::builtin;
use kevel_api::name;
pub use kevel_server::resource::FieldLabels;
use kevel_server::scale::Selector;
use kevel_server::storage::SelectableField;
pub use kevel_server::strategy::MetadataChecks;
use kevel_server::strategy::{Dependents, RESET_SPEC};
use kevel_store::keys::{self, Origin};

use crate::columns::Columns;
use crate::rules::Rules;

/// A built-in kind. Its file has this value, [`KINDS`](crate::kinds::KINDS) lists it.
///
/// Verbs, schemas, names and scope come from the definition; what is not said here is as it is for most
/// kinds ([`Kind::new`]).
#[derive(Clone, Copy)]
pub struct Kind {
    /// The group of its definition.
    pub group: &'static str,
    /// The plural of its definition.
    pub plural: &'static str,
    /// What is wrong with a name; with `true`, with one that will be completed.
    pub validate_name: fn(&str, bool) -> Vec<String>,
    /// How its rules look at the metadata of an object that is updated.
    pub metadata_checks: MetadataChecks,
    /// Makes a name of `generateName`.
    pub generate_name: fn(&str) -> String,
    /// What field selectors may ask for, beside name and namespace.
    pub selectable_fields: &'static [Selectable],
    /// What clients call the selectable fields, where that is something else.
    pub field_labels: &'static [(&'static str, &'static str)],
    /// What those hear who select by others, where kinds with selectable fields differ.
    pub unknown_field_labels: FieldLabels,
    /// Which server of the chain keeps it, which decides its key and format.
    pub origin: Origin,
    /// Where its objects are below the prefix, where that is not its plural.
    pub storage_key: Option<&'static str>,
    /// The version that its objects are stored in, where that is not the preferred one.
    pub storage_version: Option<&'static str>,
    /// The kind whose objects these are, seen in another group.
    pub stored_with: Option<&'static Kind>,
    /// Whether its objects are deleted by themselves after `--event-ttl`.
    pub expires: bool,
    /// Whether objects may be made with a status.
    pub keeps_status: bool,
    /// The fields that no update changes, whatever it says.
    pub reset_fields: &'static [&'static str],
    /// What of the metadata a write to the status leaves alone.
    pub kept_by_status: &'static [&'static str],
    /// Whether changes of what is wanted are counted in `metadata.generation`.
    pub counts_generation: bool,
    /// Whether a list that is empty counts as another than none.
    pub counts_empty_lists: bool,
    /// Annotations that conversions make of fields: no part of the metadata by itself.
    pub converted_annotations: &'static [&'static str],
    /// The fields that a write to the status does not own.
    pub reset_by_status: &'static [&'static [&'static str]],
    /// Whether its status can be shown in columns, as its objects can.
    pub status_has_rows: bool,
    /// Whether an update makes what is not there (`AllowCreateOnUpdate`).
    pub allow_create_on_update: bool,
    /// Whether an update may come without a resourceVersion (`AllowUnconditionalUpdate`).
    pub allow_unconditional_update: bool,
    /// Whether a deletion answers with the object (`ReturnDeletedObject`).
    pub returns_deleted_object: bool,
    /// What becomes of dependents when a deletion does not say (`DefaultGarbageCollectionPolicy`).
    pub default_dependents: Dependents,
    /// The warning to clients who delete without saying what becomes of dependents.
    pub deletion_warning: Option<&'static str>,
    /// Whether it is something to be asked by a POST, not stored.
    pub creater: bool,
    /// What its subresources are, other than `status`, which is the same for all.
    pub subresources: &'static [(&'static str, Subresource)],
    /// How objects are prepared and validated.
    pub rules: Rules,
    /// What people see of its objects.
    pub columns: Columns,
    /// Whether finalizers without a domain must be known ones, as those of most kinds.
    pub standard_finalizers: bool,
}

impl Kind {
    /// A kind of which there is nothing special to say.
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

    /// What the definitions say of it, in each of its versions.
    pub fn definitions(&self) -> impl Iterator<Item = &'static builtin::Resource> {
        let name = (self.group, self.plural);
        builtin::resources().iter().filter(move |resource| (resource.group, resource.path) == name)
    }

    /// What one of its subresources is, if it has a meaning.
    pub fn subresource(&self, name: &str) -> Option<Subresource> {
        match name {
            "status" => Some(Subresource::Status),
            name => self.subresources.iter().find(|(told, _)| *told == name).map(|(_, told)| *told),
        }
    }

    /// What the keys of its objects begin with, given what all keys begin with.
    pub fn storage_prefix(&self, root: &str) -> String {
        let key = self.storage_key.unwrap_or(self.plural);
        keys::resource_prefix(root, self.origin, self.group, key)
    }
}

/// `pods`, `deployments.apps`
impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.group {
            "" => f.write_str(self.plural),
            group => write!(f, "{}.{group}", self.plural),
        }
    }
}

/// A field that selectors may ask for.
#[derive(Clone, Copy, Debug)]
pub struct Selectable {
    /// What selectors call it.
    pub name: &'static str,
    /// Where it stands in the stored object.
    pub path: &'static str,
    /// Where it stands in an object that has nothing there.
    pub otherwise: Option<&'static str>,
    /// Whether watchers are found by it.
    pub indexed: bool,
}

impl Selectable {
    /// A field that is called by its path.
    pub const fn field(path: &'static str) -> Self {
        Selectable::named(path, path)
    }

    /// A field of another name.
    pub const fn named(name: &'static str, path: &'static str) -> Self {
        Selectable { name, path, otherwise: None, indexed: false }
    }

    /// The same, which stands at another path in objects that have nothing there.
    pub const fn otherwise(mut self, path: &'static str) -> Self {
        self.otherwise = Some(path);
        self
    }

    /// What a storage knows of it.
    pub fn as_stored(&self) -> SelectableField {
        let Selectable { name, path, otherwise, .. } = *self;
        SelectableField { name: name.into(), path: path.into(), otherwise }
    }

    /// The same, by which watchers are found.
    pub const fn indexed(mut self) -> Self {
        self.indexed = true;
        self
    }
}

/// What a subresource is of its object.
#[derive(Clone, Copy)]
pub enum Subresource {
    /// The object, of which `status` and metadata are written, by the kind's rules for its status.
    Status,
    /// The object, of which some fields are written, by rules of their own.
    Fields {
        /// In which `*` is every item of a list.
        paths: &'static [&'static [&'static str]],
        /// Whether labels, annotations and the like are written, too.
        metadata: bool,
        /// Those for updates: `validate_update` and the like.
        rules: Rules,
    },
    /// How many there are of it ([`REPLICAS`], [`STATUS_REPLICAS`]); which are counted, [`SELECTOR`] says
    /// in one of two forms.
    Scale(fn(Vec<String>) -> Selector),
    /// Something that is asked for by a POST (the reference's `NamedCreater`).
    NamedCreater,
    /// A way to somewhere else (the reference's `Connecter`), or what is read there: which, [`Connecters`] says.
    ///
    /// [`Connecters`]: crate::connect::Connecters
    Connecter,
}

/// Where a kind with a scale says how many it wants.
pub const REPLICAS: [&str; 2] = ["spec", "replicas"];
/// Where it says how many there are.
pub const STATUS_REPLICAS: [&str; 2] = ["status", "replicas"];
/// Where it says which are counted.
pub const SELECTOR: [&str; 2] = ["spec", "selector"];
