//! Failed TLS handshakes, counted and logged.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use kevel_clock::monotonic_now;

use crate::metrics::Counter;

/// Shortest interval between two log lines: port scanners and load balancers cause many.
const LOGGED_EVERY: Duration = Duration::from_secs(1);

/// Counter and log of failed TLS handshakes.
#[derive(Debug, Default)]
pub struct HandshakeErrors {
    total: Arc<Counter>,
    logged: Mutex<Option<(Instant, u64)>>,
}

impl HandshakeErrors {
    /// Counts in this metric.
    pub fn new(total: Arc<Counter>) -> Self {
        HandshakeErrors { total, logged: Mutex::default() }
    }

    /// Number of failed handshakes.
    pub fn count(&self) -> u64 {
        self.total.value()
    }

    pub(super) fn add(&self, peer: SocketAddr, error: &dyn std::fmt::Display) {
        self.total.increment();
        let count = self.count();
        if !tracing::enabled!(target: "v5", tracing::Level::DEBUG) {
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
                target: "v5",
                unlogged, "TLS handshake error from {peer}: {error}"
            );
            *logged = Some((monotonic_now(), count));
        }
    }
}
