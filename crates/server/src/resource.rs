//! A resource is a row: names, scope, verbs, schema, storage, strategy. Routes, discovery and OpenAPI
//! are derived from the table of rows. Rows come and go while the server runs; readers take the table
//! without a lock.

mod connecter;
mod conventions;
mod creater;
mod lister;

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwap;
use kevel_api::field_error::{FieldErrors, Path};
use kevel_api::gvk::{GroupKind, GroupResource, GroupVersionKind};
use kevel_api::name::is_path_segment_name;
use kevel_api::value::Value;

pub use connecter::{ConnectRequest, Connecter, GetterWithOptions};
pub use conventions::{Conventions, FieldLabels, Published, Routing};
pub use creater::{CreateRequest, Created, Creater};
pub use lister::Lister;

use crate::allocation::Allocation;
use crate::columns::Columns;
use crate::metadata;
use crate::scale::Scale;
use crate::storage::Storage;
use crate::strategy::{MetadataChecks, Strategy};
use crate::type_ref::TypeRef;
use crate::verb::Verb;

/// A resource in one version of its group.
pub struct Resource {
    /// The kind of its objects, in the version that is served.
    pub kind: GroupVersionKind,
    /// `PodList`
    pub list_kind: String,
    /// `pods`
    pub plural: String,
    /// What one of them is called.
    pub singular: String,
    /// Short names, as `kubectl` takes them.
    pub short_names: Vec<String>,
    /// Groups of resources it belongs to, such as `all`.
    pub categories: Vec<String>,
    /// Whether its objects are in namespaces.
    pub namespaced: bool,
    /// `create`, `get`, ..., in the order in which discovery lists them.
    pub verbs: Vec<Verb>,
    /// The type of its objects.
    pub ty: TypeRef,
    /// What is special about the kind.
    pub strategy: Arc<dyn Strategy>,
    /// What its objects need from elsewhere, if anything.
    pub allocation: Option<Arc<dyn Allocation>>,
    /// What people see of its objects.
    pub columns: Arc<dyn Columns>,
    /// `None` for kinds that are not stored.
    pub storage: Option<Arc<Storage>>,
    /// What a POST creates, where that is not an object to be stored.
    pub creater: Option<Arc<dyn Creater>>,
    /// What finds its objects out, where they are not kept.
    pub lister: Option<Arc<dyn Lister>>,
    /// By name, sorted.
    pub subresources: BTreeMap<String, Subresource>,
    /// How it is served, where kinds differ.
    pub conventions: Conventions,
}

/// What stands below an object.
#[derive(Debug)]
pub struct Subresource {
    /// The kind of what is read and written.
    pub kind: GroupVersionKind,
    /// What can be done with it.
    pub verbs: Vec<Verb>,
    /// The type of what is read and written.
    pub ty: TypeRef,
    /// What it is to its object.
    pub role: SubresourceKind,
}

/// The kinds of subresources: what one is to its object.
#[derive(Clone, Debug)]
pub enum SubresourceKind {
    /// The object, of which only `status` and the metadata can be written.
    Status,
    /// How many replicas there are of it, as an object of `autoscaling`.
    Scale(Scale),
    /// The object, of which only some fields can be written, by a strategy of their own (`pods/resize`).
    Fields(WritableFields),
    /// Something that a POST creates and that is not stored (`serviceaccounts/token`).
    NamedCreater(Arc<dyn Creater>),
    /// A way to somewhere else (`pods/exec`).
    Connecter(Arc<dyn Connecter>),
    /// Something that a GET reads elsewhere (`pods/log`).
    GetterWithOptions(Arc<dyn GetterWithOptions>),
    /// Something that this server does not serve yet.
    NotServed,
}

/// The fields of an object that a subresource writes.
#[derive(Clone)]
pub struct WritableFields {
    /// Paths, in which `*` is every item of a list.
    pub paths: &'static [&'static [&'static str]],
    /// Whether labels, annotations and the like can be written, too.
    pub metadata: bool,
    /// What is special about writing them.
    pub strategy: Arc<dyn Strategy>,
}

impl std::fmt::Debug for WritableFields {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WritableFields").field("paths", &self.paths).finish_non_exhaustive()
    }
}

impl std::fmt::Debug for Resource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Resource({} {})", self.plural, self.kind)
    }
}

