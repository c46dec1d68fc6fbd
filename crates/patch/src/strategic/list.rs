//! Lists with the merge strategy: scalars as sets, objects by their merge key.

use std::collections::{HashMap, HashSet};

use compact_str::CompactString;
use kevel_api::value::{Map, Value};
use thin_vec::ThinVec;

use super::schema::Cursor;
use super::{Error, Merged, PATCH, merge_map};

/// Identity of an element: the scalar itself, or the value of its merge key.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Key {
    Null,
    Bool(bool),
    Int(i64),
    Float(u64),
    String(CompactString),
}

impl Key {
    pub(super) fn of_scalar(value: &Value) -> Result<Key, Error> {
        match value {
            Value::Null => Ok(Key::Null),
            Value::Bool(bool) => Ok(Key::Bool(*bool)),
            Value::Int(int) => Ok(Key::Int(*int)),
            Value::Float(float) => Ok(Key::Float(float.to_bits())),
            Value::String(text) => Ok(Key::String(text.clone())),
            _ => Err(Error::other("list elements and merge keys must be scalars to be compared")),
        }
    }

    /// Identity of an element: the element itself if there is no merge key.
    pub(super) fn of(element: &Value, merge_key: &str) -> Result<Key, Error> {
        if merge_key.is_empty() {
            return Key::of_scalar(element);
        }
        let map = element.as_map().ok_or_else(|| Error::not_a_map(element))?;
        Key::of_map(map, merge_key)
    }

    fn of_map(map: &Map, merge_key: &str) -> Result<Key, Error> {
        let value = map.get(merge_key).ok_or_else(|| Error::no_merge_key(map, merge_key))?;
        Key::of_scalar(value)
    }
}

/// First position of each key in a list.
#[derive(Debug, Default)]
pub(super) struct Positions(HashMap<Key, usize>);

impl Positions {
    pub(super) fn of(items: &[Value], merge_key: &str) -> Result<Positions, Error> {
        let mut positions = HashMap::with_capacity(items.len());
        for (i, item) in items.iter().enumerate() {
            positions.entry(Key::of(item, merge_key)?).or_insert(i);
        }
        Ok(Positions(positions))
    }

    fn get(&self, key: &Key) -> Option<usize> {
        self.0.get(key).copied()
    }
}

