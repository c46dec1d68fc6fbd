//! All objects of a resource at one revision.

use std::borrow::Borrow;
use std::cmp::Ordering;
use std::ops::Bound;
use std::sync::Arc;

use imbl::OrdSet;

use super::Object;
use crate::{Revision, prefix_end};

/// An object in its place: ordered by key, as the store orders keys.
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

/// All objects of a resource at one revision. A copy costs a reference count: the tree is shared
/// between snapshots, so a reader keeps its own for as long as it likes and holds up nobody.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    objects: OrdSet<Placed>,
    /// Those that cannot be read: found by name, so that whoever asks is told what is wrong, and
    /// listed by nobody, so that they do not keep others from reading the rest.
    damaged: OrdSet<Placed>,
    pub(super) revision: Revision,
}

impl Snapshot {
    /// The revision as of which this is everything: a list's resourceVersion.
    pub fn revision(&self) -> Revision {
        self.revision
    }

    /// How many can be read.
    pub fn len(&self) -> usize {
        self.objects.len()
    }

    /// Whether there are no objects.
    pub fn is_empty(&self) -> bool {
        self.objects.is_empty()
    }

    /// The object of a key.
    pub fn get(&self, key: &str) -> Option<&Arc<Object>> {
        self.objects.get(key).or_else(|| self.damaged.get(key)).map(|placed| &placed.0)
    }

    /// The objects that cannot be read.
    pub fn damaged(&self) -> impl Iterator<Item = &Arc<Object>> {
        self.damaged.iter().map(|placed| &placed.0)
    }

    /// The same objects, as of another revision.
    pub(super) fn at(&self, revision: Revision) -> Snapshot {
        Snapshot { revision, ..self.clone() }
    }

    pub(super) fn insert(&mut self, object: Arc<Object>) {
        let (to, from) = match object.wire().is_ok() {
            true => (&mut self.objects, &mut self.damaged),
            false => (&mut self.damaged, &mut self.objects),
        };
        if !from.is_empty() {
            from.remove(object.key());
        }
        to.insert(Placed(object));
    }

    pub(super) fn remove(&mut self, key: &str) {
        self.objects.remove(key);
        self.damaged.remove(key);
    }

    /// The objects that can be read and whose keys begin with `prefix` (`namespace/`, or nothing for all), in order of
    /// key, those after the key `after` where one is given: the rest of a list that was cut there.
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
        range.into_iter().flatten().map(|placed| &placed.0)
    }
}