impl Resource {
    /// Group and plural, as messages name it.
    pub fn group_resource(&self) -> GroupResource {
        GroupResource::new(self.kind.group.clone(), self.plural.as_str())
    }

    /// Group and kind, as messages name it: of what is stored, which may be shown in another group, too.
    pub fn group_kind(&self) -> GroupKind {
        self.storage.as_ref().map_or(&self.kind, |storage| &storage.kind).group_kind()
    }

    /// The kind of what is read and written at a subresource; of the objects where it is empty.
    pub fn kind_of(&self, subresource: &str) -> &GroupVersionKind {
        let part = self.subresources.get(subresource);
        part.map_or(&self.kind, |subresource| &subresource.kind)
    }

    /// `apps/v1`, `v1`
    pub fn api_version(&self) -> String {
        api_version(&self.kind.group, &self.kind.version)
    }

    /// Whether it can be done with this resource.
    pub fn allows(&self, verb: Verb) -> bool {
        self.verbs.contains(&verb)
    }

    /// What is wrong with a new object (`BeforeCreate`). Where its rules do not look at the metadata, that is
    /// looked at when they found nothing.
    pub(crate) fn validate_create(&self, object: &Value) -> FieldErrors {
        let rest = self.strategy.validate_create(object);
        if !self.strategy.is_of_kind(object) {
            return rest;
        }
        if self.strategy.metadata_checks() != MetadataChecks::None {
            let mut errors = self.validate_metadata(object);
            errors.append(rest);
            return errors;
        }
        match rest.is_empty() {
            true => self.metadata_errors(object, &is_path_segment_name),
            false => rest,
        }
    }

    /// What is wrong with the metadata of an object (`ValidateObjectMeta`).
    fn validate_metadata(&self, object: &Value) -> FieldErrors {
        let validate_name = |name: &str, prefix| self.strategy.validate_name(name, prefix);
        let mut errors = self.metadata_errors(object, &validate_name);
        errors.append(self.strategy.validate_finalizers(object));
        errors
    }

    /// What is wrong with the metadata of an object that is updated, as its strategy looks at it, around what
    /// that says of the rest (`BeforeUpdate`).
    pub(crate) fn validate_update(
        &self,
        object: &Value,
        old: &Value,
        rest: FieldErrors,
    ) -> FieldErrors {
        let mut errors = self.metadata_errors(object, &is_path_segment_name);
        errors.append(metadata::check_update(object, old));
        // What found nothing finds nothing again; the kind's own rule for names was not asked yet.
        let clean = errors.is_empty();
        let meta = || self.validate_metadata(object);
        let update = || {
            let mut errors = match clean {
                true => FieldErrors::new(),
                false => metadata::check_update(object, old),
            };
            errors.append(self.strategy.validate_finalizers(object));
            errors
        };
        // What is looked at first, and what where the rules say so, or by their side.
        let (first, second) = match self.strategy.metadata_checks() {
            MetadataChecks::None => (FieldErrors::new(), FieldErrors::new()),
            MetadataChecks::Update => (FieldErrors::new(), update()),
            MetadataChecks::UpdateThenMeta => (update(), meta()),
            MetadataChecks::MetaAndUpdate => {
                let mut both = meta();
                both.append(update());
                (both, FieldErrors::new())
            }
            MetadataChecks::Meta => (meta(), FieldErrors::new()),
            MetadataChecks::MetaTwice => (meta(), meta()),
            MetadataChecks::MetaThenUpdate => (meta(), update()),
        };
        let last = self.strategy.metadata_checks() == MetadataChecks::MetaThenUpdate;
        let (before, after) = match rest.split_at_mark() {
            Ok(parts) => parts,
            Err(rest) if last => (rest, FieldErrors::new()),
            Err(rest) => (FieldErrors::new(), rest),
        };
        for part in [first, before, second, after] {
            errors.append(part);
        }
        errors
    }

    fn metadata_errors(
        &self,
        object: &Value,
        validate_name: &dyn Fn(&str, bool) -> Vec<String>,
    ) -> FieldErrors {
        let metadata = object.at(&["metadata"]).unwrap_or(&Value::Null);
        metadata::check_metadata(metadata, &Path::new("metadata"), self.namespaced, validate_name)
    }

    /// Whether its objects have a status that is written by a path of its own.
    pub fn has_status(&self) -> bool {
        let status = self.subresources.get("status");
        status.is_some_and(|sub| matches!(sub.role, SubresourceKind::Status))
    }

