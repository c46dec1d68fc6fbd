//! Writes to what somebody else may be writing at the same time.

use kevel_api::status::StatusError;

use crate::failure::store_error;

/// Why a replacement did not come about.
pub(crate) enum Failed {
    /// Somebody else came first.
    Changed,
    Refused(StatusError),
}

impl From<StatusError> for Failed {
    fn from(error: StatusError) -> Self {
        Failed::Refused(error)
    }
}

pub(crate) fn changed(error: kevel_store::Error) -> Failed {
    match error {
        kevel_store::Error::Conflict(_) | kevel_store::Error::NotFound => Failed::Changed,
        error => Failed::Refused(store_error(error)),
    }
}
