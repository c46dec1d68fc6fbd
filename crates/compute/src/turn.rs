//! Turns, and the charges made in them.

use std::cell::{Cell, RefCell};
use std::time::{Duration, Instant};

use kevel_clock::monotonic_now;

use crate::long_turns::OnWorker;
use crate::meter::ComputeMeter;
use crate::permits::{Acquire, Permit};

/// The longest time that a turn computes on a worker. Five milliseconds are the promise; two are left for the work
/// between two looks at the clock.
pub const BUDGET: Duration = Duration::from_millis(3);

/// Charges between two looks at the clock. A charge stands for 10 to 200 ns, so that a look comes every 0.3 ms at most.
const STRIDE: usize = if cfg!(feature = "long-turns") { 16 } else { 1500 };

/// Bytes that are copied, scanned or hashed for one charge: some 60 ns.
const BYTES_PER_CHARGE: usize = 64;

/// Size from which indivisible work leaves the worker first: a millisecond's copying.
const LARGE_BYTES: usize = 1 << 20;

/// Leaves the worker that this thread is: runs the function while another thread goes on with the worker's tasks.
/// After it, this thread is no longer a worker until its task's turn has ended.
pub type Leave = fn(&mut dyn FnMut());

/// The deadline of the request has passed while it was computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeadlineExceeded;

impl std::fmt::Display for DeadlineExceeded {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("context deadline exceeded")
    }
}

impl std::error::Error for DeadlineExceeded {}

thread_local! {
    /// Charges left until the next look at the clock.
    static LEFT: Cell<usize> = const { Cell::new(usize::MAX) };
    static EXPIRED: Cell<bool> = const { Cell::new(false) };
    static CURRENT: RefCell<Option<CurrentTurn>> = const { RefCell::new(None) };
}

/// Turn that runs on this thread.
#[derive(Debug)]
struct CurrentTurn {
    meter: ComputeMeter,
    leave: Leave,
    /// Time of the first look at the clock.
    since: Option<Instant>,
    place: TurnPlace,
    on_worker: OnWorker,
}

#[derive(Debug)]
enum TurnPlace {
    OnWorker,
    /// Beside the workers; without a permit after a wait that took too long.
    Beside(Option<Permit>),
}

/// Charges the current turn for work: items, fields, nodes, rules looked at. Leaves the worker when the turn's budget is
/// used up. Outside of a turn nothing happens.
#[inline]
pub fn charge(units: usize) {
    LEFT.with(|left| match left.get().checked_sub(units) {
        Some(rest) => left.set(rest),
        None => look_at_clock(),
    });
}

/// Charges the current turn for bytes that were copied, scanned or hashed.
#[inline]
pub fn charge_bytes(bytes: usize) {
    charge(bytes / BYTES_PER_CHARGE);
}

/// Leaves the worker before work on so many bytes that a library does in one go, without charges, if they are many.
pub fn leave_for(bytes: usize) {
    if bytes > LARGE_BYTES {
        step_aside();
    }
}

/// Charges the current turn, in a loop that can end with an error.
///
/// # Errors
/// The request's deadline has passed: its client has been answered, and what is computed is for nothing.
#[inline]
pub fn checkpoint(units: usize) -> Result<(), DeadlineExceeded> {
    charge(units);
    if EXPIRED.get() { Err(DeadlineExceeded) } else { Ok(()) }
}

#[cold]
fn look_at_clock() {
    LEFT.set(STRIDE);
    // Taken out for the time: the wait for a permit runs foreign code (the runtime's).
    let Some(mut running) = CURRENT.take() else {
        LEFT.set(usize::MAX);
        return;
    };
    let now = monotonic_now();
    running.on_worker.looks();
    if running.meter.deadline().is_some_and(|deadline| deadline <= now) {
        EXPIRED.set(true);
    }
    match &running.place {
        TurnPlace::OnWorker => {
            let since = *running.since.get_or_insert(now);
            if now - since >= BUDGET {
                running.meter.set_heavy();
                running.on_worker.ends(&running.meter);
                running.go_beside();
            }
        }
        TurnPlace::Beside(Some(permit)) if permit.should_be_handed_on() => running.go_beside(),
        TurnPlace::Beside(_) => {}
    }
    CURRENT.set(Some(running));
}

