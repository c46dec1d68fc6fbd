//! A 404 means that there is no such thing, not that it is not there yet.

use crate::future::Pending;
use crate::handler::{Filter, Handler, Response};
use crate::request::Request;
use crate::signals::Signal;

/// On requests that came before all paths were installed. Who would answer 404 to such a request
/// answers 503 instead: controllers delete things because of a 404.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MuxAndDiscoveryIncomplete;

/// Marks requests that came early. It looks when they come: a path that is installed a moment later
/// does not make an answer right that was found before.
#[derive(Debug)]
pub(super) struct MuxAndDiscoveryComplete(pub Signal);

impl Filter for MuxAndDiscoveryComplete {
    fn filter<'a>(&'a self, mut request: Request, next: &'a dyn Handler) -> Pending<'a, Response> {
        if !self.0.is_signaled() {
            request.parts.extensions.insert(MuxAndDiscoveryIncomplete);
        }
        next.handle(request)
    }
}
