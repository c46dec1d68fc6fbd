//! Schema position of a strategic merge patch, with merge strategies and keys (upstream: PatchMetaFromStruct).

use kevel_api::quote::quote;
use kevel_api::schema::{Field, Scalar, Schema, Type};

use super::Error;

/// Type that is being merged.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cursor<'t> {
    schema: Schema<'t>,
    pointer: bool,
}

/// Merge strategy of a field.
#[derive(Clone, Copy, Debug)]
pub(super) struct Merge<'t> {
    pub(super) merge: bool,
    /// Whether a map replaces the original one.
    pub(super) replace: bool,
    /// Merge key; empty for a list of scalars.
    pub(super) key: &'t str,
}

impl<'t> Cursor<'t> {
    pub(super) fn root(schema: Schema<'t>) -> Self {
        Cursor { schema, pointer: false }
    }

    /// Type and merge strategy of a field.
    pub(super) fn field(self, key: &str) -> Result<(Cursor<'t>, Merge<'t>), Error> {
        let Some(structure) = self.schema.as_struct() else {
            return Err(Error::Other(match go_struct(self.schema) {
                Some(name) => no_such_field(name, key),
                None => format!(
                    "merging an object in json but data type is not struct, instead is: {}",
                    go_kind(self.schema)
                ),
            }));
        };
        // Like Go's JSON decoder, the reference falls back on a name in another case.
        let any_case = || structure.fields().find(|f| f.name().eq_ignore_ascii_case(key));
        let field = structure
            .field(key)
            .or_else(any_case)
            .ok_or_else(|| Error::Other(no_such_field(structure.name(), key)))?;
        let cursor = Cursor { schema: field.schema(), pointer: field.pointer() };
        Ok((cursor, merge_of(field, self.schema)))
    }

    /// Type of the elements of a list, with its merge strategy.
    pub(super) fn list(self, key: &str) -> Result<(Cursor<'t>, Merge<'t>), Error> {
        let (field, merge) = self.field(key)?;
        match field.schema.item() {
            Some(item) if matches!(item.ty(), Type::List { .. }) => {
                Err(Error::other("unexpected slice of slice"))
            }
            Some(item) => Ok((Cursor { schema: item, pointer: false }, merge)),
            None if field.pointer || field.schema.scalar() == Some(Scalar::Bytes) => {
                Ok((field, merge))
            }
            None => {
                let kind = self.go_kind();
                Err(Error::Other(format!("expected slice or array type, but got: {kind}")))
            }
        }
    }

    /// Go kind of the type: `struct`, `ptr`.
    pub(super) fn go_kind(self) -> &'static str {
        if self.pointer { "ptr" } else { go_kind(self.schema) }
    }
}

fn merge_of<'t>(field: Field<'t>, parent: Schema<'t>) -> Merge<'t> {
    match field.merge() {
        Some(entry) => Merge {
            merge: entry.merge,
            replace: !entry.merge && !entry.retain_keys,
            key: parent.table().str(entry.key),
        },
        None => Merge { merge: false, replace: false, key: "" },
    }
}

fn no_such_field(structure: &str, key: &str) -> String {
    format!("unable to find api field in struct {structure} for the json field {}", quote(key))
}

/// Name of a leaf type that is a struct in Go without JSON field names.
fn go_struct(schema: Schema<'_>) -> Option<&'static str> {
    match schema.scalar()? {
        Scalar::Raw => Some("RawExtension"),
        Scalar::Json => Some("JSON"),
        Scalar::FieldsV1 => Some("FieldsV1"),
        Scalar::Time => Some("Time"),
        Scalar::MicroTime => Some("MicroTime"),
        Scalar::Duration => Some("Duration"),
        Scalar::Quantity => Some("Quantity"),
        Scalar::IntOrString => Some("IntOrString"),
        _ => None,
    }
}

fn go_kind(schema: Schema<'_>) -> &'static str {
    match schema.ty() {
        Type::Struct(_) | Type::Union { .. } => "struct",
        Type::List { .. } => "slice",
        Type::Map { .. } => "map",
        Type::Any => "interface",
        Type::Scalar(scalar) => match scalar {
            Scalar::String => "string",
            Scalar::Bool => "bool",
            Scalar::Int32 => "int32",
            Scalar::Int64 => "int64",
            Scalar::Double => "float64",
            Scalar::Bytes => "slice",
            Scalar::Number | Scalar::Integer => "interface",
            _ => "struct",
        },
    }
}
