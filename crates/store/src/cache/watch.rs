//! Watchers (upstream: cacheWatcher): readers of a cache's log, or of a queue if the selection requires one value of an
//! indexed field.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use kevel_clock::timer_now;
use tokio::sync::{mpsc, watch as signal};
use tokio::time::Instant;

use super::selection::{NAME, Selection, SharedSelection, Topic};
use super::{
    Cache, CacheError, Change, Event, FRESHNESS_WAIT, FieldPath, Following, Object, Resource,
    Snapshot,
};
use crate::Revision;

/// Maximum number of queued events of a watcher with an indexed field; with more the watch is ended.
pub const WATCHER_QUEUE: usize = 1000;
/// Time that a watch waits for a revision that the engine has not reached: longer than the servers of a cluster are
/// apart. A revision that is not reached by then is of another history, such as the one before the restore of a backup,
/// and waiting on would miss the events of this one.
pub const AHEAD_WAIT: Duration = Duration::from_secs(10);
/// Maximum bytes of objects in the queue; one larger event is allowed.
pub const WATCHER_QUEUE_BYTES: usize = 16 << 20;
/// Maximum number of events that a watcher takes at a time.
const READ_BATCH: usize = 256;
/// Bytes of objects after which a watcher takes no more events at a time: a client that stops reading holds them in
/// memory.
const READ_BYTES: usize = 64 << 10;

/// An event with its type for this watcher.
#[derive(Clone, Debug)]
pub struct Delivery {
    /// Event type, given the watcher's selection.
    pub change: Change,
    /// The event.
    pub event: Arc<Event>,
}

impl Delivery {
    /// Whether the watcher has to forget an object whose last state cannot be read. What it has of the object is then
    /// unknown.
    pub fn is_lost(&self) -> bool {
        self.change == Change::Deleted && self.event.is_damaged()
    }
}

fn value_at<'o>(object: &'o Object, paths: &[FieldPath], position: usize) -> &'o str {
    if position == NAME { object.name() } else { object.field(paths, position) }
}

/// Watchers with an indexed field, by the field's value.
#[derive(Debug, Default)]
pub(super) struct Subscribers {
    queues: Mutex<HashMap<Topic, Vec<Sender>>>,
}

/// Sending side of a watcher's queue.
#[derive(Debug)]
struct Sender {
    events: mpsc::Sender<Arc<Event>>,
    /// Bytes of objects in the queue.
    waiting: Arc<AtomicUsize>,
}

impl Sender {
    /// Queues an event; `false` if the watcher has ended or its queue is full.
    fn send(&self, event: &Arc<Event>) -> bool {
        let waiting = self.waiting.fetch_add(event.size(), Ordering::AcqRel);
        (waiting == 0 || waiting + event.size() <= WATCHER_QUEUE_BYTES)
            && self.events.try_send(event.clone()).is_ok()
    }
}

/// Receiving side of a watcher's queue.
#[derive(Debug)]
struct Receiver {
    events: mpsc::Receiver<Arc<Event>>,
    waiting: Arc<AtomicUsize>,
}

impl Receiver {
    async fn recv(&mut self) -> Option<Arc<Event>> {
        let event = self.events.recv().await?;
        self.waiting.fetch_sub(event.size(), Ordering::AcqRel);
        Some(event)
    }

    fn try_recv(&mut self) -> Option<Arc<Event>> {
        let event = self.events.try_recv().ok()?;
        self.waiting.fetch_sub(event.size(), Ordering::AcqRel);
        Some(event)
    }
}

impl Subscribers {
    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<Topic, Vec<Sender>>> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn subscribe(&self, topic: Topic) -> Receiver {
        let (sender, events) = mpsc::channel(WATCHER_QUEUE);
        let waiting = Arc::<AtomicUsize>::default();
        let sender = Sender { events: sender, waiting: waiting.clone() };
        self.lock().entry(topic).or_default().push(sender);
        Receiver { events, waiting }
    }

    /// Queues events for the watchers of the values that the objects have or had. A queue that is full or abandoned is
    /// dropped, which ends its watcher.
    pub fn publish(&self, events: &[Arc<Event>], resource: &Resource) {
        if self.lock().is_empty() {
            return;
        }
        for event in events {
            if event.is_damaged() {
                self.publish_damaged(event);
                continue;
            }
            // Before the lock is taken: locating a field reads the object, which is charged.
            let topics = topics(event, resource);
            let mut queues = self.lock();
            for topic in topics {
                let Some(senders) = queues.get_mut(&topic) else { continue };
                senders.retain(|sender| sender.send(event));
                if senders.is_empty() {
                    queues.remove(&topic);
                }
            }
        }
    }

