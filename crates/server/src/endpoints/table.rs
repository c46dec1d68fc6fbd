//! Tables (`meta.k8s.io` Table) and PartialObjectMetadata of objects.

use std::sync::Arc;

use kevel_api::builtin;
use kevel_api::field_error::{FieldError, Path};
use kevel_api::status::StatusError;
use kevel_api::time::MicroTime;
use kevel_api::value::{Map, Value};
use kevel_codec::json;
use thin_vec::ThinVec;

use super::StoredRequest;
use super::watch::INITIAL_EVENTS_END;
use kevel_registry::columns::{Column, Columns, NameAndCreation, descriptions};
use kevel_registry::metadata;
use kevel_registry::resource::{Resource, SubresourceKind};
use kevel_registry::storage::Storage;
use kevel_registry::type_ref::TypeRef;

/// Converts the objects of a request into Table rows (upstream: `TableConvertor`).
pub(super) struct Printer {
    resource: Arc<Resource>,
    storage: Arc<Storage>,
    content: RowContent,
    /// Type of the response.
    ty: TypeRef,
    pub include: Include,
    /// Version of `meta.k8s.io` that the client accepts.
    version: String,
}

/// Subject of a row.
#[derive(Clone, Copy)]
enum RowContent {
    Object,
    Scale(&'static dyn Columns),
    /// The object of another subresource.
    Other,
}

/// Part of the object in each row (`includeObject`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Include {
    None,
    Metadata,
    Object,
}

impl Printer {
    /// The printer for a request's Table.
    pub fn new(request: &StoredRequest<'_>, version: &str) -> Result<Self, StatusError> {
        let content = match request.subresource.map(|sub| &sub.role) {
            None | Some(SubresourceKind::Status | SubresourceKind::Fields(_)) => RowContent::Object,
            Some(SubresourceKind::Scale(scale)) => RowContent::Scale(scale.columns),
            Some(_) => RowContent::Other,
        };
        Ok(Printer {
            resource: request.resource.clone(),
            storage: request.storage.clone(),
            content,
            ty: request.ty(),
            include: Include::parse(request.parameter("includeObject").unwrap_or_default())?,
            version: version.to_owned(),
        })
    }

    /// A Table with one row for an object in the requested version.
    pub async fn object(&self, object: Value) -> Result<Value, StatusError> {
        let stored = match self.converts() {
            true => {
                let to = self.storage.kind.group_version();
                self.storage.convert(object, &self.resource.kind, &to).await?
            }
            false => object,
        };
        self.event(stored, true)
    }

    /// A Table with one row for a stored object. Only the first Table of a watch has column definitions.
    pub fn event(&self, object: Value, headers: bool) -> Result<Value, StatusError> {
        let mut metadata = Map::new();
        if let Some(revision) = object.at(&["metadata", "resourceVersion"]) {
            metadata.insert("resourceVersion", revision.clone());
        }
        let row = self.row(object, MicroTime::now(&self.storage.registry.clock))?;
        Ok(self.table([row].into_iter().collect(), metadata, headers))
    }

    pub fn columns(&self) -> &dyn Columns {
        match self.content {
            RowContent::Object => &*self.resource.columns,
            RowContent::Scale(columns) => columns,
            RowContent::Other => &NameAndCreation,
        }
    }

    /// A Table of the given rows.
    pub fn table(&self, rows: ThinVec<Value>, metadata: Map, headers: bool) -> Value {
        let columns = self.columns();
        let mut table = Map::from_iter([
            ("kind", Value::from("Table")),
            ("apiVersion", format!("meta.k8s.io/{}", self.version).as_str().into()),
            ("metadata", metadata.into()),
        ]);
        if !(rows.is_empty() && columns.is_default()) {
            table.insert("rows", Value::List(rows));
        }
        if headers {
            let definitions = columns.definitions();
            let described = definitions.iter().zip(descriptions(definitions));
            let definitions = described.map(|(column, text)| definition(column, &text)).collect();
            table.insert("columnDefinitions", Value::List(definitions));
        }
        table.into()
    }

    /// The row of an object: in the stored version, or in the served one where versions have their own columns.
    pub fn row(&self, object: Value, now: MicroTime) -> Result<Value, StatusError> {
        let columns = self.columns();
        let cells = columns.cells(&object, now).into_iter().collect();
        let mut row = Map::from_iter([("cells", Value::List(cells))]);
        if let Some(completed) = columns.completed(&object) {
            let condition = Map::from_iter([
                ("type", Value::from("Completed")),
                ("status", "True".into()),
                ("reason", completed.reason.into()),
                ("message", completed.message.into()),
            ]);
            row.insert("conditions", Value::List([condition.into()].into_iter().collect()));
        }
        if let Some(object) = self.beside(object)? {
            row.insert("object", object);
        }
        Ok(row.into())
    }

