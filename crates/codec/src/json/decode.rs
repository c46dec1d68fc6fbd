//! Reading: one pass over the text, straight into the tree.
//!
//! As in the reference, a value of a wrong type is noted and the rest is read on, so that a
//! document that is not JSON at all is told so first; what a type's own reader rejects counts
//! before that, and only a document that is right otherwise has its strict errors looked at.

use compact_str::CompactString;
use kevel_api::schema::{Choice, Field, Scalar, Schema, StructSchema, Type};
use kevel_api::value::{Map, Value};
use thin_vec::ThinVec;

use super::error::{Error, StrictError, StrictErrors, StrictProblem};
use super::path::{Frame, Step};
use super::scan::{Scanner, Stop, text_of};
use super::{MAX_DEPTH, MAX_MERGED, custom};

/// A document that was read.
#[derive(Clone, Debug, PartialEq)]
pub struct Decoded {
    pub value: Value,
    /// Unknown and duplicate fields in the document's order, where they were asked for.
    pub strict: Vec<StrictError>,
}

/// What becomes of unknown and duplicate fields: an unknown one is always dropped and a duplicate
/// one always replaces or is merged into the one before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unknown {
    Ignore,
    Report,
}

/// Reads a document of the given type.
///
/// Invalid UTF-8 reads as U+FFFD. A custom kind's values are kept whatever their types are:
/// checking them is its validation's part.
pub fn decode(input: &[u8], schema: Schema<'_>, fields: Unknown) -> Result<Decoded, Error> {
    read(input, fields, |decoder| {
        let value = decoder.value(schema, &Frame::ROOT)?;
        Ok(if value.is_null() { zero(schema) } else { value })
    })
}

/// Reads a document of any type: integers that fit are `Int`, other numbers `Float`.
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
    match decoder.fatal.or(decoder.saved) {
        Some(error) => Err(Error::Value(error)),
        None => Ok(Decoded { value, strict: decoder.strict.into_vec() }),
    }
}

pub(super) struct Decoder<'a, 't> {
    pub(super) scan: Scanner<'a>,
    /// Whether strict errors are wanted where the decoder is.
    pub(super) report: bool,
    /// The first value of a wrong type.
    saved: Option<String>,
    /// The first value that its type's own reader rejected; nothing is read behind it in Go.
    fatal: Option<String>,
    pub(super) strict: StrictErrors,
    /// Fields, entries and elements of what is being read, the innermost last: each list is made
    /// at its end, in its size.
    fields: Vec<(usize, Value)>,
    entries: Vec<Entry>,
    items: Vec<Value>,
    merged: usize,
    _types: std::marker::PhantomData<Schema<'t>>,
}

