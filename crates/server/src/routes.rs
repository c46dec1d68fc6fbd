//! Routes of plain paths: documents served by GET only, and the paths of [`metrics`](crate::metrics).

use std::sync::Arc;

use http::{HeaderValue, Method, header};

use crate::body::Body;
use crate::handler::{Handler, Response};
use crate::metrics::{Metrics, Slis, start_time};
use crate::negotiate::not_acceptable;
use crate::request::Request;
use crate::responses::failure_to;
use kevel_component::future::Pending;
use kevel_registry::failure::{bare, bare_with};

/// A document at a path, with or without trailing slashes; paths below it are not found.
pub struct Route {
    /// Path, without a trailing slash.
    pub path: &'static str,
    /// The only accepted media type of request bodies, if limited.
    pub consumes: Option<&'static str>,
    /// Media type of the document.
    pub produces: &'static str,
    /// Handler that writes the document.
    pub handler: Arc<dyn Handler>,
}

impl std::fmt::Debug for Route {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Route({})", self.path)
    }
}

impl Route {
    /// Checks path, method and media types of a request.
    fn check(&self, request: &Request) -> Result<(), kevel_api::status::StatusError> {
        if request.info.path.trim_end_matches('/') != self.path {
            return Err(bare(404));
        }
        if request.parts.method != Method::GET {
            return Err(bare(405));
        }
        let any_of = |header: &str, wanted: &str| {
            let mut types = header.split(',').map(|one| one.split(';').next().unwrap_or(""));
            types.any(|one| matches!(one.trim(), "" | "*/*") || one.trim() == wanted)
        };
        let sent = request.header(header::CONTENT_TYPE);
        if self.consumes.is_some_and(|wanted| !any_of(sent, wanted)) {
            return Err(bare_with(415, "415: Unsupported Media Type"));
        }
        match any_of(request.header(header::ACCEPT), self.produces) {
            true => Ok(()),
            false => Err(not_acceptable(&[self.produces])),
        }
    }
}

impl Handler for Route {
    fn handle<'a>(&'a self, request: Request) -> Pending<'a, Response> {
        match self.check(&request) {
            Ok(()) => self.handler.handle(request),
            Err(error) => Box::pin(std::future::ready(failure_to(&request, error))),
        }
    }
}

/// `/metrics`
impl Handler for Metrics {
    fn handle<'a>(&'a self, _: Request) -> Pending<'a, Response> {
        Box::pin(std::future::ready(text(self.show())))
    }
}

/// `/metrics/slis`
impl Handler for Slis {
    fn handle<'a>(&'a self, _: Request) -> Pending<'a, Response> {
        Box::pin(std::future::ready(text(self.show())))
    }
}

/// Metrics in the Prometheus text format.
fn text(text: String) -> Response {
    let mut response = http::Response::new(Body::from(text));
    let media = "text/plain; version=0.0.4; charset=utf-8; escaping=underscores";
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(media));
    if let Some(began) = start_time() {
        headers.insert("process-start-time-unix", HeaderValue::from(began as i64));
    }
    response
}
