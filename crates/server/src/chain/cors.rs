//! `--cors-allowed-origins`: cross-origin requests (upstream: `WithCORS`).

use http::{HeaderName, HeaderValue, Method, StatusCode, header};
use kevel_regexp::Regexp;

use crate::body::Body;
use crate::handler::{Filter, Handler, Response};
use crate::request::Request;
use kevel_component::future::Pending;

const ALLOW: [(HeaderName, HeaderValue); 4] = [
    (
        header::ACCESS_CONTROL_ALLOW_METHODS,
        HeaderValue::from_static("POST, GET, OPTIONS, PUT, DELETE, PATCH"),
    ),
    (
        header::ACCESS_CONTROL_ALLOW_HEADERS,
        HeaderValue::from_static(
            "Content-Type, Content-Length, Accept-Encoding, X-CSRF-Token, Authorization, \
             X-Requested-With, If-Modified-Since",
        ),
    ),
    (header::ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static("Date")),
    (header::ACCESS_CONTROL_ALLOW_CREDENTIALS, HeaderValue::from_static("true")),
];

/// Compiles the patterns of allowed origins.
pub fn origins(patterns: &[String]) -> Result<Vec<Regexp>, String> {
    let compiled: Result<_, _> = patterns.iter().map(|pattern| Regexp::new(pattern)).collect();
    compiled.map_err(|error| {
        let patterns = patterns.join(",");
        format!(
            "Invalid CORS allowed origin, --cors-allowed-origins flag was set to {patterns} - \
             {error}"
        )
    })
}

/// Adds CORS headers to responses for the allowed origins.
#[derive(Debug)]
pub(super) struct Cors(pub Vec<Regexp>);

impl Filter for Cors {
    fn filter<'a>(&'a self, request: Request, next: &'a dyn Handler) -> Pending<'a, Response> {
        let origin = request.parts.headers.get(header::ORIGIN);
        let Some(origin) = origin.filter(|origin| self.allows(origin)).cloned() else {
            return next.handle(request);
        };
        let preflight = request.parts.method == Method::OPTIONS;
        let pending = (!preflight).then(|| next.handle(request));
        Box::pin(async move {
            let mut response = match pending {
                Some(pending) => pending.await,
                None => {
                    let mut response = http::Response::new(Body::empty());
                    *response.status_mut() = StatusCode::NO_CONTENT;
                    response
                }
            };
            let headers = response.headers_mut();
            headers.entry(header::ACCESS_CONTROL_ALLOW_ORIGIN).or_insert(origin);
            for (name, value) in ALLOW {
                headers.entry(name).or_insert(value);
            }
            response
        })
    }
}

impl Cors {
    fn allows(&self, origin: &HeaderValue) -> bool {
        let origin = origin.to_str().unwrap_or_default();
        !origin.is_empty() && self.0.iter().any(|pattern| pattern.is_match(origin) == Ok(true))
    }
}
