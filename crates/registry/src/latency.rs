//! Latency of a request by phase (upstream: `LatencyTrackers`), as far as writes add to it.

use std::fmt::Debug;
use std::time::Duration;

/// Phase of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Authentication of the request.
    Authentication,
    /// Authorization of impersonation.
    Impersonation,
    /// Longest wait in a queue of priority and fairness.
    Queue,
    /// Longest authorization.
    Authorization,
    /// Mutating webhooks, one after the other.
    MutatingWebhook,
    /// The longest of the validating webhooks, which are called in parallel.
    ValidatingWebhook,
    /// Calls of the store.
    Storage,
    /// Encoding of the response.
    Serialization,
    /// Writing of the response.
    ResponseWrite,
}

/// Adds up the time of a request's phases.
pub trait TrackLatency: Debug + Send + Sync {
    /// Adds time to a phase.
    fn add(&self, phase: Phase, time: Duration);
}
