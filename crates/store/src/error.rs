use std::borrow::Cow;
use std::path::PathBuf;

use crate::{Damaged, Entry, Revision};

/// Result of a store operation.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Error of a store operation: one variant for each case that a caller distinguishes.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The key to create exists.
    #[error("key already exists at revision {}", .0.mod_revision)]
    Exists(Box<Entry>),
    /// The key was written since the expected revision; this is its present entry.
    #[error("key was modified at revision {}", .0.mod_revision)]
    Conflict(Box<Entry>),
    /// The key to update or delete does not exist.
    #[error("key not found")]
    NotFound,
    /// The requested revision has been compacted.
    #[error("required revision {requested} has been compacted, the oldest kept is {compacted}")]
    Compacted {
        /// The requested revision.
        requested: Revision,
        /// The oldest revision that can be read.
        compacted: Revision,
    },
    /// The requested revision has not been written yet.
    #[error("required revision {requested} is a future revision, the current is {current}")]
    FutureRevision {
        /// The requested revision.
        requested: Revision,
        /// The newest revision that can be read.
        current: Revision,
    },
    /// The store cannot answer now; a write may or may not have happened.
    #[error("store unavailable: {0}")]
    Unavailable(String),
    /// The stored data is not what was written. It is not served.
    #[error("stored data is damaged: {0}")]
    Corrupt(String),
    /// One key's value is damaged; the rest of the store can be read.
    #[error("{0}")]
    Damaged(Box<Damaged>),
    /// The key or value is over the store's limit. Nothing was written. Clients see the text.
    #[error("{0}")]
    TooLarge(Cow<'static, str>),
    /// Another process has this data directory open.
    #[error("{} is in use by another process: stop it, or choose another folder", .0.display())]
    Locked(PathBuf),
    /// The configuration cannot work: a missing file, an unusable directory, a bad endpoint.
    #[error("{0}")]
    Invalid(String),
}

/// etcd's message for a write over its limit, used by every engine: clients of the reference know it.
const REQUEST_TOO_LARGE: &str = "etcdserver: request is too large"; // reference message

impl Error {
    /// Error of a write over the store's limit.
    pub const fn too_large() -> Error {
        Error::TooLarge(Cow::Borrowed(REQUEST_TOO_LARGE))
    }

    pub(crate) fn closed() -> Error {
        Error::Unavailable("the store is closed".into())
    }
}