/// An entry of a map, and where its key stands.
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
            strict: StrictErrors::default(),
            fields: Vec::with_capacity(32),
            entries: Vec::with_capacity(16),
            items: Vec::with_capacity(16),
            merged: 0,
            _types: std::marker::PhantomData,
        }
    }

    /// The value that begins here. `Null` stands for the type's zero value.
    pub(super) fn value(&mut self, schema: Schema<'t>, frame: &Frame<'_>) -> Result<Value, Stop> {
        if custom::is_custom(schema) {
            return self.custom(schema, frame);
        }
        match (schema.ty(), self.scan.peek()) {
            (Type::Scalar(scalar), _) => self.scalar(*scalar, schema, frame),
            (Type::Struct(_), b'{') => self.structure(schema, frame, self.fields.len()),
            (Type::List { item, .. }, b'[') => self.list(schema.other(*item), frame, None),
            (Type::Map { value, .. }, b'{') => self.map(schema.other(*value), frame),
            (Type::Union { object, other }, _) => self.union(schema, *object, *other, frame),
            (Type::Any, _) => self.any(frame),
            _ => self.other_or_null(schema, frame),
        }
    }

    /// The value that begins here, read into what an earlier occurrence of its field left there,
    /// as Go does: structs and maps are merged, lists element by element.
    #[cold]
    fn value_over(
        &mut self,
        prior: Value,
        schema: Schema<'t>,
        frame: &Frame<'_>,
    ) -> Result<Value, Stop> {
        match (schema.ty(), self.scan.peek(), prior) {
            (Type::Struct(_), b'{', Value::Map(prior)) => {
                let base = self.fields.len();
                self.carry(prior.len());
                for (key, value) in prior.into_entries() {
                    if let Some(index) = schema.as_struct().and_then(|s| s.position(&key)) {
                        self.fields.push((index, value));
                    }
                }
                self.structure(schema, frame, base)
            }
            (Type::List { item, .. }, b'[', Value::List(prior)) => {
                self.carry(prior.len());
                self.list(schema.other(*item), frame, Some(prior))
            }
            (Type::Map { value, .. }, b'{', Value::Map(prior)) => {
                self.carry(prior.len());
                let Value::Map(map) = self.map(schema.other(*value), frame)? else {
                    return Ok(Value::Map(prior));
                };
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

    /// Reads a struct onto the fields above `base`, which an earlier occurrence may have left.
    fn structure(
        &mut self,
        schema: Schema<'t>,
        frame: &Frame<'_>,
        base: usize,
    ) -> Result<Value, Stop> {
        let Some(structure) = schema.as_struct() else { return Ok(Value::Null) };
        self.scan.open(MAX_DEPTH)?;
        let carried = self.fields.len() > base;
        let mut seen = Seen::default();
        let mut next = 0;
        let mut more = self.scan.first(b'}');
        while more {
            let at = self.scan.at();
            let key = self.scan.key()?;
            self.scan.colon()?;
            match find(structure, &key, next) {
                Some((index, field)) => {
                    next = index + 1;
                    let again = seen.again(index);
                    if again && self.report {
                        self.strict.add(at, StrictProblem::Duplicate, || frame.path_to(&key));
                    }
                    let slot = (again || carried)
                        .then(|| self.fields[base..].iter().position(|(i, _)| *i == index))
                        .flatten()
                        .map(|slot| base + slot);
                    let down = frame.down(Step::Field(structure, field));
                    self.field(index, field, slot, &down)?;
                }
                None => {
                    if self.report {
                        self.strict.add(at, StrictProblem::Unknown, || frame.path_to(&key));
                    }
                    self.scan.skip_value()?;
                }
            }
            more = self.scan.next(b'}')?;
        }
        Ok(Value::Map(self.take_fields(structure, base)))
    }

    /// Reads a field's value onto the stack, or into the slot that an earlier one left there.
    #[inline]
    fn field(
        &mut self,
        index: usize,
        field: Field<'t>,
        slot: Option<usize>,
        frame: &Frame<'_>,
    ) -> Result<(), Stop> {
        let schema = field.schema();
        let mut value = if field.pointer() && self.scan.peek() == b'n' {
            self.scan.literal("null").map(|()| Value::Null)?
        } else if let Some(prior) = slot.map(|slot| std::mem::take(&mut self.fields[slot].1)) {
            self.value_over(prior, schema, frame)?
        } else {
            self.value(schema, frame)?
        };
        if !field.pointer() && is_zero(&value, schema) {
            value = Value::Null;
        }
        match slot {
            Some(slot) => self.fields[slot].1 = value,
            None if value.is_null() => {}
            None => self.fields.push((index, value)),
        }
        Ok(())
    }

    /// Takes the fields above `base` off the stack, sorted by name.
    fn take_fields(&mut self, structure: StructSchema<'t>, base: usize) -> Map {
        let fields = &mut self.fields[base..];
        // Names are sorted in the schema, so that an index is as good as a name.
        if !fields.is_sorted_by(|a, b| a.0 < b.0) {
            fields.sort_unstable_by_key(|(index, _)| *index);
        }
        let mut entries = ThinVec::with_capacity(fields.len());
        for (index, value) in self.fields.drain(base..) {
            if let (Some(field), false) = (structure.field_at(index), value.is_null()) {
                entries.push((field.key(), value));
            }
        }
        Map::from_sorted(entries)
    }

    fn list(
        &mut self,
        item: Schema<'t>,
        frame: &Frame<'_>,
        mut priors: Option<ThinVec<Value>>,
    ) -> Result<Value, Stop> {
        let items = self.items(frame, |decoder, i, frame| {
            let prior = priors.as_mut().and_then(|priors| priors.get_mut(i)).map(std::mem::take);
            let value = match prior {
                Some(prior) => decoder.value_over(prior, item, frame)?,
                None => decoder.value(item, frame)?,
            };
            Ok(if value.is_null() { zero(item) } else { value })
        })?;
        Ok(Value::List(items))
    }

    /// The elements from here to the end of a list, each read by `read`.
    pub(super) fn items(
        &mut self,
        frame: &Frame<'_>,
        mut read: impl FnMut(&mut Self, usize, &Frame<'_>) -> Result<Value, Stop>,
    ) -> Result<ThinVec<Value>, Stop> {
        self.scan.open(MAX_DEPTH)?;
        let base = self.items.len();
        let mut more = self.scan.first(b']');
        while more {
            let i = self.items.len() - base;
            let value = read(self, i, &frame.down(Step::Index(i)))?;
            self.items.push(value);
            more = self.scan.next(b']')?;
        }
        let mut items = ThinVec::with_capacity(self.items.len() - base);
        items.extend(self.items.drain(base..));
        Ok(items)
    }

    fn map(&mut self, value: Schema<'t>, frame: &Frame<'_>) -> Result<Value, Stop> {
        let map = self.entries(frame, |decoder, _, frame| {
            let read = decoder.value(value, frame)?;
            Ok(Some(if read.is_null() { zero(value) } else { read }))
        })?;
        Ok(Value::Map(map))
    }

    /// The entries from here to the end of a map, each read (or passed over) by `read`; of equal
    /// keys the last one wins.
    pub(super) fn entries(
        &mut self,
        frame: &Frame<'_>,
        mut read: impl FnMut(&mut Self, usize, &Frame<'_>) -> Result<Option<Value>, Stop>,
    ) -> Result<Map, Stop> {
        self.scan.open(MAX_DEPTH)?;
        let base = self.entries.len();
        let mut more = self.scan.first(b'}');
        while more {
            let at = self.scan.at();
            let key = self.scan.key()?;
            self.scan.colon()?;
            if let Some(value) = read(self, at, &frame.down(Step::Key(&key)))? {
                self.entries.push(Entry { key: key.into(), at, value });
            }
            more = self.scan.next(b'}')?;
        }
        Ok(self.take_entries(base, frame))
    }

    fn take_entries(&mut self, base: usize, frame: &Frame<'_>) -> Map {
        let entries = &mut self.entries[base..];
        let sorted = entries.is_sorted_by(|a, b| a.key < b.key);
        if !sorted {
            entries.sort_by(|a, b| a.key.cmp(&b.key));
            if self.report {
                for pair in entries.windows(2) {
                    if pair[0].key == pair[1].key {
                        let path = || frame.path_to(&pair[1].key);
                        self.strict.add(pair[1].at, StrictProblem::Duplicate, path);
                    }
                }
            }
        }
        let mut taken = ThinVec::with_capacity(entries.len());
        taken.extend(self.entries.drain(base..).map(|entry| (entry.key, entry.value)));
        if sorted { Map::from_sorted(taken) } else { Map::from_entries(taken) }
    }

    /// A type with a reader of its own in Go, that reads the object or list form anew: what is
    /// wrong inside ends the reading, and unknown fields inside are nobody's business.
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
        let value = self.value(chosen, &frame.down(Step::Union))?;
        if let Some(error) = std::mem::replace(&mut self.saved, saved) {
            self.reject(error);
        }
        self.report = report;
        Ok(value)
    }

    /// What is not the type's own form: `null`, or something wrong.
    #[cold]
    pub(super) fn other_or_null(
        &mut self,
        schema: Schema<'t>,
        frame: &Frame<'_>,
    ) -> Result<Value, Stop> {
        let found = self.scan.describe();
        self.scan.skip_value()?;
        if found != "null" {
            self.mismatch(found, &frame.go_type(schema), frame);
        }
        Ok(Value::Null)
    }

    /// Notes that a value is not of the Go type that belongs here.
    pub(super) fn mismatch(&mut self, found: &str, go: &str, frame: &Frame<'_>) {
        if self.saved.is_none() {
            self.saved = Some(frame.type_error(found, go));
        }
    }

    /// Notes an error that has no place.
    pub(super) fn save(&mut self, error: String) {
        self.saved.get_or_insert(error);
    }

    /// Notes what a type's own reader says.
    pub(super) fn reject(&mut self, error: String) {
        self.fatal.get_or_insert(error);
    }

    fn carry(&mut self, entries: usize) {
        self.merged += entries;
        if self.merged > MAX_MERGED {
            self.reject("too many duplicate fields".to_owned());
        }
    }
}

/// The field of this name. Documents mostly come in the order of names or of the reference's
/// writer; the former is tried first.
#[inline]
fn find<'t>(structure: StructSchema<'t>, key: &str, next: usize) -> Option<(usize, Field<'t>)> {
    if let Some(field) = structure.field_at(next)
        && field.name() == key
    {
        return Some((next, field));
    }
    let index = structure.position(key)?;
    Some((index, structure.field_at(index)?))
}

/// Which of a struct's fields have been seen.
#[derive(Default)]
struct Seen {
    low: u128,
    /// The indexes that the set has no bit for.
    high: Vec<usize>,
}

impl Seen {
    /// Marks a field: whether it was marked before.
    #[inline]
    fn again(&mut self, index: usize) -> bool {
        if index < 128 {
            let bit = 1 << index;
            let again = self.low & bit != 0;
            self.low |= bit;
            return again;
        }
        let again = self.high.contains(&index);
        if !again {
            self.high.push(index);
        }
        again
    }
}

/// Whether `null` leaves what an earlier occurrence of the field set.
fn null_keeps(ty: &Type, prior: &Value) -> bool {
    match ty {
        Type::Struct(_) => true,
        Type::Scalar(scalar) => match scalar {
            Scalar::String | Scalar::Bool | Scalar::Int32 | Scalar::Int64 | Scalar::Double => true,
            Scalar::Raw | Scalar::Json | Scalar::FieldsV1 => true,
            // Go's reader clears the number, but not the text it keeps beside it.
            Scalar::Quantity => true,
            Scalar::IntOrString => prior.as_int().is_some(),
            _ => false,
        },
        _ => false,
    }
}

/// Whether a field of this type need not be kept.
#[inline]
fn is_zero(value: &Value, schema: Schema<'_>) -> bool {
    match value {
        Value::Null | Value::Bool(false) | Value::Int(0) => true,
        Value::Float(f) => *f == 0.0,
        // Bytes that are there but empty are not `null`, and an int-or-string's zero is 0.
        Value::String(s) => s.is_empty() && schema.scalar() == Some(Scalar::String),
        _ => false,
    }
}

/// Go's zero value of an element.
fn zero(schema: Schema<'_>) -> Value {
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
