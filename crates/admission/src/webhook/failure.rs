//! Failures of webhook calls.

use kevel_api::quote::quote;
use kevel_api::status::{FAILURE, SUCCESS, Status, StatusCause, StatusDetails, StatusError};
use kevel_api::value::Value;

/// Reason why a webhook call did not allow the request.
#[derive(Debug)]
pub(super) enum Failure {
    /// The call failed: `failurePolicy` decides (upstream: ErrCallingWebhook).
    Calling(CallError),
    /// The webhook denied the request (upstream: ErrWebhookRejection).
    Rejected(StatusError),
    /// The response cannot be applied, whatever `failurePolicy` says.
    Internal(StatusError),
    /// The request's deadline has passed.
    TimedOut,
}

/// Error of a call.
#[derive(Debug)]
pub(super) struct CallError {
    reason: String,
    /// HTTP code for metrics.
    pub code: u16,
}

impl CallError {
    pub fn new(code: u16, reason: impl Into<String>) -> Self {
        CallError { reason: reason.into(), code }
    }

    /// Message with the webhook's name.
    pub fn message(&self, webhook: &str) -> String {
        format!("failed calling webhook {}: {}", quote(webhook), self.reason)
    }
}

impl From<CallError> for Failure {
    fn from(error: CallError) -> Self {
        Failure::Calling(error)
    }
}

/// Status of a request whose deadline has passed.
pub(super) fn timed_out() -> StatusError {
    StatusError::timeout(
        "request did not complete within requested timeout - context deadline exceeded",
        0,
    )
}

/// Refusal of a dry run because of a webhook with side effects.
pub(super) fn dry_run_unsupported(webhook: &str) -> StatusError {
    let webhook = quote(webhook);
    StatusError::bad_request(format!("admission webhook {webhook} does not support dry run"))
}

/// Denial by a webhook, with the status that it sent (upstream: ToStatusErr).
pub(super) fn rejected(webhook: &str, result: Option<&Value>) -> StatusError {
    let mut status = result.map(status).unwrap_or_default();
    if status.code < 400 {
        status.code = 400;
    }
    if status.status.is_empty() || status.status == SUCCESS {
        status.status = FAILURE.into();
    }
    let denied = format!("admission webhook {} denied the request", quote(webhook));
    let why = if status.message.is_empty() { &status.reason } else { &status.message };
    status.message = match why.is_empty() {
        true => format!("{denied} without explanation").into(),
        false => format!("{denied}: {why}").into(),
    };
    status.into()
}

/// Parses a `Status` that a webhook sent.
pub(super) fn status(value: &Value) -> Status {
    let text = |path: &[&str]| value.str_at(path).to_owned().into();
    let details = value.at(&["details"]).filter(|details| !details.is_null()).map(|details| {
        let text = |field| details.str_at(&[field]).to_owned().into();
        let seconds = details.at(&["retryAfterSeconds"]).and_then(Value::as_int);
        Box::new(StatusDetails {
            name: text("name"),
            group: text("group"),
            kind: text("kind"),
            uid: text("uid"),
            causes: details.list_at(&["causes"]).iter().map(cause).collect(),
            retry_after_seconds: seconds.and_then(|s| i32::try_from(s).ok()).unwrap_or_default(),
        })
    });
    let code = value.at(&["code"]).and_then(Value::as_int).unwrap_or_default();
    Status {
        status: text(&["status"]),
        message: text(&["message"]),
        reason: text(&["reason"]),
        details,
        code: in_range(code),
        ..Status::default()
    }
}

fn cause(cause: &Value) -> StatusCause {
    let text = |field| cause.str_at(&[field]).to_owned().into();
    StatusCause { reason: text("reason"), message: text("message"), field: text("field") }
}

/// HTTP code in the valid range; 500 for others, on which the reference breaks.
fn in_range(code: i64) -> u16 {
    match u16::try_from(code.max(0)) {
        Ok(code) if code < 1000 => code,
        _ => 500,
    }
}
