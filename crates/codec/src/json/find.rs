//! Lookup of a struct's field by name, with a cache of earlier results.

use std::sync::atomic::{AtomicU16, Ordering};

use kevel_api::schema::{FieldEntry, FieldName, Schema};

/// Size of the cache: more than the different names in the documents of a busy server.
const REMEMBERED: usize = 1 << 12;

/// Position of the last field found under a hash of its name and struct. Only a guess, which is checked: threads may
/// overwrite entries, and collisions cost a search.
static FOUND: [AtomicU16; REMEMBERED] = [const { AtomicU16::new(0) }; REMEMBERED];

/// Position of the field of this name.
#[inline]
pub(super) fn find(schema: Schema<'_>, fields: &[FieldEntry], name: &[u8]) -> Option<usize> {
    let sought = FieldName::new(name);
    let found = &FOUND[slot(fields, FieldName::head(name), name)];
    let guess = usize::from(found.load(Ordering::Relaxed));
    match fields.get(guess) {
        Some(field) if sought.is(schema.table(), field) => Some(guess),
        _ => search(schema, name, found),
    }
}

#[inline(never)]
fn search(schema: Schema<'_>, name: &[u8], found: &AtomicU16) -> Option<usize> {
    let index = schema.as_struct()?.position(std::str::from_utf8(name).ok()?)?;
    found.store(index as u16, Ordering::Relaxed);
    Some(index)
}

/// Hash of the name's first bytes, length and last byte, and of the struct's address.
#[inline]
fn slot(fields: &[FieldEntry], head: u64, name: &[u8]) -> usize {
    let last = u64::from(name.last().copied().unwrap_or_default());
    let rest = (name.len() as u64) << 8 | last;
    let mixed = (head ^ (fields.as_ptr() as u64).rotate_left(24))
        .wrapping_add(rest.wrapping_mul(0xd6e8_feb8_6659_fd93))
        .wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed >> (64 - REMEMBERED.ilog2())) as usize
}