    /// The fields that a write to the object itself leaves alone: those that its strategy names, and
    /// the status where that is a subresource (`GetResetFields`).
    pub(crate) fn reset_fields(&self) -> impl Iterator<Item = &'static str> + '_ {
        let status = self.has_status().then_some("status");
        self.strategy.reset_fields().iter().copied().chain(status)
    }
}

/// `apps/v1`, `v1`
pub fn api_version(group: &str, version: &str) -> String {
    if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") }
}

/// The rows of a server.
#[derive(Debug, Default)]
pub struct Resources {
    rows: ArcSwap<Rows>,
    writing: Mutex<()>,
}

/// The rows at one moment.
#[derive(Clone, Debug, Default)]
pub struct Rows {
    /// By `group/version`, then by plural.
    versions: HashMap<String, BTreeMap<String, Arc<Resource>>>,
    /// Groups in the order in which they are listed, each with its versions, preferred first.
    order: Vec<(String, Vec<String>)>,
}

impl Resources {
    /// The rows as they are now.
    pub fn current(&self) -> arc_swap::Guard<Arc<Rows>> {
        self.rows.load()
    }

    /// Adds rows, or replaces those of the same name.
    pub fn install(&self, resources: impl IntoIterator<Item = Resource>) {
        self.change(|rows| resources.into_iter().for_each(|resource| rows.add(resource)));
    }

    /// Puts rows in the place of all that a group and resource has: nobody sees it half done.
    pub fn replace(&self, group: &str, plural: &str, resources: Vec<Resource>) {
        self.change(|rows| {
            rows.remove(group, plural, None);
            resources.into_iter().for_each(|resource| rows.add(resource));
        });
    }

    /// Removes the rows of a group and resource, in all its versions or in one.
    pub fn remove(&self, group: &str, plural: &str, version: Option<&str>) {
        self.change(|rows| rows.remove(group, plural, version));
    }

    fn change(&self, change: impl FnOnce(&mut Rows)) {
        let _writing = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let mut rows = Rows::clone(&self.rows.load());
        change(&mut rows);
        self.rows.store(Arc::new(rows));
    }
}

impl Rows {
    /// The row of a resource, if it is served.
    pub fn get(&self, group: &str, version: &str, plural: &str) -> Option<&Arc<Resource>> {
        self.version(group, version)?.get(plural)
    }

    /// The resources of a group and version, by plural.
    pub fn version(&self, group: &str, version: &str) -> Option<&BTreeMap<String, Arc<Resource>>> {
        self.versions.get(&format!("{group}/{version}"))
    }

    /// Groups and their versions, in order.
    pub fn groups(&self) -> &[(String, Vec<String>)] {
        &self.order
    }

    /// All rows.
    pub fn all(&self) -> impl Iterator<Item = &Arc<Resource>> {
        self.order.iter().flat_map(move |(group, versions)| {
            let versions = versions.iter().filter_map(move |v| self.version(group, v));
            versions.flat_map(|resources| resources.values())
        })
    }

    fn add(&mut self, resource: Resource) {
        let (group, version) = (resource.kind.group.to_string(), resource.kind.version.to_string());
        let position = self.order.iter().position(|(g, _)| *g == group);
        let position = position.unwrap_or_else(|| {
            self.order.push((group.clone(), Vec::new()));
            self.order.len() - 1
        });
        let versions = &mut self.order[position].1;
        if !versions.contains(&version) {
            versions.push(version.clone());
        }
        let key = format!("{group}/{version}");
        let plural = resource.plural.clone();
        self.versions.entry(key).or_default().insert(plural, Arc::new(resource));
    }

    fn remove(&mut self, group: &str, plural: &str, version: Option<&str>) {
        let Some(position) = self.order.iter().position(|(g, _)| g == group) else { return };
        let versions = self.order[position].1.clone();
        for name in versions.iter().filter(|v| version.is_none_or(|wanted| wanted == v.as_str())) {
            let key = format!("{group}/{name}");
            if let Some(resources) = self.versions.get_mut(&key) {
                resources.remove(plural);
                if resources.is_empty() {
                    self.versions.remove(&key);
                    self.order[position].1.retain(|v| v != name);
                }
            }
        }
        if self.order[position].1.is_empty() {
            self.order.remove(position);
        }
    }
}
