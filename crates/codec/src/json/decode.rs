//! JSON decoder: one pass over the text, directly into the tree.
//!
//! As in the reference, a value of a wrong type is recorded and decoding goes on, so that a syntax error is reported
//! first; an error of a type's own decoder goes before a wrong type, and strict errors count only if there is no other.

use std::borrow::Cow;

use compact_str::CompactString;
use kevel_api::schema::{
    Choice, Field, MAX_FIELDS, Scalar, Schema, StructFlags, StructSchema, Type,
};
use kevel_api::value::{Map, Value};
use thin_vec::ThinVec;

use super::MAX_DEPTH;
use super::custom::complete_strict_errors;
use super::error::{Error, StrictError, StrictErrors, StrictProblem};
use super::find::find;
use super::path::{Frame, Step};
use super::scan::{Scanner, Stop};
use super::text::text_of;
use crate::field_slots::FieldSlots;

/// A decoded document.
#[derive(Clone, Debug, PartialEq)]
pub struct Decoded {
    /// The object.
    pub value: Value,
    /// Unknown and duplicate fields, if requested: in the document's order; for a custom resource in the reference's
    /// order.
    pub strict: Vec<StrictError>,
}

/// Treatment of unknown and duplicate fields: an unknown one is always dropped, and a duplicate one always replaces or
/// is merged into the earlier one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unknown {
    /// Drops them silently.
    Ignore,
    /// Drops and reports them.
    Report,
}

/// Decodes a document of the given type.
///
/// Invalid UTF-8 becomes U+FFFD. Values of a custom resource are kept whatever their types: its validation checks them.
pub fn decode(input: &[u8], schema: Schema<'_>, fields: Unknown) -> Result<Decoded, Error> {
    let mut decoded = read(input, fields, |decoder| {
        let value = decoder.value(schema, &Frame::ROOT)?;
        Ok(if value.is_null() { zero(schema) } else { value })
    })?;
    if schema.is_custom() {
        complete_strict_errors(&mut decoded.strict, input);
    }
    Ok(decoded)
}

/// Decodes a document of any type: integers that fit are `Int`, other numbers `Float`.
pub fn decode_any(input: &[u8], fields: Unknown) -> Result<Decoded, Error> {
    read(input, fields, |decoder| decoder.any(&Frame::ROOT))
}

fn read<'t>(
    input: &[u8],
    fields: Unknown,
    root: impl FnOnce(&mut Decoder<'_, 't>) -> Result<Value, Stop>,
) -> Result<Decoded, Error> {
    let text = text_of(input);
    let mut decoder = Decoder::new(&text, fields == Unknown::Report);
    decoder.scan.skip_space();
    let read = root(&mut decoder).and_then(|value| decoder.scan.end().map(|()| value));
    let Ok(value) = read else {
        return Err(Error::Syntax(decoder.scan.error(input)));
    };
    match decoder.fatal.or(decoder.saved).or(decoder.embedded) {
        Some(error) => Err(Error::Value(error)),
        None => Ok(Decoded { value, strict: decoder.strict.into_vec() }),
    }
}

/// Limit on structs that get room for defaults.
const MAX_ROOMY: usize = 1 << 12;

/// Initial capacity of the value stack: still a small allocation.
const WAITING: usize = 40;

/// Limit on elements of a list that stay on the stack.
const CHUNK: usize = 1024;

/// Number of entries of a map that may be decoded before their keys are compared.
const MANY: usize = 1 << 16;

pub(super) struct Decoder<'a, 't> {
    pub(super) scan: Scanner<'a>,
    /// Whether strict errors are collected at the current position.
    pub(super) report: bool,
    /// First value of a wrong type.
    pub(super) saved: Option<String>,
    /// First error of a type's own decoder, after which Go stops.
    pub(super) fatal: Option<String>,
    /// First wrong type in `apiVersion`, `kind` or `metadata` of an embedded resource; they are checked after
    /// everything else.
    pub(super) embedded: Option<String>,
    pub(super) strict: StrictErrors,
    /// Fields, elements and entries of the enclosing values, innermost last: each struct, list and map is built at its
    /// end, in its final size.
    values: Vec<Value>,
    entries: Vec<Entry>,
    /// Number of entries that duplicate fields have carried over.
    pub(super) merged: usize,
    /// Number of structs that may still get room for defaults.
    roomy: usize,
    _types: std::marker::PhantomData<Schema<'t>>,
}

