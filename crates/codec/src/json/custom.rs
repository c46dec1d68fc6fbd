//! Decoding of custom resources: unknown fields are dropped unless the schema preserves them, and all other values are
//! kept, whatever their type; types are checked by validation.

use kevel_api::schema::{Scalar, Schema, StructFlags, StructSchema, Type};
use kevel_api::value::Value;

use super::decode::Decoder;
use super::error::{StrictError, StrictProblem};
use super::path::{Frame, Step};
use super::scan::Stop;
use super::{Unknown, decode_any};

/// Whether a scalar type accepts any value.
fn is_open(schema: Schema<'_>) -> bool {
    matches!(schema.scalar(), Some(Scalar::Raw | Scalar::Json | Scalar::FieldsV1))
}

impl<'t> Decoder<'_, 't> {
    pub(super) fn custom(&mut self, schema: Schema<'t>, frame: &Frame<'_>) -> Result<Value, Stop> {
        match (schema.ty(), self.scan.peek()) {
            (Type::Struct(_), b'{') => match schema.as_struct() {
                Some(structure) => self.custom_structure(structure, frame),
                None => self.any(frame),
            },
            (Type::Struct(_), _) if frame.is_root() => self.other_or_null(schema, frame),
            (Type::List { item, .. }, b'[') => {
                let item = schema.other(*item);
                let items = self.items(frame, |decoder, _, frame| {
                    let value = decoder.value(item, frame)?;
                    decoder.push(value);
                    Ok(())
                })?;
                Ok(Value::List(items))
            }
            (Type::Map { value, .. }, b'{') => {
                let value = schema.other(*value);
                let map =
                    self.entries(frame, |decoder, _, frame| decoder.value(value, frame).map(Some))?;
                Ok(Value::Map(map))
            }
            // An object in place of another type: its fields are unknown.
            (Type::List { .. } | Type::Scalar(_), b'{') if !is_open(schema) => {
                let map = self.entries(frame, |decoder, at, down| {
                    if decoder.report {
                        decoder
                            .strict
                            .add(at, StrictProblem::Unknown, || frame.path_to(down.key()));
                    }
                    decoder.scan.skip_value()?;
                    Ok(None)
                })?;
                Ok(Value::Map(map))
            }
            _ => self.any(frame),
        }
    }

    fn custom_structure(
        &mut self,
        structure: StructSchema<'t>,
        frame: &Frame<'_>,
    ) -> Result<Value, Stop> {
        let flags = structure.flags();
        let map = self.entries(frame, |decoder, at, down| {
            let key = down.key();
            if let Some(field) = structure.field(key) {
                let down = frame.down(Step::Field(structure, field));
                return match flags.has(StructFlags::EMBEDDED) {
                    true => decoder.resource_field(field, frame.is_root(), &down),
                    false => decoder.value(field.schema(), &down).map(Some),
                };
            }
            if flags.has(StructFlags::PRESERVE_UNKNOWN) {
                return decoder.any(down).map(Some);
            }
            if decoder.report {
                decoder.strict.add(at, StrictProblem::Unknown, || frame.path_to(key));
            }
            decoder.scan.skip_value()?;
            Ok(None)
        })?;
        Ok(Value::Map(map))
    }
}

/// Adds duplicate fields inside of unknown ones, which count everywhere, and sorts all in the order of the reference:
/// duplicate fields while it decodes, then unknown fields of the metadata, of the schema, and of embedded resources'
/// metadata, each by path.
pub(super) fn complete_strict_errors(strict: &mut Vec<StrictError>, input: &[u8]) {
    fn found_at(error: &StrictError) -> (u8, &str) {
        match error.problem {
            StrictProblem::Duplicate => (0, ""),
            StrictProblem::Unknown if error.path.starts_with("metadata.") => (1, &error.path),
            StrictProblem::Unknown => (2, &error.path),
            StrictProblem::UnknownEmbedded => (3, &error.path),
        }
    }
    let is_unknown = |error: &StrictError| error.problem != StrictProblem::Duplicate;
    if !strict.iter().any(is_unknown) {
        return;
    }
    if let Ok(all) = decode_any(input, Unknown::Report) {
        strict.retain(is_unknown);
        strict.splice(0..0, all.strict);
    }
    strict.sort_by(|a, b| found_at(a).cmp(&found_at(b)));
}
