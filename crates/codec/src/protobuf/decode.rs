//! Messages to values, in one pass.
//!
//! A member may stand anywhere and more than once: the last number or text counts, elements of
//! lists and maps add up, and messages merge. So what is found is kept by field until the message
//! ends; as fields are sorted by name, so is then the map.

use compact_str::CompactString;
use kevel_api::schema::{Choice, Field, Member, Role, Scalar, Schema, StructSchema, Type};
use kevel_api::value::{Map, Value};
use thin_vec::ThinVec;

use super::error::Result;
use super::wire::{self, DELIMITED, Key};
use super::{Error, go_name, scalar};
use crate::json::MAX_DEPTH;

/// How many structs an object may have, unless it is so large that they are eight bytes each: four
/// bytes can make one that takes a hundred. (Objects that people make have twenty bytes a struct.)
const MAX_STRUCTS: usize = 1 << 19;

/// The value of a message. Members that the schema does not know are dropped.
pub fn decode(input: &[u8], schema: Schema<'_>) -> std::result::Result<Value, Error> {
    let mut reader = Reader {
        slots: Vec::with_capacity(256),
        found: Vec::with_capacity(64),
        depth: 0,
        structs: MAX_STRUCTS.max(input.len() / 8),
    };
    reader.message(&[input], schema).map_err(|error| *error)
}

type Entry = (CompactString, Value);

struct Reader<'i> {
    /// For each field of each struct under way: where in `found` its value is, plus one.
    slots: Vec<u16>,
    found: Vec<Found<'i>>,
    depth: usize,
    /// How many more structs there may be.
    structs: usize,
}

/// What has been read of a field so far.
#[derive(Default)]
enum Found<'i> {
    #[default]
    Nothing,
    Value(Value),
    /// A map's entries, in the order in which they came.
    Entries(ThinVec<Entry>),
    /// A message, read when all that belongs to it has been found.
    Message(&'i [u8]),
    Pieces(Vec<&'i [u8]>),
}

/// A struct under way.
#[derive(Clone, Copy)]
struct Frame<'t> {
    of: StructSchema<'t>,
    slots: usize,
    found: usize,
}

