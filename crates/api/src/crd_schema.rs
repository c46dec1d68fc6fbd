//! OpenAPI schema of a custom resource as a [`Table`].
//!
//! Only the structure is read: the parts for decoding, pruning, defaulting, merging and field ownership. A schema must
//! be structural, which the validation of CustomResourceDefinitions ensures.

use std::borrow::Cow;
use std::collections::BTreeSet;

mod metadata;

use crate::builtin;
use crate::prune::prune;
use crate::schema::{
    BUILTIN, Constant, DefaultEntry, ElementEntry, FieldEntry, FieldFlags, FieldName, List,
    MetadataEntry, Scalar, Schema, Span, Str, Struct, StructFlags, Table, Type, TypeId,
};
use crate::value::{Map, Value};

/// Error of converting a schema to a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// A default or an enum value is not JSON.
    Json(String),
    /// The schema has more names, fields or defaults than a table can number.
    TooLarge,
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Error::Json(text) => write!(f, "cannot read {text:?} as JSON"),
            Error::TooLarge => f.write_str("the schema is too large"),
        }
    }
}

impl std::error::Error for Error {}

/// Table of a custom resource, and the type of its objects in it.
///
/// `schema` is the `openAPIV3Schema` of a version; `json` decodes the documents inside it (defaults and enum values).
pub fn table(
    schema: &Value,
    json: &dyn Fn(&str) -> Option<Value>,
) -> Result<(Table, TypeId), Error> {
    let mut builder = Builder::new(json);
    let empty = Map::new();
    let root = builder.object(schema.as_map().unwrap_or(&empty), Meta::Root)?;
    Ok((builder.finish(), root.id))
}

struct Builder<'j> {
    json: &'j dyn Fn(&str) -> Option<Value>,
    metadata: TypeId,
    types: Vec<Type>,
    fields: Vec<FieldEntry>,
    defaults: Vec<DefaultEntry>,
    names: Vec<Str>,
    elements: Vec<ElementEntry>,
    metadata_types: Vec<MetadataEntry>,
    values: Vec<Value>,
    text: String,
}

/// A field before its struct is complete.
struct NewField<'s> {
    name: &'s str,
    ty: TypeId,
    flags: u16,
    default: u16,
    values: Span,
}

/// A type that was added, and whether a default is in it or below it.
#[derive(Clone, Copy)]
struct Added {
    id: TypeId,
    defaults: bool,
}

/// Whether an object has `apiVersion`, `kind` and `metadata` of its own.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Meta {
    None,
    Embedded,
    Root,
}

const META_FIELDS: [&str; 3] = ["apiVersion", "kind", "metadata"];

impl<'j> Builder<'j> {
    fn new(json: &'j dyn Fn(&str) -> Option<Value>) -> Self {
        let pod = builtin::schema("", "v1", "Pod").and_then(|pod| pod.field("metadata"));
        Builder {
            json,
            metadata: pod.map_or(0, |field| field.schema().id()) | BUILTIN,
            types: Vec::new(),
            fields: Vec::new(),
            defaults: Vec::new(),
            names: Vec::new(),
            elements: Vec::new(),
            metadata_types: Vec::new(),
            values: Vec::new(),
            text: String::new(),
        }
    }

    /// Adds a schema of any type.
    fn schema(&mut self, schema: &Map) -> Result<Added, Error> {
        let scalar = |builder: &mut Self, scalar| Ok(builder.add(Type::Scalar(scalar), false));
        if flag(schema, "x-kubernetes-int-or-string") {
            return scalar(self, Scalar::IntOrString);
        }
        match string(schema, "type") {
            "array" => self.array(schema),
            "string" => scalar(self, Scalar::String),
            "boolean" => scalar(self, Scalar::Bool),
            "integer" => scalar(self, integer(string(schema, "format"))),
            "number" => scalar(self, Scalar::Number),
            "" if preserves(schema) && !schema.contains_key("properties") => {
                Ok(self.add(Type::Any, false))
            }
            _ => {
                let embedded = flag(schema, "x-kubernetes-embedded-resource");
                self.object(schema, if embedded { Meta::Embedded } else { Meta::None })
            }
        }
    }

    fn array(&mut self, schema: &Map) -> Result<Added, Error> {
        let list = match string(schema, "x-kubernetes-list-type") {
            "set" => List::Set,
            "map" => List::Map(self.strings(schema.get("x-kubernetes-list-map-keys"))?),
            _ => List::Atomic,
        };
        let empty = Map::new();
        let items = schema.get("items").and_then(Value::as_map).unwrap_or(&empty);
        let item = self.schema(items)?;
        self.collection(Type::List { item: item.id, list, message: false }, item, items)
    }

    /// Adds a list or map, with the nullability and default of its elements.
    fn collection(&mut self, ty: Type, of: Added, element: &Map) -> Result<Added, Error> {
        let default = self.default(element)?;
        let added = self.add(ty, of.defaults || default != 0);
        let nullable = flag(element, "nullable");
        if nullable || default != 0 {
            self.elements.push(ElementEntry { of: added.id, nullable, default });
        }
        Ok(added)
    }