    /// Queues the change of an object that could not be read before or after it: it may have had any value of an indexed
    /// field, except of the name.
    fn publish_damaged(&self, event: &Arc<Event>) {
        let object = event.current().or(event.previous());
        let name = object.map_or("", |object| object.name());
        self.lock().retain(|(position, value), senders| {
            if *position != NAME || **value == *name {
                senders.retain(|sender| sender.send(event));
            }
            !senders.is_empty()
        });
    }

    /// Ends every watcher.
    pub fn clear(&self) {
        self.lock().clear();
    }

    /// Drops the queues of ended watchers, also for values that have no further events.
    pub fn sweep(&self) {
        self.lock().retain(|_, senders| {
            senders.retain(|sender| !sender.events.is_closed());
            !senders.is_empty()
        });
    }
}

/// Values of indexed fields that an event's object has or had.
fn topics(event: &Event, resource: &Resource) -> Vec<Topic> {
    let mut topics = Vec::new();
    for position in resource.indexed.iter().copied().chain([NAME]) {
        let value = |object: &'_ Arc<Object>| {
            let value = value_at(object, &resource.fields, position);
            (position, Box::from(value))
        };
        let (before, after) = (event.previous().map(value), event.current().map(value));
        let left = before.filter(|before| Some(before) != after.as_ref());
        topics.extend(after.into_iter().chain(left));
    }
    topics
}

/// A watch of a resource (upstream: cacheWatcher).
#[derive(Debug)]
pub struct Watcher {
    cache: Arc<Cache>,
    selection: Arc<SharedSelection>,
    source: EventSource,
    /// Number of the first event that was not read yet.
    next: u64,
    /// The requested revision: events up to it are not delivered, whenever the cache receives them.
    start: Revision,
    /// Deadline for reaching `start`, if it is in the future.
    ahead: Option<Instant>,
    /// Every event up to this revision was delivered.
    revision: Revision,
}

#[derive(Debug)]
enum EventSource {
    /// Every event, from the log.
    Log { grown: signal::Receiver<u64> },
    /// Events about one value of an indexed field: up to number `log_end` (the subscription) from the log, later ones
    /// from the queue.
    Queue { log_end: u64, events: Receiver },
}

impl Cache {
    /// Watches the selected objects: every change after revision `after`. Ends with [`CacheError::TooLarge`] if the
    /// engine does not reach `after` within [`AHEAD_WAIT`].
    pub async fn watch(
        self: &Arc<Self>,
        selection: Selection,
        after: Revision,
    ) -> Result<Watcher, CacheError> {
        self.ready().await?;
        if after < self.oldest() {
            self.recall(after).await?;
        }
        let mut watcher = self.watcher(selection);
        watcher.start_after(after)?;
        watcher.ahead = (after > self.latest().revision()).then(|| timer_now() + AHEAD_WAIT);
        Ok(watcher)
    }

    /// Watches the selected objects from now on: a snapshot, and every change after it (upstream: WatchList).
    pub async fn list_watch(
        self: &Arc<Self>,
        selection: Selection,
        at: super::At,
    ) -> Result<(Snapshot, Watcher), CacheError> {
        let asked = self.snapshot(at).await?;
        let mut watcher = self.watcher(selection);
        // Subscribed before the snapshot is read, so that no event falls in between.
        let latest = self.latest();
        let snapshot = if latest.revision() >= asked.revision() { latest } else { asked };
        watcher.start_after(snapshot.revision())?;
        Ok((snapshot, watcher))
    }

    /// Waits until the engine has reached a revision.
    async fn come_to(&self, requested: Revision, deadline: Instant) -> Result<(), CacheError> {
        if self.engine.reports_progress() {
            return self.reach_by(deadline, requested, Following::OrNot).await;
        }
        loop {
            let current = self.engine.current_revision().await?;
            if requested <= current {
                return Ok(());
            }
            if timer_now() >= deadline {
                return Err(CacheError::TooLarge { requested, current });
            }
            tokio::time::sleep(FRESHNESS_WAIT).await;
        }
    }

    fn watcher(self: &Arc<Self>, selection: Selection) -> Watcher {
        let source = match selection.topic(&self.resource.indexed) {
            None => EventSource::Log { grown: self.grown.subscribe() },
            Some(topic) => {
                EventSource::Queue { log_end: 0, events: self.subscribers.subscribe(topic) }
            }
        };
        let selection = self.selections.share(selection);
        let (cache, start) = (self.clone(), Revision::default());
        Watcher { cache, selection, source, next: 0, start, ahead: None, revision: start }
    }
}

impl Watcher {
    fn start_after(&mut self, after: Revision) -> Result<(), CacheError> {
        let log = self.cache.log();
        let expired = || CacheError::Expired { requested: after, oldest: log.complete_after() };
        self.next = log.position_after(after).ok_or_else(expired)?;
        if let EventSource::Queue { log_end, .. } = &mut self.source {
            *log_end = log.end();
        }
        (self.start, self.revision) = (after, after);
        Ok(())
    }

