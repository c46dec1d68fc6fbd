//! Outcome of a request in priority and fairness: its seats, its place in a queue, or its rejection.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use kevel_clock::timer_now;
use tokio::time::{Instant, Sleep, sleep_until};

use crate::configuration::FlowSchema;
use crate::observer::{ExecutionType, RejectReason};
use crate::queue_set::Slot;

/// Outcome of [`crate::Controller::start`] for a request.
#[derive(Debug)]
#[must_use = "a request that is dropped gives back what it was given"]
pub enum Started {
    /// The request has its seats.
    Admitted(Admitted),
    /// The request waits in a queue.
    Waiting(Waiting),
    /// The request is rejected (429).
    Rejected(Rejected),
}

/// Seats of an executing request. They are released when this is dropped: after the response, or, for a watch, after
/// its initialization.
#[derive(Debug)]
#[must_use = "seats are given back when this is dropped"]
pub struct Admitted {
    place: Place,
    waited: Duration,
    since: Instant,
}

/// A place in a queue: a future of the seats, or of a rejection when the wait limit is reached. Dropping it gives the
/// place up.
#[derive(Debug)]
#[must_use = "a place is given up when this is dropped"]
pub struct Waiting {
    /// The request in its priority level; `None` after the future has completed.
    place: Option<Place>,
    until: Instant,
    /// Created at the first poll.
    sleep: Option<Pin<Box<Sleep>>>,
}

/// Rejection of a request.
#[derive(Debug)]
pub struct Rejected {
    /// FlowSchema of the request.
    pub flow_schema: Arc<FlowSchema>,
    /// Reason of the rejection.
    pub reason: RejectReason,
    /// Seconds for the response's `Retry-After`.
    pub retry_after: u64,
    /// Time in the queue.
    pub waited: Duration,
}

/// A request in a priority level. Owns its slot there.
#[derive(Debug)]
pub(crate) struct Place {
    pub flow_schema: Arc<FlowSchema>,
    pub slot: Slot,
    pub execution: ExecutionType,
    pub arrived: Instant,
}

impl Admitted {
    pub(crate) fn new(place: Place, since: Instant) -> Self {
        let waited = since.saturating_duration_since(place.arrived);
        let flow_schema = &place.flow_schema;
        if !flow_schema.is_exempt() {
            flow_schema.observer().waited(true, waited);
        }
        flow_schema.observer().dispatched();
        Admitted { place, waited, since }
    }

    /// FlowSchema of the request.
    pub fn flow_schema(&self) -> &Arc<FlowSchema> {
        &self.place.flow_schema
    }

    /// Time in the queue.
    pub fn waited(&self) -> Duration {
        self.waited
    }
}

impl Drop for Admitted {
    fn drop(&mut self) {
        let now = timer_now();
        let Place { flow_schema, slot, execution, .. } = &self.place;
        flow_schema.level.finish(now, *slot);
        let took = now.saturating_duration_since(self.since);
        flow_schema.observer().executed(*execution, took);
    }
}

impl Waiting {
    pub(crate) fn new(place: Place, until: Instant) -> Self {
        Waiting { place: Some(place), until, sleep: None }
    }

    /// FlowSchema of the request; `None` after the future has completed.
    pub fn flow_schema(&self) -> Option<&Arc<FlowSchema>> {
        self.place.as_ref().map(|place| &place.flow_schema)
    }

    fn time_is_over(&mut self, context: &mut Context<'_>) -> bool {
        let until = self.until;
        let sleep = self.sleep.get_or_insert_with(|| Box::pin(sleep_until(until)));
        sleep.as_mut().poll(context).is_ready()
    }
}

impl Future for Waiting {
    type Output = Result<Admitted, Rejected>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Some(place) = &self.place else {
            return Poll::Pending;
        };
        let seated = place.flow_schema.level.poll(place.slot, context.waker()).is_some();
        if !seated && !self.time_is_over(context) {
            return Poll::Pending;
        }
        let Some(place) = self.place.take() else {
            return Poll::Pending;
        };
        let now = timer_now();
        // It may have been dispatched since it was polled.
        if !seated && place.flow_schema.level.leave(now, place.slot, RejectReason::TimeOut) {
            let Place { flow_schema, arrived, .. } = place;
            let reason = RejectReason::TimeOut;
            return Poll::Ready(Err(Rejected::new(flow_schema, reason, arrived, now)));
        }
        Poll::Ready(Ok(Admitted::new(place, now)))
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let Some(Place { flow_schema, slot, arrived, .. }) = self.place.take() else {
            return;
        };
        let now = timer_now();
        let reason = RejectReason::Cancelled;
        if !flow_schema.level.leave(now, slot, reason) {
            // It was dispatched already: release the seats.
            flow_schema.level.finish(now, slot);
            flow_schema.observer().rejected(reason);
        }
        flow_schema.observer().waited(false, now.saturating_duration_since(arrived));
    }
}

impl Rejected {
    pub(crate) fn new(
        flow_schema: Arc<FlowSchema>,
        reason: RejectReason,
        arrived: Instant,
        now: Instant,
    ) -> Self {
        let waited = now.saturating_duration_since(arrived);
        if !flow_schema.is_exempt() {
            flow_schema.observer().waited(false, waited);
        }
        let retry_after = flow_schema.level.record_dropped(now);
        Rejected { flow_schema, reason, retry_after, waited }
    }
}
