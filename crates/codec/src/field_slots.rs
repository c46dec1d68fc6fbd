//! Fields of a struct that is being decoded: they come in any order, and stay on the decoder's stack until the struct
//! ends.

use compact_str::CompactString;
use kevel_api::schema::{MAX_FIELDS, StructSchema};
use kevel_api::value::{Map, Value};
use thin_vec::ThinVec;

/// Fields of a struct that have a value on the stack, and their positions.
#[derive(Debug)]
pub(crate) struct FieldSlots {
    /// Start of the struct's values on the stack.
    base: usize,
    /// A bit for each field that has a slot.
    placed: u64,
    /// A bit for each field that is part of the struct although it is null.
    kept: u64,
    slots: [u8; MAX_FIELDS],
}

impl FieldSlots {
    /// Slots above the current values.
    #[inline]
    pub(crate) fn above(values: &[Value]) -> Self {
        FieldSlots { base: values.len(), placed: 0, kept: 0, slots: [0; MAX_FIELDS] }
    }

    /// Position of a field on the stack, if it has one.
    #[inline]
    pub(crate) fn of(&self, position: usize) -> Option<usize> {
        let placed = self.placed >> position & 1 != 0;
        placed.then(|| self.base + usize::from(self.slots[position]))
    }

    /// Pushes the value of a field that has no slot yet.
    #[inline]
    pub(crate) fn push(&mut self, position: usize, value: Value, values: &mut Vec<Value>) {
        self.slots[position] = (values.len() - self.base) as u8;
        self.placed |= 1 << position;
        values.push(value);
    }

    /// Pushes a null that is part of the struct: a pointer to a value that is written as null.
    #[cold]
    pub(crate) fn push_null(&mut self, position: usize, values: &mut Vec<Value>) {
        self.push(position, Value::Null, values);
        self.kept |= 1 << position;
    }

    /// Takes the struct off the stack, with room for more fields; null fields are left out.
    #[inline]
    pub(crate) fn take(&self, of: StructSchema<'_>, values: &mut Vec<Value>, room: usize) -> Map {
        let fields = &mut values[self.base..];
        let mut left = self.placed;
        if fields.iter().any(Value::is_null) {
            let null = |position: &usize| fields[usize::from(self.slots[*position])].is_null();
            let nulls = (0..MAX_FIELDS).filter(|p| left >> p & 1 != 0).filter(null);
            left &= self.kept | !nulls.fold(0, |set, position| set | 1 << position);
        }
        let count = left.count_ones() as usize;
        let mut entries = ThinVec::with_capacity(if count == 0 { 0 } else { count + room });
        entries.extend((0..count).map(|_| (CompactString::const_new(""), Value::Null)));
        // Each entry is written in its final place: copying a value that was just written is slow.
        for (key, value) in entries.iter_mut() {
            let position = left.trailing_zeros() as usize % MAX_FIELDS;
            left &= left.wrapping_sub(1);
            of.set_key(position, key);
            *value = std::mem::take(&mut fields[usize::from(self.slots[position])]);
        }
        values.truncate(self.base);
        // Fields are sorted by name in the schema, so that positions have the order of names.
        Map::from_sorted(entries)
    }
}
