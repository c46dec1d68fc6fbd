//! Names of fields, compared by their first eight bytes: most differ there, and those eight compare
//! as one number.

use std::cmp::Ordering;

use compact_str::CompactString;

use super::{FieldEntry, Str, Table};
use crate::value::Value;

/// A name that is looked for among a struct's fields.
#[derive(Clone, Copy, Debug)]
pub struct FieldName<'n> {
    head: u64,
    text: &'n [u8],
}

impl<'n> FieldName<'n> {
    #[inline]
    pub fn new(text: &'n [u8]) -> Self {
        FieldName { head: Self::head(text), text }
    }

    /// The first eight bytes of a name, as a number that sorts as they do.
    #[inline]
    pub const fn head(name: &[u8]) -> u64 {
        if let Some(first) = name.first_chunk() {
            return u64::from_be_bytes(*first);
        }
        match (name.first_chunk(), name.last_chunk()) {
            // The middle of the name stands in both halves, in the same place.
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

    /// Whether it is a field's name.
    #[inline]
    pub fn is(self, table: &Table, field: &FieldEntry) -> bool {
        let Str(start, len) = field.name;
        let (start, len) = (start as usize, usize::from(len));
        self.head == field.head
            && self.text.len() == len
            && (len <= 8 || table.text.as_bytes().get(start..start + len) == Some(self.text))
    }

    /// Whether it stands before or after a field's name.
    #[inline]
    pub fn order(self, table: &Table, field: &FieldEntry) -> Ordering {
        self.head.cmp(&field.head).then_with(|| self.text.cmp(table.str(field.name).as_bytes()))
    }
}

/// See [`StructSchema::fields_of`](super::StructSchema::fields_of).
#[derive(Clone, Debug)]
pub struct FieldsOf<'t, 'v> {
    table: &'t Table,
    fields: std::iter::Enumerate<std::slice::Iter<'t, FieldEntry>>,
    entries: &'v [(CompactString, Value)],
    /// The first entry that has not found its field.
    next: usize,
    name: FieldName<'v>,
}

impl<'t, 'v> FieldsOf<'t, 'v> {
    /// Comes after every name: no text begins with such bytes.
    const END: FieldName<'static> = FieldName { head: u64::MAX, text: &[] };

    #[inline]
    pub(super) fn new(
        table: &'t Table,
        fields: &'t [FieldEntry],
        entries: &'v [(CompactString, Value)],
    ) -> Self {
        let name = name_at(entries, 0);
        FieldsOf { table, fields: fields.iter().enumerate(), entries, next: 0, name }
    }

    #[inline]
    fn pass(&mut self) -> usize {
        self.next += 1;
        self.name = name_at(self.entries, self.next);
        self.next - 1
    }
}

#[inline]
fn name_at<'v>(entries: &'v [(CompactString, Value)], index: usize) -> FieldName<'v> {
    match entries.get(index) {
        Some((key, _)) => FieldName::new(key.as_bytes()),
        None => FieldsOf::END,
    }
}

impl<'t> Iterator for FieldsOf<'t, '_> {
    /// A field, its position among the struct's, and that of its entry.
    type Item = (usize, &'t FieldEntry, Option<usize>);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let (index, field) = self.fields.next()?;
        loop {
            if self.name.head > field.head {
                return Some((index, field, None));
            }
            if self.name.is(self.table, field) {
                return Some((index, field, Some(self.pass())));
            }
            if self.name.order(self.table, field).is_gt() {
                return Some((index, field, None));
            }
            self.pass();
        }
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
        let fields = schema.as_struct().unwrap().fields_of(&entries);
        let found: Vec<_> = fields.map(|(index, _, entry)| (index, entry)).collect();
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
