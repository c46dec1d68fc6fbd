//! Stack space for recursion over trees.

/// Deepest tree that is walked on the caller's stack.
const SHALLOW: usize = 100;
const STACK_SIZE: usize = 64 << 20;

/// Runs a function that recurses `depth` levels, on a stack that is large enough.
pub(crate) fn with_stack<T: Send>(depth: usize, run: impl FnOnce() -> T + Send) -> T {
    if depth <= SHALLOW {
        return run();
    }
    let mut run = Some(run);
    let result = kevel_compute::with_stack(STACK_SIZE, || run.take().map(|run| run())).flatten();
    // If no thread can be started, it runs on the caller's stack.
    match (result, run) {
        (Some(result), _) => result,
        (None, Some(run)) => run(),
        (None, None) => unreachable!("it has been run"),
    }
}
