//! Watches: past events are read from the history, new ones are sent by the writer.

use std::{
    collections::{BTreeMap, HashMap},
    mem,
    sync::{Arc, Mutex},
};

use bytes::Bytes;
use tokio::sync::mpsc::{self, Receiver, Sender};

use super::{Shared, database::lock};
use crate::{Error, Event, Pending, Result, Revision, WatchResponse, WatchSource};

/// Number of responses that wait for a watcher. A watcher that falls further behind is dropped from the hub and reads
/// the missed events from the history.
const BACKLOG: usize = 64;

/// Passes events from the writer to the watches.
#[derive(Debug, Default)]
pub(super) struct Hub(Mutex<Subscriptions>);

#[derive(Debug, Default)]
struct Subscriptions {
    /// Revision up to which events have been passed on.
    last: u64,
    closed: bool,
    next_id: u64,
    by_prefix: HashMap<Bytes, Vec<Subscription>>,
    /// Number of prefixes by length: a key is looked up by each length.
    lengths: BTreeMap<usize, usize>,
}

#[derive(Debug)]
struct Subscription {
    id: u64,
    sender: Sender<WatchResponse>,
    /// Events of the batch that is being passed on.
    pending: Vec<Event>,
}

impl Hub {
    pub(super) fn new(last: u64) -> Hub {
        Hub(Mutex::new(Subscriptions { last, ..Subscriptions::default() }))
    }

    /// Sends a batch of events, which ends with revision `last`, to the watches of their keys.
    pub(super) fn publish(&self, events: &[Event], last: u64) {
        lock(&self.0).publish(events, last);
    }

    /// Ends all watches.
    pub(super) fn close(&self) {
        let mut hub = lock(&self.0);
        hub.closed = true;
        hub.by_prefix.clear();
        hub.lengths.clear();
    }

    /// Subscribes to the events after the returned revision.
    fn subscribe(&self, prefix: &Bytes) -> Result<(u64, u64, Receiver<WatchResponse>)> {
        let mut hub = lock(&self.0);
        if hub.closed {
            return Err(Error::closed());
        }
        let (sender, receiver) = mpsc::channel(BACKLOG);
        let id = hub.next_id;
        hub.next_id += 1;
        *hub.lengths.entry(prefix.len()).or_default() += 1;
        let subscription = Subscription { id, sender, pending: Vec::new() };
        hub.by_prefix.entry(prefix.clone()).or_default().push(subscription);
        Ok((id, hub.last, receiver))
    }

    fn unsubscribe(&self, prefix: &Bytes, id: u64) {
        lock(&self.0).remove(prefix, |subscription| subscription.id == id);
    }

    fn report_progress(&self, prefix: &Bytes, id: u64) {
        let hub = lock(&self.0);
        let progress = WatchResponse { events: Vec::new(), revision: Revision(hub.last) };
        let subscription =
            hub.by_prefix.get(prefix).and_then(|all| all.iter().find(|s| s.id == id));
        if let Some(subscription) = subscription {
            // With a full backlog the watch gets newer revisions anyway.
            let _ = subscription.sender.try_send(progress);
        }
    }
}

impl Subscriptions {
    fn publish(&mut self, events: &[Event], last: u64) {
        self.last = last;
        let mut touched: Vec<&[u8]> = Vec::new();
        for event in events {
            for &length in self.lengths.keys() {
                let Some(prefix) = event.key.get(..length) else { break };
                let Some(subscriptions) = self.by_prefix.get_mut(prefix) else { continue };
                for subscription in subscriptions {
                    if subscription.pending.is_empty() {
                        touched.push(prefix);
                    }
                    subscription.pending.push(event.clone());
                }
            }
        }
        for prefix in touched {
            self.remove(prefix, |subscription| {
                let events = mem::take(&mut subscription.pending);
                let response = WatchResponse { events, revision: Revision(last) };
                !response.events.is_empty() && subscription.sender.try_send(response).is_err()
            });
        }
    }

    fn remove(&mut self, prefix: &[u8], condition: impl FnMut(&mut Subscription) -> bool) {
        let Some(subscriptions) = self.by_prefix.get_mut(prefix) else { return };
        let removed = subscriptions.extract_if(.., condition).count();
        if subscriptions.is_empty() {
            self.by_prefix.remove(prefix);
        }
        if let Some(count) = self.lengths.get_mut(&prefix.len()) {
            *count = count.saturating_sub(removed);
            if *count == 0 {
                self.lengths.remove(&prefix.len());
            }
        }
    }
}

/// One watch. It keeps its position, so it can always resume from the history.
pub(super) struct EmbeddedWatch {
    shared: Arc<Shared>,
    prefix: Bytes,
    after: u64,
    id: u64,
    /// Revision up to which the history is read; later events come from `live`.
    handover: u64,
    live: Receiver<WatchResponse>,
    /// The read of history under way. Kept here because a caller may drop `next` and call it again: a read that started
    /// over each time would never end.
    reading: Option<Pending<'static, Result<WatchResponse>>>,
}

impl EmbeddedWatch {
    pub(super) fn start(shared: Arc<Shared>, prefix: Bytes, after: u64) -> Result<EmbeddedWatch> {
        let compacted = shared.compacted();
        if after < compacted.0 {
            return Err(Error::Compacted { requested: Revision(after), compacted });
        }
        let (id, handover, live) = shared.hub.subscribe(&prefix)?;
        Ok(EmbeddedWatch { shared, prefix, after, id, handover, live, reading: None })
    }

    async fn step(&mut self) -> Result<WatchResponse> {
        loop {
            if self.after < self.handover {
                let reading = self.reading.get_or_insert_with(|| {
                    let (prefix, after, until) = (self.prefix.clone(), self.after, self.handover);
                    let shared = self.shared.clone();
                    Box::pin(shared.blocking(move |s| s.reader().history(&prefix, after, until)))
                });
                let read = reading.await;
                self.reading = None;
                let response = read?;
                self.after = response.revision.0;
                if !response.events.is_empty() {
                    return Ok(response);
                }
                continue;
            }
            match self.live.recv().await {
                Some(mut response) => {
                    // A watch may begin at a revision that is not written yet.
                    response.events.retain(|event| event.revision.0 > self.after);
                    let progress = response.revision.0 >= self.after;
                    self.after = self.after.max(response.revision.0);
                    if progress {
                        return Ok(response);
                    }
                }
                None => {
                    let (id, handover, live) = self.shared.hub.subscribe(&self.prefix)?;
                    (self.id, self.handover, self.live) = (id, handover, live);
                }
            }
        }
    }
}

impl WatchSource for EmbeddedWatch {
    fn next(&mut self) -> Pending<'_, Result<WatchResponse>> {
        Box::pin(self.step())
    }

    fn request_progress(&mut self) {
        self.shared.hub.report_progress(&self.prefix, self.id);
    }
}

impl Drop for EmbeddedWatch {
    fn drop(&mut self) {
        self.shared.hub.unsubscribe(&self.prefix, self.id);
    }
}
