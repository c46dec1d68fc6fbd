//! Requests that compute for long do not keep others waiting.

use crate::future::Pending;
use crate::handler::{Filter, Handler, Response};
use crate::heavy_work;
use crate::request::Request;

/// Runs requests beside the runtime's workers from when on they are heavy.
#[derive(Debug)]
pub(super) struct HeavyWork;

impl Filter for HeavyWork {
    fn filter<'a>(&'a self, request: Request, next: &'a dyn Handler) -> Pending<'a, Response> {
        let weight = request.weight.clone();
        Box::pin(heavy_work::HeavyWork::new(next.handle(request), weight))
    }
}
