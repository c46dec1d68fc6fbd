//! All objects of a resource at one revision.

use std::sync::Arc;

use super::index::{IndexKey, Indexes, SnapshotIndex};
use super::object_set::{Edge, MergedObjects, ObjectSet, SetObjects};
use super::{Object, Selection};
use crate::{Revision, prefix_end};

/// Number of wire bytes of an object; 0 if it cannot be read.
fn size(object: &Object) -> u64 {
    object.wire().map_or(0, |wire| wire.len() as u64)
}

/// All objects of a resource at one revision. A clone costs a reference count: the tree is shared between snapshots, so
/// a reader keeps its own as long as it likes without blocking writers.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    objects: ObjectSet,
    /// Objects that cannot be read. A get returns them, so that the client sees the error; lists leave them out, so
    /// that they do not keep clients from reading the rest.
    damaged: ObjectSet,
    /// Indexes of `objects`.
    indexes: Indexes,
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
        self.objects.get(key).or_else(|| self.damaged.get(key))
    }

    /// The objects that cannot be read.
    pub fn damaged(&self) -> impl Iterator<Item = &Arc<Object>> {
        self.damaged.iter()
    }

    /// The first object below a prefix that no configured encryption key decrypts. A damaged value concerns one object;
    /// a missing encryption key concerns the server, and a list without the objects encrypted with it would make
    /// clients believe that they are deleted.
    pub fn sealed(&self, prefix: &str) -> Option<&Arc<Object>> {
        self.damaged().find(|object| object.is_sealed() && object.key().starts_with(prefix))
    }

    /// Whether nothing has changed between two snapshots of a resource. What was changed and changed back counts as
    /// changed, except that all empty snapshots are the same.
    pub fn has_same_objects(&self, other: &Snapshot) -> bool {
        self.objects.is_same(&other.objects) && self.damaged.is_same(&other.damaged)
    }

    /// Snapshot of loaded objects. An engine returns them in order of key, apart from those that cannot be read.
    pub(super) fn loaded(mut objects: Vec<Arc<Object>>, revision: Revision) -> Snapshot {
        if !objects.is_sorted_by(|one, other| one.key() < other.key()) {
            objects.sort_by(|one, other| one.key().cmp(other.key()));
        }
        let (mut readable, mut damaged, mut bytes) = (Vec::new(), Vec::new(), 0);
        for object in objects {
            bytes += size(&object);
            let part = if object.wire().is_ok() { &mut readable } else { &mut damaged };
            part.push(object);
        }
        let (objects, damaged) =
            (ObjectSet::from_sorted(readable), ObjectSet::from_sorted(damaged));
        Snapshot { objects, damaged, indexes: Indexes::default(), bytes, revision }
    }

    /// The same objects at another revision.
    pub(super) fn at(&self, revision: Revision) -> Snapshot {
        Snapshot { revision, ..self.clone() }
    }

    pub(super) fn insert(&mut self, object: Arc<Object>) {
        let is_readable = object.wire().is_ok();
        let (to, from) = match is_readable {
            true => (&mut self.objects, &mut self.damaged),
            false => (&mut self.damaged, &mut self.objects),
        };
        let moved = from.remove(object.key());
        let replaced = to.insert(object.clone());
        self.bytes += size(&object);
        self.bytes -= moved.iter().chain(&replaced).map(|object| size(object)).sum::<u64>();
        // Of the two, only a readable one is in indexes.
        let (before, after) = match is_readable {
            true => (replaced.as_ref(), Some(&object)),
            false => (moved.as_ref(), None),
        };
        self.indexes.change(before, after);
    }

    pub(super) fn remove(&mut self, key: &str) {
        let removed = self.objects.remove(key);
        self.bytes -= removed.as_ref().map_or(0, |object| size(object));
        self.damaged.remove(key);
        self.indexes.change(removed.as_ref(), None);
    }

    /// The readable objects whose keys begin with `prefix` (`namespace/`, or empty for all), in order of key, from
    /// behind the key `after` if one is given: the rest of a paginated list.
    pub fn range<'s>(
        &'s self,
        prefix: &str,
        after: Option<&str>,
    ) -> impl Iterator<Item = &'s Arc<Object>> + use<'s> {
        KeyBounds::new(prefix, after).of(&self.objects).inspect(|_| kevel_compute::charge(1))
    }

    /// Number of objects of a [`Snapshot::range`], without a look at them.
    pub fn count(&self, prefix: &str, after: Option<&str>) -> usize {
        KeyBounds::new(prefix, after).count(&self.objects)
    }

    /// Objects in order of key among which are all that a selection selects, from behind the key `after` if one is
    /// given: of an index, if there is one that the selection can use, or of a [`Snapshot::range`].
    pub(super) fn candidates<'s>(
        &'s self,
        selection: &Selection,
        after: Option<&str>,
    ) -> Candidates<'s> {
        let bounds = KeyBounds::new(&selection.prefix, after);
        if let Some(name) = selection.fields.requires_exact_match("metadata.name")
            && let Some(key) = self.key_of(&selection.prefix, name)
        {
            let object = Some(self.objects.get(&key));
            let object = object.flatten().filter(|object| bounds.have(object.key()));
            return Candidates { objects: FoundObjects::One(object), index: None };
        }
        let found = self.indexes.best(selection, |set| bounds.count(set));
        let Some(found) = found.filter(|found| found.count <= bounds.count(&self.objects)) else {
            return Candidates {
                objects: FoundObjects::All(bounds.of(&self.objects)),
                index: None,
            };
        };
        let sets = found.sets.iter().map(|set| bounds.of(set));
        Candidates {
            objects: FoundObjects::Indexed(MergedObjects::new(sets)),
            index: Some(found.key),
        }
    }

    /// Key of the object with a name; `None` if more than one object may have it.
    fn key_of(&self, prefix: &str, name: &str) -> Option<String> {
        // Objects of a resource all have a namespace, or none has.
        let has_namespaces = || self.objects.iter().next().is_some_and(|o| o.key().contains('/'));
        (!prefix.is_empty() || !has_namespaces()).then(|| format!("{prefix}{name}"))
    }

    /// The same objects with another index.
    pub(super) fn indexed(&self, index: SnapshotIndex) -> Snapshot {
        let mut snapshot = self.clone();
        snapshot.indexes.add(index);
        snapshot
    }

    /// The same objects without the indexes that are not to be kept.
    pub(super) fn retaining(&self, keep: impl FnMut(&IndexKey) -> bool) -> Snapshot {
        let mut snapshot = self.clone();
        snapshot.indexes.retain(keep);
        snapshot
    }
}

