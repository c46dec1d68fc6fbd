//! Label selectors and field selectors.

pub mod field;
pub mod label;
pub mod shard;

/// Longest selector that is parsed: as long as a request's head may be.
pub const MAX_SELECTOR_LENGTH: usize = 1 << 20;

/// Number of requirements up to which they are checked one by one, which is faster than any preparation.
const FEW_REQUIREMENTS: usize = 8;