/// Waits in the middle of a turn: for a permit, then for one of those that are late.
fn wait_for_permit(meter: &ComputeMeter) -> Option<Permit> {
    let until = |wait: Duration| {
        let end = monotonic_now() + wait;
        meter.deadline().map_or(end, |deadline| deadline.min(end))
    };
    let first = Acquire::new(meter.flow(), true).wait_until(until(crate::MAX_WAIT));
    first.or_else(|| Acquire::late(meter.flow()).wait_until(until(crate::MAX_LATE_WAIT)))
}

/// Leaves the worker now, before work that blocks the thread or takes milliseconds in one go. Nothing happens outside of a
/// turn and beside the workers.
pub fn step_aside() {
    let Some(mut running) = CURRENT.take() else { return };
    if matches!(running.place, TurnPlace::OnWorker) {
        running.on_worker.ends(&running.meter);
        running.go_beside();
    }
    CURRENT.set(Some(running));
}

impl CurrentTurn {
    fn new(meter: &ComputeMeter, leave: Leave, place: TurnPlace, on_worker: OnWorker) -> Self {
        CurrentTurn { meter: meter.clone(), leave, since: None, place, on_worker }
    }

    /// Waits for a permit beside the workers, a new one if there was one.
    fn go_beside(&mut self) {
        self.place = TurnPlace::Beside(None);
        let mut permit = None;
        let meter = &self.meter;
        (self.leave)(&mut || {
            if !meter.is_exempt() {
                permit = wait_for_permit(meter);
            }
        });
        self.place = TurnPlace::Beside(permit);
    }
}

/// Scope of a turn on this thread: charges made in it are the meter's. Turns nest: a connection's turn may poll a
/// request, whose charges then are the request's, while the time is the whole turn's.
#[derive(Debug)]
pub struct ComputeTurn {
    around: OuterTurn,
}

/// State of the thread before a turn.
#[derive(Debug)]
enum OuterTurn {
    /// The turn is the outermost one.
    Nothing,
    /// The turn around this one goes on counting, for this one's meter.
    Shared(ComputeMeter),
    /// The turn around this one rests: this one runs beside the workers.
    Resting(CurrentTurn),
}

impl ComputeTurn {
    /// Begins a turn on a worker, or inside of the turn that runs on this thread.
    pub fn begin(meter: &ComputeMeter, leave: Leave) -> Self {
        EXPIRED.set(false);
        let around = CURRENT.with_borrow_mut(|current| match current {
            Some(running) => {
                OuterTurn::Shared(std::mem::replace(&mut running.meter, meter.clone()))
            }
            None => {
                LEFT.set(STRIDE);
                *current =
                    Some(CurrentTurn::new(meter, leave, TurnPlace::OnWorker, OnWorker::begins()));
                OuterTurn::Nothing
            }
        });
        ComputeTurn { around }
    }

    /// Begins a turn of a heavy request beside the workers.
    pub fn begin_beside(meter: &ComputeMeter, leave: Leave, permit: Permit) -> Self {
        EXPIRED.set(false);
        LEFT.set(STRIDE);
        let place = TurnPlace::Beside(Some(permit));
        let running = CurrentTurn::new(meter, leave, place, OnWorker::beside());
        let around = CURRENT.replace(Some(running)).map_or(OuterTurn::Nothing, OuterTurn::Resting);
        ComputeTurn { around }
    }

    /// Whether the turn on this thread is beside the workers already.
    pub fn is_beside() -> bool {
        CURRENT.with_borrow(|current| {
            current.as_ref().is_some_and(|running| matches!(running.place, TurnPlace::Beside(_)))
        })
    }
}

