//! Recorder of Events.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::UNIX_EPOCH;

use kevel_api::status::{StatusError, reason};
use kevel_api::time::Time;
use kevel_api::value::{Map, Value};
use kevel_controller_runtime::Client;

/// Events that are remembered, so that the same one is counted and not stored again. A recorder forgets all of them
/// when there are more.
const MAX_REMEMBERED: usize = 4096;

/// Records Events about objects (upstream: `EventRecorder`). Failures are logged: an Event is no part of a controller's
/// work.
#[derive(Debug)]
pub struct EventRecorder {
    client: Client,
    component: &'static str,
    seen: Mutex<HashMap<EventKey, RecordedEvent>>,
    /// Nanosecond in the name of the last Event.
    last: AtomicU64,
}

/// Object that an Event is about.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Regarding {
    /// `apps/v1`
    pub api_version: String,
    /// `Deployment`
    pub kind: String,
    /// Namespace; empty for cluster-scoped objects.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// UID.
    pub uid: String,
}

/// Types of Events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EventKind {
    /// Information.
    Normal,
    /// A problem.
    Warning,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct EventKey(Regarding, EventKind, &'static str, String);

#[derive(Clone, Debug)]
struct RecordedEvent {
    path: String,
    count: i64,
}

impl EventRecorder {
    pub(crate) fn new(client: Client, component: &'static str) -> Self {
        EventRecorder { client, component, seen: Mutex::default(), last: AtomicU64::new(0) }
    }

    /// Records an event. One that was recorded before is counted.
    pub async fn event(
        &self,
        regarding: &Regarding,
        of: EventKind,
        reason: &'static str,
        message: &str,
    ) {
        let key = EventKey(regarding.clone(), of, reason, message.to_owned());
        if let Err(error) = self.record(&key).await {
            tracing::warn!(controller = self.component, %error, message, "Event was not recorded");
        }
    }

    async fn record(&self, key: &EventKey) -> Result<(), StatusError> {
        if let Some(seen) = self.count(key) {
            let now = Value::from(Time::now(self.client.clock()).to_string().as_str());
            let patch =
                Map::from_iter([("count", Value::from(seen.count)), ("lastTimestamp", now)]);
            match self.client.merge_patch(&seen.path, &patch.into()).await {
                // Events expire.
                Err(error) if error.reason() == reason::NOT_FOUND => {}
                patched => return patched.map(drop),
            }
        }
        let namespace = if key.0.namespace.is_empty() { "default" } else { &key.0.namespace };
        let name = format!("{}.{:x}", key.0.name, self.nanosecond());
        let path = format!("/api/v1/namespaces/{namespace}/events");
        self.client.create(&path, &self.object(key, namespace, &name)).await?;
        let seen = RecordedEvent { path: format!("{path}/{name}"), count: 1 };
        self.lock().insert(key.clone(), seen);
        Ok(())
    }

    /// The present nanosecond, or the one after that of the last Event: no two have the same.
    fn nanosecond(&self) -> u64 {
        let since = self.client.clock().now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let now = u64::try_from(since.as_nanos()).unwrap_or(u64::MAX);
        let next = |last: u64| now.max(last.saturating_add(1));
        let last =
            self.last.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |last| Some(next(last)));
        last.map_or(now, next)
    }

    fn count(&self, key: &EventKey) -> Option<RecordedEvent> {
        let mut seen = self.lock();
        if seen.len() >= MAX_REMEMBERED {
            seen.clear();
        }
        let seen = seen.get_mut(key)?;
        seen.count += 1;
        Some(seen.clone())
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<EventKey, RecordedEvent>> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn object(
        &self,
        EventKey(regarding, of, reason, message): &EventKey,
        namespace: &str,
        name: &str,
    ) -> Value {
        let text = |text: &str| Value::from(text);
        let involved = Map::from_iter([
            ("apiVersion", text(&regarding.api_version)),
            ("kind", text(&regarding.kind)),
            ("namespace", text(&regarding.namespace)),
            ("name", text(&regarding.name)),
            ("uid", text(&regarding.uid)),
        ]);
        let metadata = Map::from_iter([("namespace", text(namespace)), ("name", text(name))]);
        let now = Time::now(self.client.clock()).to_string();
        let source = Map::from_iter([("component", text(self.component))]);
        let of = match of {
            EventKind::Normal => "Normal",
            EventKind::Warning => "Warning",
        };
        Map::from_iter([
            ("apiVersion", text("v1")),
            ("kind", text("Event")),
            ("metadata", metadata.into()),
            ("involvedObject", involved.into()),
            ("reason", text(reason)),
            ("message", text(message)),
            ("source", source.into()),
            ("firstTimestamp", text(&now)),
            ("lastTimestamp", text(&now)),
            ("count", Value::from(1i64)),
            ("type", text(of)),
        ])
        .into()
    }
}
