//! Recent events of a resource (upstream: watchCache's cyclic buffer): watchers read them, and past snapshots are
//! rebuilt with them.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;

use super::{Object, Snapshot};
use crate::Revision;

/// Minimum age at which events leave the log: longer than a client needs to reconnect.
pub const LOG_AGE: Duration = Duration::from_secs(75);
/// At least this many events stay, however old.
pub const LOG_MIN_EVENTS: usize = 100;
/// At most this many events stay, however young.
pub const LOG_MAX_EVENTS: usize = 100 * 1024;
/// At most this many bytes of objects that are no longer current stay.
pub const LOG_MAX_BYTES: usize = 64 << 20;

/// Type of a watch event, as one watcher sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Change {
    /// The object was not there before, or not selected.
    Added,
    /// The object was there and still is.
    Modified,
    /// The object is gone, or no longer selected.
    Deleted,
}

/// Identifies an encoder of events (upstream: `runtime.Identifier`): version, format and shape as text. Never a digest,
/// which two encoders could share: a watcher would get the other's bytes.
pub type EncoderId = Arc<str>;

/// One change of one object, shared by all watchers.
#[derive(Debug)]
pub struct Event {
    /// Number in the log of the resource.
    number: u64,
    revision: Revision,
    current: Option<Arc<Object>>,
    previous: Option<Arc<Object>>,
    /// Whether the object could not be read before or after the change, so that watchers get an error event.
    damaged: bool,
    /// The last state with the revision of the deletion: the object of a DELETED event.
    gone: OnceLock<Arc<Object>>,
    /// Encoded watch event, for each encoder that wrote it.
    encoded: Mutex<Vec<(EncoderId, Change, Bytes)>>,
    /// Event type for watchers, by shared selection.
    seen: OnceLock<Box<Mutex<Seen>>>,
}

/// Event types for watchers, by the number of their selection.
type Seen = Vec<(u64, Option<Change>)>;

/// Maximum number of selections for which an event keeps its type: a log has very many events. Watches with further
/// selections evaluate the event each time.
const REMEMBERED_SELECTIONS: usize = 32;

impl Event {
    pub(super) fn new(
        number: u64,
        revision: Revision,
        current: Option<Arc<Object>>,
        previous: Option<Arc<Object>>,
    ) -> Self {
        Event {
            number,
            revision,
            current,
            previous,
            damaged: false,
            gone: OnceLock::new(),
            encoded: Mutex::default(),
            seen: OnceLock::new(),
        }
    }

    /// Marks the event for watchers, which are told (`reports`) of objects that cannot be read.
    pub(super) fn reporting(self, reports: bool) -> Self {
        let unreadable = |object: &Option<Arc<Object>>| {
            object.as_ref().is_some_and(|object| object.wire().is_err())
        };
        let damaged = reports && (unreadable(&self.current) || unreadable(&self.previous));
        Event { damaged, ..self }
    }

    /// Whether the object could not be read before or after the change, and watchers are told so.
    pub(super) fn is_damaged(&self) -> bool {
        self.damaged
    }

    pub(super) fn number(&self) -> u64 {
        self.number
    }

    /// The revision of the write.
    pub fn revision(&self) -> Revision {
        self.revision
    }

    /// The object after the change; `None` when it was deleted.
    pub fn current(&self) -> Option<&Arc<Object>> {
        self.current.as_ref()
    }

    /// The object before the change; `None` when it was created.
    pub fn previous(&self) -> Option<&Arc<Object>> {
        self.previous.as_ref()
    }

    /// The object that a watcher gets: the new state, or the last one with the deletion's revision.
    pub fn object(&self, change: Change) -> Option<&Arc<Object>> {
        match change {
            Change::Added | Change::Modified => self.current.as_ref(),
            Change::Deleted => {
                let previous = self.previous.as_ref()?;
                Some(self.gone.get_or_init(|| Arc::new(previous.gone(self.revision))))
            }
        }
    }

    /// The event as an encoder writes it, encoded once and shared.
    pub fn encoded(
        &self,
        encoder: &EncoderId,
        change: Change,
        encode: impl FnOnce() -> Bytes,
    ) -> Bytes {
        let lock = || self.encoded.lock().unwrap_or_else(PoisonError::into_inner);
        let find = |all: &[(EncoderId, Change, Bytes)]| {
            let known = all.iter().find(|(e, c, _)| e == encoder && *c == change);
            known.map(|(.., bytes)| bytes.clone())
        };
        if let Some(known) = find(&lock()) {
            return known;
        }
        // Without the lock: encoding is charged. Of concurrent watches each encodes, and all send the bytes that are
        // kept.
        let bytes = encode();
        let mut all = lock();
        if let Some(first) = find(&all) {
            return first;
        }
        all.push((encoder.clone(), change, bytes.clone()));
        bytes
    }

