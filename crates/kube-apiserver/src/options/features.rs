//! Flags of profiling and similar features.

use crate::flags::{EFFECTIVE, PENDING, section};

section! {
    /// Options of profiling and similar features.
    Features, "features" {
        /// Record where threads wait for each other, if profiling is on. The runtime does not record
        /// it: /debug/pprof/block and /debug/pprof/mutex say so.
        contention_profiling: bool = "false", PENDING;
        /// Path of a Unix socket for profiles and /debug/flags without authentication or
        /// authorization.
        debug_socket_path: String, EFFECTIVE;
        /// Queue requests by priority and share the server between clients, instead of the two
        /// limits of requests in flight.
        enable_priority_and_fairness: bool = "true", EFFECTIVE;
        /// Serve /debug/flags/v, by which the log is made to say more or less while the server runs.
        /// Serve profiles under /debug/pprof/ as well.
        profiling: bool = "true", EFFECTIVE;
    }
}
