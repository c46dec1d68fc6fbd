//! The fields of a struct that is being read: they come in any order, and wait on the reader's
//! stack until the struct ends.

use compact_str::CompactString;
use kevel_api::schema::{MAX_FIELDS, StructSchema};
use kevel_api::value::{Map, Value};
use thin_vec::ThinVec;

/// Which fields of a struct have a value on the stack, and where.
#[derive(Debug)]
pub(crate) struct FieldSlots {
    /// Where on the stack the struct's values begin.
    base: usize,
    /// A bit for each field that has a place.
    placed: u64,
    /// A bit for each field that is part of the struct though it is null.
    kept: u64,
    slots: [u8; MAX_FIELDS],
}

impl FieldSlots {
    /// Slots from here on up.
    #[inline]
    pub(crate) fn above(values: &[Value]) -> Self {
        FieldSlots { base: values.len(), placed: 0, kept: 0, slots: [0; MAX_FIELDS] }
    }

    /// The place of a field on the stack, if it has one.
    #[inline]
    pub(crate) fn of(&self, position: usize) -> Option<usize> {
        let placed = self.placed >> position & 1 != 0;
        placed.then(|| self.base + usize::from(self.slots[position]))
    }

    /// Puts the value of a field that has no place onto the stack.
    #[inline]
    pub(crate) fn push(&mut self, position: usize, value: Value, values: &mut Vec<Value>) {
        self.slots[position] = (values.len() - self.base) as u8;
        self.placed |= 1 << position;
        values.push(value);
    }

    /// Makes a null part of the struct: a pointer to what is written as null.
    #[cold]
    pub(crate) fn push_null(&mut self, position: usize, values: &mut Vec<Value>) {
        self.push(position, Value::Null, values);
        self.kept |= 1 << position;
    }

    /// Takes the struct off the stack, with room for some more fields; those that are null are not
    /// part of it.
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
        // Each is written where it stays: what has just been written is slow to copy.
        for (key, value) in entries.iter_mut() {
            let position = left.trailing_zeros() as usize % MAX_FIELDS;
            left &= left.wrapping_sub(1);
            of.set_key(position, key);
            *value = std::mem::take(&mut fields[usize::from(self.slots[position])]);
        }
        values.truncate(self.base);
        // Fields are sorted by name in the schema, so that a position is as good as a name.
        Map::from_sorted(entries)
    }
}
