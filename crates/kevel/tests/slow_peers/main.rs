//! Servers that a running server asks, and that answer a byte at a time: every request ends at its deadline.

#![allow(clippy::unwrap_used)]

mod aggregated;
mod deciders;
mod dripping;
mod webhooks;

use std::time::Duration;

use kevel_clock::Stopwatch;

/// Time of a webhook or request in these tests.
const TIME: Duration = Duration::from_secs(1);
/// Limit on what takes [`TIME`], on a busy machine. Every time that a server has by itself is longer.
const LATE: Duration = Duration::from_secs(4);

/// The result of a future that ends at its deadline, neither before it nor long after.
async fn on_time<T>(what: impl Future<Output = T>) -> T {
    let started = Stopwatch::start();
    let result = kevel_test_support::soon(what).await;
    let took = started.elapsed();
    assert!(took >= TIME / 2 && took < LATE, "took {took:?}");
    result
}

fn base64(text: &str) -> String {
    kevel_codec::base64::encode(text.as_bytes()).to_string()
}
