//! Connections are closed late in the shutdown delay, while the server still answers.

use http::header;

use super::plain;
use crate::handler::{Filter, Handler, Response};
use crate::request::Request;
use kevel_component::future::Pending;
use kevel_component::signals::Signal;

/// Sets `Connection: close` on every response late in the shutdown delay. Closing an idle connection races with the
/// client's next request, which not every client retries; a connection closed by a response is not used again.
#[derive(Debug)]
pub(super) struct Leaving(pub Signal);

impl Filter for Leaving {
    fn filter<'a>(&'a self, request: Request, next: &'a dyn Handler) -> Pending<'a, Response> {
        // Requests before the signal are not wrapped.
        if !self.0.is_signaled() {
            return next.handle(request);
        }
        let pending = next.handle(request);
        Box::pin(async move {
            let mut response = pending.await;
            // An upgrade response sets its own `Connection` header.
            if !response.headers().contains_key(header::CONNECTION) {
                response.headers_mut().insert(header::CONNECTION, plain::CLOSE);
            }
            response
        })
    }
}