/// Entry of a map, with the position of its key.
#[derive(Debug)]
pub(super) struct Entry {
    key: CompactString,
    at: usize,
    value: Value,
}

impl<'a, 't> Decoder<'a, 't> {
    fn new(text: &'a str, report: bool) -> Self {
        Decoder {
            scan: Scanner::new(text),
            report,
            saved: None,
            fatal: None,
            embedded: None,
            strict: StrictErrors::default(),
            values: Vec::with_capacity(WAITING),
            entries: Vec::with_capacity(16),
            merged: 0,
            roomy: MAX_ROOMY,
            _types: std::marker::PhantomData,
        }
    }

    /// Decodes the value that begins here. `Null` stands for the type's zero value.
    pub(super) fn value(&mut self, schema: Schema<'t>, frame: &Frame<'_>) -> Result<Value, Stop> {
        if schema.is_custom() {
            return self.custom(schema, frame);
        }
        match (schema.ty(), self.scan.peek()) {
            (Type::Scalar(scalar), _) => self.scalar(*scalar, schema, frame),
            (Type::Struct(_), b'{') => self.structure(schema, frame, None).map(Value::Map),
            (Type::List { item, .. }, b'[') => {
                self.list(schema.other(*item), frame, None).map(Value::List)
            }
            (Type::Map { value, .. }, b'{') => {
                self.map(schema.other(*value), frame).map(Value::Map)
            }
            (Type::Union { object, other }, _) => self.union(schema, *object, *other, frame),
            (Type::Any, _) => self.any(frame),
            _ => self.other_or_null(schema, frame),
        }
    }

    /// Decodes a struct, merging it into an earlier occurrence.
    pub(super) fn structure(
        &mut self,
        schema: Schema<'t>,
        frame: &Frame<'_>,
        prior: Option<Map>,
    ) -> Result<Map, Stop> {
        let Some(structure) = schema.as_struct() else { return Ok(Map::new()) };
        self.scan.open(MAX_DEPTH)?;
        kevel_compute::charge(1);
        let mut slots = FieldSlots::above(&self.values);
        // A bit for each field that the document has named.
        let mut seen = 0u64;
        if let Some(prior) = prior {
            self.carry_over(prior, structure, &mut slots);
        }
        let mut more = self.scan.first(b'}');
        while more {
            let index = self.field_name(schema, structure, &mut seen, frame)?;
            if let Some(field) = structure.field_at(index) {
                let frame = frame.down(Step::Field(structure, field));
                if let Some(place) = slots.of(index) {
                    self.field_again(field, place, &frame)?;
                } else if !self.text_field(index, field, &mut slots)? {
                    self.field(index, field, &mut slots, &frame)?;
                }
            } else {
                self.scan.skip_value()?;
            }
            more = self.scan.next(b'}')?;
        }
        let room = self.room_for_defaults(structure);
        Ok(slots.take(structure, &mut self.values, room))
    }

    /// Number of fields by which a struct is likely to grow: a decoded object is usually defaulted next. The number of
    /// such structs is limited, as hostile documents have very many.
    #[inline]
    fn room_for_defaults(&mut self, structure: StructSchema<'t>) -> usize {
        const ROOM: usize = 4;
        if self.roomy == 0 || !structure.flags().has(StructFlags::DEFAULTS) {
            return 0;
        }
        self.roomy -= 1;
        ROOM
    }

    /// Decodes a key and the colon after it: the position of the named field, or a position that no field has.
    #[inline]
    fn field_name(
        &mut self,
        schema: Schema<'t>,
        structure: StructSchema<'t>,
        seen: &mut u64,
        frame: &Frame<'_>,
    ) -> Result<usize, Stop> {
        let at = self.scan.at();
        let key = self.scan.peek_key();
        let index = match find(schema, structure.entries(), key) {
            Some(index) => {
                self.scan.pass_key(key);
                index
            }
            None => self.odd_key(structure, frame)?.unwrap_or(usize::MAX),
        };
        self.scan.colon()?;
        if index >= MAX_FIELDS {
            return Ok(usize::MAX);
        }
        if *seen >> index & 1 != 0 && self.report {
            let path = || frame.path_to(structure.field_at(index).map_or("", Field::name));
            self.strict.add(at, StrictProblem::Duplicate, path);
        }
        *seen |= 1 << index;
        Ok(index)
    }

