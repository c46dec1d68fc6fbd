//! A server that is about to stop sends its clients' connections elsewhere while it still answers.

use http::header;

use super::plain;
use crate::future::Pending;
use crate::handler::{Filter, Handler, Response};
use crate::request::Request;
use crate::signals::Signal;

/// Ends the connection of every request that is answered late in the shutdown delay. One that were closed between two
/// requests could be closed in the face of the second, and not every client asks again; one that ends with an answer is not
/// used again.
#[derive(Debug)]
pub(super) struct Leaving(pub Signal);

impl Filter for Leaving {
    fn filter<'a>(&'a self, request: Request, next: &'a dyn Handler) -> Pending<'a, Response> {
        // What arrives before costs nothing.
        if !self.0.is_signaled() {
            return next.handle(request);
        }
        let pending = next.handle(request);
        Box::pin(async move {
            let mut response = pending.await;
            // An answer that goes on in another protocol says what its connection is.
            if !response.headers().contains_key(header::CONNECTION) {
                response.headers_mut().insert(header::CONNECTION, plain::CLOSE);
            }
            response
        })
    }
}
