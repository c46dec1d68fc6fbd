//! Timeout of requests (upstream: `WithTimeoutForNonLongRunningRequests`).

use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, StatusCode, header};
use http_body::Body as _;
use kevel_api::status::StatusError;
use tokio::time::{Instant, sleep_until};

use crate::body::{Body, Broken, Piece, Pieces};
use crate::handler::{Filter, Handler, Response};
use crate::latency_trackers::LatencyTrackers;
use crate::lease::Lease;
use crate::request::Request;
use kevel_component::future::Pending;

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
        let mut pending = next.handle(request);
        Box::pin(async move {
            // Every request is begun, so that it is audited, even if its time has passed.
            let begun = poll_fn(|context| Poll::Ready(pending.as_mut().poll(context))).await;
            let response = match begun {
                Poll::Ready(response) => Some(response),
                Poll::Pending => tokio::select! {
                    // First: a webhook's timeout that ends with the request's is the request's.
                    biased;
                    () = sleep_until(deadline) => None,
                    response = pending => Some(response),
                },
            };
            match response {
                Some(response) if response.body().size_hint().exact().is_some() => response,
                Some(response) => response.map(|body| Body::pieces(Until::new(body, deadline))),
                None => {
                    if let Some(series) = trackers.as_ref().and_then(LatencyTrackers::series) {
                        series.terminated(504);
                    }
                    timed_out()
                }
            }
        })
    }
}

/// Response to a request that timed out. As the reference's, its Status has no kind: client-go takes it for none, and
/// says that the server was unable to return a response in the time allotted.
fn timed_out() -> Response {
    let status = concat!(
        r#"{"metadata":{},"status":"Failure","#,
        r#""message":"Timeout: request did not complete within the allotted timeout","#,
        r#""reason":"Timeout","details":{},"code":504}"#,
        "\n"
    );
    let mut response = http::Response::new(Body::from(Bytes::from_static(status.as_bytes())));
    *response.status_mut() = StatusCode::GATEWAY_TIMEOUT;
    let plain = HeaderValue::from_static("text/plain; charset=utf-8");
    response.headers_mut().insert(header::CONTENT_TYPE, plain);
    response
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
