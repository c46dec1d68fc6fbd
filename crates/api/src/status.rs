//! `Status` (metav1): the response to a request without an object, above all to a failed one.

mod error;
mod storage;

pub use error::StatusError;
pub use storage::{StorageError, StorageErrorCode};

use crate::json_string::write_json_string;
use std::borrow::Cow;

/// Text that is mostly static.
pub type Text = Cow<'static, str>;

/// A `metav1.Status`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Status {
    /// List metadata, which a status has for historical reasons.
    pub metadata: ListMeta,
    /// [`SUCCESS`] or [`FAILURE`].
    pub status: Text,
    /// Message for humans.
    pub message: Text,
    /// Reason for programs: one of [`reason`], or that of another server.
    pub reason: Text,
    /// Details of the reason.
    pub details: Option<Box<StatusDetails>>,
    /// The HTTP status code, 0 for none.
    pub code: u16,
}

/// The `metadata` of a list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListMeta {
    /// Resource version of the list.
    pub resource_version: Text,
    /// Continue token of the next page.
    pub continue_token: Text,
    /// Number of items after this page.
    pub remaining_item_count: Option<i64>,
}

/// Details of a status.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StatusDetails {
    /// The object's name.
    pub name: Text,
    /// The object's group.
    pub group: Text,
    /// The object's kind or, in most errors, its resource.
    pub kind: Text,
    /// The object's UID.
    pub uid: Text,
    /// Causes of a failure.
    pub causes: Vec<StatusCause>,
    /// Seconds after which to retry; 0 for none.
    pub retry_after_seconds: i32,
}

/// One cause of a failure.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StatusCause {
    /// Reason for programs.
    pub reason: Text,
    /// Message for humans.
    pub message: Text,
    /// The path to the field that caused it.
    pub field: Text,
}

/// The value of [`Status::status`] for a request that succeeded.
pub const SUCCESS: &str = "Success";
/// The value of [`Status::status`] for a request that failed.
pub const FAILURE: &str = "Failure";

/// Values of [`Status::reason`] that this server uses.
pub mod reason {
    #![allow(missing_docs)]
    pub const UNKNOWN: &str = "";
    pub const UNAUTHORIZED: &str = "Unauthorized";
    pub const FORBIDDEN: &str = "Forbidden";
    pub const NOT_FOUND: &str = "NotFound";
    pub const ALREADY_EXISTS: &str = "AlreadyExists";
    pub const CONFLICT: &str = "Conflict";
    pub const GONE: &str = "Gone";
    pub const INVALID: &str = "Invalid";
    pub const SERVER_TIMEOUT: &str = "ServerTimeout";
    pub const STORAGE_READ_ERROR: &str = "StorageReadError";
    pub const TIMEOUT: &str = "Timeout";
    pub const TOO_MANY_REQUESTS: &str = "TooManyRequests";
    pub const BAD_REQUEST: &str = "BadRequest";
    pub const METHOD_NOT_ALLOWED: &str = "MethodNotAllowed";
    pub const NOT_ACCEPTABLE: &str = "NotAcceptable";
    pub const REQUEST_ENTITY_TOO_LARGE: &str = "RequestEntityTooLarge";
    pub const UNSUPPORTED_MEDIA_TYPE: &str = "UnsupportedMediaType";
    pub const INTERNAL_ERROR: &str = "InternalError";
    pub const EXPIRED: &str = "Expired";
    pub const SERVICE_UNAVAILABLE: &str = "ServiceUnavailable";
}

/// Reasons of causes other than those of [`crate::field_error::FieldErrorKind`].
pub mod cause {
    #![allow(missing_docs)]
    pub const TOO_MANY: &str = "FieldValueTooMany";
    pub const UNEXPECTED_SERVER_RESPONSE: &str = "UnexpectedServerResponse";
    pub const FIELD_MANAGER_CONFLICT: &str = "FieldManagerConflict";
    pub const RESOURCE_VERSION_TOO_LARGE: &str = "ResourceVersionTooLarge";
}

impl Status {
    /// Appends the status as JSON, byte for byte as the reference writes it (which adds a newline in responses).
    pub fn write_json(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(br#"{"kind":"Status","apiVersion":"v1","metadata":"#);
        self.metadata.write_json(out);
        write_text(out, r#","status":"#, &self.status);
        write_text(out, r#","message":"#, &self.message);
        write_text(out, r#","reason":"#, &self.reason);
        if let Some(details) = &self.details {
            out.extend_from_slice(br#","details":"#);
            details.write_json(out);
        }
        write_number(out, r#","code":"#, i64::from(self.code));
        out.push(b'}');
    }

    /// The status as JSON.
    pub fn to_json(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(256);
        self.write_json(&mut out);
        out
    }
}

impl ListMeta {
    fn write_json(&self, out: &mut Vec<u8>) {
        write_object(out, |out| {
            write_text(out, r#","resourceVersion":"#, &self.resource_version);
            write_text(out, r#","continue":"#, &self.continue_token);
            if let Some(count) = self.remaining_item_count {
                out.extend_from_slice(format!(r#","remainingItemCount":{count}"#).as_bytes());
            }
        });
    }
}

impl StatusDetails {
    fn write_json(&self, out: &mut Vec<u8>) {
        write_object(out, |out| {
            write_text(out, r#","name":"#, &self.name);
            write_text(out, r#","group":"#, &self.group);
            write_text(out, r#","kind":"#, &self.kind);
            write_text(out, r#","uid":"#, &self.uid);
            if !self.causes.is_empty() {
                out.extend_from_slice(br#","causes":["#);
                for (index, cause) in self.causes.iter().enumerate() {
                    if index > 0 {
                        out.push(b',');
                    }
                    cause.write_json(out);
                }
                out.push(b']');
            }
            write_number(out, r#","retryAfterSeconds":"#, i64::from(self.retry_after_seconds));
        });
    }
}

impl StatusCause {
    fn write_json(&self, out: &mut Vec<u8>) {
        write_object(out, |out| {
            write_text(out, r#","reason":"#, &self.reason);
            write_text(out, r#","message":"#, &self.message);
            write_text(out, r#","field":"#, &self.field);
        });
    }
}

/// Writes an object whose members each begin with a comma; the first comma becomes the brace.
fn write_object(out: &mut Vec<u8>, members: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    members(out);
    match out.get_mut(start) {
        Some(comma) => *comma = b'{',
        None => out.push(b'{'),
    }
    out.push(b'}');
}

/// Writes a member, unless it is empty.
fn write_text(out: &mut Vec<u8>, key: &str, value: &str) {
    if !value.is_empty() {
        out.extend_from_slice(key.as_bytes());
        write_json_string(out, value);
    }
}

/// Writes a member, unless it is zero.
fn write_number(out: &mut Vec<u8>, key: &str, value: i64) {
    if value != 0 {
        out.extend_from_slice(key.as_bytes());
        out.extend_from_slice(value.to_string().as_bytes());
    }
}

#[cfg(test)]
mod tests;
