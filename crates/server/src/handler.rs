//! What answers a request.
//!
//! Not `tower::Service`: a request is never refused by readiness here (that is the business of
//! priority and fairness, which knows who asks), and futures that borrow their handler need no clone
//! of the whole chain for each request.

use std::sync::Arc;

use crate::body::Body;
use crate::future::Pending;
use crate::request::Request;

/// An answer on its way.
pub type Response = http::Response<Body>;

/// Panic with this (`std::panic::resume_unwind(Box::new(Abort))`) to break a request off: the
/// answer carries it as an extension, for the serving layer to cut the connection or the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Abort;

/// Answers requests.
pub trait Handler: Send + Sync + 'static {
    /// Answers a request.
    fn handle<'a>(&'a self, request: Request) -> Pending<'a, Response>;
}

impl<H: Handler + ?Sized> Handler for Arc<H> {
    fn handle<'a>(&'a self, request: Request) -> Pending<'a, Response> {
        (**self).handle(request)
    }
}

/// A step of the handler chain: answers a request, or passes it on and may look at the answer.
pub trait Filter: Send + Sync + 'static {
    /// Answers a request, or lets the next do so and may change what that says.
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
