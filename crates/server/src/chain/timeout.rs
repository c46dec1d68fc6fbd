//! Timeout of requests (upstream: `WithTimeoutForNonLongRunningRequests`).

use std::pin::Pin;
use std::task::{Context, Poll};

use http::HeaderMap;
use http_body::Body as _;
use kevel_api::status::StatusError;
use tokio::time::{Instant, sleep_until, timeout_at};

use crate::body::{Body, Broken, Piece, Pieces};
use crate::future::Pending;
use crate::handler::{Filter, Handler, Response};
use crate::latency_trackers::LatencyTrackers;
use crate::lease::Lease;
use crate::request::Request;
use crate::responses::failure;

/// Responds 504 when a request's deadline has passed. Its handler is dropped; a write that the store has begun may
/// still complete.
#[derive(Debug)]
pub(super) struct Timeout;

impl Filter for Timeout {
    fn filter<'a>(&'a self, request: Request, next: &'a dyn Handler) -> Pending<'a, Response> {
        let Some(deadline) = request.deadline.map(Instant::from_std) else {
            return next.handle(request);
        };
        let trackers = LatencyTrackers::of(&request).cloned();
        let pending = next.handle(request);
        Box::pin(async move {
            match timeout_at(deadline, pending).await {
                Ok(response) if response.body().size_hint().exact().is_some() => response,
                Ok(response) => response.map(|body| Body::pieces(Until::new(body, deadline))),
                Err(_) => {
                    if let Some(series) = trackers.as_ref().and_then(LatencyTrackers::series) {
                        series.terminated(504);
                    }
                    failure(out_of_time())
                }
            }
        })
    }
}

/// Status of a request that timed out.
pub(super) fn out_of_time() -> StatusError {
    StatusError::timeout("request did not complete within the allotted timeout", 0)
}

/// A body that fails at the deadline, so that a client that does not read cannot hold the response for ever.
struct Until(Lease<Body>);

impl Until {
    fn new(body: Body, deadline: Instant) -> Self {
        let mut body = Lease::new(body);
        body.until(sleep_until(deadline));
        Until(body)
    }
}

impl Pieces for Until {
    fn poll_piece(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Piece>> {
        let piece = self.0.poll_with(context, |body, context| body.poll_piece(context));
        piece.unwrap_or(Poll::Ready(Some(Err(Broken("the answer took too long")))))
    }

    fn trailers(self: Pin<&mut Self>, context: &mut Context<'_>) -> Option<HeaderMap> {
        self.0.poll_with(context, |body, context| body.trailers(context)).flatten()
    }
}
