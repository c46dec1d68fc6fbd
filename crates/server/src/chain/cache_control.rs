//! `Cache-Control`: responses depend on the user, so shared caches must not keep them.

use http::HeaderValue;
use http::header::CACHE_CONTROL;

use crate::handler::{Filter, Handler, Response};
use crate::request::Request;
use kevel_component::future::Pending;

/// Default `Cache-Control` of responses.
pub(super) const NO_CACHE: HeaderValue = HeaderValue::from_static("no-cache, private");

/// Sets `Cache-Control` where the response has none (upstream: `WithCacheControl`).
#[derive(Debug)]
pub(super) struct CacheControl;

impl Filter for CacheControl {
    fn filter<'a>(&'a self, request: Request, next: &'a dyn Handler) -> Pending<'a, Response> {
        let pending = next.handle(request);
        Box::pin(async move {
            let mut response = pending.await;
            response.headers_mut().entry(CACHE_CONTROL).or_insert(NO_CACHE);
            response
        })
    }
}