    /// Pushes the fields of an earlier occurrence of a struct.
    #[cold]
    fn carry_over(&mut self, prior: Map, structure: StructSchema<'t>, slots: &mut FieldSlots) {
        for (key, value) in prior.into_entries() {
            if let Some(index) = structure.position(&key) {
                slots.push(index, value, &mut self.values);
            }
        }
    }

    /// Decodes a key that is not plainly a field's name: it may have escapes, or is unknown.
    #[cold]
    fn odd_key(
        &mut self,
        structure: StructSchema<'t>,
        frame: &Frame<'_>,
    ) -> Result<Option<usize>, Stop> {
        let at = self.scan.at();
        let key = self.scan.key()?;
        let found = match &key {
            Cow::Borrowed(_) => None,
            Cow::Owned(unescaped) => structure.position(unescaped),
        };
        if found.is_none() && self.report {
            let problem = match frame.is_in_embedded_metadata() {
                true => StrictProblem::UnknownEmbedded,
                false => StrictProblem::Unknown,
            };
            self.strict.add(at, problem, || frame.unknown_path(&key));
        }
        Ok(found)
    }

    /// Decodes a string field, the most common kind, onto the stack; false if it is not a string.
    #[inline]
    fn text_field(
        &mut self,
        index: usize,
        field: Field<'t>,
        slots: &mut FieldSlots,
    ) -> Result<bool, Stop> {
        let text = matches!(field.schema().ty(), Type::Scalar(Scalar::String));
        if text && self.scan.peek() == b'"' {
            let text = self.scan.compact_string()?;
            if !text.is_empty() || field.pointer() {
                slots.push(index, Value::String(text), &mut self.values);
            }
            return Ok(true);
        }
        Ok(false)
    }

    /// Decodes a field's value onto the stack.
    #[inline]
    fn field(
        &mut self,
        index: usize,
        field: Field<'t>,
        slots: &mut FieldSlots,
        frame: &Frame<'_>,
    ) -> Result<(), Stop> {
        let schema = field.schema();
        // Trees are built in their final place: copying a value that was just written is slow.
        let value = match (schema.ty(), self.scan.peek()) {
            (Type::Struct(_), b'{') => {
                let map = self.structure(schema, frame, None)?;
                slots.push(index, Value::Map(map), &mut self.values);
                return Ok(());
            }
            (Type::List { item, .. }, b'[') => {
                let items = self.list(schema.other(*item), frame, None)?;
                slots.push(index, Value::List(items), &mut self.values);
                return Ok(());
            }
            (_, b'n') if field.pointer() => return self.scan.literal("null"),
            (Type::Union { object, other }, _) => self.union(schema, *object, *other, frame)?,
            _ => self.value(schema, frame)?,
        };
        if !value.is_null() && (field.pointer() || !is_zero(&value, schema)) {
            slots.push(index, value, &mut self.values);
        } else if field.pointer()
            && matches!(schema.scalar(), Some(Scalar::Time | Scalar::MicroTime))
        {
            // A pointer to the zero time is present, though it is written as null.
            slots.push_null(index, &mut self.values);
        }
        Ok(())
    }

    /// Decodes a field's value into the slot of an earlier occurrence.
    #[cold]
    fn field_again(
        &mut self,
        field: Field<'t>,
        place: usize,
        frame: &Frame<'_>,
    ) -> Result<(), Stop> {
        let schema = field.schema();
        let mut value = if field.pointer() && self.scan.peek() == b'n' {
            self.scan.literal("null").map(|()| Value::Null)?
        } else {
            let prior = std::mem::take(&mut self.values[place]);
            self.value_over(prior, schema, frame)?
        };
        if !field.pointer() && is_zero(&value, schema) {
            value = Value::Null;
        }
        self.values[place] = value;
        Ok(())
    }

