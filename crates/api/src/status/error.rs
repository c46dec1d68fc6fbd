//! Errors of requests, each with its code, reason and message.

use super::{FAILURE, Status, StatusCause, StatusDetails, Text, cause, reason};
use crate::field_error::{
    FieldErrors, MAX_ERROR_BYTES, MAX_ERRORS, aggregate_more, cut, more_errors,
};
use crate::gvk::{GroupKind, GroupResource};
use crate::quote::quote;
use std::fmt;

/// A failed request, with the [`Status`] of the response. Prints its message.
///
/// ```
/// use kevel_api::{gvk::GroupResource, status::StatusError};
/// let error = StatusError::not_found(&GroupResource::from_static("apps", "deployments"), "web");
/// assert_eq!(error.to_string(), "deployments.apps \"web\" not found");
/// assert_eq!(error.status().code, 404);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
// Boxed, so that a `Result` stays small where nothing fails.
pub struct StatusError(Box<Status>);

impl StatusError {
    /// The object does not exist: 404.
    pub fn not_found(resource: &GroupResource, name: &str) -> Self {
        let message = format!("{resource} {} not found", quote(name));
        failure(404, reason::NOT_FOUND, message).about(resource, name)
    }

    /// An object of that name exists: 409.
    pub fn already_exists(resource: &GroupResource, name: &str) -> Self {
        let message = format!("{resource} {} already exists", quote(name));
        failure(409, reason::ALREADY_EXISTS, message).about(resource, name)
    }

    /// No unique name could be generated: 409.
    pub fn generate_name_conflict(resource: &GroupResource, name: &str, retry_after: i32) -> Self {
        let message = format!(
            "{resource} {} already exists, the server was not able to generate a unique name for \
             the object",
            quote(name)
        );
        let error = failure(409, reason::ALREADY_EXISTS, message).about(resource, name);
        error.with_details(|details| details.retry_after_seconds = retry_after)
    }

    /// Adds that the object is being deleted: the client may retry after it is gone.
    pub fn being_deleted(mut self) -> Self {
        self.0.message = format!("object is being deleted: {}", self.0.message).into();
        self
    }

    /// The client is not authenticated: 401. An empty message is replaced by a general one.
    pub fn unauthorized(message: impl Into<Text>) -> Self {
        let message = message.into();
        let message = if message.is_empty() { "not authorized".into() } else { message };
        failure(401, reason::UNAUTHORIZED, message)
    }

    /// The request is not permitted: 403.
    pub fn forbidden(resource: &GroupResource, name: &str, error: impl fmt::Display) -> Self {
        let message = if resource.is_empty() {
            format!("forbidden: {error}")
        } else if name.is_empty() {
            format!("{resource} is forbidden: {error}")
        } else {
            format!("{resource} {} is forbidden: {error}", quote(name))
        };
        failure(403, reason::FORBIDDEN, message).about(resource, name)
    }

    /// The object is not in the expected state: 409.
    pub fn conflict(resource: &GroupResource, name: &str, error: impl fmt::Display) -> Self {
        let message =
            format!("Operation cannot be fulfilled on {resource} {}: {error}", quote(name));
        failure(409, reason::CONFLICT, message).about(resource, name)
    }

    /// The object was modified since it was read: 409.
    pub fn modified(resource: &GroupResource, name: &str) -> Self {
        Self::conflict(
            resource,
            name,
            "the object has been modified; please apply your changes to the latest version and \
             try again",
        )
    }

    /// Adds a cause.
    pub fn with_cause(mut self, cause: StatusCause) -> Self {
        self.0.details.get_or_insert_default().causes.push(cause);
        self
    }

    /// An apply conflicts with other managers: 409. `untold` more conflicts are only counted.
    pub fn apply_conflict(
        causes: impl IntoIterator<Item = StatusCause>,
        untold: usize,
        message: impl Into<Text>,
    ) -> Self {
        let causes = bounded(causes, untold);
        failure(409, reason::CONFLICT, message).with_details(|details| details.causes = causes)
    }

    /// The requested thing no longer exists: 410.
    pub fn gone(message: impl Into<Text>) -> Self {
        failure(410, reason::GONE, message)
    }

    /// The requested resource version no longer exists: 410.
    pub fn resource_expired(message: impl Into<Text>) -> Self {
        failure(410, reason::EXPIRED, message)
    }

    /// The object is invalid: 422; each error becomes a cause, within the limits.
    pub fn invalid(kind: &GroupKind, name: &str, errors: impl Into<FieldErrors>) -> Self {
        let errors = errors.into();
        let mut message = format!("{kind} {} is invalid", quote(name));
        if let Some(errors) = aggregate_more(errors.iter(), errors.untold()) {
            message.push_str(": ");
            message.push_str(&errors);
        }
        let causes = errors.iter().map(|error| StatusCause {
            reason: error.kind.reason().into(),
            message: error.body().into(),
            field: error.field.clone().into(),
        });
        let causes = bounded(causes, errors.untold());
        failure(422, reason::INVALID, message).with_details(|details| {
            details.group = kind.group.to_string().into();
            details.kind = kind.kind.to_string().into();
            details.name = name.to_owned().into();
            details.causes = causes;
        })
    }

