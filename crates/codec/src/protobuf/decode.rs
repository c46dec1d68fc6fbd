//! Protobuf decoder, in one pass.
//!
//! A member may occur anywhere and more than once: the last number or text counts, elements of lists and maps add up,
//! and messages merge. So values are kept by field until the message ends; as fields are sorted by name, so is the
//! resulting map.

use compact_str::CompactString;
use kevel_api::schema::{
    Choice, Field, MAX_FIELDS, Member, Role, Scalar, Schema, StructSchema, Type,
};
use kevel_api::value::{Map, Value};
use thin_vec::ThinVec;

use super::error::Result;
use super::wire::{self, DELIMITED, Key};
use super::{Error, go_name, scalar};
use crate::field_slots::FieldSlots;
use crate::json::MAX_DEPTH;

/// Limit on the structs of an object, unless it has eight bytes for each: four bytes can encode a struct that takes a
/// hundred in memory. (Real objects have twenty bytes per struct.)
const MAX_STRUCTS: usize = 3 << 17;

/// Limit on the numbers of a packed list: a byte can encode a number that takes twenty-four in memory. (No real list
/// has a thousandth of it.)
const MAX_PACKED: usize = 1 << 20;

/// Initial capacity of the stacks: still a small allocation.
const WAITING: usize = 40;

/// Decodes a message. Unknown members are dropped.
pub fn decode(input: &[u8], schema: Schema<'_>) -> std::result::Result<Value, Error> {
    let mut reader = Reader {
        values: Vec::with_capacity(WAITING),
        parts: Vec::with_capacity(WAITING),
        depth: 0,
        structs: MAX_STRUCTS.max(input.len() / 8),
    };
    reader.message(&[input], schema).map_err(|error| *error)
}

type Entry = (CompactString, Value);

struct Reader<'i> {
    /// Values of the enclosing structs, innermost last.
    values: Vec<Value>,
    /// Undecoded parts of them, by field position, that cannot be decoded before they are complete.
    parts: Vec<(usize, Parts<'i>)>,
    depth: usize,
    /// Number of structs that are still allowed.
    structs: usize,
}

/// A field that may continue further on.
enum Parts<'i> {
    /// Entries of a map, in order of arrival.
    Entries(ThinVec<Entry>),
    Message(&'i [u8]),
    Pieces(Vec<&'i [u8]>),
}

/// A struct that is being decoded.
struct Frame<'t> {
    of: StructSchema<'t>,
    values: FieldSlots,
    /// Start of its parts.
    parts: usize,
}