impl Drop for ComputeTurn {
    fn drop(&mut self) {
        EXPIRED.set(false);
        match std::mem::replace(&mut self.around, OuterTurn::Nothing) {
            OuterTurn::Nothing => {
                LEFT.set(usize::MAX);
                if let Some(mut running) = CURRENT.take() {
                    running.on_worker.ends(&running.meter);
                }
            }
            OuterTurn::Shared(outer) => CURRENT.with_borrow_mut(|current| {
                if let Some(running) = current {
                    running.meter = outer;
                }
            }),
            OuterTurn::Resting(outer) => drop(CURRENT.replace(Some(outer))),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;
    use crate::meter::ComputeFlow;

    thread_local!(static LEAVES: Cell<usize> = const { Cell::new(0) });

    /// Stands for the runtime: counts.
    fn leave(wait: &mut dyn FnMut()) {
        LEAVES.set(LEAVES.get() + 1);
        wait();
    }

    fn compute(time: Duration) -> Result<(), DeadlineExceeded> {
        let until = monotonic_now() + time;
        while monotonic_now() < until {
            checkpoint(100)?;
        }
        Ok(())
    }

    #[test]
    fn turn_leaves_worker_after_its_budget() {
        let meter = ComputeMeter::of(ComputeFlow::of("jane"));
        LEAVES.set(0);
        let turn = ComputeTurn::begin(&meter, leave);
        charge(STRIDE * 3);
        assert_eq!(LEAVES.get(), 0);
        // The budget is of processor time, which a busy machine gives as it can.
        let limit = monotonic_now() + Duration::from_secs(10);
        while LEAVES.get() == 0 && monotonic_now() < limit {
            compute(BUDGET).unwrap();
        }
        assert!(LEAVES.get() >= 1);
        assert!(ComputeTurn::is_beside());
        assert!(meter.is_heavy(), "its next turns begin beside the workers");
        drop(turn);
        assert!(!ComputeTurn::is_beside());
    }

    #[test]
    fn turn_leaves_worker_before_large_work_in_one_go() {
        let meter = ComputeMeter::of(ComputeFlow::of("jane"));
        LEAVES.set(0);
        let turn = ComputeTurn::begin(&meter, leave);
        leave_for(LARGE_BYTES);
        assert_eq!(LEAVES.get(), 0);
        leave_for(LARGE_BYTES + 1);
        leave_for(LARGE_BYTES + 1);
        assert_eq!(LEAVES.get(), 1, "once is enough");
        assert!(!meter.is_heavy(), "one large part says nothing about the next turn");
        drop(turn);
        leave_for(LARGE_BYTES + 1);
        assert_eq!(LEAVES.get(), 1, "outside of a turn");
    }

    #[test]
    fn nested_turns_share_the_budget_and_restore_the_meter() {
        let (connection, request) =
            (ComputeMeter::of(ComputeFlow::of("peer")), ComputeMeter::of(ComputeFlow::of("jane")));
        LEAVES.set(0);
        let outer = ComputeTurn::begin(&connection, leave);
        for _ in 0..8 {
            let inner = ComputeTurn::begin(&request, leave);
            compute(BUDGET / 4).unwrap();
            drop(inner);
        }
        assert!(LEAVES.get() >= 1, "many short turns in one");
        assert!(request.is_heavy());
        assert!(!connection.is_heavy());
        drop(outer);
        charge(usize::MAX);
    }

    #[test]
    fn checkpoint_fails_after_the_deadline() {
        let meter = ComputeMeter::default();
        meter.set_deadline(monotonic_now() + Duration::from_millis(20));
        let turn = ComputeTurn::begin(&meter, leave);
        assert_eq!(compute(Duration::from_secs(60)), Err(DeadlineExceeded));
        drop(turn);
        assert_eq!(checkpoint(1), Ok(()), "outside of the turn");
    }

    #[test]
    fn charges_outside_of_a_turn_do_nothing() {
        LEAVES.set(0);
        charge(usize::MAX);
        charge(usize::MAX);
        assert_eq!(LEAVES.get(), 0);
    }
}