    /// Event type for watches that share a selection, evaluated once.
    pub(super) fn seen_by(
        &self,
        selection: u64,
        evaluate: impl FnOnce() -> Option<Change>,
    ) -> Option<Change> {
        let seen = self.seen.get_or_init(Box::default);
        let lock = || seen.lock().unwrap_or_else(PoisonError::into_inner);
        let known = lock().iter().find(|(known, _)| *known == selection).map(|(_, change)| *change);
        if let Some(change) = known {
            return change;
        }
        // Without the lock: evaluation is charged, and a charge may wait for a permit. Concurrent watches evaluate
        // twice.
        let change = evaluate();
        let mut seen = lock();
        if seen.len() < REMEMBERED_SELECTIONS && seen.iter().all(|(known, _)| *known != selection) {
            seen.push((selection, change));
        }
        change
    }

    /// Wire bytes of the event's object.
    pub(super) fn size(&self) -> usize {
        let shown = self.current.as_ref().or(self.previous.as_ref());
        shown.map_or(0, |object| object.size())
    }

    fn weight(&self) -> usize {
        self.previous.as_ref().map_or(0, |object| object.size()) + size_of::<Event>()
    }
}

/// Number of the first event: the numbers below it are for recalled events.
const FIRST: u64 = 1 << 40;

/// Recent events in order, each with a running number.
#[derive(Debug)]
pub(super) struct Log {
    events: VecDeque<(Instant, Arc<Event>)>,
    /// Number of the first event.
    first: u64,
    bytes: usize,
    /// The log has every event after this revision.
    complete_after: Revision,
    /// Whether the log has dropped no event and was not reset with a gap.
    whole: bool,
}

impl Default for Log {
    fn default() -> Self {
        let (events, bytes, complete_after) = Default::default();
        Log { events, first: FIRST, bytes, complete_after, whole: true }
    }
}

impl Log {
    /// Empties the log: events up to `revision` are unknown. With `gap` the numbers jump, so that watchers that read
    /// the log before get [`super::CacheError::Expired`].
    pub fn reset(&mut self, revision: Revision, gap: bool) {
        self.first = self.end() + u64::from(gap);
        self.events.clear();
        self.bytes = 0;
        self.complete_after = revision;
        self.whole &= !gap;
    }

    /// Adds earlier events between two revisions, of which the second is the one that the log began after. `false` if
    /// the log no longer begins there.
    pub fn prepend(
        &mut self,
        events: Vec<Arc<Event>>,
        after: Revision,
        until: Revision,
        now: Instant,
    ) -> bool {
        let follows = events.last().is_none_or(|last| last.number + 1 == self.first);
        if !self.whole || self.complete_after != until || !follows {
            return false;
        }
        for event in events.into_iter().rev() {
            self.bytes += event.weight();
            self.first -= 1;
            self.events.push_front((now, event));
        }
        self.complete_after = after;
        true
    }

    pub fn push(&mut self, event: Arc<Event>, now: Instant) {
        self.bytes += event.weight();
        self.events.push_back((now, event));
        while let Some((time, event)) = self.events.front() {
            let over = self.events.len() > LOG_MAX_EVENTS || self.bytes > LOG_MAX_BYTES;
            let stale = self.events.len() > LOG_MIN_EVENTS && now - *time > LOG_AGE;
            if !over && !stale {
                break;
            }
            self.bytes -= event.weight();
            self.complete_after = event.revision;
            self.events.pop_front();
            self.first += 1;
            self.whole = false;
        }
    }

    /// Whether earlier events can be added.
    pub fn is_from_first_load(&self) -> bool {
        self.whole
    }

    /// Number of the first event.
    pub fn first(&self) -> u64 {
        self.first
    }

    /// Number of events.
    pub fn len(&self) -> usize {
        self.events.len()
    }

    /// Number of the next event.
    pub fn end(&self) -> u64 {
        self.first + self.events.len() as u64
    }

    pub fn complete_after(&self) -> Revision {
        self.complete_after
    }

    /// Number of the first event after a revision; `None` when the log no longer covers it.
    pub fn position_after(&self, revision: Revision) -> Option<u64> {
        if revision < self.complete_after {
            return None;
        }
        let skip = self.events.partition_point(|(_, event)| event.revision <= revision);
        Some(self.first + skip as u64)
    }

    /// Events from a number on, at most `limit`; `None` when the first has left the log.
    pub fn read(&self, from: u64, limit: usize) -> Option<impl Iterator<Item = &Arc<Event>>> {
        let skip = usize::try_from(from.checked_sub(self.first)?).ok()?;
        Some(self.events.iter().skip(skip).take(limit).map(|(_, event)| event))
    }

