//! JSON of values in messages, as the reference prints Go structs.

use kevel_api::field_error::{BadValue, MAX_VALUE_BYTES, cut};
use kevel_api::json_string::write_json_string;
use kevel_api::schema::{
    Field, FieldFlags, InternalField, Place, Scalar, Schema, StructSchema, Type,
};
use kevel_api::value::{Map, Value};

use super::encode::encode_any;
use super::float::write_float;
use super::raw::{compacted, write_raw};

/// Go structs that the reference prints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Internal types, which most validation uses: without JSON names, all fields.
    Internal,
    /// Versioned types, into which objects are decoded.
    Versioned,
}

/// Value of a type as JSON, written only as far as errors quote it ([`MAX_VALUE_BYTES`]). The text of a larger value is
/// cut somewhere after that.
///
/// ```
/// use kevel_api::field_error::Path;
/// use kevel_codec::json::{self, Form, message_text_as};
/// let pod = kevel_api::builtin::schema("", "v1", "Pod").unwrap();
/// let ports = Path::new("spec.containers");
/// let place = pod.place(&ports.index(0).child("ports")).unwrap();
/// let value = json::decode_any(br#"[{"name": "a"}]"#, json::Unknown::Report)?.value;
/// let text = |form| message_text_as(Some(&value), place, form);
/// assert_eq!(text(Form::Versioned), r#"[{"name":"a","containerPort":0}]"#);
/// assert_eq!(
///     text(Form::Internal),
///     r#"[{"Name":"a","HostPort":0,"ContainerPort":0,"Protocol":"","HostIP":""}]"#
/// );
/// # Ok::<(), json::Error>(())
/// ```
pub fn message_text_as(value: Option<&Value>, place: Place<'_>, form: Form) -> String {
    let mut writer = Writer { out: Vec::new(), form };
    let pointer = place.field.is_some_and(|field| writer.is_pointer(field));
    writer.value(value, place.schema, pointer, None);
    String::from_utf8(writer.out).unwrap_or_default()
}

struct Writer {
    out: Vec<u8>,
    form: Form,
}

/// Struct that encloses a value.
type Outer<'a> = Option<(&'a Map, StructSchema<'a>)>;

impl Writer {
    /// Whether no more of the value is needed.
    fn is_full(&self) -> bool {
        self.out.len() > MAX_VALUE_BYTES
    }

    fn is_internal(&self, structure: StructSchema<'_>) -> bool {
        self.form == Form::Internal && !structure.is_external()
    }

    fn is_pointer(&self, field: Field<'_>) -> bool {
        match self.form {
            Form::Internal => field.internal_pointer(),
            Form::Versioned => field.pointer(),
        }
    }

    fn value(
        &mut self,
        value: Option<&Value>,
        schema: Schema<'_>,
        pointer: bool,
        outer: Outer<'_>,
    ) {
        if self.is_full() {
            return;
        }
        let Some(value) = value.filter(|value| !value.is_null()) else {
            return if pointer { self.text("null") } else { self.zero(schema, outer) };
        };
        match (schema.ty(), value) {
            (Type::Struct(_), Value::Map(map)) => {
                let Some(structure) = schema.as_struct() else { return };
                self.text("{");
                self.fields(map, structure, outer);
                self.text("}");
            }
            (Type::List { item, .. }, Value::List(items)) => {
                self.list(items, |writer, value| {
                    writer.value(Some(value), schema.other(*item), false, None);
                });
            }
            (Type::Map { value: of, .. }, Value::Map(map)) => {
                self.map(map, |writer, value| {
                    writer.value(Some(value), schema.other(*of), false, None);
                });
            }
            (Type::Scalar(Scalar::Double), Value::Int(int)) => {
                write_float(*int as f64, &mut self.out);
            }
            _ => self.any(value),
        }
    }

    /// Writes Go's zero value of a type.
    fn zero(&mut self, schema: Schema<'_>, outer: Outer<'_>) {
        let zero = match schema.ty() {
            Type::Struct(_) => {
                return self.value(Some(&Value::Map(Map::new())), schema, false, outer);
            }
            Type::Scalar(scalar) => match scalar {
                Scalar::String => "\"\"",
                Scalar::Bool => "false",
                Scalar::Int32 | Scalar::Int64 | Scalar::Double | Scalar::IntOrString => "0",
                Scalar::Quantity => "\"0\"",
                Scalar::Duration => "\"0s\"",
                _ => "null",
            },
            _ => "null",
        };
        self.text(zero);
    }

