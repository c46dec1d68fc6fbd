//! Conversion of a YAML document to JSON, with sorted keys and the last of equal ones, as in the reference.

use std::cmp::Reverse;
use std::io::Write;

use kevel_api::json_string::write_json_string;

use super::Error;
use super::document::{Document, Id, View};
use super::float::{general, write_general32};
use super::go_syntax::go_syntax;
use crate::json::{write_float, write_int};

/// A document converted to JSON.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Json {
    /// JSON text.
    pub text: Vec<u8>,
    /// Strict errors: duplicate keys.
    pub duplicates: Option<String>,
}

/// Converts a document that was checked.
pub(super) fn write(document: &Document<'_>) -> Result<Json, Error> {
    let mut writer = Writer {
        document,
        out: Vec::with_capacity(document.source.len()),
        entries: Vec::new(),
        names: Vec::new(),
        open: Vec::new(),
        merging: Vec::new(),
        duplicates: Vec::new(),
        dropped: Vec::new(),
    };
    writer.tree(0)?;
    // A replaced value is not written, but its duplicate keys count.
    while let Some(id) = writer.dropped.pop() {
        let len = writer.out.len();
        _ = writer.tree(id);
        writer.out.truncate(len);
        writer.open.clear();
        writer.entries.clear();
    }
    let duplicates = writer.duplicates();
    Ok(Json { text: writer.out, duplicates })
}

struct Writer<'d> {
    document: &'d Document<'d>,
    out: Vec<u8>,
    /// Entries of incomplete mappings.
    entries: Vec<Entry>,
    /// Names of keys that are not strings, each after its length.
    names: Vec<u8>,
    open: Vec<Open>,
    /// Mappings whose entries are being collected: the rest of each.
    merging: Vec<(Id, Id)>,
    duplicates: Vec<Duplicate>,
    /// Collections that are not written, because their keys are set again.
    dropped: Vec<Id>,
}

enum Open {
    Sequence { next: Id, end: Id },
    Mapping { base: usize, next: usize },
}

/// Entry of a mapping for sorting.
#[derive(Clone, Copy)]
struct Entry {
    /// First bytes of the name, which decide most comparisons.
    head: u64,
    key: Id,
    value: Id,
    /// Position of the name in `names`; [`IN_KEY`] if the key is a string.
    name: u32,
    order: u32,
}

const IN_KEY: u32 = u32::MAX;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Duplicate {
    /// End of the value, in whose order the reference reports duplicates.
    after: Id,
    /// Ties: the inner value first.
    value: Reverse<Id>,
    key: Id,
}

/// Limits on reported duplicate keys, in number and in bytes.
const MAX_DUPLICATES: usize = 1000;
const MAX_DUPLICATES_TEXT: usize = 1 << 20;

