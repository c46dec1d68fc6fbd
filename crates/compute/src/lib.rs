//! Compute budget of requests: no request holds a worker of the runtime for more than milliseconds.
//!
//! A turn (one `poll` of a task) that loops over stored or sent data keeps its worker from every other task: no
//! `/livez`, no handshake. Each such loop calls [`charge`] with what it has done; that costs a nanosecond. When a turn
//! has used up its budget ([`BUDGET`]), the next charge leaves the worker: the runtime gives the worker's other tasks
//! to another thread, and the turn goes on beside the workers once it has a permit. There are as many permits as
//! processors. Flows (users) share them fairly: one user's heavy requests delay that user's own, and a turn hands its
//! permit on after a [`QUANTUM`] if another flow is due.
//!
//! The crate knows neither HTTP nor the runtime: the server opens a [`ComputeTurn`] around each poll, and passes in the
//! function that leaves a worker ([`Leave`]).
//!
//! Charges must not be made while a lock is held that other requests take: a turn may wait at a charge. If one is made
//! all the same, the wait ends: see [`MAX_WAIT`]. A cell that is filled at its first use is such a lock: [`filled`]
//! computes outside of it.
//!
//! A request that is known to be large ([`expect`]: its body, object or list) starts its next turn beside the workers.

mod cell;
mod long_turns;
mod meter;
#[cfg(feature = "runtime")]
mod metered;
mod permits;
mod stack;
mod turn;

pub use cell::filled;
pub use meter::{ComputeFlow, ComputeMeter};
#[cfg(feature = "runtime")]
pub use metered::{Metered, expect, leave_worker};
#[cfg(feature = "runtime")]
pub use permits::waiting;
pub use permits::{Acquire, Permit};
pub use stack::with_stack;
pub use turn::{
    BUDGET, ComputeTurn, DeadlineExceeded, Leave, charge, charge_bytes, checkpoint, leave_for,
    step_aside,
};

use std::time::Duration;

/// The longest time that a turn keeps a permit while another flow is due: long enough to make the change of threads cheap beside it,
/// short enough for a dozen users to have their turns within a quarter of a second.
pub const QUANTUM: Duration = Duration::from_millis(10);

/// The longest wait for a permit in the middle of a turn. After it the turn waits for one of as many others: it may hold a
/// lock that a turn with a permit needs.
pub const MAX_WAIT: Duration = Duration::from_secs(1);

/// The longest wait for one of the other permits. After it the turn goes on without one.
pub const MAX_LATE_WAIT: Duration = Duration::from_secs(10);
