//! What a watch holds of priority and fairness.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http::request::Parts;
use kevel_flowcontrol::WatchRegistration;
use tokio::time::sleep;

use super::execution::Executing;
use crate::lease::Lease;

/// A watch has its seats for no longer, however slowly its client reads the state that it begins with:
/// as long as the answer to a list may take.
const INITIALIZATION_LIMIT: Duration = Duration::from_secs(60);

/// The seats of a watch on their way to who serves it, as an extension of its request. If nobody takes
/// them they are given back with the request.
#[derive(Clone)]
pub(crate) struct WatchHold(Arc<Mutex<Option<WatchSeats>>>);

/// The seats of a watch until it has sent the state that it begins with, and its place among the watches
/// that see a change.
pub(crate) struct WatchSeats {
    seats: Option<Lease<Executing>>,
    _registration: Option<WatchRegistration>,
}

impl WatchHold {
    pub(super) fn new(seats: WatchSeats) -> Self {
        WatchHold(Arc::new(Mutex::new(Some(seats))))
    }

    /// What a watch has been given, if anything.
    pub(crate) fn take(parts: &Parts) -> Option<WatchSeats> {
        let hold = parts.extensions.get::<WatchHold>()?;
        hold.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl WatchSeats {
    pub(super) fn new(executing: Executing, registration: Option<WatchRegistration>) -> Self {
        WatchSeats { seats: Some(Lease::new(executing)), _registration: registration }
    }

    /// There is more to send: what it waits for is its client.
    pub(crate) fn limit(&mut self) {
        if let Some(seats) = &mut self.seats {
            seats.until(sleep(INITIALIZATION_LIMIT));
        }
    }

    /// The watch has begun.
    pub(crate) fn initialized(&mut self) {
        self.seats = None;
    }
}
