//! Estimated work of a request.

use std::time::Duration;

/// Estimated work of a request (upstream: WorkEstimate).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkEstimate {
    /// Seats during the execution.
    pub initial_seats: u32,
    /// Seats after the response: the work that a write causes, above all watch events.
    pub final_seats: u32,
    /// Time of the final seats. The client does not wait for it.
    pub additional_latency: Duration,
}

impl WorkEstimate {
    /// An estimate of seats during the execution, and none after.
    pub const fn seats(initial_seats: u32) -> Self {
        WorkEstimate { initial_seats, final_seats: 0, additional_latency: Duration::ZERO }
    }

    /// Maximum of both phases. All of these seats are held from the beginning.
    pub fn max_seats(&self) -> u32 {
        self.initial_seats.max(self.final_seats)
    }
}
