//! Where the time of a request goes that is not this server's own.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use crate::handler::{Filter, Handler, Pending, Response};
use crate::metrics::Series;
use crate::request::Request;

/// What a request waited for, in sum. Whoever makes it wait adds to it.
#[derive(Clone, Debug, Default)]
pub struct LatencyTrackers(Arc<Waits>);

#[derive(Debug, Default)]
struct Waits {
    webhooks: AtomicU64,
    queue: AtomicU64,
    series: OnceLock<Arc<Series>>,
}

impl LatencyTrackers {
    /// Those of a request that passes the chain.
    pub fn of(request: &Request) -> Option<&Self> {
        request.parts.extensions.get()
    }

    /// Adds the time of an admission webhook.
    pub fn add_webhook(&self, time: Duration) {
        add(&self.0.webhooks, time);
    }

    /// Adds the time in a queue of priority and fairness.
    pub fn add_queue(&self, time: Duration) {
        add(&self.0.queue, time);
    }

    /// The time that does not count against the server.
    pub fn excluded(&self) -> Duration {
        let nanos = |of: &AtomicU64| of.load(Relaxed);
        Duration::from_nanos(nanos(&self.0.webhooks).saturating_add(nanos(&self.0.queue)))
    }

    /// The request's metrics, once it is known that there is such a resource.
    pub(super) fn series(&self) -> Option<&Arc<Series>> {
        self.0.series.get()
    }

    pub(super) fn set_series(&self, series: Arc<Series>) {
        let _ = self.0.series.set(series);
    }
}

fn add(to: &AtomicU64, time: Duration) {
    to.fetch_add(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX), Relaxed);
}

/// Puts [`LatencyTrackers`] on requests.
#[derive(Debug)]
pub(super) struct WithLatencyTrackers;

impl Filter for WithLatencyTrackers {
    fn filter<'a>(&'a self, mut request: Request, next: &'a dyn Handler) -> Pending<'a, Response> {
        request.parts.extensions.insert(LatencyTrackers::default());
        next.handle(request)
    }
}