impl<'i> Reader<'i> {
    /// Decodes a message that may have come in pieces.
    fn message(&mut self, pieces: &[&'i [u8]], schema: Schema<'_>) -> Result<Value> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(Error::TooDeep.into());
        }
        let value = match schema.ty() {
            Type::Struct(_) => self.object(pieces, schema).map(Value::Map),
            Type::Union { object, other } => self.union(pieces, schema, *object, *other),
            Type::List { item, .. } => self.wrapped(pieces, schema.other(*item)),
            _ => Ok(Value::Null),
        };
        self.depth -= 1;
        value
    }

    fn object(&mut self, pieces: &[&'i [u8]], schema: Schema<'_>) -> Result<Map> {
        let Some(of) = schema.as_struct() else { return Ok(Map::new()) };
        if pieces.iter().all(|piece| piece.is_empty()) {
            return Ok(Map::new());
        }
        self.structs = self.structs.checked_sub(1).ok_or(Error::TooMany)?;
        let values = FieldSlots::above(&self.values);
        let mut frame = Frame { of, values, parts: self.parts.len() };
        for piece in pieces {
            self.members(piece, of, false, &mut frame)?;
        }
        self.collect(frame)
    }

    /// Decodes the members of a struct, or of one `inlined` in it, into the frame.
    fn members(
        &mut self,
        input: &'i [u8],
        of: StructSchema<'_>,
        inlined: bool,
        frame: &mut Frame<'_>,
    ) -> Result<()> {
        let members = of.members();
        let mut last = 0;
        wire::members(input, of.name(), |key, rest| {
            let Some(role) = find(members, &mut last, key.tag) else { return Ok(false) };
            match role {
                Role::Inline(id) => {
                    let Some(inner) = of.other(id).as_struct() else { return Ok(false) };
                    let bytes = key.delimited(rest, || inner.name().to_owned())?;
                    self.members(bytes, inner, true, frame)?;
                    Ok(true)
                }
                Role::Field(position) => {
                    let Some(field) = of.field_at(position.into()) else { return Ok(false) };
                    let position = if inlined {
                        frame.of.position(field.name())
                    } else {
                        Some(position.into())
                    };
                    let Some(position) = position.filter(|p| *p < MAX_FIELDS) else {
                        return Ok(false);
                    };
                    self.field(key, rest, field, frame, position)
                }
            }
        })
    }

    #[inline]
    fn field(
        &mut self,
        key: Key,
        rest: &mut &'i [u8],
        field: Field<'_>,
        frame: &mut Frame<'_>,
        position: usize,
    ) -> Result<bool> {
        let schema = field.schema();
        let ty = schema.ty();
        match ty {
            // Most members are strings, and most of those are empty.
            Type::Scalar(Scalar::String) => {
                let bytes = key.delimited(rest, || go_name::of_field(field))?;
                if !bytes.is_empty() || field.pointer() {
                    self.put(frame, position, Value::String(scalar::text(bytes)));
                } else {
                    self.clear(frame, position);
                }
            }
            Type::Scalar(of) => {
                key.expect(scalar::wire_type(*of), || go_name::of_field(field))?;
                let value = scalar::read(*of, rest)?;
                if !value.is_null() && (field.pointer() || !scalar::is_zero(*of, &value)) {
                    self.put(frame, position, value);
                } else {
                    self.clear(frame, position);
                }
            }
            Type::List { item, message: false, .. } => {
                let mut items = match self.value_of(frame, position) {
                    Some(Value::List(items)) => std::mem::take(items),
                    _ => ThinVec::new(),
                };
                self.items(key, rest, &mut items, field, schema.other(*item))?;
                self.put(frame, position, Value::List(items));
            }
            Type::Map { value, .. } => {
                let entry = self.entry(key, rest, field, schema.other(*value))?;
                self.add_entry(frame, position, entry);
            }
            Type::Struct(_) | Type::Union { .. } | Type::List { .. } => {
                let bytes = key.delimited(rest, || go_name::of_field(field))?;
                // Empty structs are frequent, and have no effect unless they are pointers.
                if !(bytes.is_empty() && matches!(ty, Type::Struct(_)) && !field.pointer()) {
                    self.add_piece(frame, position, bytes);
                }
            }
            Type::Any => return Ok(false),
        }
        Ok(true)
    }

    /// Value of a field that was decoded before.
    #[inline]
    fn value_of(&mut self, frame: &Frame<'_>, position: usize) -> Option<&mut Value> {
        self.values.get_mut(frame.values.of(position)?)
    }

    /// Sets a field's value.
    #[inline]
    fn put(&mut self, frame: &mut Frame<'_>, position: usize, value: Value) {
        match frame.values.of(position) {
            Some(place) => self.values[place] = value,
            None => frame.values.push(position, value, &mut self.values),
        }
    }

    /// Sets a field to absent. Most such values have no slot yet, and need none.
    #[inline]
    fn clear(&mut self, frame: &Frame<'_>, position: usize) {
        if let Some(known) = self.value_of(frame, position) {
            *known = Value::Null;
        }
    }

    fn add_piece(&mut self, frame: &Frame<'_>, position: usize, bytes: &'i [u8]) {
        match self.parts_of(frame, position) {
            None => self.parts.push((position, Parts::Message(bytes))),
            Some(Parts::Pieces(pieces)) => pieces.push(bytes),
            Some(found @ Parts::Message(_)) => {
                if let Parts::Message(first) = *found {
                    *found = Parts::Pieces(vec![first, bytes]);
                }
            }
            Some(Parts::Entries(_)) => {}
        }
    }

    fn add_entry(&mut self, frame: &Frame<'_>, position: usize, entry: Entry) {
        match self.parts_of(frame, position) {
            Some(Parts::Entries(entries)) => add_entry(entries, entry),
            _ => self.parts.push((position, Parts::Entries(ThinVec::from_iter([entry])))),
        }
    }

    fn parts_of(&mut self, frame: &Frame<'_>, position: usize) -> Option<&mut Parts<'i>> {
        let found = self.parts[frame.parts..].iter_mut().find(|(of, _)| *of == position);
        found.map(|(_, parts)| parts)
    }

    /// Builds a struct after all its members have been read.
    fn collect(&mut self, mut frame: Frame<'_>) -> Result<Map> {
        for parts in frame.parts..self.parts.len() {
            let nothing = Parts::Message(&[]);
            let position = self.parts[parts].0;
            let parts = std::mem::replace(&mut self.parts[parts].1, nothing);
            let Some(field) = frame.of.field_at(position) else { continue };
            let value = self.join(parts, field.schema())?;
            if !is_absent(&value, field) {
                self.put(&mut frame, position, value);
            }
        }
        self.parts.truncate(frame.parts);
        Ok(frame.values.take(frame.of, &mut self.values, 0))
    }

    /// Value of a field that came in parts.
    fn join(&mut self, parts: Parts<'i>, schema: Schema<'_>) -> Result<Value> {
        match parts {
            Parts::Entries(entries) => Ok(Value::Map(Map::from_entries(entries))),
            Parts::Message(bytes) => self.message(&[bytes], schema),
            Parts::Pieces(pieces) => self.message(&pieces, schema),
        }
    }

    /// Adds consecutive elements to a list, usually all of them.
    fn items(
        &mut self,
        key: Key,
        rest: &mut &'i [u8],
        items: &mut ThinVec<Value>,
        field: Field<'_>,
        item: Schema<'_>,
    ) -> Result<()> {
        let number = item.scalar().filter(|of| scalar::wire_type(*of) != DELIMITED);
        loop {
            match number {
                Some(of) if key.wire_type == DELIMITED => read_packed(rest, of, items)?,
                _ => items.push(self.item(key, rest, item, || go_name::of_field(field))?),
            }
            if !key.repeats(rest) {
                return Ok(());
            }
        }
    }

    /// Decodes an element of a list.
    fn item(
        &mut self,
        key: Key,
        rest: &mut &'i [u8],
        schema: Schema<'_>,
        name: impl FnOnce() -> String,
    ) -> Result<Value> {
        match schema.scalar() {
            Some(Scalar::String) => Ok(Value::String(scalar::text(key.delimited(rest, name)?))),
            Some(of) => {
                key.expect(scalar::wire_type(of), name)?;
                scalar::read(of, rest)
            }
            None => {
                let bytes = key.delimited(rest, name)?;
                self.nested(bytes, schema)
            }
        }
    }

    /// Decodes a message inside a list or map, which is a level of its own.
    fn nested(&mut self, bytes: &'i [u8], schema: Schema<'_>) -> Result<Value> {
        self.depth += 1;
        let value = self.message(&[bytes], schema);
        self.depth -= 1;
        value
    }

    /// Decodes an entry of a map; missing parts are zero.
    fn entry(
        &mut self,
        key: Key,
        rest: &mut &'i [u8],
        field: Field<'_>,
        schema: Schema<'_>,
    ) -> Result<Entry> {
        let (key, value) = read_entry(key.delimited(rest, || go_name::of_field(field))?)?;
        let value = match schema.scalar() {
            Some(Scalar::String) => Value::String(scalar::text(value)),
            Some(of) => scalar::read_bytes(of, value)?,
            None => self.nested(value, schema)?,
        };
        Ok((scalar::text(key), value))
    }

    /// Decodes a list that is a message with the items as its only member.
    fn wrapped(&mut self, pieces: &[&'i [u8]], item: Schema<'_>) -> Result<Value> {
        let mut items = ThinVec::new();
        for piece in pieces {
            wire::members(piece, "ExtraValue", |key, rest| {
                if key.tag == 1 {
                    items.push(self.item(key, rest, item, || "Items".to_owned())?);
                }
                Ok(key.tag == 1)
            })?;
        }
        Ok(Value::List(items))
    }

    fn union(
        &mut self,
        pieces: &[&'i [u8]],
        union: Schema<'_>,
        object: Choice,
        other: Choice,
    ) -> Result<Value> {
        let (object_schema, other_schema) = (union.other(object.ty), union.other(other.ty));
        let (mut objects, mut items, mut allows) = (Vec::new(), ThinVec::new(), Value::Null);
        for piece in pieces {
            wire::members(piece, go_name::of_union(other_schema), |key, rest| {
                if key.tag == i32::from(object.tag) {
                    objects.push(key.delimited(rest, || "Schema".to_owned())?);
                } else if key.tag != i32::from(other.tag) {
                    return Ok(false);
                } else if let Some(item) = other_schema.item() {
                    let name = if item.scalar().is_some() { "Property" } else { "JSONSchemas" };
                    items.push(self.item(key, rest, item, || name.to_owned())?);
                } else {
                    allows = self.item(key, rest, other_schema, || "Allows".to_owned())?;
                }
                Ok(true)
            })?;
        }
        Ok(if !items.is_empty() {
            Value::List(items)
        } else if !objects.is_empty() {
            self.message(&objects, object_schema)?
        } else if other_schema.scalar() == Some(Scalar::Bool) && allows.is_null() {
            Value::Bool(false)
        } else {
            allows
        })
    }
}

/// Member with a tag. Members usually come in order, so the last one (for elements of a list) and the next one are
/// checked first.
#[inline]
fn find(members: &[Member], last: &mut usize, tag: i32) -> Option<Role> {
    let tag = u16::try_from(tag).ok()?;
    let at = |at: usize| members.get(at).filter(|member| member.tag == tag);
    if let Some(member) = at(*last) {
        return Some(member.role);
    }
    if let Some(member) = at(*last + 1) {
        *last += 1;
        return Some(member.role);
    }
    *last = members.binary_search_by_key(&tag, |member| member.tag).ok()?;
    Some(members[*last].role)
}

/// Whether a field counts as absent: a struct that is no pointer is always written, so that an empty one does not
/// count.
fn is_absent(value: &Value, field: Field<'_>) -> bool {
    match value {
        Value::Map(map) => map.is_empty() && !field.pointer(),
        value => value.is_null(),
    }
}

/// Decodes packed numbers, which other writers than the reference may send.
fn read_packed(rest: &mut &[u8], of: Scalar, items: &mut ThinVec<Value>) -> Result<()> {
    let mut packed = wire::delimited(rest)?;
    while !packed.is_empty() {
        if items.len() == MAX_PACKED {
            return Err(Error::TooMany.into());
        }
        items.push(scalar::read(of, &mut packed)?);
    }
    Ok(())
}

/// Key and value of a map's entry, empty if missing.
fn read_entry(mut input: &[u8]) -> Result<(&[u8], &[u8])> {
    let (mut key, mut value): (&[u8], &[u8]) = (&[], &[]);
    while !input.is_empty() {
        let start = input;
        match (wire::varint(&mut input)? >> 3) as i32 {
            1 => key = wire::delimited(&mut input)?,
            2 => value = wire::delimited(&mut input)?,
            _ => {
                input = start;
                wire::skip(&mut input)?;
            }
        }
    }
    Ok((key, value))
}

/// Adds an entry to a map. Duplicate keys are removed before the memory grows, so that no more is used than the map
/// takes.
fn add_entry(entries: &mut ThinVec<Entry>, entry: Entry) {
    const MANY: usize = 1024;
    if let Some(last) = entries.last_mut().filter(|last| last.0 == entry.0) {
        *last = entry;
        return;
    }
    if entries.len() >= MANY && entries.len() == entries.capacity() {
        *entries = Map::from_entries(std::mem::take(entries)).into_entries();
        if entries.len() * 2 > entries.capacity() {
            entries.reserve(entries.len());
        }
    }
    entries.push(entry);
}
