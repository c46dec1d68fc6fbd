//! Requests whose path is invalid (upstream: `WithRequestInfo`).

use super::plain;
use crate::handler::{Filter, Handler, Response};
use crate::request::Request;
use kevel_component::future::Pending;

/// Refuses requests whose path or query cannot be parsed, before authentication.
pub(super) struct WithRequestInfo;

impl Filter for WithRequestInfo {
    fn filter<'a>(&'a self, request: Request, next: &'a dyn Handler) -> Pending<'a, Response> {
        let Some(error) = &request.info.error else { return next.handle(request) };
        let error = format!("failed to create RequestInfo: {error}");
        Box::pin(std::future::ready(plain::internal_error(&request.parts.uri, &error)))
    }
}