    pub(super) fn list(
        &mut self,
        item: Schema<'t>,
        frame: &Frame<'_>,
        mut priors: Option<ThinVec<Value>>,
    ) -> Result<ThinVec<Value>, Stop> {
        self.items(frame, |decoder, i, frame| {
            let prior = priors.as_mut().and_then(|priors| priors.get_mut(i)).map(std::mem::take);
            let value = match (item.ty(), decoder.scan.peek(), prior) {
                // Trees and strings are built in their final place, as in [`Decoder::field`].
                (Type::Struct(_), b'{', None) => {
                    let map = decoder.structure(item, frame, None)?;
                    decoder.values.push(Value::Map(map));
                    return Ok(());
                }
                (Type::Scalar(Scalar::String), b'"', _) => {
                    let text = decoder.scan.compact_string()?;
                    decoder.values.push(Value::String(text));
                    return Ok(());
                }
                (_, _, Some(prior)) => decoder.value_over(prior, item, frame)?,
                (_, _, None) => decoder.value(item, frame)?,
            };
            decoder.values.push(if value.is_null() { zero(item) } else { value });
            Ok(())
        })
    }

    /// Decodes the elements of a list up to its end, each pushed by `read`.
    pub(super) fn items(
        &mut self,
        frame: &Frame<'_>,
        mut read: impl FnMut(&mut Self, usize, &Frame<'_>) -> Result<(), Stop>,
    ) -> Result<ThinVec<Value>, Stop> {
        self.scan.open(MAX_DEPTH)?;
        let base = self.values.len();
        let mut items = ThinVec::new();
        let mut more = self.scan.first(b']');
        while more {
            kevel_compute::charge(1);
            let i = items.len() + self.values.len() - base;
            read(self, i, &frame.down(Step::Index(i)))?;
            more = self.scan.next(b']')?;
            // A long list is not held twice, and a short one takes no more room than it needs.
            let waiting = self.values.len() - base;
            if !more || waiting == CHUNK {
                if items.is_empty() {
                    items.reserve_exact(waiting);
                }
                items.extend(self.values.drain(base..));
            }
        }
        Ok(items)
    }

    /// Pushes an element.
    pub(super) fn push(&mut self, value: Value) {
        self.values.push(value);
    }

    pub(super) fn map(&mut self, value: Schema<'t>, frame: &Frame<'_>) -> Result<Map, Stop> {
        self.entries(frame, |decoder, _, frame| {
            let read = decoder.value(value, frame)?;
            Ok(Some(if read.is_null() { zero(value) } else { read }))
        })
    }

    /// Decodes the entries of a map up to its end, each decoded (or skipped) by `read`; of equal keys the last one
    /// wins.
    pub(super) fn entries(
        &mut self,
        frame: &Frame<'_>,
        mut read: impl FnMut(&mut Self, usize, &Frame<'_>) -> Result<Option<Value>, Stop>,
    ) -> Result<Map, Stop> {
        self.scan.open(MAX_DEPTH)?;
        let base = self.entries.len();
        let mut limit = base + MANY;
        let mut more = self.scan.first(b'}');
        while more {
            kevel_compute::charge(1);
            let at = self.scan.at();
            let key = self.scan.key()?;
            self.scan.colon()?;
            if let Some(value) = read(self, at, &frame.down(Step::Key(&key)))? {
                self.entries.push(Entry { key: key.into(), at, value });
            }
            more = self.scan.next(b'}')?;
            // Duplicate keys are dropped before more memory is used.
            if self.entries.len() == limit {
                self.sort_entries(base, frame);
                limit += self.entries.len() - base;
            }
        }
        self.sort_entries(base, frame);
        let mut map = ThinVec::with_capacity(self.entries.len() - base);
        map.extend(self.entries.drain(base..).map(|entry| (entry.key, entry.value)));
        Ok(Map::from_sorted(map))
    }

    /// Sorts the entries above `base` by key; of equal keys the last one stays.
    fn sort_entries(&mut self, base: usize, frame: &Frame<'_>) {
        let entries = &mut self.entries[base..];
        if entries.is_sorted_by(|a, b| a.key < b.key) {
            return;
        }
        // A stable sort keeps the last of equal keys last, and is fast on partly sorted input.
        entries.sort_by(|a, b| a.key.cmp(&b.key));
        let mut kept = base;
        let mut told = false;
        for i in base + 1..self.entries.len() {
            if self.entries[i].key != self.entries[kept].key {
                kept += 1;
                told = false;
            } else if self.report && !told {
                let Entry { key, at, .. } = &self.entries[i];
                self.strict.add(*at, StrictProblem::Duplicate, || frame.path_to(key));
                told = true;
            }
            self.entries.swap(kept, i);
        }
        self.entries.truncate(kept + 1);
    }

    /// Decodes a type with its own decoder in Go, which decodes the object or list form separately: an error inside
    /// ends decoding, and unknown fields inside are not reported.
    fn union(
        &mut self,
        schema: Schema<'t>,
        object: Choice,
        other: Choice,
        frame: &Frame<'_>,
    ) -> Result<Value, Stop> {
        let other = schema.other(other.ty);
        let chosen = match (self.scan.peek(), other.ty()) {
            (b'{', _) => schema.other(object.ty),
            (b'[', Type::List { .. }) | (b't' | b'f', Type::Scalar(Scalar::Bool)) => other,
            (_, Type::Scalar(_)) => {
                self.reject("boolean or JSON schema expected".to_owned());
                self.scan.skip_value()?;
                return Ok(Value::Null);
            }
            _ => {
                self.scan.skip_value()?;
                return Ok(Value::Null);
            }
        };
        let report = std::mem::replace(&mut self.report, false);
        let saved = self.saved.take();
        let frame = frame.down(Step::Union);
        let value = match (chosen.ty(), self.scan.peek()) {
            (Type::Struct(_), b'{') => Value::Map(self.structure(chosen, &frame, None)?),
            _ => self.value(chosen, &frame)?,
        };
        if let Some(error) = std::mem::replace(&mut self.saved, saved) {
            self.reject(error);
        }
        self.report = report;
        Ok(value)
    }

    /// Decodes a value that does not have the type's form: `null`, or a wrong type.
    #[cold]
    pub(super) fn other_or_null(
        &mut self,
        schema: Schema<'t>,
        frame: &Frame<'_>,
    ) -> Result<Value, Stop> {
        let found = self.scan.describe();
        self.scan.skip_value()?;
        if found != "null" {
            self.mismatch(found, || frame.go_type(schema), frame);
        }
        Ok(Value::Null)
    }

    /// Records that a value does not have the expected Go type.
    pub(super) fn mismatch(&mut self, found: &str, go: impl FnOnce() -> String, frame: &Frame<'_>) {
        if self.saved.is_none() {
            self.saved = Some(frame.type_error(found, &go()));
        }
    }

    /// Records an error without a position.
    pub(super) fn save(&mut self, error: String) {
        self.saved.get_or_insert(error);
    }

    /// Records an error of a type's own decoder.
    pub(super) fn reject(&mut self, error: String) {
        self.fatal.get_or_insert(error);
    }
}

/// Whether a field with this value is left out.
#[inline]
pub(crate) fn is_zero(value: &Value, schema: Schema<'_>) -> bool {
    match value {
        Value::Null | Value::Bool(false) | Value::Int(0) => true,
        Value::Float(f) => *f == 0.0,
        // Empty bytes are not `null`, and the zero of an int-or-string is 0.
        Value::String(s) => s.is_empty() && schema.scalar() == Some(Scalar::String),
        _ => false,
    }
}

/// Go's zero value of an element.
pub(crate) fn zero(schema: Schema<'_>) -> Value {
    match schema.ty() {
        Type::Struct(_) => Value::Map(Map::new()),
        Type::Scalar(scalar) => match scalar {
            Scalar::String => Value::String(CompactString::default()),
            Scalar::Bool => Value::Bool(false),
            Scalar::Int32 | Scalar::Int64 | Scalar::IntOrString => Value::Int(0),
            Scalar::Double => Value::Float(0.0),
            Scalar::Quantity => Value::String(CompactString::const_new("0")),
            Scalar::Duration => Value::String(CompactString::const_new("0s")),
            _ => Value::Null,
        },
        _ => Value::Null,
    }
}
