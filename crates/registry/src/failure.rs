//! Conversion of errors below the endpoints into statuses for clients.

use kevel_api::gvk::GroupResource;
use kevel_api::status::StatusError;
use kevel_store::cache::CacheError;

/// A routing error with nothing but its code.
pub fn bare(code: u16) -> StatusError {
    bare_with(code, "")
}

/// A routing error with a text.
pub fn bare_with(code: u16, said: &str) -> StatusError {
    StatusError::generic(code, "", &GroupResource::default(), "", said, 0, false)
}

/// The 404 of an unknown resource.
pub fn unserved() -> StatusError {
    bare(404)
}

/// `Retry-After` in seconds while a cache is not loaded yet.
const INITIALIZING_RETRY: i32 = 1;

/// Converts an error of the watch cache.
pub fn cache_error(error: CacheError) -> StatusError {
    match error {
        CacheError::Expired { .. } => StatusError::resource_expired(error.to_string()),
        CacheError::TooLarge { requested, current } => {
            StatusError::too_large_resource_version(requested.0, current.0, 1)
        }
        CacheError::Initializing(_) => {
            StatusError::too_many_requests(error.to_string(), INITIALIZING_RETRY)
        }
        CacheError::Closed => unserved(),
        CacheError::Store(error) => store_error(error),
    }
}

/// Converts an unexpected error of the store.
pub(crate) fn store_error(error: kevel_store::Error) -> StatusError {
    match error {
        kevel_store::Error::Compacted { .. } => {
            StatusError::resource_expired("The resourceVersion for the provided watch is too old.")
        }
        kevel_store::Error::TooLarge(_) => StatusError::unknown(500, error.to_string()),
        error => StatusError::internal(error),
    }
}

/// Joins several errors as the reference does: `[first, second]` (upstream: `utilerrors.Aggregate`).
pub fn aggregate(mut errors: Vec<String>) -> Option<String> {
    let mut seen = std::collections::HashSet::new();
    errors.retain(|error| seen.insert(error.clone()));
    match errors.len() {
        0 | 1 => errors.pop(),
        _ => Some(format!("[{}]", errors.join(", "))),
    }
}
