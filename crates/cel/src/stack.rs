//! Stack space for evaluations that nest deep.

/// Deepest nesting that is evaluated on the caller's stack.
const SHALLOW: usize = 64;

/// Limit on nesting, including variables that are referred to directly or indirectly.
pub const MAX_NESTING: usize = 2500;

/// Stack size of one level, in a build without optimization.
const LEVEL: usize = 8 << 10;

/// Runs a function on expressions of this nesting depth, with enough stack: threads that serve requests have 2 MiB.
/// `None` beyond [`MAX_NESTING`].
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
