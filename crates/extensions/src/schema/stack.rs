//! Room for recursion.

/// Trees that nest no deeper are walked on the caller's stack.
const SHALLOW: usize = 100;
const STACK_SIZE: usize = 64 << 20;

/// Runs something that recurses as deep as a tree, on a stack that is large enough.
pub(crate) fn with_stack<T: Send>(depth: usize, run: impl FnOnce() -> T + Send) -> T {
    if depth <= SHALLOW {
        return run();
    }
    let mut run = Some(run);
    let result = kevel_compute::with_stack(STACK_SIZE, || run.take().map(|run| run())).flatten();
    // Without a thread to spare, the caller's own stack has to do.
    match (result, run) {
        (Some(result), _) => result,
        (None, Some(run)) => run(),
        (None, None) => unreachable!("it has been run"),
    }
}
