//! 503 instead of 404 until all paths are installed (upstream: `WithMuxAndDiscoveryComplete`).

use crate::handler::{Filter, Handler, Response};
use crate::request::Request;
use kevel_component::future::Pending;
use kevel_component::signals::Signal;

/// Request extension: set if not all paths were installed when the request arrived. Handlers then answer 503 instead of
/// 404, since controllers delete objects because of a 404.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MuxAndDiscoveryIncomplete;

/// Marks early requests. The signal is read on arrival: a path installed during the request does not make a 404
/// correct.
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
