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
pub(super) struct Placed(pub Arc<Object>);

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
    pub(super) objects: OrdSet<Placed>,
    pub(super) revision: Revision,
}

impl Snapshot {
    /// The revision as of which this is everything: a list's resourceVersion.
    pub fn revision(&self) -> Revision {
        self.revision
    }

    pub fn len(&self) -> usize {
        self.objects.len()
    }

    pub fn is_empty(&self) -> bool {
        self.objects.is_empty()
    }

    pub fn get(&self, key: &str) -> Option<&Arc<Object>> {
        self.objects.get(key).map(|placed| &placed.0)
    }

    /// The objects whose keys begin with `prefix` (`namespace/`, or nothing for all), in order of
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
