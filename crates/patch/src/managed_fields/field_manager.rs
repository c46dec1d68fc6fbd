//! What ownership needs to know of a resource.

use std::borrow::Cow;

use kevel_api::schema::Schema;
use kevel_api::value::{Map, Value};

use super::atom::TypeRef;
use super::entry::{ManagerId, Operation};
use super::filter::Filter;
use crate::unstructured_but_fields;

/// Keeps the record of one resource or subresource in one version.
///
/// ```
/// use kevel_api::{builtin, time::Time, value::Value};
/// use kevel_codec::json::{Unknown, decode};
/// use kevel_patch::managed_fields::{FieldManager, Filter};
/// let manager = FieldManager {
///     schema: builtin::schema("", "v1", "ConfigMap").unwrap(),
///     api_version: "v1",
///     kind: "ConfigMap",
///     subresource: "",
///     filter: &Filter::All,
///     others: &(),
/// };
/// let mut object = decode(br#"{"data":{"a":"1"}}"#, manager.schema, Unknown::Ignore)?.value;
/// manager.update(None, &mut object, "kubectl-create", Time::now());
/// let entry = &object.at(&["metadata", "managedFields"]).unwrap().as_list().unwrap()[0];
/// let fields = entry.at(&["fieldsV1"]).unwrap();
/// assert_eq!(*fields, Value::Raw(r#"{"f:data":{".":{},"f:a":{}}}"#.into()));
/// # Ok::<(), kevel_codec::json::Error>(())
/// ```
#[derive(Clone, Copy)]
pub struct FieldManager<'a> {
    /// The type of the object.
    pub schema: Schema<'a>,
    /// `apps/v1`
    pub api_version: &'a str,
    /// The kind of the object.
    pub kind: &'a str,
    /// Empty for the resource itself.
    pub subresource: &'a str,
    /// What its writers may own.
    pub filter: &'a Filter,
    /// How the object looks in versions that others have applied.
    pub others: &'a dyn OtherVersions,
}

impl std::fmt::Debug for FieldManager<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "FieldManager({} {} {:?})", self.api_version, self.kind, self.subresource)
    }
}

/// The other versions of a kind, in which managers of its objects may have written.
pub trait OtherVersions {
    /// The kind's type in a version; none where it is not served, whose managers are forgotten.
    fn schema(&self, api_version: &str) -> Option<Schema<'_>>;

    /// A tree in another version; its own is in its `apiVersion`.
    fn convert(&self, object: &Value, api_version: &str) -> Option<Value>;

    /// What writers in a version may own.
    fn filter(&self, api_version: &str) -> Option<&Filter>;
}

/// A kind with one version.
impl OtherVersions for () {
    fn schema(&self, _: &str) -> Option<Schema<'_>> {
        None
    }

    fn convert(&self, _: &Value, _: &str) -> Option<Value> {
        None
    }

    fn filter(&self, _: &str) -> Option<&Filter> {
        None
    }
}

impl<'a> FieldManager<'a> {
    /// The tree of an object, without its `managedFields`.
    pub(super) fn tree(&self, object: Option<&Value>) -> Value {
        let empty = Value::Map(Map::new());
        let mut tree = unstructured_but_fields(object.unwrap_or(&empty), self.schema);
        self.finish_tree(&mut tree);
        tree
    }

    pub(super) fn finish_tree(&self, tree: &mut Value) {
        if let Value::Map(map) = tree {
            map.insert("apiVersion", Value::from(self.api_version));
            map.insert("kind", Value::from(self.kind));
        }
        remove_managed_fields(tree);
    }

    pub(super) fn type_in(&self, api_version: &str) -> Option<TypeRef<'a>> {
        if api_version == self.api_version {
            return Some(TypeRef::of(self.schema));
        }
        self.others.schema(api_version).map(TypeRef::of)
    }

    pub(super) fn filter_in(&self, api_version: &str) -> &'a Filter {
        if api_version == self.api_version {
            return self.filter;
        }
        self.others.filter(api_version).unwrap_or(&Filter::All)
    }

    /// A tree in a version, and its type there.
    pub(super) fn convert<'v>(
        &self,
        tree: &'v Value,
        api_version: &str,
    ) -> Option<(Cow<'v, Value>, TypeRef<'a>)> {
        let ty = self.type_in(api_version)?;
        if tree.str_at(&["apiVersion"]) == api_version {
            return Some((Cow::Borrowed(tree), ty));
        }
        Some((Cow::Owned(self.others.convert(tree, api_version)?), ty))
    }

    /// An object as messages name it: `default/x; apps/v1, Kind=Deployment`.
    pub(super) fn name(&self, tree: &Value) -> String {
        let metadata = |field| tree.str_at(&["metadata", field]);
        let kind = go_kind(self.api_version, self.kind);
        format!("{}/{}; {kind}", metadata("namespace"), metadata("name"))
    }

    pub(super) fn manager_id(&self, manager: &str, operation: Operation) -> ManagerId {
        let manager = if manager.is_empty() { "unknown" } else { manager };
        ManagerId::new(manager, operation, self.api_version, self.subresource)
    }
}

/// A kind as Go prints it: `apps/v1, Kind=Deployment`, `/v1, Kind=Pod`.
pub(super) fn go_kind(api_version: &str, kind: &str) -> String {
    let slash = if api_version.contains('/') { "" } else { "/" };
    format!("{slash}{api_version}, Kind={kind}")
}

pub(super) fn remove_managed_fields(object: &mut Value) {
    if let Some(Value::Map(metadata)) = object.at_mut(&["metadata"]) {
        metadata.remove("managedFields");
    }
}

/// Puts `managedFields` into an object that has none.
pub(super) fn set_managed_fields(object: &mut Value, entries: Option<Value>) {
    let (Value::Map(object), Some(entries)) = (object, entries) else { return };
    let metadata = object.entry_or_insert_with("metadata", || Value::Map(Map::new()));
    if metadata.is_null() {
        *metadata = Value::Map(Map::new());
    }
    if let Value::Map(metadata) = metadata {
        metadata.insert("managedFields", entries);
    }
}