    /// The row's `object`, encoded as JSON by its own type.
    fn beside(&self, object: Value) -> Result<Option<Value>, StatusError> {
        let (object, ty) = match self.include {
            Include::Object => (self.served(object)?, self.ty.clone()),
            Include::None if !ends_initial_events(&object) => return Ok(None),
            _ => (metadata_only(object, &self.version, &self.resource), METADATA.clone()),
        };
        let mut text = Vec::with_capacity(1024);
        json::encode(&object, ty.schema(), &mut text);
        let text = String::from_utf8(text).map_err(StatusError::internal)?;
        Ok(Some(Value::Raw(text.into())))
    }

    /// Converts an object to the requested version.
    fn served(&self, object: Value) -> Result<Value, StatusError> {
        if !self.converts() {
            return Ok(object);
        }
        let to = self.resource.kind.group_version();
        let served = self.storage.convert_at_once(object, &self.storage.kind, &to);
        served.ok_or_else(|| StatusError::internal("the object has no such version"))
    }

    /// Whether rows are made from another version than the requested one.
    fn converts(&self) -> bool {
        matches!(self.content, RowContent::Object)
            && !self.resource.columns.per_version()
            && !self.storage.stores(&self.resource.kind)
    }
}

impl Include {
    fn parse(asked: &str) -> Result<Self, StatusError> {
        match asked {
            "None" => Ok(Include::None),
            "Metadata" | "" => Ok(Include::Metadata),
            "Object" => Ok(Include::Object),
            _ => {
                let detail = "must be 'Metadata', 'Object', 'None', or empty";
                let error = FieldError::invalid(&Path::new("includeObject"), asked, detail);
                Err(StatusError::bad_request(format!(
                    "Unable to convert to Table as requested: {error}"
                )))
            }
        }
    }
}

/// Whether an object is the bookmark that ends the initial events: watchers get it even with `includeObject=None`.
fn ends_initial_events(object: &Value) -> bool {
    object.str_at(&["metadata", "annotations", INITIAL_EVENTS_END]) == "true"
}

fn definition(column: &Column, description: &str) -> Value {
    Value::Map(Map::from_iter([
        ("name", Value::from(&*column.name)),
        ("type", (*column.ty).into()),
        ("format", (*column.format).into()),
        ("description", description.into()),
        ("priority", Value::Int(column.priority.into())),
    ]))
}

/// PartialObjectMetadata of an object, without annotations made by conversions.
pub(super) fn metadata_only(mut object: Value, version: &str, resource: &Resource) -> Value {
    let converted = resource.conventions.converted_annotations;
    if let Some(Value::Map(annotations)) = object.at_mut(&["metadata", "annotations"]) {
        converted.iter().for_each(|name| drop(annotations.remove(name)));
        if annotations.is_empty() && !converted.is_empty() {
            metadata::set(&mut object, "annotations", None);
        }
    }
    let metadata = object.as_map_mut().and_then(|map| map.remove("metadata"));
    Value::Map(Map::from_iter([
        ("kind", Value::from("PartialObjectMetadata")),
        ("apiVersion", format!("meta.k8s.io/{version}").as_str().into()),
        ("metadata", metadata.unwrap_or_else(|| Map::new().into())),
    ]))
}

/// A PartialObjectMetadataList.
pub(super) fn metadata_list(items: ThinVec<Value>, metadata: Map, version: &str) -> Value {
    let mut list = Map::from_iter([
        ("kind", Value::from("PartialObjectMetadataList")),
        ("apiVersion", format!("meta.k8s.io/{version}").as_str().into()),
        ("metadata", metadata.into()),
    ]);
    // Without items the field is sent as `null`, unlike in a list of whole objects.
    if !items.is_empty() {
        list.insert("items", Value::List(items));
    }
    list.into()
}

/// Type of PartialObjectMetadata.
pub(super) static METADATA: TypeRef =
    TypeRef::BuiltIn(builtin::defined("meta.v1.PartialObjectMetadata"));
/// Type of PartialObjectMetadataList.
pub(super) static METADATA_LIST: TypeRef =
    TypeRef::BuiltIn(builtin::defined("meta.v1.PartialObjectMetadataList"));
/// Type of a Table.
pub(super) static TABLE: TypeRef = TypeRef::BuiltIn(builtin::defined("meta.v1.Table"));
/// Type of a Table's row.
pub(super) static ROW: TypeRef = TypeRef::BuiltIn(builtin::defined("meta.v1.TableRow"));

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn include_object_has_three_values() {
        assert_eq!(Include::parse("").unwrap(), Include::Metadata);
        assert_eq!(Include::parse("None").unwrap(), Include::None);
        assert_eq!(
            Include::parse("All").unwrap_err().status().message,
            "Unable to convert to Table as requested: includeObject: Invalid value: \"All\": \
             must be 'Metadata', 'Object', 'None', or empty"
        );
    }
}
