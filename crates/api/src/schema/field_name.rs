//! Field names, compared by their first eight bytes as one number: most names differ there.

use std::cmp::Ordering;

use compact_str::CompactString;

use super::{FieldEntry, Str, Table};
use crate::value::Value;

/// Name to look up among a struct's fields.
#[derive(Clone, Copy, Debug)]
pub struct FieldName<'n> {
    head: u64,
    text: &'n [u8],
}

impl<'n> FieldName<'n> {
    /// Makes a name that is ready for comparison.
    #[inline]
    pub fn new(text: &'n [u8]) -> Self {
        FieldName { head: Self::head(text), text }
    }

    /// First eight bytes of a name, as a number of the same order.
    #[inline]
    pub const fn head(name: &[u8]) -> u64 {
        if let Some(first) = name.first_chunk() {
            return u64::from_be_bytes(*first);
        }
        match (name.first_chunk(), name.last_chunk()) {
            // The middle of the name is in both halves, at the same place.
            (Some(first), Some(last)) => {
                (u32::from_be_bytes(*first) as u64) << 32
                    | (u32::from_be_bytes(*last) as u64) << (8 * (8 - name.len()))
            }
            _ => match *name {
                [a, b, c] => u64::from_be_bytes([a, b, c, 0, 0, 0, 0, 0]),
                [a, b] => u64::from_be_bytes([a, b, 0, 0, 0, 0, 0, 0]),
                [a] => u64::from_be_bytes([a, 0, 0, 0, 0, 0, 0, 0]),
                _ => 0,
            },
        }
    }

    /// Whether it is the name of a field.
    #[inline]
    pub fn is(self, table: &Table, field: &FieldEntry) -> bool {
        let Str(start, len) = field.name;
        let (start, len) = (start as usize, usize::from(len));
        if self.head != field.head || self.text.len() != len {
            return false;
        }
        let Some(name) = table.text.as_bytes().get(start..start + len) else { return false };
        match len {
            0..=8 => true,
            // Comparing the last eight bytes completes the comparison without a call.
            9..=16 => name.last_chunk::<8>() == self.text.last_chunk::<8>(),
            _ => name == self.text,
        }
    }

    /// Order relative to a field's name.
    #[inline]
    pub fn order(self, table: &Table, field: &FieldEntry) -> Ordering {
        self.head.cmp(&field.head).then_with(|| self.text.cmp(table.str(field.name).as_bytes()))
    }
}

/// Calls `visit` with each field, its position and that of its entry. Both are sorted by name, so that one pass
/// suffices.
#[inline]
pub(super) fn for_each_field<'t>(
    table: &'t Table,
    fields: &'t [FieldEntry],
    entries: &[(CompactString, Value)],
    mut visit: impl FnMut(usize, &'t FieldEntry, Option<usize>),
) {
    let mut next = 0;
    let mut name = name_at(entries, next);
    for (index, field) in fields.iter().enumerate() {
        let entry = loop {
            if name.head > field.head {
                break None;
            }
            let is = name.is(table, field);
            if !is && name.order(table, field).is_gt() {
                break None;
            }
            // It is this field, or no field at all.
            next += 1;
            name = name_at(entries, next);
            if is {
                break Some(next - 1);
            }
        };
        visit(index, field, entry);
    }
}

/// Name of an entry; after the last one, a name that sorts after all: no text begins with such bytes.
#[inline]
fn name_at(entries: &[(CompactString, Value)], index: usize) -> FieldName<'_> {
    match entries.get(index) {
        Some((key, _)) => FieldName::new(key.as_bytes()),
        None => FieldName { head: u64::MAX, text: &[] },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_sort_as_names_do() {
        let names = ["", "a", "ab", "abc", "abcd", "abcde", "abcdefg", "abcdefgh", "abd", "b"];
        for pair in names.windows(2) {
            let [a, b] = [pair[0], pair[1]].map(|name| FieldName::head(name.as_bytes()));
            assert!(a < b, "{pair:?}");
        }
        assert_eq!(FieldName::head(b"abcdefgh"), FieldName::head(b"abcdefghi"));
        assert_eq!(FieldName::head(b"abcde"), u64::from_be_bytes(*b"abcde\0\0\0"));
    }

    #[test]
    fn fields_find_their_entries() {
        let schema = crate::builtin::schema("", "v1", "Pod").unwrap();
        let entries = ["!", "apiVersion", "kinc", "kind", "kindness", "spec", "z"];
        let entries = entries.map(|name| (CompactString::new(name), Value::Null));
        let mut found = Vec::new();
        let structure = schema.as_struct().unwrap();
        structure.for_each_field(&entries, |index, _, entry| found.push((index, entry)));
        assert_eq!(found, [(0, Some(1)), (1, Some(3)), (2, None), (3, Some(5)), (4, None)]);
    }

    #[test]
    fn tables_hold_the_heads_and_keys_of_names() {
        let table = crate::builtin::table();
        for field in table.fields.iter() {
            let name = table.str(field.name);
            assert_eq!(field.head, FieldName::head(name.as_bytes()), "{name}");
            assert_eq!(table.keys[usize::from(field.key)], name);
        }
    }
}
