//! Shutdown waits for running requests (upstream: `WithWaitGroup`).

use http::{HeaderValue, header};
use kevel_api::status::StatusError;

use super::held::hold;
use super::long_running::is_long_running;
use super::{plain, retry_after};
use crate::handler::{Filter, Handler, Response};
use crate::lifecycle::RequestGroup;
use crate::request::Request;
use crate::responses::failure;
use kevel_component::future::Pending;

/// Counts requests that are not long-running, and refuses new ones once the server waits for the last.
#[derive(Debug)]
pub(super) struct WaitGroup(pub RequestGroup);

impl Filter for WaitGroup {
    fn filter<'a>(&'a self, request: Request, next: &'a dyn Handler) -> Pending<'a, Response> {
        if is_long_running(&request.info) {
            return next.handle(request);
        }
        let Some(in_flight) = self.0.enter() else {
            return match retry_after::is_exempt(&request) {
                true => next.handle(request),
                false => Box::pin(std::future::ready(shutting_down())),
            };
        };
        let pending = next.handle(request);
        Box::pin(async move { hold(pending.await, in_flight) })
    }
}

/// The 503 during shutdown, with `Retry-After`: the client may reach another server.
pub(super) fn shutting_down() -> Response {
    let mut response = failure(StatusError::service_unavailable("apiserver is shutting down"));
    response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
    response.headers_mut().insert(header::X_CONTENT_TYPE_OPTIONS, plain::NO_SNIFF);
    response
}