    /// The events after a revision; `None` when the log no longer covers them.
    pub fn after(&self, revision: Revision) -> Option<Vec<Arc<Event>>> {
        let from = self.position_after(revision)?;
        Some(self.read(from, usize::MAX)?.cloned().collect())
    }
}

/// Snapshot at an earlier revision: undoes the events since.
pub(super) fn rewind(snapshot: &Snapshot, revision: Revision, since: &[Arc<Event>]) -> Snapshot {
    let mut past = snapshot.at(revision);
    for event in since.iter().rev() {
        kevel_compute::charge(4);
        match (&event.previous, &event.current) {
            (Some(previous), _) => past.insert(previous.clone()),
            (None, Some(current)) => past.remove(current.key()),
            (None, None) => {}
        }
    }
    past
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;
    use crate::cache::{Span, Wire};

    /// Revisions between two events: other resources change, too.
    const STEP: u64 = 10;

    #[test]
    fn log_keeps_what_its_limits_allow_and_says_so() {
        let large = Bytes::from(vec![b'x'; 1 << 20]);
        let large_fit = LOG_MAX_BYTES / (large.len() + size_of::<Event>());
        let (none, young, old) = (Bytes::new(), LOG_AGE, LOG_AGE + Duration::from_secs(1));
        for (count, value, age, kept) in [
            (LOG_MAX_EVENTS, &none, young, LOG_MAX_EVENTS),
            (LOG_MAX_EVENTS + 3, &none, young, LOG_MAX_EVENTS),
            (large_fit, &large, young, large_fit),
            (large_fit + 2, &large, young, large_fit),
            (LOG_MIN_EVENTS, &none, old, LOG_MIN_EVENTS),
            (LOG_MIN_EVENTS + 2, &none, old, LOG_MIN_EVENTS),
        ] {
            let span = Span { start: 0, len: 0 };
            let wire = Wire { bytes: value.clone(), revision: span, labels: span };
            let object = Arc::new(Object::readable("a", Revision(1), wire));
            let began = kevel_clock::monotonic_now();
            let mut log = Log::default();
            for number in 1..=count as u64 {
                let revision = Revision(number * STEP);
                let event = Event::new(log.end(), revision, None, Some(object.clone()));
                let last = number == count as u64;
                log.push(Arc::new(event), if last { began + age } else { began });
            }
            let what = format!("{count} events of {} bytes, {age:?} old", value.len());
            let dropped = count - kept;
            assert_eq!(log.end() - log.first(), kept as u64, "{what}");
            assert_eq!(log.is_from_first_load(), dropped == 0, "{what}");
            // What was dropped last is the end of the unknown.
            let known = Revision(dropped as u64 * STEP);
            assert_eq!(log.complete_after(), known, "{what}");
            assert_eq!(log.position_after(known), Some(log.first()), "{what}");
            assert_eq!(log.after(known).map(|events| events.len()), Some(kept), "{what}");
            if dropped > 0 {
                assert_eq!(log.position_after(Revision(known.0 - 1)), None, "{what}");
            }
        }
    }

    #[test]
    fn each_encoder_and_change_has_bytes_of_its_own() {
        let event = Event::new(1, Revision(1), None, None);
        let mut encodings = 0;
        for _ in 0..2 {
            for encoder in ["v1 json", "v1 protobuf", "v1beta1 json"] {
                for change in [Change::Added, Change::Modified, Change::Deleted] {
                    let text = format!("{encoder} {change:?}");
                    let bytes = event.encoded(&encoder.into(), change, || {
                        encodings += 1;
                        text.clone().into()
                    });
                    assert_eq!(bytes, text);
                }
            }
        }
        assert_eq!(encodings, 9, "each is written once");
    }

    /// A watch that waits at a charge while it encodes does not block another.
    #[test]
    fn event_is_encoded_while_another_watch_waits() {
        let event = &Event::new(1, Revision(1), None, None);
        let encoder = &EncoderId::from("json");
        let (encodes, is_encoding) = mpsc::channel();
        let (go_on, waits) = mpsc::channel();
        std::thread::scope(|scope| {
            let first = scope.spawn(move || {
                event.encoded(encoder, Change::Added, || {
                    let _ = encodes.send(());
                    waits.recv_timeout(Duration::from_secs(60)).unwrap();
                    Bytes::from("first")
                })
            });
            is_encoding.recv().unwrap();
            let second = event.encoded(encoder, Change::Added, || Bytes::from("second"));
            go_on.send(()).unwrap();
            assert_eq!((first.join().unwrap(), &second[..]), (second.clone(), &b"second"[..]));
        });
    }
}