impl<'i> Reader<'i> {
    /// A message that may have come in pieces.
    fn message(&mut self, pieces: &[&'i [u8]], schema: Schema<'_>) -> Result<Value> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(Error::TooDeep.into());
        }
        let value = match schema.ty() {
            Type::Struct(_) => self.object(pieces, schema),
            Type::Union { object, other } => self.union(pieces, schema, *object, *other),
            Type::List { item, .. } => self.wrapped(pieces, schema.other(*item)),
            _ => Ok(Value::Null),
        };
        self.depth -= 1;
        value
    }

    fn object(&mut self, pieces: &[&'i [u8]], schema: Schema<'_>) -> Result<Value> {
        let Some(of) = schema.as_struct() else { return Ok(Value::Null) };
        if pieces.iter().all(|piece| piece.is_empty()) {
            return Ok(Value::Map(Map::new()));
        }
        self.structs = self.structs.checked_sub(1).ok_or(Error::TooMany)?;
        let frame = Frame { of, slots: self.slots.len(), found: self.found.len() };
        self.slots.resize(frame.slots + of.entries().len(), 0);
        for piece in pieces {
            self.members(piece, of, false, frame)?;
        }
        self.collect(frame)
    }

    /// Reads the members of a struct, or of one `inlined` in it, into the frame.
    fn members(
        &mut self,
        input: &'i [u8],
        of: StructSchema<'_>,
        inlined: bool,
        frame: Frame<'_>,
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
                    let Some(position) = position else { return Ok(false) };
                    self.field(key, rest, field, frame, position)
                }
            }
        })
    }

    fn field(
        &mut self,
        key: Key,
        rest: &mut &'i [u8],
        field: Field<'_>,
        frame: Frame<'_>,
        position: usize,
    ) -> Result<bool> {
        let schema = field.schema();
        let ty = schema.ty();
        match ty {
            Type::Scalar(of) => {
                let value = read_scalar(key, rest, field, *of)?;
                self.set(frame, position, value);
            }
            Type::List { item, message: false, .. } => {
                let items = self.items(key, rest, frame, position, field, schema.other(*item))?;
                *self.slot(frame, position) = Found::Value(Value::List(items));
            }
            Type::Map { value, .. } => {
                let entry = self.entry(key, rest, field, schema.other(*value))?;
                add_entry(self.slot(frame, position), entry);
            }
            Type::Struct(_) | Type::Union { .. } | Type::List { .. } => {
                let bytes = key.delimited(rest, || go_name::of_field(field))?;
                // Empty structs are many, and say nothing unless they are pointers.
                if !(bytes.is_empty() && matches!(ty, Type::Struct(_)) && !field.pointer()) {
                    add_piece(self.slot(frame, position), bytes);
                }
            }
            Type::Any => return Ok(false),
        }
        Ok(true)
    }

    /// What has been found of a field.
    #[inline]
    fn slot(&mut self, frame: Frame<'_>, position: usize) -> &mut Found<'i> {
        let slot = &mut self.slots[frame.slots + position];
        if *slot == 0 {
            self.found.push(Found::Nothing);
            *slot = (self.found.len() - frame.found) as u16;
        }
        &mut self.found[frame.found + *slot as usize - 1]
    }

    /// Puts a scalar where the one before it was.
    #[inline]
    fn set(&mut self, frame: Frame<'_>, position: usize, value: Option<Value>) {
        match value {
            Some(value) => *self.slot(frame, position) = Found::Value(value),
            // Most zeros come alone, and need no place.
            None if self.slots[frame.slots + position] == 0 => {}
            None => *self.slot(frame, position) = Found::Nothing,
        }
    }

    /// A struct, once all its members have been read.
    fn collect(&mut self, frame: Frame<'_>) -> Result<Value> {
        let mut entries = ThinVec::with_capacity(self.found.len() - frame.found);
        for position in frame.slots..self.slots.len() {
            let slot = self.slots[position] as usize;
            if slot == 0 {
                continue;
            }
            if let Some(field) = frame.of.field_at(position - frame.slots) {
                let value = self.finish(frame.found + slot - 1, field.schema())?;
                push_field(&mut entries, field, value);
            }
        }
        self.slots.truncate(frame.slots);
        self.found.truncate(frame.found);
        Ok(Value::Map(Map::from_sorted(entries)))
    }

    /// The value of a field, once all of it has been found.
    fn finish(&mut self, found: usize, schema: Schema<'_>) -> Result<Value> {
        match std::mem::take(&mut self.found[found]) {
            Found::Nothing => Ok(Value::Null),
            Found::Value(value) => Ok(value),
            Found::Entries(entries) => Ok(Value::Map(Map::from_entries(entries))),
            Found::Message(bytes) => self.message(&[bytes], schema),
            Found::Pieces(pieces) => self.message(&pieces, schema),
        }
    }

    /// A list that has been found so far, with the elements that come now, mostly all of them.
    fn items(
        &mut self,
        key: Key,
        rest: &mut &'i [u8],
        frame: Frame<'_>,
        position: usize,
        field: Field<'_>,
        item: Schema<'_>,
    ) -> Result<ThinVec<Value>> {
        let mut items = match std::mem::take(self.slot(frame, position)) {
            Found::Value(Value::List(items)) => items,
            _ => ThinVec::new(),
        };
        let number = item.scalar().filter(|of| scalar::wire_type(*of) != DELIMITED);
        loop {
            match number {
                Some(of) if key.wire_type == DELIMITED => read_packed(rest, of, &mut items)?,
                _ => items.push(self.item(key, rest, item, || go_name::of_field(field))?),
            }
            if !key.repeats(rest) {
                return Ok(items);
            }
        }
    }

    /// An element of a list.
    fn item(
        &mut self,
        key: Key,
        rest: &mut &'i [u8],
        schema: Schema<'_>,
        name: impl FnOnce() -> String,
    ) -> Result<Value> {
        match schema.scalar() {
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

    /// A message inside a list or map, which is a level of its own.
    fn nested(&mut self, bytes: &'i [u8], schema: Schema<'_>) -> Result<Value> {
        self.depth += 1;
        let value = self.message(&[bytes], schema);
        self.depth -= 1;
        value
    }

    /// An entry of a map; what is not there is zero.
    fn entry(
        &mut self,
        key: Key,
        rest: &mut &'i [u8],
        field: Field<'_>,
        schema: Schema<'_>,
    ) -> Result<Entry> {
        let (key, value) = read_entry(key.delimited(rest, || go_name::of_field(field))?)?;
        let value = match schema.scalar() {
            Some(of) => scalar::read_bytes(of, value)?,
            None => self.nested(value, schema)?,
        };
        Ok((scalar::text(key), value))
    }

    /// A list that is a message with the items as its only member.
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

/// The member with a tag. They mostly come in order, so the last one (elements of a list come one
/// after the other) and the one after it are looked at first.
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

/// Puts a field in, unless it says nothing: a struct that is no pointer is always written, so that
/// an empty one does not count.
fn push_field(entries: &mut ThinVec<Entry>, field: Field<'_>, value: Value) {
    let absent = match &value {
        Value::Map(map) => map.is_empty() && !field.pointer(),
        value => value.is_null(),
    };
    if !absent {
        entries.push((field.key(), value));
    }
}

/// A scalar; none where it counts as absent.
fn read_scalar(key: Key, rest: &mut &[u8], field: Field<'_>, of: Scalar) -> Result<Option<Value>> {
    key.expect(scalar::wire_type(of), || go_name::of_field(field))?;
    if of == Scalar::String {
        // Most members are texts, and most of those empty.
        let bytes = wire::delimited(rest)?;
        let present = !bytes.is_empty() || field.pointer();
        return Ok(present.then(|| Value::String(scalar::text(bytes))));
    }
    let value = scalar::read(of, rest)?;
    let absent = value.is_null() || !field.pointer() && scalar::is_zero(of, &value);
    Ok((!absent).then_some(value))
}

/// Many numbers in one member, which other writers than the reference may make.
fn read_packed(rest: &mut &[u8], of: Scalar, items: &mut ThinVec<Value>) -> Result<()> {
    let mut packed = wire::delimited(rest)?;
    while !packed.is_empty() {
        items.push(scalar::read(of, &mut packed)?);
    }
    Ok(())
}

/// The key and value of a map's entry, empty where they are not there.
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

fn add_piece<'i>(found: &mut Found<'i>, bytes: &'i [u8]) {
    match found {
        Found::Pieces(pieces) => pieces.push(bytes),
        Found::Message(first) => *found = Found::Pieces(vec![first, bytes]),
        _ => *found = Found::Message(bytes),
    }
}

/// Adds an entry to a map. Entries of the same key are weeded out before there is made room for
/// more, so that no more memory is used than the map will take.
fn add_entry(found: &mut Found<'_>, entry: Entry) {
    const MANY: usize = 1024;
    let Found::Entries(entries) = found else {
        *found = Found::Entries(ThinVec::from_iter([entry]));
        return;
    };
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