/// Objects in order of key among which are all that a selection selects.
#[derive(Debug)]
pub struct Candidates<'s> {
    objects: FoundObjects<'s>,
    /// Index that was used.
    pub(super) index: Option<IndexKey>,
}

#[derive(Debug)]
enum FoundObjects<'s> {
    One(Option<&'s Arc<Object>>),
    Indexed(MergedObjects<'s>),
    All(SetObjects<'s>),
}

impl Candidates<'_> {
    /// Whether every object of the range is a candidate.
    pub(super) fn are_all(&self) -> bool {
        matches!(self.objects, FoundObjects::All(_))
    }
}

impl<'s> Iterator for Candidates<'s> {
    type Item = &'s Arc<Object>;

    fn next(&mut self) -> Option<Self::Item> {
        kevel_compute::charge(1);
        match &mut self.objects {
            FoundObjects::One(object) => object.take(),
            FoundObjects::Indexed(objects) => objects.next(),
            FoundObjects::All(objects) => objects.next(),
        }
    }
}

/// Bounds of a range of keys.
struct KeyBounds<'k> {
    start: Edge<'k>,
    /// `None` for all keys that follow.
    end: Option<String>,
}

impl<'k> KeyBounds<'k> {
    fn new(prefix: &'k str, after: Option<&'k str>) -> Self {
        let end = prefix_end(prefix.as_bytes()).and_then(|end| String::from_utf8(end).ok());
        let start = match after {
            Some(after) if after >= prefix => Edge::After(after),
            _ => Edge::Before(prefix),
        };
        KeyBounds { start, end: end.filter(|_| !prefix.is_empty()) }
    }

    fn count(&self, objects: &ObjectSet) -> usize {
        let end = self.end.as_deref();
        let end = end.map_or(objects.len(), |end| objects.rank(Edge::Before(end)));
        end.saturating_sub(objects.rank(self.start))
    }

    fn of<'s>(&self, objects: &'s ObjectSet) -> SetObjects<'s> {
        objects.from(self.start, self.count(objects))
    }

    fn have(&self, key: &str) -> bool {
        !self.start.is_behind(key) && self.end.as_deref().is_none_or(|end| key < end)
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
