//! Deadline of a request: `timeout=` in its query, at most `--request-timeout` (upstream: `WithRequestDeadline`).

use std::time::Duration;

use kevel_api::status::StatusError;

use super::audit;
use super::long_running::is_long_running;
use crate::handler::{Filter, Handler, Response};
use crate::request::Request;
use crate::responses::failure_to;
use kevel_component::future::Pending;

/// Sets the deadlines of requests.
pub(super) struct RequestDeadline {
    pub maximum: Duration,
}

impl Filter for RequestDeadline {
    fn filter<'a>(&'a self, mut request: Request, next: &'a dyn Handler) -> Pending<'a, Response> {
        if is_long_running(&request.info) {
            return next.handle(request);
        }
        match asked(&request.info.query) {
            Ok(asked) => {
                // A zero timeout counts as unset.
                let asked = asked.filter(|&asked| !asked.is_zero() && asked < self.maximum);
                let timeout = asked.unwrap_or(self.maximum);
                request.deadline = request.received.started.checked_add(timeout);
                request.deadline.iter().for_each(|deadline| request.meter.set_deadline(*deadline));
                next.handle(request)
            }
            Err(error) => {
                tracing::error!("Error - {error}: {}", request.parts.uri);
                let response = failure_to(&request, StatusError::bad_request(error));
                let audited = audit::failed(&request, &response);
                Box::pin(async move {
                    audited.await;
                    response
                })
            }
        }
    }
}

/// The `timeout` of a query; a negative one is zero.
fn asked(query: &[(String, String)]) -> Result<Option<Duration>, String> {
    let value = kevel_registry::query::first(query, "timeout");
    let Some(value) = value.filter(|value| !value.is_empty()) else {
        return Ok(None);
    };
    let duration: kevel_api::duration::Duration = value
        .parse()
        .map_err(|error| format!("invalid timeout specified in the request URL - {error}"))?;
    Ok(Some(Duration::from_nanos(u64::try_from(duration.0).unwrap_or(0))))
}
