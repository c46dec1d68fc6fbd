//! Label selectors and field selectors.

pub mod field;
pub mod label;

/// The longest selector that is read, so that what is made of it stays small. It is as much as a
/// request's head may hold.
pub const MAX_SELECTOR_LENGTH: usize = 1 << 20;

/// Up to so many requirements are looked at one by one, which is quicker than anything that has to be made first.
const FEW_REQUIREMENTS: usize = 8;
