//! Flow control seats of a watch.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http::request::Parts;
use kevel_flowcontrol::WatchRegistration;
use tokio::time::sleep;

use super::execution::Executing;
use crate::lease::Lease;

/// Longest time that a watch keeps its seats, however slowly its client reads the initial state: as long as a list may
/// take.
const INITIALIZATION_LIMIT: Duration = Duration::from_secs(60);

/// Seats of a watch on their way to its handler, a request extension. Seats that are not taken are released with the
/// request.
#[derive(Clone)]
pub(crate) struct WatchHold(Arc<Mutex<Option<WatchSeats>>>);

/// Seats of a watch until its initial state is sent, and its registration among the watches.
pub(crate) struct WatchSeats {
    seats: Option<Lease<Executing>>,
    _registration: Option<WatchRegistration>,
}

impl WatchHold {
    pub(super) fn new(seats: WatchSeats) -> Self {
        WatchHold(Arc::new(Mutex::new(Some(seats))))
    }

    /// Takes the seats of a watch, if any.
    pub(crate) fn take(parts: &Parts) -> Option<WatchSeats> {
        let hold = parts.extensions.get::<WatchHold>()?;
        hold.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl WatchSeats {
    pub(super) fn new(executing: Executing, registration: Option<WatchRegistration>) -> Self {
        WatchSeats { seats: Some(Lease::new(executing)), _registration: registration }
    }

    /// Limits the seats' time: a part of the initial state is sent, and the watch waits for its client.
    pub(crate) fn limit(&mut self) {
        if let Some(seats) = &mut self.seats {
            seats.until(sleep(INITIALIZATION_LIMIT));
        }
    }

    /// Releases the seats: the watch is initialized.
    pub(crate) fn initialized(&mut self) {
        self.seats = None;
    }
}
