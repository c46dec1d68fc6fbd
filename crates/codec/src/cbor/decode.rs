//! Objects of built-in types.

use kevel_api::schema::{Choice, Field, MAX_FIELDS, Scalar, Schema, Type};
use kevel_api::value::{Map, Value};

use super::Unknown;
use super::any::{NullEntry, integer, simple};
use super::error::{Error, Major, Result, TypeError};
use super::fields::in_field;
use super::head::{FALSE, ItemHead, TRUE};
use super::reader::CborReader;
use crate::field_slots::FieldSlots;
use crate::json::{Frame, Step, is_zero, zero};

/// An object that was read.
#[derive(Clone, Debug, PartialEq)]
pub struct DecodedCbor {
    /// The object.
    pub value: Value,
    /// A field that is not known, where that was asked for: the first one of the first map that has one.
    pub strict: Option<Error>,
}

/// Reads an object of a built-in type. Fields that it does not know are dropped; keys that are there twice are an error.
///
/// Custom kinds are read as values without a type ([`super::decode_any`]), and checked as what is read of JSON.
pub fn decode(
    input: &[u8],
    schema: Schema<'_>,
    fields: Unknown,
) -> std::result::Result<DecodedCbor, Error> {
    if fields == Unknown::Report {
        match read(input, schema, true) {
            Ok(value) => return Ok(DecodedCbor { value, strict: None }),
            Err(error) if !matches!(*error, Error::UnknownField(_)) => return Err(*error),
            Err(unknown) => {
                let value = read(input, schema, false).map_err(|error| *error)?;
                return Ok(DecodedCbor { value, strict: Some(*unknown) });
            }
        }
    }
    let value = read(input, schema, false).map_err(|error| *error)?;
    Ok(DecodedCbor { value, strict: None })
}

fn read(input: &[u8], schema: Schema<'_>, strict: bool) -> Result<Value> {
    let mut reader = CborReader::new(input, strict)?;
    let value = reader.value(schema, &Frame::ROOT)?;
    match reader.document {
        Some(error) => Err(error),
        None if value.is_null() => Ok(zero(schema)),
        None => Ok(value),
    }
}

