//! Room for deep recursion.

/// Runs work that recurses deeper than the caller's stack may allow, on a thread with a stack of its own. `None` if there
/// is no thread to spare. The caller waits, so it leaves its worker first. A panic goes on in the caller.
///
/// ```
/// assert_eq!(kevel_compute::with_stack(1 << 20, || 1 + 1), Some(2));
/// ```
pub fn with_stack<T: Send>(bytes: usize, work: impl FnOnce() -> T + Send) -> Option<T> {
    crate::turn::step_aside();
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().stack_size(bytes);
        let thread = thread.spawn_scoped(scope, work).ok()?;
        Some(thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    })
}