    /// Writes the fields of a struct.
    fn fields(&mut self, map: &Map, structure: StructSchema<'_>, outer: Outer<'_>) {
        if !self.is_internal(structure) {
            let fields = structure.fields_in_order();
            return fields.into_iter().for_each(|field| self.tagged(map, field));
        }
        for field in structure.internal_fields() {
            match field {
                // TypeMeta and ObjectMeta have JSON names, and are inlined in the object's fields.
                InternalField::Own(field) if field.flags().has(FieldFlags::TYPE_META) => {
                    self.tagged(map, field);
                }
                InternalField::Own(field) if is_metadata(field) => {
                    let (metadata, none) =
                        (map.get("metadata").and_then(Value::as_map), Map::new());
                    if let Some(structure) = field.schema().as_struct() {
                        self.fields(metadata.unwrap_or(&none), structure, None);
                    }
                }
                InternalField::Own(field) => self.own(map, structure, field),
                InternalField::Outer(name) => {
                    let field = outer.and_then(|(_, structure)| structure.field(name));
                    if let (Some((map, structure)), Some(field)) = (outer, field) {
                        self.own(map, structure, field);
                    }
                }
                InternalField::Constant(name, value) => {
                    self.name(name);
                    self.text(value);
                }
            }
        }
    }

    /// Writes a field of the internal form.
    fn own(&mut self, map: &Map, structure: StructSchema<'_>, field: Field<'_>) {
        self.name(&field.go_name());
        let pointer = self.is_pointer(field);
        self.value(map.get(field.name()), field.schema(), pointer, Some((map, structure)));
    }

    /// Writes a field with a JSON name, if the reference writes it.
    fn tagged(&mut self, map: &Map, field: Field<'_>) {
        let (value, schema) = (map.get(field.name()), field.schema());
        let written = match value {
            None => field.flags().has(FieldFlags::WRITTEN_EMPTY),
            Some(_) if field.pointer() || field.always() => true,
            Some(value) => match schema.ty() {
                Type::Struct(_) => !(field.omit_zero() && schema.is_zero_struct(value)),
                Type::Scalar(scalar) if (*scalar).is_go_struct() => true,
                _ => !value.is_empty(),
            },
        };
        if written {
            self.name(field.name());
            self.value(value, schema, field.pointer(), None);
        }
    }

    /// Begins a field.
    fn name(&mut self, name: &str) {
        if !self.out.ends_with(b"{") {
            self.text(",");
        }
        write_json_string(&mut self.out, name);
        self.text(":");
    }

    fn list(&mut self, items: &[Value], mut write: impl FnMut(&mut Self, &Value)) {
        self.text("[");
        for (index, item) in items.iter().enumerate() {
            if self.is_full() {
                break;
            }
            if index > 0 {
                self.text(",");
            }
            write(self, item);
        }
        self.text("]");
    }

    fn map(&mut self, map: &Map, mut write: impl FnMut(&mut Self, &Value)) {
        self.text("{");
        for (key, value) in map.iter() {
            if self.is_full() {
                break;
            }
            self.name(&cut(MAX_VALUE_BYTES, key));
            write(self, value);
        }
        self.text("}");
    }

    /// Writes an untyped value.
    fn any(&mut self, value: &Value) {
        match value {
            _ if self.is_full() => {}
            Value::String(text) => write_json_string(&mut self.out, &cut(MAX_VALUE_BYTES, text)),
            Value::Raw(text) => {
                write_raw(&compacted(&cut(MAX_VALUE_BYTES, text)), &mut self.out);
            }
            Value::List(items) => self.list(items, Writer::any),
            Value::Map(map) => self.map(map, Writer::any),
            value => encode_any(value, &mut self.out),
        }
    }

    fn text(&mut self, text: &str) {
        self.out.extend_from_slice(text.as_bytes());
    }
}

/// Whether a field is the ObjectMeta of an object or template.
fn is_metadata(field: Field<'_>) -> bool {
    field.name() == "metadata"
        && field.schema().as_struct().is_some_and(|structure| structure.name() == "ObjectMeta")
}

/// Untyped value as a field error prints it.
pub fn bad_value(value: &Value) -> BadValue {
    match value {
        Value::Bool(value) => BadValue::from(*value),
        Value::Int(value) => BadValue::from(*value),
        Value::Float(value) => BadValue::from(*value),
        Value::String(text) => BadValue::from(text.as_str()),
        value => BadValue::Text(message_text(value)),
    }
}

/// Untyped value as JSON, written only as far as errors quote it.
pub fn message_text(value: &Value) -> String {
    let mut writer = Writer { out: Vec::new(), form: Form::Versioned };
    writer.any(value);
    String::from_utf8(writer.out).unwrap_or_default()
}
