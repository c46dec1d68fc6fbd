//! Events from before a cache was loaded, read from the engine's history: for watchers that come from another server,
//! or from before this one was restarted.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use kevel_clock::monotonic_now;

use super::{Cache, CacheError, Event, Object, key_below};
use crate::{Error, Revision};

/// Maximum number of events that are read. A client that missed more lists as fast.
const MAX_EVENTS: usize = 10_000;
/// Deadline of the engine for the events.
const DEADLINE: Duration = Duration::from_secs(5);
const PROGRESS: Duration = Duration::from_millis(100);

impl Cache {
    /// Adds to the log the engine's events between a revision and the cache's first load. Events that the log has
    /// dropped are not read again.
    pub(super) async fn recall(&self, after: Revision) -> Result<(), CacheError> {
        // A caller that waited here may find its events added by another.
        let mut in_vain = self.recalling.lock().await;
        let (first, oldest, known) = {
            let log = self.log();
            (log.first(), log.complete_after(), log.is_from_first_load())
        };
        let expired = || CacheError::Expired { requested: after, oldest };
        if after >= oldest {
            return Ok(());
        }
        if !known || after <= *in_vain {
            return Err(expired());
        }
        // Compacted, or the engine is unavailable: the client lists, as it would without recall.
        let told = tokio::time::timeout(DEADLINE, self.history(after, oldest)).await;
        let told = told.ok().and_then(Result::ok).ok_or_else(expired)?;
        let Some(history) = told else {
            // Too many events; an earlier revision would have more.
            *in_vain = after;
            return Err(expired());
        };
        let number = first.checked_sub(history.len() as u64).ok_or_else(expired)?;
        let events = self.events(history, number);
        let added = self.write(|log| log.prepend(events, after, oldest, monotonic_now()));
        if added { Ok(()) } else { Err(expired()) }
    }

    /// The changes after a revision, up to another; `None` if they are too many. If the engine does not report
    /// progress, the changes of all resources are read: every revision changed some key, so the event of the last
    /// revision shows that all have come.
    async fn history(
        &self,
        after: Revision,
        end: Revision,
    ) -> Result<Option<Vec<crate::Event>>, Error> {
        let range = match self.engine.reports_progress() {
            true => self.prefix().as_bytes(),
            false => &*self.root,
        };
        let mut watch = self.engine.watch(range, after).await?;
        let (mut changes, mut heard) = (Vec::new(), 0);
        loop {
            let Ok(told) = tokio::time::timeout(PROGRESS, watch.next()).await else {
                watch.request_progress();
                continue;
            };
            let told = told?;
            heard += told.events.len();
            if heard > MAX_EVENTS {
                return Ok(None);
            }
            changes.extend(told.events.into_iter().filter(|change| {
                change.revision <= end && change.key.starts_with(self.prefix().as_bytes())
            }));
            if told.revision >= end {
                return Ok(Some(changes));
            }
        }
    }

    fn events(&self, changes: Vec<crate::Event>, mut number: u64) -> Vec<Arc<Event>> {
        let mut last: HashMap<String, Option<Arc<Object>>> = HashMap::new();
        let mut events = Vec::with_capacity(changes.len());
        for change in changes {
            let Some(key) = key_below(self.prefix(), &change.key) else { continue };
            let before =
                || change.previous.map(|entry| Arc::new(self.resource.object(key, &entry)));
            let previous = last.remove(key).unwrap_or_else(before);
            let unreadable = change.unreadable;
            let object = |entry| Arc::new(self.resource.changed(key, &entry, unreadable));
            let current = change.current.map(object);
            last.insert(key.to_owned(), current.clone());
            let event = Event::new(number, change.revision, current, previous);
            events.push(Arc::new(event.reporting(self.resource.decode.reports_damage())));
            number += 1;
        }
        events
    }
}
