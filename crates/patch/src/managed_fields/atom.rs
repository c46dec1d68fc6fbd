//! Ownership of types: as one value, as a map of fields, or as a list of elements (upstream: schema.Atom).

use compact_str::CompactString;
use kevel_api::schema::{
    BUILTIN, Constant, DefaultEntry, List, Scalar, Schema, StructFlags, StructSchema, Type,
};
use kevel_api::value::Value;

use super::path::{PathElement, same_values};

/// Type of a value.
#[derive(Clone, Copy, Debug)]
pub(super) enum TypeRef<'t> {
    Schema {
        schema: Schema<'t>,
        /// Whether an enclosing type preserves unknown fields.
        preserve: bool,
    },
    /// No type: maps are owned field by field, lists as one value.
    Deduced,
    /// No type: everything is owned as one value.
    Untyped,
}

/// Type resolved for a value, for types that allow several forms.
#[derive(Clone, Copy, Debug)]
pub(super) enum Atom<'t> {
    Scalar(ScalarType),
    List(ListType<'t>),
    Map(MapType<'t>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ScalarType {
    Numeric,
    String,
    Boolean,
    Untyped,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct MapType<'t> {
    structure: Option<StructSchema<'t>>,
    /// Type of fields that the schema does not name, if they are allowed.
    element: Option<TypeRef<'t>>,
    preserve: bool,
    pub(super) atomic: bool,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct ListType<'t> {
    pub(super) element: TypeRef<'t>,
    list: List,
    schema: Option<Schema<'t>>,
}

impl<'t> TypeRef<'t> {
    pub(super) fn of(schema: Schema<'t>) -> Self {
        TypeRef::Schema { schema, preserve: false }
    }

    /// Type resolved for a value; `None` is an absent value.
    pub(super) fn atom(self, value: Option<&Value>) -> Atom<'t> {
        match self {
            TypeRef::Deduced => open(value, TypeRef::Deduced, false),
            TypeRef::Untyped => open(value, TypeRef::Untyped, true),
            TypeRef::Schema { schema, preserve } => match schema.ty() {
                Type::Struct(_) => Atom::Map(MapType::of_struct(schema, preserve)),
                Type::Map { value, atomic } => Atom::Map(MapType {
                    structure: None,
                    element: Some(TypeRef::Schema { schema: schema.other(*value), preserve }),
                    preserve,
                    atomic: *atomic,
                }),
                Type::List { item, list, .. } => Atom::List(ListType {
                    element: TypeRef::Schema { schema: schema.other(*item), preserve },
                    list: *list,
                    schema: Some(schema),
                }),
                Type::Scalar(scalar) => scalar_atom(*scalar, value),
                Type::Union { .. } | Type::Any => open(value, TypeRef::Deduced, false),
            },
        }
    }

    /// Whether two values that are owned as a whole are equal: as Go structs, whose lists are compared by `DeepEqual`.
    pub(super) fn same_structs(self, old: &Value, new: &Value) -> bool {
        let TypeRef::Schema { schema, .. } = self else { return same_values(old, new) };
        match (schema.as_struct(), old, new) {
            _ if schema.is_custom() => same_values(old, new),
            (None, Value::List(_), Value::List(_)) => schema.deep_equal(old, new),
            (Some(structure), Value::Map(a), Value::Map(b)) => {
                let same = |((key, old), (other, new)): ((&str, &Value), (&str, &Value))| {
                    let field = structure.field(key).map(|field| TypeRef::of(field.schema()));
                    key == other && field.is_none_or(|field| field.same_structs(old, new))
                };
                a.len() == b.len() && a.iter().zip(b.iter()).all(same)
            }
            _ => same_values(old, new),
        }
    }

    /// Whether the type allows values of every form.
    pub(super) fn is_open(self) -> bool {
        match self {
            TypeRef::Deduced | TypeRef::Untyped => true,
            TypeRef::Schema { schema, .. } => match schema.ty() {
                Type::Union { .. } | Type::Any => true,
                Type::Scalar(scalar) => {
                    matches!(scalar, Scalar::Raw | Scalar::Json | Scalar::IntOrString)
                }
                _ => false,
            },
        }
    }
}

/// Resolves a type of every form for a value; an absent value is taken for a map.
fn open<'t>(value: Option<&Value>, element: TypeRef<'t>, atomic: bool) -> Atom<'t> {
    match value {
        Some(Value::List(_)) => {
            Atom::List(ListType { element: TypeRef::Untyped, list: List::Atomic, schema: None })
        }
        Some(Value::Map(_) | Value::Null) | None => {
            Atom::Map(MapType { structure: None, element: Some(element), preserve: false, atomic })
        }
        Some(_) => Atom::Scalar(ScalarType::Untyped),
    }
}