    /// The request is malformed: 400.
    pub fn bad_request(message: impl Into<Text>) -> Self {
        failure(400, reason::BAD_REQUEST, message)
    }

    /// The client sends too many requests: 429.
    pub fn too_many_requests(message: impl Into<Text>, retry_after: i32) -> Self {
        failure(429, reason::TOO_MANY_REQUESTS, message)
            .with_details(|details| details.retry_after_seconds = retry_after)
    }

    /// The server has too many requests: 429, without Retry-After.
    pub fn too_many_requests_error(message: &str) -> Self {
        failure(429, reason::TOO_MANY_REQUESTS, format!("Too many requests: {message}"))
    }

    /// A dependency of the server is unavailable: 503.
    pub fn service_unavailable(message: impl Into<Text>) -> Self {
        failure(503, reason::SERVICE_UNAVAILABLE, message)
    }

    /// The resource does not support the action: 405.
    pub fn method_not_supported(resource: &GroupResource, action: &str) -> Self {
        let resource_text = quote(&resource.to_string());
        let message = format!("{action} is not supported on resources of kind {resource_text}");
        failure(405, reason::METHOD_NOT_ALLOWED, message).about(resource, "")
    }

    /// The store did not answer in time: 500.
    pub fn server_timeout(resource: &GroupResource, operation: &str, retry_after: i32) -> Self {
        let message = format!(
            "The {operation} operation against {resource} could not be completed at this time, \
             please try again."
        );
        failure(500, reason::SERVER_TIMEOUT, message)
            .about(resource, operation)
            .with_details(|details| details.retry_after_seconds = retry_after)
    }

    /// Internal error: 500.
    pub fn internal(error: impl fmt::Display) -> Self {
        let error = cut(MAX_MESSAGE_BYTES, &error.to_string()).into_owned();
        let message = format!("Internal error occurred: {error}");
        failure(500, reason::INTERNAL_ERROR, message).with_details(|details| {
            details.causes.push(StatusCause { message: error.into(), ..Default::default() });
        })
    }

    /// Stored objects cannot be read: 500.
    pub fn storage_read(
        message: impl Into<Text>,
        details: impl Into<Option<StatusDetails>>,
    ) -> Self {
        let mut error = failure(500, reason::STORAGE_READ_ERROR, message);
        error.0.details = details.into().map(Box::new);
        error
    }

    /// The request timed out; it may still be carried out: 504.
    pub fn timeout(message: impl fmt::Display, retry_after: i32) -> Self {
        failure(504, reason::TIMEOUT, format!("Timeout: {message}"))
            .with_details(|details| details.retry_after_seconds = retry_after)
    }

    /// The requested resource version is not reached yet: 504.
    pub fn too_large_resource_version(minimum: u64, current: u64, retry_after: i32) -> Self {
        let message = format!("Too large resource version: {minimum}, current: {current}");
        Self::timeout(message, retry_after).with_details(|details| {
            details.causes.push(StatusCause {
                reason: cause::RESOURCE_VERSION_TOO_LARGE.into(),
                message: "Too large resource version".into(),
                field: "".into(),
            });
        })
    }

    /// None of the media types that the client accepts is supported: 406.
    pub fn not_acceptable(accepted: &[&str]) -> Self {
        let accepted = accepted.join(", ");
        let message = format!("only the following media types are accepted: {accepted}");
        failure(406, reason::NOT_ACCEPTABLE, message)
    }

    /// The accepted media type does not fit the request: 406.
    pub fn unacceptable(why: impl Into<Text>) -> Self {
        failure(406, reason::NOT_ACCEPTABLE, why)
    }

    /// The object cannot be converted to `target` in any media type that the client accepts: 406.
    pub fn not_acceptable_conversion(target: &str, accepted: &[&str]) -> Self {
        let message = format!(
            "only the following media types are accepted when converting to {target}: {}",
            accepted.join(", ")
        );
        failure(406, reason::NOT_ACCEPTABLE, message)
    }

    /// The media type of the body is not supported: 415.
    pub fn unsupported_media_type(accepted: &[&str]) -> Self {
        let message = format!(
            "the body of the request was in an unknown format - accepted media types include: {}",
            accepted.join(", ")
        );
        failure(415, reason::UNSUPPORTED_MEDIA_TYPE, message)
    }

    /// The body is too large: 413.
    pub fn request_entity_too_large(message: &str) -> Self {
        let message = format!("Request entity too large: {message}");
        failure(413, reason::REQUEST_ENTITY_TOO_LARGE, message)
    }

