//! Number of watches that get a change (upstream: watchTracker).

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, PoisonError, RwLock};

use crate::digest::RequestDigest;

/// Number of locks, so that writes of different resources seldom wait for each other.
const SHARDS: usize = 16;

/// Counts watches by target: a whole resource, a namespace, or one object.
#[derive(Clone, Debug, Default)]
pub struct WatchTracker(Arc<Shards>);

#[derive(Debug, Default)]
struct Shards {
    hasher: RandomState,
    /// Counts by [`Key`]. The keys of a resource are in one shard.
    counts: [RwLock<HashMap<Box<str>, usize>>; SHARDS],
}

/// A counted watch; dropping it ends the count.
#[derive(Debug)]
#[must_use = "a watch is forgotten when this is dropped"]
pub struct WatchRegistration {
    tracker: WatchTracker,
    key: Key,
}

impl WatchTracker {
    /// Counts a watch. Watches with an indexed field selector (`spec.nodeName` of pods) get few events and should not
    /// be counted.
    pub fn register(&self, digest: &RequestDigest<'_>) -> WatchRegistration {
        let key = Key::new(digest);
        let own = match (digest.namespace, digest.name) {
            ("", "") => key.resource,
            (_, "") => key.namespace,
            _ => key.text.len(),
        };
        let key = Key { text: key.text[..own].to_owned(), ..key };
        let mut counts = self.shard(&key).write().unwrap_or_else(PoisonError::into_inner);
        *counts.entry(key.text.as_str().into()).or_insert(0) += 1;
        drop(counts);
        WatchRegistration { tracker: self.clone(), key }
    }

    /// Number of watches that get the change of a write.
    pub fn interested(&self, digest: &RequestDigest<'_>) -> usize {
        let key = Key::new(digest);
        let counts = self.shard(&key).read().unwrap_or_else(PoisonError::into_inner);
        if counts.is_empty() {
            return 0;
        }
        let count = |end: usize| counts.get(&key.text[..end]).copied().unwrap_or(0);
        let in_namespace = if digest.namespace.is_empty() { 0 } else { count(key.namespace) };
        let of_object = if digest.name.is_empty() { 0 } else { count(key.text.len()) };
        count(key.resource) + in_namespace + of_object
    }

    fn shard(&self, key: &Key) -> &RwLock<HashMap<Box<str>, usize>> {
        let hash = self.0.hasher.hash_one(&key.text[..key.resource]);
        &self.0.counts[hash as usize % SHARDS]
    }
}

impl Drop for WatchRegistration {
    fn drop(&mut self) {
        let Key { text, .. } = &self.key;
        let shard = self.tracker.shard(&self.key);
        let mut counts = shard.write().unwrap_or_else(PoisonError::into_inner);
        match counts.get_mut(text.as_str()) {
            Some(count) if *count > 1 => *count -= 1,
            _ => drop(counts.remove(text.as_str())),
        }
    }
}

/// `group NUL resource NUL namespace NUL name`, and the ends of the second and the third part: the keys of wider
/// watches are prefixes.
#[derive(Debug)]
struct Key {
    text: String,
    resource: usize,
    namespace: usize,
}

impl Key {
    fn new(digest: &RequestDigest<'_>) -> Self {
        let RequestDigest { group, resource, namespace, name, .. } = digest;
        let parts = group.len() + resource.len() + namespace.len() + name.len();
        let mut text = String::with_capacity(parts + 3);
        let mut add = |part: &str, separator: &str| {
            text.push_str(separator);
            text.push_str(part);
            text.len()
        };
        add(group, "");
        let resource = add(resource, "\0");
        let namespace = add(namespace, "\0");
        add(name, "\0");
        Key { text, resource, namespace }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of<'a>(resource: &'a str, namespace: &'a str, name: &'a str) -> RequestDigest<'a> {
        RequestDigest { resource, namespace, name, ..RequestDigest::default() }
    }

    #[test]
    fn watches_that_see_a_change_are_counted() {
        let tracker = WatchTracker::default();
        let watches = [
            ("pods", "", ""),
            ("pods", "", ""),
            ("pods", "a", ""),
            ("pods", "a", "x"),
            ("nodes", "", "n"),
        ]
        .map(|(resource, namespace, name)| tracker.register(&of(resource, namespace, name)));
        let seen = |resource, namespace, name| tracker.interested(&of(resource, namespace, name));
        let count = || {
            [
                seen("pods", "a", "x"),
                seen("pods", "a", "y"),
                seen("pods", "a", ""),
                seen("pods", "b", "x"),
                seen("nodes", "", "n"),
                seen("nodes", "", "m"),
                seen("secrets", "a", "x"),
            ]
        };
        assert_eq!(count(), [4, 3, 3, 2, 1, 0, 0]);
        let grouped = RequestDigest { group: "g", ..of("pods", "a", "x") };
        assert_eq!(tracker.interested(&grouped), 0);
        drop(watches);
        assert_eq!(count(), [0; 7]);
        assert!(tracker.0.counts.iter().all(|shard| shard.read().unwrap().is_empty()));
    }
}