fn scalar_atom<'t>(scalar: Scalar, value: Option<&Value>) -> Atom<'t> {
    match scalar {
        Scalar::String | Scalar::Bytes | Scalar::Duration => Atom::Scalar(ScalarType::String),
        Scalar::Bool => Atom::Scalar(ScalarType::Boolean),
        Scalar::Int32 | Scalar::Int64 | Scalar::Double | Scalar::Number | Scalar::Integer => {
            Atom::Scalar(ScalarType::Numeric)
        }
        Scalar::Time | Scalar::MicroTime | Scalar::Quantity => Atom::Scalar(ScalarType::Untyped),
        Scalar::Raw => open(value, TypeRef::Untyped, true),
        Scalar::Json | Scalar::IntOrString => open(value, TypeRef::Deduced, false),
        Scalar::FieldsV1 => Atom::Map(MapType {
            structure: None,
            element: Some(TypeRef::Deduced),
            preserve: false,
            atomic: false,
        }),
    }
}

impl<'t> MapType<'t> {
    fn of_struct(schema: Schema<'t>, preserve: bool) -> Self {
        let structure = schema.as_struct();
        let flags = structure.map(StructSchema::flags).unwrap_or_default();
        let preserve = preserve || flags.has(StructFlags::PRESERVE_UNKNOWN);
        // An object without fields in its schema may have any.
        let free = preserve || structure.is_none_or(|s| s.entries().is_empty());
        MapType {
            structure,
            element: free.then_some(TypeRef::Deduced),
            preserve,
            atomic: flags.has(StructFlags::ATOMIC),
        }
    }

    /// Type of a field that the schema names.
    pub(super) fn field(&self, name: &str) -> Option<TypeRef<'t>> {
        let structure = self.structure?;
        if let Some(field) = structure.field(name) {
            return Some(TypeRef::Schema { schema: field.schema(), preserve: self.preserve });
        }
        // An embedded resource has these fields, whether its schema names them or not.
        if structure.flags().has(StructFlags::EMBEDDED) {
            let pod = kevel_api::builtin::schema("", "v1", "Pod")?;
            if let "apiVersion" | "kind" | "metadata" = name {
                let id = pod.field(name)?.schema().id();
                let schema = structure.other(id | BUILTIN);
                return Some(TypeRef::Schema { schema, preserve: self.preserve });
            }
        }
        None
    }

    /// Type of a field, named or not.
    pub(super) fn type_of(&self, name: &str) -> Option<TypeRef<'t>> {
        self.field(name).or(self.element)
    }

    /// Whether the map has no named fields and allows any.
    pub(super) fn is_deduced(&self) -> bool {
        let fieldless = self.structure.is_none_or(|s| s.entries().is_empty());
        fieldless && matches!(self.element, Some(TypeRef::Deduced))
    }
}

impl ListType<'_> {
    pub(super) fn is_atomic(&self) -> bool {
        self.list == List::Atomic
    }

    /// Path element that identifies an element of this list, which is not atomic.
    pub(super) fn element_of(&self, item: &Value) -> Result<PathElement, String> {
        match (self.list, self.schema) {
            (List::Map(_), Some(schema)) => keyed(schema, item),
            _ => match item {
                Value::Map(_) => {
                    Err("associative list without keys has an element that's a map type".into())
                }
                Value::List(_) => {
                    Err("not supported: associative list with lists as elements".into())
                }
                Value::Null => {
                    Err("associative list without keys has an element that's an explicit null"
                        .into())
                }
                scalar => Ok(PathElement::Value(scalar.clone())),
            },
        }
    }
}

fn keyed(list: Schema<'_>, item: &Value) -> Result<PathElement, String> {
    let map = match item {
        Value::Map(map) => map,
        Value::Null => return Err("associative list with keys may not have a null element".into()),
        _ => return Err("associative list with keys may not have non-map elements".into()),
    };
    let keys = || list.list_keys().into_iter().flatten();
    let mut fields: Vec<(CompactString, Value)> = keys()
        .filter_map(|key| {
            let value = map.get(key).cloned().or_else(|| key_default(list, key))?;
            Some((key.into(), value))
        })
        .collect();
    if fields.is_empty() {
        let quoted: Vec<_> = keys().map(kevel_api::quote::quote).collect();
        return Err(format!(
            "associative list with keys has an element that omits all key fields [{}] (and \
             doesn't have default values for any key fields)",
            quoted.join(" ")
        ));
    }
    fields.sort_by(|a, b| a.0.cmp(&b.0));
    Ok(PathElement::Key(fields))
}

/// Value of a missing key field: its default, or zero if it is always written.
fn key_default(list: Schema<'_>, key: &str) -> Option<Value> {
    let item = list.item()?;
    let field = item.field(key)?;
    let table = item.table();
    if let Some(DefaultEntry { value, when: None }) = field.default() {
        match value {
            Constant::Bool(bool) => return Some(Value::Bool(*bool)),
            Constant::Int(int) => return Some(Value::Int(*int)),
            Constant::Str(text) => return Some(Value::from(table.str(*text))),
            Constant::Value(index) => return table.values.get(*index as usize).cloned(),
            _ => {}
        }
    }
    if field.pointer() || !field.always() {
        return None;
    }
    match field.schema().scalar()? {
        Scalar::String => Some(Value::from("")),
        Scalar::Int32 | Scalar::Int64 => Some(Value::Int(0)),
        Scalar::Bool => Some(Value::Bool(false)),
        _ => None,
    }
}