/// Merges a patch into a list, or deletes its elements.
pub(super) fn merge(
    original: ThinVec<Value>,
    patch: ThinVec<Value>,
    item: Cursor<'_>,
    merge_key: &str,
    deletes: bool,
    merged: &mut Merged,
) -> Result<ThinVec<Value>, Error> {
    if original.is_empty() && patch.is_empty() {
        return Ok(original);
    }
    if element_type(&original, &patch)? == Elements::Maps {
        return merge_maps(original, patch, item, merge_key, merged);
    }
    let patched = Positions::of(&patch, "")?;
    if deletes {
        let stays = |value: &Value| Key::of_scalar(value).is_ok_and(|k| patched.get(&k).is_none());
        return Ok(original.into_iter().filter(stays).collect());
    }
    if let (false, Some(first)) = (merge_key.is_empty(), original.first().or(patch.first())) {
        return Err(Error::not_a_map(first));
    }
    let server = Positions::of(&original, "")?;
    let mut seen = HashSet::new();
    let mut all = ThinVec::with_capacity(original.len() + patch.len());
    for value in original.into_iter().chain(patch) {
        if seen.insert(Key::of_scalar(&value)?) {
            all.push(value);
        }
    }
    arrange(all, "", &patched, &server)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Elements {
    Scalars,
    Maps,
}

/// Common type of the elements of two lists.
pub(super) fn element_type(original: &[Value], patch: &[Value]) -> Result<Elements, Error> {
    let mut elements = original.iter().chain(patch);
    let Some(first) = elements.next() else {
        return Err(Error::other("no elements in any of the given slices"));
    };
    if let Value::List(_) = first {
        return Err(Error::LIST_OF_LISTS);
    }
    if !elements.all(|element| super::same_type(first, element)) {
        return Err(Error::mixed_types([original, patch]));
    }
    Ok(if first.as_map().is_some() { Elements::Maps } else { Elements::Scalars })
}

fn merge_maps(
    mut original: ThinVec<Value>,
    patch: ThinVec<Value>,
    item: Cursor<'_>,
    merge_key: &str,
    merged: &mut Merged,
) -> Result<ThinVec<Value>, Error> {
    if merge_key.is_empty() {
        let kind = item.go_kind();
        return Err(Error::Other(format!("cannot merge lists without merge key for {kind}")));
    }
    let patch = take_directives(&mut original, patch, merge_key)?;
    let mut patched = Positions::default();
    // An element without a key may be in the list, but is never merged with.
    let mut known: HashMap<Key, usize> = HashMap::with_capacity(original.len() + patch.len());
    for (i, element) in original.iter().enumerate() {
        if let Ok(key) = Key::of(element, merge_key) {
            known.entry(key).or_insert(i);
        }
    }
    let before = original.len();
    for (rank, element) in patch.into_iter().enumerate() {
        let Value::Map(element) = element else { continue };
        let key = Key::of_map(&element, merge_key)?;
        patched.0.entry(key.clone()).or_insert(rank);
        match known.get(&key).and_then(|i| original.get_mut(*i)) {
            Some(place) => {
                if let Value::Map(map) = std::mem::take(place) {
                    *place = Value::Map(merge_map(map, element, item, merged)?);
                }
            }
            None => {
                known.insert(key, original.len());
                original.push(Value::Map(element));
            }
        }
    }
    known.retain(|_, i| *i < before);
    arrange(original, merge_key, &patched, &Positions(known))
}

/// Carries out the elements of a patch that are directives, and returns the others.
fn take_directives(
    original: &mut ThinVec<Value>,
    patch: ThinVec<Value>,
    merge_key: &str,
) -> Result<ThinVec<Value>, Error> {
    let mut rest = ThinVec::with_capacity(patch.len());
    let mut deleted = HashSet::new();
    let mut replace = false;
    for element in patch {
        let directive = match element.as_map() {
            Some(map) => map.get(PATCH).map(|directive| (map, directive)),
            None => None,
        };
        let Some((map, directive)) = directive else {
            rest.push(element);
            continue;
        };
        match directive.as_str() {
            Some("delete") => match map.get(merge_key) {
                // A key that is no scalar matches no element.
                Some(key) => deleted.extend(Key::of_scalar(key).ok()),
                None => return Err(Error::no_merge_key(map, merge_key)),
            },
            Some("replace") => replace = true,
            Some("merge") => {
                return Err(Error::other("merging lists cannot yet be specified in the patch"));
            }
            _ => return Err(Error::unknown_directive(directive, map)),
        }
    }
    if replace {
        *original = std::mem::take(&mut rest);
    } else if !deleted.is_empty() {
        original.retain(|element| {
            Key::of(element, merge_key).map_or(true, |key| !deleted.contains(&key))
        });
    }
    Ok(rest)
}

/// Orders a merged list: elements of the patch in its order, others in the original order, both interleaved as in the
/// original.
pub(super) fn arrange(
    merged: ThinVec<Value>,
    merge_key: &str,
    patch: &Positions,
    server: &Positions,
) -> Result<ThinVec<Value>, Error> {
    let (mut named, mut rest) = (Vec::new(), Vec::new());
    for element in merged {
        let key = Key::of(&element, merge_key)?;
        let place = server.get(&key);
        match patch.get(&key) {
            Some(rank) => named.push((rank, place, element)),
            None => rest.push((place.unwrap_or(usize::MAX), place, element)),
        }
    }
    named.sort_by_key(|(rank, ..)| *rank);
    rest.sort_by_key(|(rank, ..)| *rank);
    let mut arranged = ThinVec::with_capacity(named.len() + rest.len());
    let mut rest = rest.into_iter().peekable();
    for (_, place, element) in named {
        let before = |other: &Option<usize>| matches!((other, place), (Some(o), Some(p)) if *o < p);
        while let Some((.., element)) = rest.next_if(|(_, other, _)| before(other)) {
            arranged.push(element);
        }
        arranged.push(element);
    }
    arranged.extend(rest.map(|(.., element)| element));
    Ok(arranged)
}
