//! Named places at which a server can be made to die, for `conformance/robustness`: a kill at random seldom meets the
//! moment between two steps.
//!
//! Only with the feature `failpoints`; without it there is nothing here. `KEVEL_FAILPOINTS=NAME=abort:N` ends the
//! process the N-th time it comes to a place, as SIGKILL would: nothing is flushed, nobody is told.

/// Before a transaction is committed, and synced with that.
pub(crate) const BEFORE_COMMIT: &str = "store/before-commit";
/// After it was, and before anybody knows.
pub(crate) const AFTER_COMMIT: &str = "store/after-commit";
/// Before watchers, and the watch cache with them, are told of what was committed.
pub(crate) const BEFORE_PUBLISH: &str = "store/before-publish";
/// Before those who wrote are told that it was committed.
pub(crate) const BEFORE_ANSWER: &str = "store/before-answer";
/// After a compaction was noted, and before anything was removed.
pub(crate) const COMPACTING: &str = "store/compacting";
/// While what was compacted is removed.
pub(crate) const SWEEPING: &str = "store/sweeping";
/// Before the log is carried over into the database.
pub(crate) const CHECKPOINT: &str = "store/checkpoint";
/// While a resource is loaded into its cache.
pub(crate) const LOADING: &str = "cache/loading";
/// Between the engine's watch and the caches.
pub(crate) const HEARD: &str = "cache/heard";

/// Dies here, if this is the place and the time.
#[cfg(not(feature = "failpoints"))]
#[inline(always)]
pub(crate) fn reach(_name: &str) {}

/// Dies here, if this is the place and the time.
#[cfg(feature = "failpoints")]
pub(crate) fn reach(name: &str) {
    use std::sync::LazyLock;
    use std::sync::atomic::{AtomicU64, Ordering};

    /// The place, and how many times it is passed before the last.
    static ARMED: LazyLock<Option<(String, AtomicU64)>> = LazyLock::new(|| {
        let armed = std::env::var("KEVEL_FAILPOINTS").ok()?;
        let (name, times) = armed.split_once("=abort:")?;
        Some((name.to_owned(), AtomicU64::new(times.parse().ok()?)))
    });
    if let Some((armed, left)) = &*ARMED
        && armed == name
        && left.fetch_sub(1, Ordering::SeqCst) == 1
    {
        std::process::abort();
    }
}
