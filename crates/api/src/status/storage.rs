//! What a store reports, and the status that a request gets for it.

use super::StatusError;
use crate::gvk::GroupResource;
use std::fmt;

/// A store's report of a failed operation on one key. Its text reaches clients inside the messages
/// of conflicts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StorageError {
    /// What happened.
    pub code: StorageErrorCode,
    /// The key.
    pub key: String,
    /// The revision in question, 0 for none.
    pub resource_version: i64,
    /// What else there is to say.
    pub message: Option<String>,
}

/// What happened to an operation on a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StorageErrorCode {
    /// There is no such key.
    KeyNotFound = 1,
    /// There is such a key already.
    KeyExists,
    /// The key is not at the revision that was expected.
    ResourceVersionConflicts,
    /// The object does not satisfy the operation's preconditions.
    InvalidObj,
    /// The store cannot be reached.
    Unreachable,
    /// The store did not answer in time.
    Timeout,
    /// The object cannot be read.
    CorruptObj,
}

/// After how long a client should try again when the store did not answer.
const RETRY_AFTER_SECONDS: i32 = 2;

impl StorageError {
    /// The failed precondition of an update or a deletion.
    pub fn invalid_object(key: impl Into<String>, message: impl Into<String>) -> Self {
        StorageError {
            code: StorageErrorCode::InvalidObj,
            key: key.into(),
            resource_version: 0,
            message: Some(message.into()),
        }
    }

    /// The status for the operation `get`, `list`, `create`, `update` or `delete`.
    pub fn to_status(&self, operation: &str, resource: &GroupResource, name: &str) -> StatusError {
        use StorageErrorCode::*;
        match (self.code, operation) {
            (KeyNotFound, "get" | "list" | "update" | "delete") => {
                let name = if operation == "list" { "" } else { name };
                StatusError::not_found(resource, name)
            }
            (KeyExists, "create") => StatusError::already_exists(resource, name),
            (KeyExists | ResourceVersionConflicts | InvalidObj, "update" | "delete") => {
                StatusError::conflict(resource, name, self)
            }
            (Unreachable, _) | (Timeout, "list") => {
                StatusError::server_timeout(resource, operation, RETRY_AFTER_SECONDS)
            }
            (CorruptObj, _) => StatusError::internal(self),
            (ResourceVersionConflicts, _) => StatusError::unknown(409, self),
            _ => StatusError::unknown(500, self),
        }
    }
}

impl fmt::Display for StorageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use StorageErrorCode::*;
        let what = match self.code {
            KeyNotFound => "key not found",
            KeyExists => "key exists",
            ResourceVersionConflicts => "resource version conflicts",
            InvalidObj => "invalid object",
            Unreachable => "server unreachable",
            Timeout => "request timeout",
            CorruptObj => "corrupt object",
        };
        write!(
            f,
            "StorageError: {what}, Code: {}, Key: {}, ResourceVersion: {}, AdditionalErrorMsg: {}",
            self.code as u8,
            self.key,
            self.resource_version,
            self.message.as_deref().unwrap_or("<nil>")
        )
    }
}

impl std::error::Error for StorageError {}
