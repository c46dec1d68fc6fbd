//! Room for evaluations that nest deep.

/// How deep expressions may nest that are evaluated where one is.
const SHALLOW: usize = 64;

/// How deep they may nest at all, with the variables that they refer to, and those that these refer to.
pub const MAX_NESTING: usize = 2500;

/// What one level takes, in a build without optimization.
const LEVEL: usize = 8 << 10;

/// Does something with expressions that nest this deep, where there is enough stack for it: threads that serve requests
/// have 2 MiB. `None` if they nest deeper than [`MAX_NESTING`].
///
/// ```
/// assert_eq!(kevel_cel::with_stack(10, || 1 + 1), Some(2));
/// assert_eq!(kevel_cel::with_stack(1_000, || 1 + 1), Some(2));
/// assert_eq!(kevel_cel::with_stack(1_000_000, || 1 + 1), None);
/// ```
pub fn with_stack<T: Send>(nesting: usize, work: impl FnOnce() -> T + Send) -> Option<T> {
    if nesting <= SHALLOW {
        return Some(work());
    }
    if nesting > MAX_NESTING {
        return None;
    }
    kevel_compute::with_stack((SHALLOW + nesting) * LEVEL, work)
}
