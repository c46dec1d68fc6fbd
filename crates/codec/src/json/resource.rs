//! Decoding of the fields of every resource, in custom resources and in resources embedded in them: `apiVersion`,
//! `kind`, and `metadata`, which has a built-in type (upstream: schemaobjectmeta.Coerce).

use kevel_api::field_error::{FieldError, Path};
use kevel_api::schema::{Field, FieldFlags, Scalar, Schema, Type};
use kevel_api::value::{Map, Value};

use super::decode::Decoder;
use super::message::bad_value;
use super::path::Frame;
use super::scan::Stop;
use super::{Unknown, decode, decode_any};

impl<'t> Decoder<'_, 't> {
    /// Decodes a field of a resource. `None` if it counts as absent.
    pub(super) fn resource_field(
        &mut self,
        field: Field<'t>,
        is_root: bool,
        frame: &Frame<'_>,
    ) -> Result<Option<Value>, Stop> {
        match field.name() {
            "metadata" => self.metadata(field, is_root, frame),
            "apiVersion" | "kind" if !is_root => self.type_field(field, frame),
            _ => self.value(field.schema(), frame).map(Some),
        }
    }

    fn metadata(
        &mut self,
        field: Field<'t>,
        is_root: bool,
        frame: &Frame<'_>,
    ) -> Result<Option<Value>, Stop> {
        if self.scan.peek() == b'n' {
            self.scan.literal("null")?;
            let kept = is_root || keeps_null(field);
            return Ok(kept.then(|| Value::Map(Map::new())));
        }
        let schema = field.schema();
        let start = self.scan.at();
        let outside = (!is_root).then(|| (self.saved.take(), self.fatal.take()));
        let mut value = self.value(schema, frame)?;
        if let Some(outside) = outside {
            let wrong = self.saved.is_some() || self.fatal.is_some();
            (self.saved, self.fatal) = outside;
            if wrong {
                let text = self.scan.since(start).as_bytes();
                let why = decode(text, schema, Unknown::Ignore).err();
                self.refuse_embedded(text, why.map(|why| why.to_string()), frame);
            }
        }
        omit_empty(&mut value, schema);
        Ok(Some(value))
    }

    fn type_field(&mut self, field: Field<'t>, frame: &Frame<'_>) -> Result<Option<Value>, Stop> {
        let start = self.scan.at();
        let value = self.value(field.schema(), frame)?;
        match value {
            Value::String(_) => return Ok(Some(value)),
            Value::Null if !keeps_null(field) => return Ok(None),
            _ => {}
        }
        let text = self.scan.since(start).as_bytes();
        self.refuse_embedded(text, Some("must be a string".to_owned()), frame);
        Ok(Some(value))
    }

    /// Records that a value does not have the type of embedded resources there.
    #[cold]
    fn refuse_embedded(&mut self, text: &[u8], why: Option<String>, frame: &Frame<'_>) {
        if self.embedded.is_none() {
            let shown = decode_any(text, Unknown::Ignore).map(|read| read.value);
            let shown = bad_value(&shown.unwrap_or_default());
            let path = frame.field_path();
            let error = FieldError::invalid(&Path::new(&path), shown, why.unwrap_or_default());
            self.embedded = Some(error.to_string());
        }
    }
}

/// Whether `null` is kept: it is dropped only for a declared field without a default.
fn keeps_null(field: Field<'_>) -> bool {
    field.flags().has(FieldFlags::NULLABLE) || field.default().is_some()
}

/// Drops fields that Go does not write of a built-in struct, and adds those that it writes although empty: in the
/// reference metadata is a struct between decoding and becoming part of a tree again.
fn omit_empty(value: &mut Value, schema: Schema<'_>) {
    match (value, schema.ty()) {
        (Value::Map(map), Type::Struct(_)) => {
            map.retain(|name, value| {
                let Some(field) = schema.field(name) else { return true };
                let omitted = matches!(value, Value::Map(_) | Value::List(_) | Value::Null)
                    && !field.pointer()
                    && !field.always();
                omit_empty(value, field.schema());
                !omitted || !value.is_empty()
            });
            for field in schema.as_struct().into_iter().flat_map(|of| of.fields()) {
                if field.always() && field.schema().scalar() == Some(Scalar::String) {
                    map.entry_or_insert_with(field.name(), || "".into());
                }
            }
        }
        (Value::List(list), Type::List { item, .. }) => {
            list.iter_mut().for_each(|value| omit_empty(value, schema.other(*item)));
        }
        _ => {}
    }
}
