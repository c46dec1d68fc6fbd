//! A request's seats, its place in a queue, or its refusal.

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

/// What becomes of a request that comes to fairness.
#[derive(Debug)]
#[must_use = "a request that is dropped gives back what it was given"]
pub enum Started {
    /// It may go on.
    Admitted(Admitted),
    /// It must wait.
    Waiting(Waiting),
    /// It must not go on.
    Rejected(Rejected),
}

/// The seats of a request that is executed. They are given back when this is dropped: after the
/// answer, or, of a watch, when it has begun.
#[derive(Debug)]
#[must_use = "seats are given back when this is dropped"]
pub struct Admitted {
    place: Place,
    waited: Duration,
    since: Instant,
}

/// A place in a queue: a future of the seats, or of a refusal when the time is over. It is given up
/// when this is dropped.
#[derive(Debug)]
#[must_use = "a place is given up when this is dropped"]
pub struct Waiting {
    /// Where it waits; not there any more when that is over.
    place: Option<Place>,
    until: Instant,
    /// Made when it is first polled.
    sleep: Option<Pin<Box<Sleep>>>,
}

/// A refusal.
#[derive(Debug)]
pub struct Rejected {
    /// What the request was classified as.
    pub flow_schema: Arc<FlowSchema>,
    /// Why it is refused.
    pub reason: RejectReason,
    /// The seconds after which its client should come again, for `Retry-After`.
    pub retry_after: u64,
    /// How long it has waited.
    pub waited: Duration,
}

/// A request in a priority level. Who has this has its slot.
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

    /// What the request was classified as.
    pub fn flow_schema(&self) -> &Arc<FlowSchema> {
        &self.place.flow_schema
    }

    /// How long it has waited.
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

    /// What the request was classified as; not known any more when it has been answered.
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
        // It may have been dispatched since it was looked at.
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
            // It was dispatched, and does not want it any more.
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
