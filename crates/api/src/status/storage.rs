//! Storage errors, and the status of a request for each (upstream: storage.StorageError, InterpretGetError).

use super::StatusError;
use crate::gvk::GroupResource;
use std::fmt;

/// Error of an operation on one key. Its text reaches clients inside the messages of conflicts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StorageError {
    /// Code of the error.
    pub code: StorageErrorCode,
    /// The key.
    pub key: String,
    /// Revision of the conflict, 0 for none.
    pub resource_version: i64,
    /// Further message.
    pub message: Option<String>,
}

/// Code of a storage error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StorageErrorCode {
    /// The key does not exist.
    KeyNotFound = 1,
    /// The key exists already.
    KeyExists,
    /// The key does not have the expected revision.
    ResourceVersionConflicts,
    /// The object does not satisfy the operation's preconditions.
    InvalidObj,
    /// The store cannot be reached.
    Unreachable,
    /// The store did not answer in time.
    Timeout,
    /// The object cannot be decoded.
    CorruptObj,
}

/// Retry-After of a store that did not answer.
const RETRY_AFTER_SECONDS: i32 = 2;

impl StorageError {
    /// Failed precondition of an update or a deletion.
    pub fn invalid_object(key: impl Into<String>, message: impl Into<String>) -> Self {
        StorageError {
            code: StorageErrorCode::InvalidObj,
            key: key.into(),
            resource_version: 0,
            message: Some(message.into()),
        }
    }

    /// Status for the operation `get`, `list`, `create`, `update` or `delete`.
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