impl Writer<'_> {
    fn tree(&mut self, root: Id) -> Result<(), Error> {
        let document = self.document;
        self.node(root)?;
        while let Some(open) = self.open.last_mut() {
            match open {
                Open::Sequence { next, end } if next == end => {
                    self.out.push(b']');
                    self.open.pop();
                }
                Open::Sequence { next, .. } => {
                    let id = *next;
                    *next = document.after(id);
                    self.separate(b'[');
                    self.node(id)?;
                }
                Open::Mapping { base, next } if *next == self.entries.len() => {
                    self.entries.truncate(*base);
                    if self.entries.is_empty() {
                        self.names.clear();
                    }
                    self.out.push(b'}');
                    self.open.pop();
                }
                Open::Mapping { next, .. } => {
                    let entry = self.entries[*next];
                    *next += 1;
                    self.separate(b'{');
                    let name = name_of(document, &self.names, &entry);
                    let name = std::str::from_utf8(name).unwrap_or_default();
                    write_json_string(&mut self.out, name);
                    self.out.push(b':');
                    self.node(entry.value)?;
                }
            }
        }
        Ok(())
    }

    fn node(&mut self, id: Id) -> Result<(), Error> {
        kevel_compute::charge(1);
        let id = self.document.resolve(id);
        match self.document.view(id) {
            View::Null | View::Alias(_) | View::Cycle(_) | View::Fault(_) => {
                self.out.extend_from_slice(b"null")
            }
            View::Bool(true) => self.out.extend_from_slice(b"true"),
            View::Bool(false) => self.out.extend_from_slice(b"false"),
            View::Int(int) => write_int(int, &mut self.out),
            // Writing to a Vec cannot fail.
            View::Uint(uint) => _ = write!(self.out, "{uint}"),
            View::Float(float) if !float.is_finite() => {
                let float = general(float);
                return Err(Error::bare(format!("json: unsupported value: {float}")));
            }
            View::Float(float) => write_float(float, &mut self.out),
            View::Str(text) => write_json_string(&mut self.out, text),
            View::Sequence(end) if end == id + 1 => self.out.extend_from_slice(b"[]"),
            View::Sequence(end) => {
                self.out.push(b'[');
                self.open.push(Open::Sequence { next: id + 1, end });
            }
            View::Mapping(end) => {
                self.out.push(b'{');
                let base = self.entries.len();
                self.gather(id + 1, end);
                self.sort(base);
                self.open.push(Open::Mapping { base, next: base });
            }
        }
        Ok(())
    }

    /// Writes a comma, unless the collection has just begun.
    #[inline]
    fn separate(&mut self, begin: u8) {
        if self.out.last() != Some(&begin) {
            self.out.push(b',');
        }
    }

    /// Appends the entries of a mapping, and of those merged into it.
    fn gather(&mut self, next: Id, end: Id) {
        let base = self.entries.len();
        self.merging.push((next, end));
        while let Some((next, end)) = self.merging.last_mut() {
            if next == end {
                self.merging.pop();
                continue;
            }
            let key = *next;
            let value = self.document.after(key);
            *next = self.document.after(value);
            if self.document.is_merge(key) {
                self.gather_merged(value);
            } else {
                self.gather_entry(key, value, base);
            }
        }
    }

    fn gather_merged(&mut self, value: Id) {
        let id = self.document.resolve(value);
        match self.document.view(id) {
            View::Mapping(end) => self.merging.push((id + 1, end)),
            View::Sequence(end) => {
                // The last mapping goes first, so that the first one wins.
                let mut id = id + 1;
                while id < end {
                    let mapping = self.document.resolve(id);
                    self.merging.push((mapping + 1, self.document.after(mapping)));
                    id = self.document.after(id);
                }
            }
            _ => {}
        }
    }

    fn gather_entry(&mut self, key: Id, value: Id, base: usize) {
        let key = self.document.resolve(key);
        let view = self.document.view(key);
        let mut name = IN_KEY;
        if !matches!(view, View::Str(_)) {
            name = self.names.len() as u32;
            self.names.push(0);
            match view {
                View::Bool(is) => self.names.extend_from_slice(if is { b"true" } else { b"false" }),
                View::Int(int) => write_int(int, &mut self.names),
                // The reference names a float key by its 32-bit value.
                View::Float(float) => match float as f32 {
                    f32::INFINITY => self.names.extend_from_slice(b".inf"),
                    f32::NEG_INFINITY => self.names.extend_from_slice(b"-.inf"),
                    float if float.is_nan() => self.names.extend_from_slice(b".nan"),
                    float => write_general32(float, &mut self.names),
                },
                _ => {}
            }
            let start = name as usize;
            self.names[start] = (self.names.len() - start - 1) as u8;
        }
        let order = (self.entries.len() - base) as u32;
        let mut entry = Entry { head: 0, key, value, name, order };
        let mut head = [0; 8];
        for (to, from) in head.iter_mut().zip(name_of(self.document, &self.names, &entry)) {
            *to = *from;
        }
        entry.head = u64::from_be_bytes(head);
        self.entries.push(entry);
    }

    /// Sorts the entries from `base` on by name and drops all but the last of a name.
    fn sort(&mut self, base: usize) {
        let (document, names) = (self.document, &self.names);
        let compare = |a: &Entry, b: &Entry| {
            let by_name = || name_of(document, names, a).cmp(name_of(document, names, b));
            a.head.cmp(&b.head).then_with(by_name)
        };
        let entries = &mut self.entries[base..];
        if entries.is_sorted_by(|a, b| compare(a, b).is_lt()) {
            return;
        }
        entries.sort_unstable_by(|a, b| compare(a, b).then(a.order.cmp(&b.order)));
        let mut kept = 0;
        for at in 0..entries.len() {
            let same_name = kept > 0 && compare(&entries[kept - 1], &entries[at]).is_eq();
            if !same_name {
                entries[kept] = entries[at];
                kept += 1;
                continue;
            }
            // A number and a string can be the same name in JSON, but are different keys in YAML.
            let (before, entry) = (entries[kept - 1], entries[at]);
            if document.view(before.key) == document.view(entry.key) {
                let after = document.after(entry.value);
                let value = Reverse(entry.value);
                self.duplicates.push(Duplicate { after, value, key: entry.key });
            }
            if document.after(before.value) > before.value + 1
                || document.resolve(before.value) != before.value
            {
                self.dropped.push(before.value);
            }
            entries[kept - 1] = entry;
        }
        self.entries.truncate(base + kept);
        if self.duplicates.len() > 2 * MAX_DUPLICATES {
            self.first_duplicates();
        }
    }

    fn first_duplicates(&mut self) {
        self.duplicates.sort();
        self.duplicates.truncate(MAX_DUPLICATES);
    }

    fn duplicates(&mut self) -> Option<String> {
        self.first_duplicates();
        let mut text = String::new();
        for duplicate in &self.duplicates {
            if text.len() < MAX_DUPLICATES_TEXT {
                let key = go_syntax(self.document, duplicate.key);
                let line = self.document.line(duplicate.value.0) + 1;
                text += &format!("\n  line {line}: key {key} already set in map");
            }
        }
        (!text.is_empty()).then(|| format!("yaml: unmarshal errors:{text}"))
    }
}

fn name_of<'n>(document: &'n Document<'_>, names: &'n [u8], entry: &Entry) -> &'n [u8] {
    if entry.name == IN_KEY {
        return match document.view(entry.key) {
            View::Str(text) => text.as_bytes(),
            _ => b"",
        };
    }
    let start = entry.name as usize;
    let len = names.get(start).copied().unwrap_or_default() as usize;
    names.get(start + 1..start + 1 + len).unwrap_or_default()
}
