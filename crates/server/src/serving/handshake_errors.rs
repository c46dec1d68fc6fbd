//! TLS handshakes that fail, counted and logged apart.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// One of them is logged in this time, at most: port scanners and load balancers make many.
const LOGGED_EVERY: Duration = Duration::from_secs(1);

/// The TLS handshakes that failed.
#[derive(Debug, Default)]
pub struct HandshakeErrors {
    count: AtomicU64,
    logged: Mutex<Option<(Instant, u64)>>,
}

impl HandshakeErrors {
    /// How many there were: `apiserver_tls_handshake_errors_total`.
    pub fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    pub(super) fn add(&self, peer: SocketAddr, error: &dyn std::fmt::Display) {
        let count = self.count.fetch_add(1, Ordering::Relaxed) + 1;
        if !tracing::enabled!(target: "tls_handshake", tracing::Level::DEBUG) {
            return;
        }
        let mut logged = self.logged.lock().unwrap_or_else(PoisonError::into_inner);
        let (last, counted) = match *logged {
            Some((at, count)) => (Some(at), count),
            None => (None, 0),
        };
        if last.is_none_or(|at| at.elapsed() >= LOGGED_EVERY) {
            let unlogged = count.saturating_sub(counted + 1);
            tracing::debug!(
                target: "tls_handshake",
                unlogged, "TLS handshake error from {peer}: {error}"
            );
            *logged = Some((Instant::now(), count));
        }
    }
}
