//! Ports for servers that need a fixed one.

use std::net::TcpListener;
use std::sync::atomic::{AtomicU16, Ordering};

/// An unused port below the range of outgoing connections, never the same twice in a process.
pub fn free_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let first = 20_000 + (std::process::id() % 100) as u16 * 100;
    let candidates = std::iter::repeat_with(|| first + NEXT.fetch_add(1, Ordering::Relaxed));
    candidates.take(1000).find(|port| TcpListener::bind(("127.0.0.1", *port)).is_ok()).unwrap()
}
