//! `--max-requests-inflight`, `--max-mutating-requests-inflight` (upstream: `WithMaxInFlightLimit`).

use std::sync::Arc;

use super::Installed;
use super::held::{Hold, hold};
use super::long_running::is_long_running;
use super::too_many_requests::too_many_requests;
use crate::flowcontrol::READ_ONLY;
use crate::handler::{Filter, Handler, Response};
use crate::metrics::{InFlightWatermark, Metrics};
use crate::request::Request;
use kevel_component::future::Pending;
use kevel_registry::user::PRIVILEGED;

/// `Retry-After` of refused requests, in seconds.
const RETRY_AFTER: u64 = 1;

/// Limits the number of concurrent read-only and mutating requests; others get a 429. 0 is unlimited.
pub(super) struct MaxInFlight {
    pub read_only: usize,
    pub mutating: usize,
    pub metrics: Arc<Metrics>,
    pub installed: Installed,
}

impl Filter for MaxInFlight {
    fn filter<'a>(&'a self, request: Request, next: &'a dyn Handler) -> Pending<'a, Response> {
        if is_long_running(&request.info) {
            return next.handle(request);
        }
        let mutating = !READ_ONLY.contains(&request.info.verb);
        let limit = if mutating { self.mutating } else { self.read_only };
        let limit = if limit == 0 { usize::MAX } else { limit };
        if let Some(slot) = Slot::take(&self.metrics, mutating, &request, limit) {
            let pending = next.handle(request);
            return Box::pin(async move { hold(pending.await, slot) });
        }
        // Administrators must be able to act on an overloaded server.
        let groups = request.user.iter().flat_map(|user| &user.groups);
        if groups.into_iter().any(|group| group == PRIVILEGED) {
            return next.handle(request);
        }
        let response = too_many_requests(&request, RETRY_AFTER, &self.metrics, &self.installed);
        Box::pin(std::future::ready(response))
    }
}

/// A slot of a running request, released on drop.
struct Slot {
    metrics: Arc<Metrics>,
    mutating: bool,
}

impl Slot {
    fn take(
        metrics: &Arc<Metrics>,
        mutating: bool,
        request: &Request,
        limit: usize,
    ) -> Option<Self> {
        let entered = watermark(metrics, mutating).enter(request.received.started, limit);
        entered.then(|| Slot { metrics: metrics.clone(), mutating })
    }
}

fn watermark(metrics: &Metrics, mutating: bool) -> &InFlightWatermark {
    match mutating {
        true => &metrics.mutating_in_flight,
        false => &metrics.read_only_in_flight,
    }
}

impl Hold for Slot {}

impl Drop for Slot {
    fn drop(&mut self) {
        watermark(&self.metrics, self.mutating).leave();
    }
}
