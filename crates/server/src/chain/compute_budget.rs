//! Compute budget of requests: long computations do not block other requests.

use kevel_compute::Metered;

use crate::handler::{Filter, Handler, Response};
use crate::request::Request;
use kevel_component::future::Pending;

/// Meters the polls of requests: one that exceeds its compute budget runs outside the runtime's workers.
#[derive(Debug)]
pub(super) struct ComputeBudget;

impl Filter for ComputeBudget {
    fn filter<'a>(&'a self, request: Request, next: &'a dyn Handler) -> Pending<'a, Response> {
        let meter = request.meter.clone();
        meter.set_label(|| format!("{} {}", request.parts.method, request.parts.uri));
        Box::pin(Metered::new(next.handle(request), meter))
    }
}
