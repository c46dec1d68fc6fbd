//! All objects of a resource at one revision.

use std::borrow::Borrow;
use std::cmp::Ordering;
use std::ops::Bound;
use std::sync::Arc;

use imbl::OrdSet;

use super::Object;
use crate::{Revision, prefix_end};

/// An object in the set, ordered by key as the store orders keys.
#[derive(Clone, Debug)]
struct Placed(Arc<Object>);

impl Borrow<str> for Placed {
    fn borrow(&self) -> &str {
        self.0.key()
    }
}

impl PartialEq for Placed {
    fn eq(&self, other: &Self) -> bool {
        self.0.key() == other.0.key()
    }
}

impl Eq for Placed {}

impl PartialOrd for Placed {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Placed {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.key().cmp(other.0.key())
    }
}

/// Number of wire bytes of an object; 0 if it cannot be read.
fn size(object: &Object) -> u64 {
    object.wire().map_or(0, |wire| wire.len() as u64)
}

/// All objects of a resource at one revision. A clone costs a reference count: the tree is shared between snapshots, so
/// a reader keeps its own as long as it likes without blocking writers.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    objects: OrdSet<Placed>,
    /// Objects that cannot be read. A get returns them, so that the client sees the error; lists leave them out, so
    /// that they do not keep clients from reading the rest.
    damaged: OrdSet<Placed>,
    /// Wire bytes of `objects` together.
    bytes: u64,
    pub(super) revision: Revision,
}

impl Snapshot {
    /// Revision of the snapshot: a list's resourceVersion.
    pub fn revision(&self) -> Revision {
        self.revision
    }

    /// Number of readable objects.
    pub fn len(&self) -> usize {
        self.objects.len()
    }

    /// Wire bytes of the readable objects together.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Whether there are no readable objects.
    pub fn is_empty(&self) -> bool {
        self.objects.is_empty()
    }

    /// Object of a key, readable or not.
    pub fn get(&self, key: &str) -> Option<&Arc<Object>> {
        self.objects.get(key).or_else(|| self.damaged.get(key)).map(|placed| &placed.0)
    }

    /// The objects that cannot be read.
    pub fn damaged(&self) -> impl Iterator<Item = &Arc<Object>> {
        self.damaged.iter().map(|placed| &placed.0)
    }

    /// The first object below a prefix that no configured encryption key decrypts. A damaged value concerns one object;
    /// a missing encryption key concerns the server, and a list without the objects encrypted with it would make
    /// clients believe that they are deleted.
    pub fn sealed(&self, prefix: &str) -> Option<&Arc<Object>> {
        self.damaged().find(|object| object.is_sealed() && object.key().starts_with(prefix))
    }

    /// Whether nothing has changed between two snapshots of a resource. What was changed and changed back counts as
    /// changed, except that all empty snapshots of a cache that was loaded without objects are the same.
    pub fn has_same_objects(&self, other: &Snapshot) -> bool {
        self.objects.ptr_eq(&other.objects) && self.damaged.ptr_eq(&other.damaged)
    }

    /// The same objects at another revision.
    pub(super) fn at(&self, revision: Revision) -> Snapshot {
        Snapshot { revision, ..self.clone() }
    }

    pub(super) fn insert(&mut self, object: Arc<Object>) {
        let size = size(&object);
        let (to, from) = match object.wire().is_ok() {
            true => (&mut self.objects, &mut self.damaged),
            false => (&mut self.damaged, &mut self.objects),
        };
        let moved = if from.is_empty() { None } else { from.remove(object.key()) };
        let replaced = to.insert(Placed(object));
        self.bytes += size;
        self.bytes -=
            moved.iter().chain(&replaced).map(|placed| self::size(&placed.0)).sum::<u64>();
    }

    pub(super) fn remove(&mut self, key: &str) {
        let removed = self.objects.remove(key);
        self.bytes -= removed.map_or(0, |placed| size(&placed.0));
        self.damaged.remove(key);
    }

    /// The readable objects whose keys begin with `prefix` (`namespace/`, or empty for all), in order of key, from
    /// behind the key `after` if one is given: the rest of a paginated list.
    pub fn range<'s>(
        &'s self,
        prefix: &str,
        after: Option<&str>,
    ) -> impl Iterator<Item = &'s Arc<Object>> + use<'s> {
        let end = prefix_end(prefix.as_bytes()).and_then(|end| String::from_utf8(end).ok());
        let start = match after {
            Some(after) if after >= prefix => Bound::Excluded(after),
            _ => Bound::Included(prefix),
        };
        let end = match &end {
            Some(end) if !prefix.is_empty() => Bound::Excluded(end.as_str()),
            _ => Bound::Unbounded,
        };
        let empty = matches!((start, end), (Bound::Excluded(s), Bound::Excluded(e)) if s >= e);
        let range =
            (!empty).then(|| self.objects.range::<(Bound<&str>, Bound<&str>), str>((start, end)));
        range.into_iter().flatten().map(|placed| {
            kevel_compute::charge(1);
            &placed.0
        })
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::Damaged;
    use crate::cache::{Span, Wire};

    #[test]
    fn sealed_objects_are_found_below_their_prefix() {
        let damaged = |key: &str, sealed| {
            let why = "it cannot be read".to_owned();
            let damaged =
                Damaged { key: key.to_owned().into(), revision: Revision(1), why, sealed };
            Arc::new(Object::damaged(key, &damaged))
        };
        let mut snapshot = Snapshot::default();
        for key in ["a/broken", "b/broken", "c/broken"] {
            snapshot.insert(damaged(key, false));
        }
        for key in ["b/sealed", "c/sealed", "c/sealed-2"] {
            snapshot.insert(damaged(key, true));
        }
        for (prefix, expected) in [
            ("", Some("b/sealed")),
            ("a/", None),
            ("b/", Some("b/sealed")),
            ("c/", Some("c/sealed")),
            ("d/", None),
        ] {
            let found = snapshot.sealed(prefix).map(|object| object.key());
            assert_eq!(found, expected, "{prefix}");
        }
        snapshot.remove("b/sealed");
        assert!(snapshot.sealed("b/").is_none());
        assert_eq!(snapshot.sealed("").map(|object| object.key()), Some("c/sealed"));
    }

    #[test]
    fn bytes_are_those_of_the_objects_that_can_be_read() {
        let object = |key: &str, size: Option<usize>| {
            let span = Span { start: 0, len: 0 };
            let wire =
                |size| Wire { bytes: Bytes::from(vec![b'x'; size]), revision: span, labels: span };
            Arc::new(Object::new(key, Revision(1), size.map(wire).ok_or("damaged".to_owned())))
        };
        let mut snapshot = Snapshot::default();
        for (key, size, expected) in [
            ("a", Some(10), (1, 10)),
            ("b", Some(5), (2, 15)),
            ("a", Some(1), (2, 6)),
            ("b", None, (1, 1)),
            ("b", None, (1, 1)),
            ("b", Some(7), (2, 8)),
        ] {
            snapshot.insert(object(key, size));
            assert_eq!((snapshot.len(), snapshot.bytes()), expected, "{key} {size:?}");
        }
        let before = snapshot.clone();
        assert!(snapshot.at(Revision(9)).has_same_objects(&before));
        snapshot.insert(object("c", None));
        assert!(!snapshot.has_same_objects(&before));
        for (key, expected) in [("c", 8), ("a", 7), ("a", 7), ("b", 0)] {
            snapshot.remove(key);
            assert_eq!(snapshot.bytes(), expected, "{key}");
        }
    }
}
