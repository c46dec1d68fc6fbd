//! 429 responses.

use http::{HeaderValue, StatusCode, header};

use super::{Installed, plain};
use crate::handler::Response;
use crate::metrics::Metrics;
use crate::request::Request;

const MESSAGE: &str = "Too many requests, please try again later.";

/// Responds 429 with `Retry-After`, and counts the request as terminated.
pub(super) fn too_many_requests(
    request: &Request,
    retry_after: u64,
    metrics: &Metrics,
    installed: &Installed,
) -> Response {
    let code = StatusCode::TOO_MANY_REQUESTS;
    let series = metrics.of_request(&request.info, &request.parts, || installed(&request.info));
    if let Some(series) = series {
        series.count(code.as_u16());
        series.terminated(code.as_u16());
    }
    let mut response = plain::text(code, MESSAGE);
    response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(retry_after));
    response
}
