use std::borrow::Cow;
use std::path::PathBuf;

use crate::{Damaged, Entry, Revision};

/// What a store operation returns.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a store operation failed: one variant for each thing a caller decides on.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The key to create is there already.
    #[error("key already exists at revision {}", .0.mod_revision)]
    Exists(Box<Entry>),
    /// The key was written since the expected revision; this is what it holds now.
    #[error("key was modified at revision {}", .0.mod_revision)]
    Conflict(Box<Entry>),
    /// The key to update or delete is not there.
    #[error("key not found")]
    NotFound,
    /// The revision asked for is no longer kept.
    #[error("required revision {requested} has been compacted, the oldest kept is {compacted}")]
    Compacted {
        /// What was asked for.
        requested: Revision,
        /// The oldest revision that can be read.
        compacted: Revision,
    },
    /// The revision asked for has not been written yet.
    #[error("required revision {requested} is a future revision, the current is {current}")]
    FutureRevision {
        /// What was asked for.
        requested: Revision,
        /// The newest revision that can be read.
        current: Revision,
    },
    /// The store cannot answer now; a write may or may not have happened.
    #[error("store unavailable: {0}")]
    Unavailable(String),
    /// What is stored is not what was written. It is not served.
    #[error("stored data is damaged: {0}")]
    Corrupt(String),
    /// The same, where one key alone is concerned.
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

/// etcd's words for a write over its limit, which every engine uses: clients of the reference know them.
const REQUEST_TOO_LARGE: &str = "etcdserver: request is too large"; // reference message

impl Error {
    /// A write over the store's limit.
    pub const fn too_large() -> Error {
        Error::TooLarge(Cow::Borrowed(REQUEST_TOO_LARGE))
    }

    pub(crate) fn closed() -> Error {
        Error::Unavailable("the store is closed".into())
    }
}
