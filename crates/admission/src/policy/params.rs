//! Parameters of policies: the objects that `paramKind` and `paramRef` name.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use kevel_api::gvk::{GroupVersion, GroupVersionKind};
use kevel_api::selector::label::LabelSelector;
use kevel_api::status::StatusError;
use kevel_api::value::Value;
use kevel_patch::unstructured;
use kevel_registry::resource::{Resource, Resources};
use kevel_registry::storage::{Storage, local_key};
use kevel_store::Revision;
use kevel_store::cache::{At, Object};

use crate::cel::versioned_object;

/// Limits on cached parameter trees, in number and in wire bytes; a tree takes several times its wire bytes.
const REMEMBERED: usize = 1024;
const REMEMBERED_BYTES: usize = 16 << 20;

/// `paramKind` of a policy.
#[derive(Clone, Debug)]
pub(super) struct ParamKind {
    api_version: String,
    kind: GroupVersionKind,
}

impl ParamKind {
    pub fn new(kind: &Value) -> Self {
        let (api_version, kind) = (kind.str_at(&["apiVersion"]), kind.str_at(&["kind"]));
        // Validation has checked apiVersion, so it parses.
        let version = api_version.parse::<GroupVersion>().unwrap_or_default();
        ParamKind { api_version: api_version.to_owned(), kind: version.with_kind(kind) }
    }
}

/// Prints as Go prints the struct; it appears in messages.
impl std::fmt::Display for ParamKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "&ParamKind{{APIVersion:{},Kind:{},}}", self.api_version, self.kind.kind)
    }
}

/// `paramRef` of a binding.
#[derive(Clone, Debug)]
pub(super) struct ParamRef {
    name: String,
    /// Empty: the namespace of the object in the request.
    namespace: String,
    selector: Option<Result<LabelSelector, String>>,
    /// `parameterNotFoundAction: Deny`.
    deny: bool,
}

impl ParamRef {
    pub fn new(reference: &Value) -> Self {
        let selector = reference.at(&["selector"]).map(|selector| {
            LabelSelector::from_value(Some(selector)).map_err(|error| error.to_string())
        });
        ParamRef {
            name: reference.str_at(&["name"]).to_owned(),
            namespace: reference.str_at(&["namespace"]).to_owned(),
            selector,
            deny: reference.str_at(&["parameterNotFoundAction"]) == "Deny",
        }
    }
}

/// A parameter object.
#[derive(Debug)]
pub(super) struct Param {
    /// `namespace/name`, or `name`.
    pub key: String,
    /// Value of `params`.
    pub tree: Value,
}

/// Lookup of parameter objects for the policies of a plug-in.
#[derive(Debug)]
pub(super) struct Params {
    tables: Vec<Arc<Resources>>,
    kinds: Kinds,
    read: Mutex<ParamTrees>,
}

/// Whether parameters of built-in kinds have `apiVersion` and `kind`. In the reference they have in validating
/// policies, and not in mutating ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kinds {
    Said,
    Unsaid,
}

/// Cached trees of parameters, by requested kind and key.
#[derive(Debug, Default)]
struct ParamTrees {
    by_key: HashMap<(GroupVersionKind, String), (Revision, Arc<Param>)>,
    /// Wire bytes of the cached parameters.
    bytes: usize,
}

impl Params {
    pub fn new(tables: Vec<Arc<Resources>>, kinds: Kinds) -> Self {
        Params { tables, kinds, read: Mutex::default() }
    }

    /// Row of a parameter kind. Not cached: custom resources come and go.
    pub fn row(&self, kind: &ParamKind) -> Result<Arc<Resource>, String> {
        let GroupVersionKind { group, version, kind } = &kind.kind;
        let found = self.tables.iter().find_map(|table| {
            let rows = table.current();
            let mut rows = rows.version(group, version)?.values();
            rows.find(|row| row.kind.kind == *kind).cloned()
        });
        found.ok_or_else(|| {
            let kind = GroupVersionKind::new(group.clone(), version.clone(), kind.clone());
            format!("failed to find resource referenced by paramKind: '{kind}'")
        })
    }

