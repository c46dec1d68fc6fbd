//! How much work a request is thought to be.

use std::time::Duration;

/// What a request is expected to need.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkEstimate {
    /// The seats that it takes while it is served.
    pub initial_seats: u32,
    /// The seats that it takes after that: the work that it leaves to others, watch events above
    /// all.
    pub final_seats: u32,
    /// How long it takes those. Its client does not wait for it.
    pub additional_latency: Duration,
}

impl WorkEstimate {
    /// So many seats while it is served, and none after.
    pub const fn seats(initial_seats: u32) -> Self {
        WorkEstimate { initial_seats, final_seats: 0, additional_latency: Duration::ZERO }
    }

    /// The most seats that it takes at a time. All of them are held from the beginning.
    pub fn max_seats(&self) -> u32 {
        self.initial_seats.max(self.final_seats)
    }
}
