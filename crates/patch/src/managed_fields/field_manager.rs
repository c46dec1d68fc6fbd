//! Field manager of a resource (upstream: FieldManager).

use std::borrow::Cow;

use kevel_api::schema::Schema;
use kevel_api::value::{Map, Value};
use kevel_codec::json;

use super::atom::TypeRef;
use super::entry::{ManagerId, Operation};
use super::filter::Filter;
use super::validate::{Duplicates, validate};
use crate::{from_unstructured, unstructured_but_fields};

/// Tracks field ownership of one resource or subresource in one version (upstream: FieldManager).
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
/// let now: Time = "2026-11-18T00:00:00Z".parse().unwrap();
/// manager.update(None, &mut object, "kubectl-create", now);
/// let entry = &object.at(&["metadata", "managedFields"]).unwrap().as_list().unwrap()[0];
/// let fields = entry.at(&["fieldsV1"]).unwrap();
/// assert_eq!(*fields, Value::Raw(r#"{"f:data":{".":{},"f:a":{}}}"#.into()));
/// # Ok::<(), kevel_codec::json::Error>(())
/// ```
#[derive(Clone, Copy)]
pub struct FieldManager<'a> {
    /// Type of the object.
    pub schema: Schema<'a>,
    /// API version, such as `apps/v1`
    pub api_version: &'a str,
    /// Kind of the object.
    pub kind: &'a str,
    /// Subresource; empty for the resource itself.
    pub subresource: &'a str,
    /// Fields that writers may own.
    pub filter: &'a Filter,
    /// Other versions, in which managers may have written.
    pub others: &'a dyn OtherVersions,
}

impl std::fmt::Debug for FieldManager<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "FieldManager({} {} {:?})", self.api_version, self.kind, self.subresource)
    }
}

/// Other versions of a kind, in which managers of its objects may have written.
pub trait OtherVersions {
    /// Type of the kind in a version; `None` if it is not served, in which case its managers are dropped.
    fn schema(&self, api_version: &str) -> Option<Schema<'_>>;

    /// Converts a tree to another version; its `apiVersion` is the current one.
    fn convert(&self, object: &Value, api_version: &str) -> Option<Value>;

    /// Fields that writers in a version may own.
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

/// Error about a version that a custom resource does not have.
const NO_VERSION: &str = "request to convert CR to an invalid group/version";

impl<'a> FieldManager<'a> {
    /// Tree of an object, without `managedFields`.
    pub(super) fn tree(&self, object: Option<&Value>) -> Value {
        let empty = Value::Map(Map::new());
        let mut tree = unstructured_but_fields(object.unwrap_or(&empty), self.schema);
        self.finish_tree(&mut tree);
        tree
    }

    pub(super) fn finish_tree(&self, tree: &mut Value) {
        self.name_kind(tree, self.api_version);
        remove_managed_fields(tree);
    }

    fn name_kind(&self, tree: &mut Value, api_version: &str) {
        if let Value::Map(map) = tree {
            map.insert("apiVersion", Value::from(api_version));
            map.insert("kind", Value::from(self.kind));
        }
    }

    pub(super) fn type_in(&self, api_version: &str) -> Option<TypeRef<'a>> {
        self.schema_in(api_version).map(TypeRef::of)
    }

    fn schema_in(&self, api_version: &str) -> Option<Schema<'a>> {
        match api_version == self.api_version {
            true => Some(self.schema),
            false => self.others.schema(api_version),
        }
    }

    pub(super) fn filter_in(&self, api_version: &str) -> &'a Filter {
        if api_version == self.api_version {
            return self.filter;
        }
        self.others.filter(api_version).unwrap_or(&Filter::All)
    }

    /// Tree in a version, with its type; `None` if the version is not served, an error if the tree does not decode.
    pub(super) fn convert<'v>(
        &self,
        tree: &'v Value,
        api_version: &str,
    ) -> Result<Option<(Cow<'v, Value>, TypeRef<'a>)>, String> {
        let Some(schema) = self.schema_in(api_version) else {
            // A custom resource that lost a version keeps its managers, but not their applies.
            let custom = self.schema.is_custom();
            return match custom {
                true => Err(format!("{NO_VERSION}: {api_version}")),
                false => Ok(None),
            };
        };
        let ty = TypeRef::of(schema);
        let from = tree.str_at(&["apiVersion"]);
        if from == api_version {
            return Ok(Some((Cow::Borrowed(tree), ty)));
        }
        let object = match self.schema_in(from).filter(|from| !from.is_custom()) {
            Some(from_schema) => Cow::Owned(self.object(tree, from_schema)?),
            None => Cow::Borrowed(tree),
        };
        let Some(mut converted) = self.others.convert(&object, api_version) else {
            return Ok(None);
        };
        if !schema.is_custom() {
            // A converted object also has the zero values that its type always writes.
            converted = unstructured_but_fields(&converted, schema);
            self.name_kind(&mut converted, api_version);
        }
        // A conversion keeps the fields that only the other version declares.
        let checked = validate(&converted, ty, Duplicates::Forbid);
        checked.map_err(|errors| errors.to_string())?;
        Ok(Some((Cow::Owned(converted), ty)))
    }

    /// Decodes a tree to an object, for conversion.
    fn object(&self, tree: &Value, schema: Schema<'_>) -> Result<Value, String> {
        let api_version = tree.str_at(&["apiVersion"]);
        let failed = |why: String| {
            let kind = go_kind(api_version, self.kind);
            format!("unable to convert unstructured object to {kind}: {why}")
        };
        let mut fitting = tree.clone();
        from_unstructured(&mut fitting, schema).map_err(failed)?;
        let mut text = Vec::new();
        json::encode_any(&fitting, &mut text);
        let decoded = json::decode(&text, schema, json::Unknown::Ignore);
        let mut object = decoded.map_err(|error| failed(error.to_string()))?.value;
        self.name_kind(&mut object, api_version);
        Ok(object)
    }

    /// Object as messages name it: `default/x; apps/v1, Kind=Deployment`.
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

/// Kind as Go prints it: `apps/v1, Kind=Deployment`, `/v1, Kind=Pod`.
pub(super) fn go_kind(api_version: &str, kind: &str) -> String {
    let slash = if api_version.contains('/') { "" } else { "/" };
    format!("{slash}{api_version}, Kind={kind}")
}

pub(super) fn remove_managed_fields(object: &mut Value) {
    if let Some(Value::Map(metadata)) = object.at_mut(&["metadata"]) {
        metadata.remove("managedFields");
    }
}

/// Sets `managedFields` of an object that has none.
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
