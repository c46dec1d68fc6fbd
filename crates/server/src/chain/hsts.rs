//! `--strict-transport-security-directives` (upstream: `WithHSTS`).

use http::HeaderValue;
use http::header::STRICT_TRANSPORT_SECURITY;

use crate::handler::{Filter, Handler, Response};
use crate::request::Request;
use kevel_component::future::Pending;

/// Sets the `Strict-Transport-Security` header.
#[derive(Debug)]
pub(super) struct Hsts(HeaderValue);

impl Hsts {
    /// `None` if there are no directives, or they are no valid header value.
    pub(super) fn new(directives: &[String]) -> Option<Self> {
        let value = HeaderValue::from_str(&directives.join("; ")).ok()?;
        (!directives.is_empty()).then_some(Hsts(value))
    }
}

impl Filter for Hsts {
    fn filter<'a>(&'a self, request: Request, next: &'a dyn Handler) -> Pending<'a, Response> {
        let pending = next.handle(request);
        Box::pin(async move {
            let mut response = pending.await;
            let header = response.headers_mut().entry(STRICT_TRANSPORT_SECURITY);
            header.or_insert_with(|| self.0.clone());
            response
        })
    }
}
