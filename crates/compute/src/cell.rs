//! Cells that are filled at their first use.

use std::sync::OnceLock;

/// Returns the value of a cell, computed if the cell is empty. Unlike `get_or_init`, computes without holding the cell: a
/// charge may wait, and whatever thread needs the value meanwhile would block. Threads that come at the same time each
/// compute, and the first result is kept.
///
/// ```
/// let cell = std::sync::OnceLock::new();
/// assert_eq!(kevel_compute::filled(&cell, || 1 + 1), &2);
/// assert_eq!(kevel_compute::filled(&cell, || unreachable!()), &2);
/// ```
pub fn filled<T>(cell: &OnceLock<T>, compute: impl FnOnce() -> T) -> &T {
    if let Some(known) = cell.get() {
        return known;
    }
    let computed = compute();
    cell.get_or_init(|| computed)
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;

    /// A turn that waits at a charge while it fills a cell.
    #[test]
    fn cell_is_filled_by_another_thread_while_the_first_waits() {
        let cell = &OnceLock::new();
        let (computes, is_computing) = mpsc::channel();
        let (go_on, waits) = mpsc::channel();
        std::thread::scope(|scope| {
            let first = scope.spawn(move || {
                *filled(cell, || {
                    let _ = computes.send(());
                    waits.recv_timeout(Duration::from_secs(60)).unwrap();
                    1
                })
            });
            is_computing.recv().unwrap();
            let second = *filled(cell, || 2);
            go_on.send(()).unwrap();
            assert_eq!((first.join().unwrap(), second), (2, 2));
        });
    }
}
