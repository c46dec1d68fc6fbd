//! The paths of [`metrics`](crate::metrics).

use http::{HeaderValue, header};

use crate::body::Body;
use crate::future::Pending;
use crate::handler::{Handler, Response};
use crate::metrics::{Metrics, Slis};
use crate::request::Request;

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

/// Metrics as text, as Prometheus reads it.
fn text(text: String) -> Response {
    let mut response = http::Response::new(Body::from(text));
    let media = "text/plain; version=0.0.4; charset=utf-8; escaping=underscores";
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(media));
    response
}