    /// The watcher's selection.
    pub fn selection(&self) -> &Selection {
        self.selection.get()
    }

    /// The watched cache.
    pub fn cache(&self) -> &Arc<Cache> {
        &self.cache
    }

    /// Waits for changes and adds them to `out`; at least one.
    ///
    /// May be dropped at any time without losing an event.
    pub async fn next(&mut self, out: &mut Vec<Delivery>) -> Result<(), CacheError> {
        if let Some(deadline) = self.ahead {
            self.cache.come_to(self.start, deadline).await?;
            self.ahead = None;
        }
        let before = out.len();
        loop {
            let looked = self.step(out).await?;
            if out.len() > before {
                return Ok(());
            }
            // Events that are not selected take time too; let other tasks run.
            if looked {
                tokio::task::yield_now().await;
            }
        }
    }

    /// Takes the next events. Returns whether events were read, rather than waited for.
    async fn step(&mut self, out: &mut Vec<Delivery>) -> Result<bool, CacheError> {
        match &mut self.source {
            EventSource::Log { grown } => {
                if *grown.borrow_and_update() > self.next {
                    return self.read_log(u64::MAX, out).map(|()| true);
                }
                // Closing signals `grown` after it sets the state: in this order it is not missed.
                let closed = self.cache.state.borrow().is_over();
                if closed || grown.changed().await.is_err() {
                    return Err(CacheError::Closed);
                }
                return Ok(false);
            }
            EventSource::Queue { log_end, .. } if self.next < *log_end => {
                let end = *log_end;
                return self.read_log(end, out).map(|()| true);
            }
            EventSource::Queue { events, .. } => {
                let first = match events.try_recv() {
                    Some(event) => event,
                    // Subscribed before the state is read: closing clears the subscriptions that it finds.
                    None if self.cache.state.borrow().is_over() => return Err(self.ended()),
                    None => match events.recv().await {
                        Some(event) => event,
                        None => return Err(self.ended()),
                    },
                };
                let (mut next, mut taken) = (Some(first), BatchSize::default());
                while let Some(event) = next {
                    // The queue may repeat events of the log.
                    let new = event.number() >= self.next;
                    self.next = self.next.max(event.number() + 1);
                    if new && event.revision() > self.start {
                        self.revision = event.revision();
                        if let Some(change) = self.selection.change(&event) {
                            taken.add(&event);
                            out.push(Delivery { change, event });
                        }
                    }
                    next = if taken.is_enough() { None } else { events.try_recv() };
                }
            }
        }
        Ok(true)
    }

    /// Takes events from the log, up to a number. They are evaluated after the lock on the log ends: the feed of all
    /// resources writes to the log, and a selector may be large.
    fn read_log(&mut self, end: u64, out: &mut Vec<Delivery>) -> Result<(), CacheError> {
        let batch: Vec<Arc<Event>> = {
            let log = self.cache.log();
            let expired =
                || CacheError::Expired { requested: self.revision, oldest: log.complete_after() };
            let events = log.read(self.next, READ_BATCH).ok_or_else(expired)?;
            events.take_while(|event| event.number() < end).cloned().collect()
        };
        let mut taken = BatchSize::default();
        for event in batch {
            if taken.is_enough() {
                break;
            }
            self.next = event.number() + 1;
            if event.revision() <= self.start {
                continue;
            }
            self.revision = event.revision();
            if let Some(change) = self.selection.change(&event) {
                taken.add(&event);
                out.push(Delivery { change, event });
            }
        }
        Ok(())
    }

    /// Reason that the queue was closed: the cache ended, or this watcher was too slow.
    fn ended(&self) -> CacheError {
        if self.cache.state.borrow().is_over() {
            return CacheError::Closed;
        }
        CacheError::Expired { requested: self.revision, oldest: self.cache.oldest() }
    }

    /// Revision up to which every event was delivered: a bookmark's resourceVersion.
    pub fn caught_up(&mut self) -> Revision {
        // Progress first, see `Cache::latest`. It is announced after its events are queued.
        let progress = *self.cache.progress.borrow();
        let follows = self.cache.current.load().follows(progress);
        let idle = match &self.source {
            EventSource::Log { .. } => self.cache.log().end() == self.next,
            // A closed queue has missed the events of the reload.
            EventSource::Queue { log_end, events } => {
                let events = &events.events;
                self.next >= *log_end && events.is_empty() && !events.is_closed()
            }
        };
        if idle && follows {
            self.revision = self.revision.max(progress.of_stream());
        }
        self.revision
    }
}

/// Amount taken at a time.
#[derive(Default)]
struct BatchSize {
    events: usize,
    bytes: usize,
}

impl BatchSize {
    fn add(&mut self, event: &Event) {
        self.events += 1;
        self.bytes += event.size();
    }

    fn is_enough(&self) -> bool {
        self.events >= READ_BATCH || self.bytes >= READ_BYTES
    }
}
