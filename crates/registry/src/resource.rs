//! Table of the served resources (upstream: `APIGroupInfo`). Routes, discovery and OpenAPI are derived from it.
//! Resources are added and removed while the server runs; readers take the table without a lock.

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
use tokio::sync::watch;

pub use conventions::{Cbor, Conventions, FieldLabels, Published, Routing};
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

/// A resource in one version of its group: names, scope, verbs, type, storage, strategy (upstream: `rest.Storage`).
pub struct Resource {
    /// Kind of the objects, in the served version.
    pub kind: GroupVersionKind,
    /// `PodList`
    pub list_kind: String,
    /// `pods`
    pub plural: String,
    /// `pod`
    pub singular: String,
    /// Short names for `kubectl`.
    pub short_names: Vec<String>,
    /// Categories, such as `all`.
    pub categories: Vec<String>,
    /// Whether the resource is namespaced.
    pub namespaced: bool,
    /// `create`, `get`, ..., in the order in which discovery lists them.
    pub verbs: Vec<Verb>,
    /// Type of the objects.
    pub ty: TypeRef,
    /// Strategy of writes.
    pub strategy: Arc<dyn Strategy>,
    /// Allocation of addresses and ports for objects, if they need any.
    pub allocation: Option<Arc<dyn Allocation>>,
    /// Columns of the resource's Tables (upstream: `TableConvertor`).
    pub columns: Arc<dyn Columns>,
    /// `None` for resources that are not stored.
    pub storage: Option<Arc<Storage>>,
    /// Handler of creates, for resources that are not stored.
    pub creater: Option<Arc<dyn Creater>>,
    /// Source of the objects, for resources that are computed and not stored.
    pub lister: Option<Arc<dyn Lister>>,
    /// Subresources by name.
    pub subresources: BTreeMap<String, Subresource>,
    /// Facts of serving that differ between resources.
    pub conventions: Conventions,
}

/// A subresource.
#[derive(Debug)]
pub struct Subresource {
    /// Kind of the request and response bodies.
    pub kind: GroupVersionKind,
    /// Supported verbs.
    pub verbs: Vec<Verb>,
    /// Type of the request and response bodies.
    pub ty: TypeRef,
    /// Role of the subresource.
    pub role: SubresourceKind,
}

/// Roles of subresources.
#[derive(Clone, Debug)]
pub enum SubresourceKind {
    /// The object, of which only `status` and metadata are written.
    Status,
    /// The object's replicas as an `autoscaling` Scale.
    Scale(Scale),
    /// The object, of which only some fields are written, with a strategy of its own (`pods/resize`).
    Fields(WritableFields),
    /// Created by a POST and not stored (`serviceaccounts/token`).
    NamedCreater(Arc<dyn Creater>),
    /// A connection (`pods/exec`), or something read elsewhere (`pods/log`): the layer of HTTP has the handler.
    Connecter,
    /// Not served by this server yet.
    NotServed,
}