    /// Error of which only the code is known, such as one of routing. `server_message` is the original message, if any;
    /// `verb` is the request's.
    pub fn generic(
        code: u16,
        verb: &str,
        resource: &GroupResource,
        name: &str,
        server_message: &str,
        retry_after: i32,
        unexpected: bool,
    ) -> Self {
        let (reason, mut message) = generic_reason(code, verb, server_message);
        let verb = verb.to_lowercase();
        match (resource.is_empty(), name.is_empty()) {
            (true, _) => {}
            (false, true) => message = format!("{message} ({verb} {resource})").into(),
            (false, false) => message = format!("{message} ({verb} {resource} {name})").into(),
        }
        failure(code, reason, message).about(resource, name).with_details(|details| {
            details.retry_after_seconds = retry_after;
            if unexpected {
                details.causes.push(StatusCause {
                    reason: cause::UNEXPECTED_SERVER_RESPONSE.into(),
                    message: server_message.to_owned().into(),
                    field: "".into(),
                });
            }
        })
    }

    /// Error without a reason.
    pub fn unknown(code: u16, error: impl fmt::Display) -> Self {
        failure(code, reason::UNKNOWN, error.to_string())
    }

    /// Status of the response.
    pub fn status(&self) -> &Status {
        &self.0
    }

    /// Status of the response.
    pub fn into_status(self) -> Status {
        *self.0
    }

    /// Reason, for programs.
    pub fn reason(&self) -> &str {
        &self.0.reason
    }

    fn about(self, resource: &GroupResource, name: &str) -> Self {
        self.with_details(|details| {
            details.group = resource.group.to_string().into();
            details.kind = resource.resource.to_string().into();
            details.name = name.to_owned().into();
        })
    }

    fn with_details(mut self, change: impl FnOnce(&mut StatusDetails)) -> Self {
        change(self.0.details.get_or_insert_default());
        self
    }
}

/// Longest message. The reference has no limit; the longest messages, aggregated errors about an object, have
/// [`MAX_ERROR_BYTES`] and a few more.
const MAX_MESSAGE_BYTES: usize = 2 * MAX_ERROR_BYTES;

/// Causes within the limits, and one that counts the others.
fn bounded(causes: impl IntoIterator<Item = StatusCause>, mut untold: usize) -> Vec<StatusCause> {
    let (mut told, mut bytes) = (Vec::new(), 0);
    for cause in causes {
        if told.len() >= MAX_ERRORS || bytes >= MAX_ERROR_BYTES {
            untold += 1;
            continue;
        }
        bytes += cause.message.len() + cause.field.len();
        told.push(cause);
    }
    let more = more_errors(untold);
    told.extend(more.map(|more| StatusCause { message: more.into(), ..Default::default() }));
    told
}

fn failure(code: u16, reason: &'static str, message: impl Into<Text>) -> StatusError {
    let message = match message.into() {
        Text::Owned(message) if message.len() > MAX_MESSAGE_BYTES => {
            cut(MAX_MESSAGE_BYTES, &message).into_owned().into()
        }
        message => message,
    };
    StatusError(Box::new(Status {
        status: FAILURE.into(),
        message,
        reason: reason.into(),
        code,
        ..Default::default()
    }))
}

fn generic_reason(code: u16, verb: &str, server_message: &str) -> (&'static str, Text) {
    let (reason, message) = match code {
        409 if verb == "POST" => (reason::ALREADY_EXISTS, "the server reported a conflict"),
        409 => (reason::CONFLICT, "the server reported a conflict"),
        404 => (reason::NOT_FOUND, "the server could not find the requested resource"),
        400 => (reason::BAD_REQUEST, "the server rejected our request for an unknown reason"),
        401 => (reason::UNAUTHORIZED, "the server has asked for the client to provide credentials"),
        406 if matches!(server_message, "" | "unknown") => (
            reason::NOT_ACCEPTABLE,
            "the server was unable to respond with a content type that the client supports",
        ),
        // These messages name what is permitted or accepted.
        403 => return (reason::FORBIDDEN, server_message.to_owned().into()),
        406 => return (reason::NOT_ACCEPTABLE, server_message.to_owned().into()),
        415 => return (reason::UNSUPPORTED_MEDIA_TYPE, server_message.to_owned().into()),
        405 => (
            reason::METHOD_NOT_ALLOWED,
            "the server does not allow this method on the requested resource",
        ),
        422 => (reason::INVALID, "the server rejected our request due to an error in our request"),
        503 => {
            (reason::SERVICE_UNAVAILABLE, "the server is currently unable to handle the request")
        }
        504 => (
            reason::TIMEOUT,
            "the server was unable to return a response in the time allotted, but may still be \
             processing the request",
        ),
        429 => (
            reason::TOO_MANY_REQUESTS,
            "the server has received too many requests and has asked us to try again later",
        ),
        500.. => {
            let said = quote(server_message);
            let message = format!(
                "an error on the server ({said}) has prevented the request from succeeding"
            );
            return (reason::INTERNAL_ERROR, message.into());
        }
        _ => {
            let message = format!(
                "the server responded with the status code {code} but did not return more \
                 information"
            );
            return (reason::UNKNOWN, message.into());
        }
    };
    (reason, message.into())
}

impl fmt::Display for StatusError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)
    }
}

impl std::error::Error for StatusError {}

impl From<Status> for StatusError {
    fn from(status: Status) -> Self {
        StatusError(Box::new(status))
    }
}
