//! Handlers and filters of requests.
//!
//! Not `tower::Service`: readiness never refuses a request here (priority and fairness does that, knowing the user),
//! and futures that borrow their handler need no clone of the whole chain for each request.

use std::sync::Arc;

use crate::body::Body;
use crate::request::Request;
use kevel_component::future::Pending;

/// A response, whose body may still be streamed.
pub type Response = http::Response<Body>;

/// Panic payload (`std::panic::resume_unwind(Box::new(Abort))`) that aborts a request (upstream:
/// `http.ErrAbortHandler`). The response carries it as an extension, and the serving layer closes the connection or
/// resets the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Abort;

/// A handler of requests (upstream: `http.Handler`).
pub trait Handler: Send + Sync + 'static {
    /// Responds to a request.
    fn handle<'a>(&'a self, request: Request) -> Pending<'a, Response>;
}

impl<H: Handler + ?Sized> Handler for Arc<H> {
    fn handle<'a>(&'a self, request: Request) -> Pending<'a, Response> {
        (**self).handle(request)
    }
}

/// A filter of the handler chain: responds to a request, or passes it on and may change the response.
pub trait Filter: Send + Sync + 'static {
    /// Responds to the request, or calls `next` and may change its response.
    fn filter<'a>(&'a self, request: Request, next: &'a dyn Handler) -> Pending<'a, Response>;
}

impl<F: Filter + ?Sized> Filter for Arc<F> {
    fn filter<'a>(&'a self, request: Request, next: &'a dyn Handler) -> Pending<'a, Response> {
        (**self).filter(request, next)
    }
}

/// A filter before a handler.
pub struct Filtered<F> {
    filter: F,
    next: Arc<dyn Handler>,
}

impl<F> std::fmt::Debug for Filtered<F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(std::any::type_name::<F>())
    }
}

impl<F: Filter> Filtered<F> {
    /// A filter before a handler.
    pub fn new(filter: F, next: Arc<dyn Handler>) -> Self {
        Filtered { filter, next }
    }
}

impl<F: Filter> Handler for Filtered<F> {
    fn handle<'a>(&'a self, request: Request) -> Pending<'a, Response> {
        self.filter.filter(request, &*self.next)
    }
}
