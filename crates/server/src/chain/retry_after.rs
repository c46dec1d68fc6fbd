//! 429 with `Retry-After` during shutdown (upstream: `WithRetryAfter`).

use http::{HeaderValue, StatusCode, header};

use super::plain;
use crate::handler::{Filter, Handler, Response};
use crate::request::Request;
use kevel_component::future::Pending;
use kevel_component::signals::Signal;

const MESSAGE: &str = "The apiserver is shutting down, please try again later.";

/// Path prefixes that are served until the server ends.
const EXEMPT: [&str; 4] = ["/readyz", "/livez", "/healthz", "/metrics"];

/// `--shutdown-send-retry-after`: responds 429 to new requests, and closes their connections.
#[derive(Debug)]
pub(super) struct RetryAfter(pub Signal);

impl Filter for RetryAfter {
    fn filter<'a>(&'a self, request: Request, next: &'a dyn Handler) -> Pending<'a, Response> {
        if !self.0.is_signaled() || is_exempt(&request) {
            return next.handle(request);
        }
        let mut response = plain::text(StatusCode::TOO_MANY_REQUESTS, MESSAGE);
        response.headers_mut().insert(header::CONNECTION, plain::CLOSE);
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("5"));
        Box::pin(std::future::ready(response))
    }
}

/// Whether a request is served during shutdown: probes, scrapes, and the server's own.
pub(super) fn is_exempt(request: &Request) -> bool {
    request.header(header::USER_AGENT).starts_with("kube-apiserver/")
        || EXEMPT.iter().any(|prefix| request.info.path.starts_with(prefix))
}