    fn object(&mut self, schema: &Map, meta: Meta) -> Result<Added, Error> {
        let atomic = string(schema, "x-kubernetes-map-type") == "atomic";
        let empty = Map::new();
        if meta == Meta::None && !schema.contains_key("properties") {
            match schema.get("additionalProperties") {
                Some(Value::Map(element)) => {
                    let value = self.schema(element)?;
                    return self.collection(Type::Map { value: value.id, atomic }, value, element);
                }
                // `additionalProperties: true`: any keys, with values of any type.
                Some(Value::Bool(true)) => {
                    let value = self.object(&empty, Meta::None)?;
                    let map = self.add(Type::Map { value: value.id, atomic }, false);
                    let nullable = ElementEntry { of: map.id, nullable: true, default: 0 };
                    self.elements.push(nullable);
                    return Ok(map);
                }
                _ => {}
            }
        }
        let properties = schema.get("properties").and_then(Value::as_map).unwrap_or(&empty);
        let mut fields = Vec::with_capacity(properties.len() + META_FIELDS.len());
        let mut defaults = false;
        for (name, property) in properties.iter() {
            if meta != Meta::None && META_FIELDS.contains(&name) {
                continue;
            }
            let property = property.as_map().unwrap_or(&empty);
            let ty = self.schema(property)?;
            let default = self.default(property)?;
            defaults |= ty.defaults || default != 0;
            let mut flags = FieldFlags::POINTER;
            if flag(property, "nullable") {
                flags |= FieldFlags::NULLABLE;
            }
            if ty.defaults {
                flags |= FieldFlags::DEFAULTS_BELOW;
            }
            let values = self.strings(property.get("enum"))?;
            fields.push(NewField { name, ty: ty.id, flags, default, values });
        }
        let mut metadata = None;
        if meta != Meta::None {
            let meta_fields = self.meta_fields(meta, properties, &mut metadata)?;
            let is_defaulted = |field: &NewField<'_>| {
                field.default != 0 || field.flags & FieldFlags::DEFAULTS_BELOW != 0
            };
            defaults |= meta_fields.iter().any(is_defaulted);
            fields.extend(meta_fields);
            fields.sort_by_key(|field| field.name);
        }
        let required = schema.get("required").and_then(Value::as_list).unwrap_or_default();
        let required: BTreeSet<&str> = required.iter().filter_map(Value::as_str).collect();
        let start = number(self.fields.len())?;
        for (rank, field) in fields.into_iter().enumerate() {
            let required = match required.contains(field.name) {
                true => FieldFlags::REQUIRED,
                false => 0,
            };
            let entry = FieldEntry {
                head: FieldName::head(field.name.as_bytes()),
                name: self.string(field.name)?,
                go: Str(0, 0),
                ty: field.ty,
                rank: number(rank)?,
                flags: FieldFlags(field.flags | required),
                default: field.default,
                merge: 0,
                values: field.values,
                key: 0,
                go_name: 0,
            };
            self.fields.push(entry);
        }
        let count = number(self.fields.len() - start as usize)?;
        let set = |flag, is| if is { flag } else { 0 };
        let flags = set(StructFlags::ATOMIC, atomic)
            | set(StructFlags::PRESERVE_UNKNOWN, preserves(schema))
            | set(StructFlags::EMBEDDED, meta != Meta::None)
            | set(StructFlags::DEFAULTS, defaults);
        let none = Str(0, 0);
        let ty = Struct {
            name: none,
            package: none,
            fields: Span(start, count),
            members: Span(0, 0),
            internal: Span(0, 0),
            flags: StructFlags(flags),
        };
        let added = self.add(Type::Struct(ty), defaults);
        self.metadata_types.extend(metadata.map(|ty| MetadataEntry { of: added.id, ty }));
        Ok(added)
    }

    /// Fields of every resource. `metadata` is set to the declared type of the metadata, if it has defaults. At the
    /// root, declared defaults are ignored.
    fn meta_fields(
        &mut self,
        meta: Meta,
        declared: &Map,
        metadata: &mut Option<TypeId>,
    ) -> Result<[NewField<'static>; 3], Error> {
        let string = self.add(Type::Scalar(Scalar::String), false).id;
        let [mut version, mut kind, mut of_metadata] = META_FIELDS.map(|name| NewField {
            name,
            ty: string,
            flags: FieldFlags::POINTER,
            default: 0,
            values: Span(0, 0),
        });
        of_metadata.ty = self.metadata;
        if meta == Meta::Root {
            version.flags |= FieldFlags::TYPE_META;
            kind.flags |= FieldFlags::TYPE_META;
            return Ok([version, kind, of_metadata]);
        }
        for field in [&mut version, &mut kind, &mut of_metadata] {
            let declared = declared.get(field.name).and_then(Value::as_map);
            if declared.is_none_or(|property| flag(property, "nullable")) {
                field.flags |= FieldFlags::NULLABLE;
            }
        }
        for field in [&mut version, &mut kind] {
            field.flags |= FieldFlags::REQUIRED;
            let Some(property) = declared.get(field.name).and_then(Value::as_map) else { continue };
            field.default = self.default(property)?;
        }
        if let Some(property) = declared.get(of_metadata.name).and_then(Value::as_map) {
            let known = Schema::new(builtin::table(), self.metadata);
            let property = metadata::known_defaults(property, known, &|text| (self.json)(text))?;
            of_metadata.default = self.default(&property)?;
            let ty = self.schema(&property)?;
            if ty.defaults {
                of_metadata.flags |= FieldFlags::DEFAULTS_BELOW;
                *metadata = Some(ty.id);
            }
        }
        Ok([version, kind, of_metadata])
    }

    fn add(&mut self, ty: Type, defaults: bool) -> Added {
        self.types.push(ty);
        Added { id: self.types.len() as TypeId - 1, defaults }
    }

    /// Number of a schema's default; 0 for none.
    fn default(&mut self, schema: &Map) -> Result<u16, Error> {
        let Some(default) = schema.get("default") else { return Ok(0) };
        let value = self.document(default)?;
        if value.is_null() {
            return Ok(0);
        }
        let index = number(self.values.len())?;
        self.values.push(value);
        self.defaults.push(DefaultEntry { value: Constant::Value(index), when: None });
        number(self.defaults.len())
    }

    fn document(&self, value: &Value) -> Result<Value, Error> {
        document(value, self.json)
    }

    /// Strings of a list; other enum values are left to validation.
    fn strings(&mut self, list: Option<&Value>) -> Result<Span, Error> {
        let start = number(self.names.len())?;
        for value in list.and_then(Value::as_list).unwrap_or_default() {
            match self.document(value)? {
                Value::String(text) => {
                    let text = self.string(&text)?;
                    self.names.push(text);
                }
                _ => {
                    self.names.truncate(start as usize);
                    return Ok(Span(0, 0));
                }
            }
        }
        Ok(Span(start, number(self.names.len() - start as usize)?))
    }

    fn string(&mut self, text: &str) -> Result<Str, Error> {
        let string = Str(number(self.text.len())?, number(text.len())?);
        self.text.push_str(text);
        Ok(string)
    }

    fn finish(self) -> Table {
        let mut table = Table {
            types: Cow::Owned(self.types),
            fields: Cow::Owned(self.fields),
            members: Cow::Borrowed(&[]),
            defaults: Cow::Owned(self.defaults),
            merges: Cow::Borrowed(&[]),
            names: Cow::Owned(self.names),
            elements: Cow::Owned(self.elements),
            metadata: Cow::Owned(self.metadata_types),
            values: Cow::Borrowed(&[]),
            keys: Cow::Borrowed(&[]),
            text: Cow::Owned(self.text),
        };
        // Fields of a default that its own schema does not name would be pruned again.
        let mut values = self.values;
        let of_fields = table.fields.iter().map(|field| (field.default, field.ty));
        let of_elements = table.elements.iter().filter_map(|element| {
            let schema = Schema::new(&table, element.of);
            Some((element.default, schema.item().or(schema.value())?.id()))
        });
        for (default, ty) in of_fields.chain(of_elements) {
            let default = (default as usize).checked_sub(1);
            if let Some(default) = default.and_then(|index| table.defaults.get(index))
                && let Constant::Value(index) = default.value
                && let Some(value) = values.get_mut(index as usize)
            {
                prune(value, Schema::new(&table, ty));
            }
        }
        table.values = Cow::Owned(values);
        table
    }
}

/// Document as a tree, decoded if it was kept as text.
fn document(value: &Value, json: &dyn Fn(&str) -> Option<Value>) -> Result<Value, Error> {
    match value {
        Value::Raw(text) => json(text).ok_or_else(|| Error::Json(text.to_string())),
        value => Ok(value.clone()),
    }
}

fn integer(format: &str) -> Scalar {
    match format {
        "int32" => Scalar::Int32,
        "int64" => Scalar::Int64,
        _ => Scalar::Integer,
    }
}

fn preserves(schema: &Map) -> bool {
    flag(schema, "x-kubernetes-preserve-unknown-fields")
}

fn flag(schema: &Map, name: &str) -> bool {
    schema.get(name).and_then(Value::as_bool) == Some(true)
}

fn string<'s>(schema: &'s Map, name: &str) -> &'s str {
    schema.get(name).and_then(Value::as_str).unwrap_or_default()
}

fn number<T: TryFrom<usize>>(count: usize) -> Result<T, Error> {
    T::try_from(count).map_err(|_| Error::TooLarge)
}

#[cfg(test)]
mod tests;
