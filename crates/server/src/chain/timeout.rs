//! A request that takes too long gets an answer all the same.

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

/// Answers 504 for requests whose deadline has passed. What they were doing is dropped; what the
/// store has begun to write it may still write.
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

/// What is said about a request that took too long.
pub(super) fn out_of_time() -> StatusError {
    StatusError::timeout("request did not complete within the allotted timeout", 0)
}

/// A body that must have been read by the deadline: a client that does not read shall not hold what
/// it was answered for ever. It breaks off then.
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
