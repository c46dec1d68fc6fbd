//! Duplicate fields, which Go decodes into the value of the earlier occurrence.

use kevel_api::schema::{Scalar, Schema, Type};
use kevel_api::value::{Map, Value};

use super::decode::Decoder;
use super::path::Frame;
use super::scan::Stop;

/// Limit on the entries that duplicate fields carry over in one document. Only hostile input comes near it.
const MAX_MERGED: usize = 1 << 20;

impl<'t> Decoder<'_, 't> {
    /// Decodes the value that begins here into that of an earlier occurrence of its field: structs and maps are merged,
    /// lists element by element.
    #[cold]
    pub(super) fn value_over(
        &mut self,
        prior: Value,
        schema: Schema<'t>,
        frame: &Frame<'_>,
    ) -> Result<Value, Stop> {
        if self.merged > MAX_MERGED {
            self.reject("too many duplicate fields".to_owned());
            return self.value(schema, frame);
        }
        match (schema.ty(), self.scan.peek(), prior) {
            (Type::Struct(_), b'{', Value::Map(prior)) => {
                self.merged += prior.len();
                self.structure(schema, frame, Some(prior)).map(Value::Map)
            }
            (Type::List { item, .. }, b'[', Value::List(prior)) => {
                self.merged += prior.len();
                self.list(schema.other(*item), frame, Some(prior)).map(Value::List)
            }
            (Type::Map { value, .. }, b'{', Value::Map(prior)) => {
                self.merged += prior.len();
                let map = self.map(schema.other(*value), frame)?;
                let mut entries = prior.into_entries();
                entries.extend(map.into_entries());
                Ok(Value::Map(Map::from_entries(entries)))
            }
            (ty, b'n', prior) if null_keeps(ty, &prior) => {
                self.scan.literal("null").map(|()| prior)
            }
            _ => self.value(schema, frame),
        }
    }
}

/// Whether `null` for a repeated key keeps the earlier value.
fn null_keeps(ty: &Type, prior: &Value) -> bool {
    match ty {
        Type::Struct(_) => true,
        Type::Scalar(scalar) => match scalar {
            Scalar::String | Scalar::Bool | Scalar::Int32 | Scalar::Int64 | Scalar::Double => true,
            Scalar::Raw | Scalar::Json | Scalar::FieldsV1 => true,
            // Go's decoder clears the number, but not the text that it keeps beside it.
            Scalar::Quantity => true,
            Scalar::IntOrString => prior.as_int().is_some(),
            _ => false,
        },
        _ => false,
    }
}
