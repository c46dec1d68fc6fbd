//! Fields of a struct that the encoder writes.

use super::{Field, FieldFlags, Schema, Type};
use crate::value::Value;

impl Field<'_> {
    /// Whether the encoder writes a field of a built-in type with this value.
    pub fn is_written(self, value: Option<&Value>) -> bool {
        let Some(value) = value else { return self.flags().has(FieldFlags::WRITTEN_EMPTY) };
        let schema = self.schema();
        self.pointer()
            || match schema.ty() {
                Type::Struct(_) => !self.omit_zero() || !schema.is_zero_struct(value),
                Type::Scalar(scalar) if scalar.is_go_struct() => true,
                _ => self.always() || !value.is_empty(),
            }
    }
}

impl Schema<'_> {
    /// Whether a struct contains only empty structs.
    pub fn is_zero_struct(self, value: &Value) -> bool {
        let Value::Map(map) = value else { return value.is_null() };
        map.iter().all(|(key, value)| match self.field(key) {
            Some(field) => !field.pointer() && field.schema().is_zero_struct(value),
            None => true,
        })
    }
}
