//! Metrics of watch events.

use std::sync::Arc;

use http::Extensions;
use http::request::Parts;
use kevel_clock::Stopwatch;
use kevel_component::metrics::{Counter, Histogram};

use super::{Metrics, labels};
use crate::request_info::RequestInfo;
use kevel_registry::verb::Verb;

/// Metrics of a watch's events, a request extension.
#[derive(Clone, Debug)]
pub struct WatchEvents {
    total: Arc<Counter>,
    sizes: Arc<Histogram>,
    initial: Arc<Histogram>,
    started: Stopwatch,
}

impl WatchEvents {
    /// Metrics of a request, if it is counted.
    pub fn of(request: &Parts) -> Option<&Self> {
        request.extensions.get()
    }

    /// Counts an event of so many bytes.
    pub fn sent(&self, bytes: usize) {
        self.total.increment();
        self.sizes.observe(bytes as f64);
    }
}

impl WatchEvents {
    /// Records the end of the state that the watch begins with.
    pub fn initial_sent(&self) {
        self.initial.observe_seconds(self.started.elapsed());
    }
}

impl Metrics {
    /// Adds the metrics of watch events to a request, if it is a watch.
    pub(crate) fn count_watch_events(&self, info: &RequestInfo, extensions: &mut Extensions) {
        if info.verb == Verb::Watch {
            let labels = [info.group.as_str(), &info.version, &info.resource];
            let total = self.watch_events.with(&labels);
            let sizes = self.watch_events_sizes.with(&labels);
            let scope = labels::scope(info);
            let scoped = [info.group.as_str(), &info.version, &info.resource, scope];
            let initial = self.watch_list_duration.with(&scoped);
            let started = Stopwatch::start();
            extensions.insert(WatchEvents { total, sizes, initial, started });
        }
    }
}
