//! Cache of webhook responses.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use kevel_clock::{Clock, Moment};
use ring::digest::{SHA256, digest};

/// Key of a request: its SHA-256, since requests have no size limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CacheKey([u8; 32]);

impl CacheKey {
    /// Key of a request.
    pub fn of(question: &[u8]) -> Self {
        let mut key = [0; 32];
        key.copy_from_slice(digest(&SHA256, question).as_ref());
        CacheKey(key)
    }
}

/// A bounded LRU cache of responses.
#[derive(Debug)]
pub struct AnswerCache<A> {
    limit: usize,
    time: Clock,
    entries: Mutex<Entries<A>>,
}

#[derive(Debug)]
struct Entries<A> {
    answers: HashMap<CacheKey, Entry<A>>,
    /// Keys by their last use.
    order: BTreeMap<u64, CacheKey>,
    /// Counter of uses.
    clock: u64,
}

#[derive(Debug)]
struct Entry<A> {
    answer: A,
    expires: Moment,
    asked: u64,
}

impl<A: Clone> AnswerCache<A> {
    /// A cache of so many responses, with the server's clock.
    pub fn new(limit: usize, time: &Clock) -> Self {
        let entries = Entries { answers: HashMap::new(), order: BTreeMap::new(), clock: 0 };
        AnswerCache { limit, time: time.clone(), entries: Mutex::new(entries) }
    }

    /// The response, unless it has expired.
    pub fn get(&self, key: &CacheKey) -> Option<A> {
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        let Entries { answers, order, clock } = &mut *entries;
        let entry = answers.get_mut(key)?;
        order.remove(&entry.asked);
        if entry.expires <= self.time.moment() {
            answers.remove(key);
            return None;
        }
        *clock += 1;
        entry.asked = *clock;
        order.insert(entry.asked, *key);
        Some(entry.answer.clone())
    }

    /// Stores a response for a time.
    pub fn put(&self, key: CacheKey, answer: A, ttl: Duration) {
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        let Entries { answers, order, clock } = &mut *entries;
        *clock += 1;
        let entry = Entry { answer, expires: self.time.moment() + ttl, asked: *clock };
        order.insert(entry.asked, key);
        if let Some(old) = answers.insert(key, entry) {
            order.remove(&old.asked);
        }
        while answers.len() > self.limit
            && let Some((_, oldest)) = order.pop_first()
        {
            answers.remove(&oldest);
        }
    }
}

#[cfg(test)]
mod tests {
    use kevel_clock::ManualClock;

    use super::*;

    #[test]
    fn an_answer_is_remembered_for_a_while() {
        let clock = ManualClock::at_present();
        let cache = AnswerCache::new(2, &clock.clock());
        let key = |i: u8| CacheKey::of(&[i]);
        cache.put(key(1), 'a', Duration::from_secs(10));
        cache.put(key(2), 'b', Duration::from_secs(20));
        assert_eq!((cache.get(&key(1)), cache.get(&key(2))), (Some('a'), Some('b')));
        clock.advance(Duration::from_secs(10));
        assert_eq!((cache.get(&key(1)), cache.get(&key(2))), (None, Some('b')));
        // Beyond the limit, the least recently used entry is removed.
        cache.put(key(3), 'c', Duration::from_secs(10));
        assert_eq!(cache.get(&key(2)), Some('b'));
        cache.put(key(4), 'd', Duration::from_secs(10));
        assert_eq!([2, 3, 4].map(|i| cache.get(&key(i))), [Some('b'), None, Some('d')]);
        let entries = cache.entries.lock().unwrap();
        assert_eq!((entries.answers.len(), entries.order.len()), (2, 2));
    }
}