impl CborReader<'_> {
    /// The next item as a value of a type. `Null` stands for the type's zero value.
    pub(super) fn value(&mut self, schema: Schema<'_>, frame: &Frame<'_>) -> Result<Value> {
        match schema.ty() {
            Type::Any | Type::Scalar(Scalar::Number | Scalar::Integer) => self.any(),
            Type::Scalar(scalar) if (*scalar).is_go_struct() => self.own_reader(*scalar),
            Type::Union { object, other } => self.union(schema, *object, *other, frame),
            _ => self.tagged(|reader| reader.plain(schema, frame)),
        }
    }

    /// An item without tags, as a value of a type that has no reader of its own.
    fn plain(&mut self, schema: Schema<'_>, frame: &Frame<'_>) -> Result<Value> {
        let major = Major::of(self.peek());
        let go = || frame.go_type(schema);
        match (schema.ty(), major) {
            (Type::Scalar(Scalar::String), Major::Bytes | Major::Text) => {
                self.text().map(Value::String)
            }
            (Type::Scalar(Scalar::Bytes), Major::Bytes) => self.base64(),
            (Type::Scalar(Scalar::Bytes), Major::Array) => self.byte_list(),
            (Type::Struct(_), Major::Map) => {
                self.down(|reader| reader.structure(schema, frame)).map(Value::Map)
            }
            (Type::List { item, .. }, Major::Array) => {
                let item = schema.other(*item);
                let frame = frame.down(Step::Index(0));
                let list = |reader: &mut Self| {
                    reader.list(|reader| {
                        let value = reader.value(item, &frame)?;
                        Ok(if value.is_null() { zero(item) } else { value })
                    })
                };
                self.down(list).map(Value::List)
            }
            (Type::Map { value, .. }, Major::Map) => {
                let value = schema.other(*value);
                let frame = frame.down(Step::Key(""));
                let null = match value.scalar() {
                    Some(Scalar::String | Scalar::Bool) => NullEntry::Last(zero(value)),
                    Some(Scalar::Int32 | Scalar::Int64 | Scalar::Double) => {
                        NullEntry::Last(zero(value))
                    }
                    _ => NullEntry::Value(zero(value)),
                };
                let map = |reader: &mut Self| {
                    reader.map(null, "string", |reader| reader.value(value, &frame))
                };
                self.down(map).map(Value::Map)
            }
            (Type::Struct(_), Major::Array) => {
                self.skip()?;
                let note = "cannot decode CBOR array to struct without toarray option";
                Err(TypeError::with_note(major, go(), note.to_owned()))
            }
            (_, Major::Unsigned | Major::Negative) => {
                let head = self.head()?;
                number(head, schema.scalar(), go)
            }
            (_, Major::Other) => {
                let head = self.head()?;
                primitive(simple(head)?, schema, go)
            }
            _ => Err(self.other_type(major, go())?),
        }
    }

    fn structure(&mut self, schema: Schema<'_>, frame: &Frame<'_>) -> Result<Map> {
        let Some(structure) = schema.as_struct() else { return self.skip().map(|()| Map::new()) };
        let mut slots = FieldSlots::above(&self.values);
        let position = |name: &str| structure.position(name).filter(|place| *place < MAX_FIELDS);
        let read = self.fields(position, |reader, position| {
            let Some(field) = structure.field_at(position) else { return reader.skip() };
            let down = frame.down(Step::Field(structure, field));
            let read = reader.field(position, field, &mut slots, &down);
            read.map_err(|error| {
                in_field(error, structure.package(), structure.name(), field.name())
            })
        });
        let map = slots.take(structure, &mut self.values, 0);
        read.map(|()| map)
    }

    fn field(
        &mut self,
        position: usize,
        field: Field<'_>,
        slots: &mut FieldSlots,
        frame: &Frame<'_>,
    ) -> Result<()> {
        if field.pointer() && self.at_null() {
            return self.skip();
        }
        let schema = field.schema();
        let value = self.value(schema, frame)?;
        if !value.is_null() && (field.pointer() || !is_zero(&value, schema)) {
            slots.push(position, value, &mut self.values);
        } else if field.pointer()
            && matches!(schema.scalar(), Some(Scalar::Time | Scalar::MicroTime))
        {
            // The zero time: a pointer to it is there, though it is written as null.
            slots.push_null(position, &mut self.values);
        }
        Ok(())
    }

    /// A type with a reader of its own in Go, which reads the object or list form again, and strictly.
    fn union(
        &mut self,
        schema: Schema<'_>,
        object: Choice,
        other: Choice,
        frame: &Frame<'_>,
    ) -> Result<Value> {
        self.pass_self_described()?;
        self.check_tags()?;
        let other = schema.other(other.ty);
        let chosen = match (Major::of(self.peek()), other.ty()) {
            (Major::Map, _) => schema.other(object.ty),
            (Major::Array, Type::List { .. }) => other,
            (Major::Other, Type::Scalar(_)) if matches!(self.peek() & 31, TRUE | FALSE) => other,
            (_, Type::Scalar(_)) => {
                self.skip()?;
                return Err(Error::Invalid("boolean or JSON schema expected".to_owned()).into());
            }
            _ => return self.skip().map(|()| Value::Null),
        };
        let frame = frame.down(Step::Union);
        self.inside(true, |reader| reader.value(chosen, &frame))
    }
}

/// A whole number as a value of a type.
pub(super) fn number(
    head: ItemHead,
    scalar: Option<Scalar>,
    go: impl FnOnce() -> String,
) -> Result<Value> {
    let (found, number) = (head.major, integer(head));
    let int = i64::try_from(number).ok();
    let fits = match scalar {
        // What is too small for any number is told so, whatever is wanted.
        _ if int.is_none() && found == Major::Negative => None,
        Some(Scalar::Int64) => int,
        Some(Scalar::Int32) => int.filter(|int| i32::try_from(*int).is_ok()),
        Some(Scalar::Double) => return Ok(Value::Float(number as f64)),
        _ => return Err(TypeError::boxed(found, go())),
    };
    fits.map(Value::Int).ok_or_else(|| {
        let go = go();
        let note = match int {
            None if found == Major::Negative => format!("{number} overflows Go's int64"),
            _ => format!("{number} overflows {go}"),
        };
        TypeError::with_note(found, go, note)
    })
}

/// True, false, null or a float as a value of a type.
fn primitive(value: Value, schema: Schema<'_>, go: impl FnOnce() -> String) -> Result<Value> {
    match (schema.ty(), &value) {
        (_, Value::Null)
        | (Type::Scalar(Scalar::Bool), Value::Bool(_))
        | (Type::Scalar(Scalar::Double), Value::Float(_)) => Ok(value),
        _ => Err(TypeError::boxed(Major::Other, go())),
    }
}
