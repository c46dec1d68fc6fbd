//! A struct's field by the name in the document, without a search for one that was found before.

use std::sync::atomic::{AtomicU16, Ordering};

use kevel_api::schema::{FieldEntry, Schema, Str};

/// How many names are remembered: more than the documents of a busy server have of them.
const REMEMBERED: usize = 1 << 12;

/// Where the field was that was last looked up under a hash of its name and its struct. Only a
/// guess, which is checked: threads may overwrite each other's, and collisions cost a search.
static FOUND: [AtomicU16; REMEMBERED] = [const { AtomicU16::new(0) }; REMEMBERED];

/// The position of the field of this name.
#[inline]
pub(super) fn find(schema: Schema<'_>, fields: &[FieldEntry], name: &[u8]) -> Option<usize> {
    let found = &FOUND[slot(fields, name)];
    let guess = usize::from(found.load(Ordering::Relaxed));
    match fields.get(guess) {
        Some(field) if is_named(schema, field.name, name) => Some(guess),
        _ => search(schema, name, found),
    }
}

/// Whether a name of the schema's table is this one.
#[inline]
pub(super) fn is_named(schema: Schema<'_>, Str(start, len): Str, name: &[u8]) -> bool {
    let start = start as usize;
    usize::from(len) == name.len()
        && schema.table().text.as_bytes().get(start..start + name.len()) == Some(name)
}

#[inline(never)]
fn search(schema: Schema<'_>, name: &[u8], found: &AtomicU16) -> Option<usize> {
    let index = schema.as_struct()?.position(std::str::from_utf8(name).ok()?)?;
    found.store(index as u16, Ordering::Relaxed);
    Some(index)
}

/// Both ends of the name and the struct's place in memory, mixed.
#[inline]
fn slot(fields: &[FieldEntry], name: &[u8]) -> usize {
    let (head, tail) = match (name.first_chunk(), name.last_chunk()) {
        (Some(head), Some(tail)) => (u64::from_le_bytes(*head), u64::from_le_bytes(*tail)),
        _ => match (name.first_chunk(), name.last_chunk()) {
            (Some(head), Some(tail)) => {
                (u32::from_le_bytes(*head).into(), u32::from_le_bytes(*tail).into())
            }
            _ => match name {
                [first, .., last] => (u64::from(*first), u64::from(*last)),
                _ => (0, 0),
            },
        },
    };
    let place = fields.as_ptr() as u64;
    let mixed = (head ^ tail.rotate_left(29) ^ name.len() as u64)
        .wrapping_mul(0x9e37_79b9_7f4a_7c15)
        .wrapping_add(place.wrapping_mul(0xd6e8_feb8_6659_fd93));
    (mixed >> (64 - REMEMBERED.ilog2())) as usize
}
