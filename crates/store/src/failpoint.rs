//! Failpoints: named places at which the process can be made to abort, for `conformance/robustness`. A kill at a random
//! time seldom falls between two given steps.
//!
//! Compiled in only with the feature `failpoints`. `KEVEL_FAILPOINTS=NAME=abort:N` aborts the process the N-th time it
//! reaches the failpoint, as SIGKILL would: nothing is flushed, no client gets an answer.

/// Before a transaction is committed and synced.
pub(crate) const BEFORE_COMMIT: &str = "store/before-commit";
/// After the commit, before watchers and writers learn of it.
pub(crate) const AFTER_COMMIT: &str = "store/after-commit";
/// Before watches, the watch cache's among them, get the committed events.
pub(crate) const BEFORE_PUBLISH: &str = "store/before-publish";
/// Before the writers of a batch get the result of the commit.
pub(crate) const BEFORE_ANSWER: &str = "store/before-answer";
/// After a compaction was recorded, before anything was removed.
pub(crate) const COMPACTING: &str = "store/compacting";
/// While compacted records are removed.
pub(crate) const SWEEPING: &str = "store/sweeping";
/// Before the write-ahead log is copied into the database.
pub(crate) const CHECKPOINT: &str = "store/checkpoint";
/// While a resource is loaded into its watch cache.
pub(crate) const LOADING: &str = "cache/loading";
/// Between the engine's watch and the watch caches.
pub(crate) const HEARD: &str = "cache/heard";

/// Aborts the process if this failpoint is armed and its count is reached; does nothing without the feature.
#[cfg(not(feature = "failpoints"))]
#[inline(always)]
pub(crate) fn reach(_name: &str) {}

/// Aborts the process if this failpoint is armed and its count is reached.
#[cfg(feature = "failpoints")]
pub(crate) fn reach(name: &str) {
    use std::sync::LazyLock;
    use std::sync::atomic::{AtomicU64, Ordering};

    /// Armed failpoint, and the number of passes left.
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