    /// Parameters of a binding for a request in a namespace. The policy is evaluated once for each; `None` stands for
    /// an evaluation without parameters.
    pub async fn collect(
        &self,
        kind: Option<(&ParamKind, &Resource)>,
        reference: Option<&ParamRef>,
        namespace: &str,
    ) -> Result<Vec<Option<Arc<Param>>>, String> {
        let (Some((kind, row)), Some(reference)) = (kind, reference) else { return Ok(vec![None]) };
        let namespace = match (row.namespaced, reference.namespace.as_str(), namespace) {
            (true, "", "") => {
                return Err("cannot use namespaced paramRef in policy binding that matches \
                            cluster-scoped resources"
                    .to_owned());
            }
            (true, "", namespace) | (true, namespace, _) => namespace,
            (false, "", _) => "",
            (false, ..) => {
                return Err("paramRef.namespace must not be provided for a cluster-scoped \
                            `paramKind`"
                    .to_owned());
            }
        };
        let not_synced = || format!("paramKind kind `{kind}` not yet synced to use for admission");
        let storage = row.storage.as_ref().ok_or_else(not_synced)?;
        let snapshot = storage.cache.snapshot(At::Any).await.map_err(|_| not_synced())?;
        let objects: Vec<Arc<Object>> = match (reference.name.as_str(), &reference.selector) {
            ("", None) => return Err("one of name or selector must be provided".to_owned()),
            ("", Some(selector)) => {
                let selector = selector.as_ref().map_err(Clone::clone)?;
                let prefix =
                    if namespace.is_empty() { String::new() } else { format!("{namespace}/") };
                let all = snapshot.range(&prefix, None);
                all.filter(|object| selector.selects(&***object)).cloned().collect()
            }
            (_, Some(_)) => {
                return Err("paramRef.name and paramRef.selector are mutually exclusive".to_owned());
            }
            (name, None) => {
                snapshot.get(&local_key(namespace, name)).cloned().into_iter().collect()
            }
        };
        if objects.is_empty() && reference.deny {
            return Err(
                "no params found for policy binding with `Deny` parameterNotFoundAction".to_owned()
            );
        }
        let mut params = Vec::with_capacity(objects.len());
        for object in &objects {
            let param = self.read(object, storage, row).await;
            params.push(Some(param.map_err(|error| error.to_string())?));
        }
        Ok(params)
    }

    /// Tree of a parameter object, in the requested version.
    async fn read(
        &self,
        object: &Object,
        storage: &Storage,
        row: &Resource,
    ) -> Result<Arc<Param>, StatusError> {
        let place = (row.kind.clone(), object.key().to_owned());
        if let Some((revision, param)) = self.trees().by_key.get(&place)
            && *revision == object.revision()
        {
            return Ok(param.clone());
        }
        let wire = object.wire().map_err(StatusError::internal)?;
        let mut value = storage.read(wire).map_err(StatusError::internal)?;
        if !storage.shows(wire, &row.kind) {
            let to = row.kind.group_version();
            value = storage.convert(value, &storage.kind, &to).await?;
        }
        let tree = match self.kinds {
            Kinds::Unsaid if !row.ty.is_unstructured() => {
                let mut tree = unstructured(&value, row.ty.schema());
                if let Some(map) = tree.as_map_mut() {
                    map.remove("apiVersion");
                    map.remove("kind");
                }
                tree
            }
            _ => versioned_object(&value, row.ty.schema(), &row.kind),
        };
        let param = Arc::new(Param { key: object.key().to_owned(), tree });
        let mut forgotten = ParamTrees::default();
        let mut trees = self.trees();
        if trees.by_key.len() >= REMEMBERED || trees.bytes + wire.len() > REMEMBERED_BYTES {
            forgotten = std::mem::take(&mut *trees);
        }
        trees.bytes += wire.len();
        trees.by_key.insert(place, (object.revision(), param.clone()));
        drop(trees);
        // Dropped without the lock: the trees may be large.
        drop(forgotten);
        Ok(param)
    }

    fn trees(&self) -> std::sync::MutexGuard<'_, ParamTrees> {
        self.read.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
