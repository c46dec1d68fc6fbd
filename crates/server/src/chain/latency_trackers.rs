//! Latency of a request's phases: see [`crate::latency_trackers`].

use crate::handler::{Filter, Handler, Response};
use crate::latency_trackers::LatencyTrackers;
use crate::request::Request;
use kevel_component::future::Pending;

/// Adds [`LatencyTrackers`] to requests (upstream: `WithLatencyTrackers`).
#[derive(Debug)]
pub(super) struct WithLatencyTrackers;

impl Filter for WithLatencyTrackers {
    fn filter<'a>(&'a self, mut request: Request, next: &'a dyn Handler) -> Pending<'a, Response> {
        request.parts.extensions.insert(LatencyTrackers::default());
        next.handle(request)
    }
}
