//! Counting of waiting and executing requests.

use std::sync::Arc;
use std::time::Instant;

use kevel_clock::monotonic_now;
use kevel_flowcontrol::Admitted;

use super::{FlowControl, FlowLog, READ_ONLY};
use crate::metrics::{InFlightWatermark, Metrics};
use crate::request_info::RequestInfo;

/// Phase of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ExecutionPhase {
    Waiting,
    Executing,
}

/// An executing request. Its seats are released on drop.
pub(crate) struct Executing {
    // Dropped first.
    _admitted: Admitted,
    mark: Mark,
    log: Option<FlowLog>,
}

impl Executing {
    pub(super) fn new(admitted: Admitted, mark: Mark) -> Self {
        Executing { _admitted: admitted, mark, log: None }
    }

    /// Records the duration in the request log.
    pub(super) fn logged(mut self, log: Option<FlowLog>) -> Self {
        self.log = log;
        self
    }
}

impl Drop for Executing {
    fn drop(&mut self) {
        if let Some(log) = &self.log {
            log.initialized(self.mark.since.elapsed());
        }
    }
}

/// A request counted in a phase until this is dropped.
pub(super) struct Mark {
    flow_control: Arc<FlowControl>,
    phase: ExecutionPhase,
    mutating: bool,
    since: Instant,
}

impl FlowControl {
    /// Counts a request in a phase.
    pub(super) fn enter(self: &Arc<Self>, phase: ExecutionPhase, info: &RequestInfo) -> Mark {
        let mutating = !READ_ONLY.contains(&info.verb);
        let since = monotonic_now();
        watermark(&self.metrics, phase, mutating).enter(since, usize::MAX);
        self.read_vs_write.add(phase, mutating, since, 1);
        Mark { flow_control: self.clone(), phase, mutating, since }
    }
}

impl Drop for Mark {
    fn drop(&mut self) {
        let Mark { flow_control, phase, mutating, .. } = self;
        watermark(&flow_control.metrics, *phase, *mutating).leave();
        flow_control.read_vs_write.add(*phase, *mutating, monotonic_now(), -1);
    }
}

fn watermark(metrics: &Metrics, phase: ExecutionPhase, mutating: bool) -> &InFlightWatermark {
    match (phase, mutating) {
        (ExecutionPhase::Waiting, true) => &metrics.mutating_in_queue,
        (ExecutionPhase::Waiting, false) => &metrics.read_only_in_queue,
        (ExecutionPhase::Executing, true) => &metrics.mutating_in_flight,
        (ExecutionPhase::Executing, false) => &metrics.read_only_in_flight,
    }
}