/// Fields of an object that a subresource writes.
#[derive(Clone)]
pub struct WritableFields {
    /// Paths; `*` stands for every item of a list.
    pub paths: &'static [&'static [&'static str]],
    /// Whether metadata such as labels and annotations is written, too.
    pub metadata: bool,
    /// Strategy of these writes.
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
    /// Group and plural, as in error messages.
    pub fn group_resource(&self) -> GroupResource {
        GroupResource::new(self.kind.group.clone(), self.plural.as_str())
    }

    /// Group and kind, as in error messages: those of the storage, since the resource may be served in another group,
    /// too.
    pub fn group_kind(&self) -> GroupKind {
        self.storage.as_ref().map_or(&self.kind, |storage| &storage.kind).group_kind()
    }

    /// Kind of a subresource's bodies; of the resource's own if the name is empty.
    pub fn kind_of(&self, subresource: &str) -> &GroupVersionKind {
        let part = self.subresources.get(subresource);
        part.map_or(&self.kind, |subresource| &subresource.kind)
    }

    /// `apps/v1`, `v1`
    pub fn api_version(&self) -> String {
        api_version(&self.kind.group, &self.kind.version)
    }

    /// Whether the resource supports a verb.
    pub fn allows(&self, verb: Verb) -> bool {
        self.verbs.contains(&verb)
    }

    /// Validates a new object (upstream: `BeforeCreate`). Where the strategy does not validate metadata, metadata is
    /// validated only if the strategy found no errors.
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

    /// Validates an object's metadata (upstream: `ValidateObjectMeta`).
    fn validate_metadata(&self, object: &Value) -> FieldErrors {
        let validate_name = |name: &str, prefix| self.strategy.validate_name(name, prefix);
        let mut errors = self.metadata_errors(object, &validate_name);
        errors.append(self.strategy.validate_finalizers(object));
        errors
    }

    /// Validates the metadata of an updated object as often as its strategy says, and merges the errors with `rest`,
    /// those of the strategy (upstream: `BeforeUpdate`).
    pub(crate) fn validate_update(
        &self,
        object: &Value,
        old: &Value,
        rest: FieldErrors,
    ) -> FieldErrors {
        let mut errors = self.metadata_errors(object, &is_path_segment_name);
        errors.append(metadata::check_update(object, old));
        // A check without errors need not run again; the strategy's name rule has not run yet.
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
        // Errors before the strategy's, and errors after it or at its mark.
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

    /// Whether the resource has a status subresource.
    pub fn has_status(&self) -> bool {
        let status = self.subresources.get("status");
        status.is_some_and(|sub| matches!(sub.role, SubresourceKind::Status))
    }

    /// Fields that a write to the object itself does not change: those of its strategy, and `status` where that is a
    /// subresource (upstream: `GetResetFields`).
    pub(crate) fn reset_fields(&self) -> impl Iterator<Item = &'static str> + '_ {
        let status = self.has_status().then_some("status");
        self.strategy.reset_fields().iter().copied().chain(status)
    }
}

/// `apps/v1`, `v1`
pub fn api_version(group: &str, version: &str) -> String {
    if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") }
}

/// The resources of a server.
#[derive(Debug, Default)]
pub struct Resources {
    rows: ArcSwap<Rows>,
    writing: Mutex<()>,
    changed: watch::Sender<()>,
}

/// The resources at one moment.
#[derive(Clone, Debug, Default)]
pub struct Rows {
    /// Resources by `group/version` and plural.
    versions: HashMap<String, BTreeMap<String, Arc<Resource>>>,
    /// Groups in the order of discovery, each with its versions, preferred first.
    order: Vec<(String, Vec<String>)>,
}

impl Resources {
    /// The current resources.
    pub fn current(&self) -> arc_swap::Guard<Arc<Rows>> {
        self.rows.load()
    }

    /// Signal of further changes of the table of rows.
    pub fn changes(&self) -> watch::Receiver<()> {
        self.changed.subscribe()
    }

    /// Adds resources, or replaces resources of the same name (upstream: `InstallAPIGroup`).
    pub fn install(&self, resources: impl IntoIterator<Item = Resource>) {
        self.change(|rows| resources.into_iter().for_each(|resource| rows.add(resource)));
    }

    /// Replaces all versions of a group and resource at once.
    pub fn replace(&self, group: &str, plural: &str, resources: Vec<Resource>) {
        self.change(|rows| {
            rows.remove(group, plural, None);
            resources.into_iter().for_each(|resource| rows.add(resource));
        });
    }

    /// Removes a group and resource, in all versions or in one.
    pub fn remove(&self, group: &str, plural: &str, version: Option<&str>) {
        self.change(|rows| rows.remove(group, plural, version));
    }

    fn change(&self, change: impl FnOnce(&mut Rows)) {
        let _writing = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let mut rows = Rows::clone(&self.rows.load());
        change(&mut rows);
        self.rows.store(Arc::new(rows));
        self.changed.send_replace(());
    }
}

impl Rows {
    /// A resource, if it is served.
    pub fn get(&self, group: &str, version: &str, plural: &str) -> Option<&Arc<Resource>> {
        self.version(group, version)?.get(plural)
    }

    /// Resources of a group and version, by plural.
    pub fn version(&self, group: &str, version: &str) -> Option<&BTreeMap<String, Arc<Resource>>> {
        self.versions.get(&format!("{group}/{version}"))
    }

    /// Groups and their versions, in order.
    pub fn groups(&self) -> &[(String, Vec<String>)] {
        &self.order
    }

    /// All resources.
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
