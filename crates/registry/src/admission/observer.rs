//! Observer of the time that admission takes.

use std::sync::Arc;
use std::time::{Duration, Instant};

use kevel_api::status::StatusError;
use kevel_clock::monotonic_now;

use super::Attributes;

/// Step of admission (upstream: the label `type`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AdmissionStep {
    /// Mutating plug-ins.
    Admit,
    /// Validating plug-ins.
    Validate,
}

/// Work that is measured: that of one plug-in, or of all of a step.
#[derive(Clone, Copy, Debug)]
pub struct AdmissionWork<'a> {
    /// Position of the plug-in; `None` for the whole step.
    pub plugin: Option<usize>,
    /// Step.
    pub step: AdmissionStep,
    /// Write that is admitted.
    pub attributes: &'a Attributes<'a>,
    /// Whether the write was refused.
    pub rejected: bool,
    /// Time that it took.
    pub took: Duration,
}

/// Observer of admission (upstream: `AdmissionMetrics`).
pub trait ObserveAdmission: Send + Sync + 'static {
    /// Records work.
    fn observe(&self, work: AdmissionWork<'_>);
}

/// StepMeasurement of one step: the clock is read once for each plug-in.
pub(super) struct StepMeasurement<'a> {
    observer: Option<&'a Arc<dyn ObserveAdmission>>,
    step: AdmissionStep,
    begun: Instant,
    last: Instant,
}

impl<'a> StepMeasurement<'a> {
    pub fn start(observer: Option<&'a Arc<dyn ObserveAdmission>>, step: AdmissionStep) -> Self {
        let begun = monotonic_now();
        StepMeasurement { observer, step, begun, last: begun }
    }

    /// Records what a plug-in has done since the last call.
    pub fn plugin(
        &mut self,
        plugin: usize,
        attributes: &Attributes<'_>,
        result: &Result<(), StatusError>,
    ) {
        let now = monotonic_now();
        let took = now.saturating_duration_since(self.last);
        self.last = now;
        self.record(Some(plugin), attributes, result, took);
    }

    /// Records the whole step.
    pub fn end(self, attributes: &Attributes<'_>, result: &Result<(), StatusError>) {
        let took = self.last.saturating_duration_since(self.begun);
        self.record(None, attributes, result, took);
    }

    fn record(
        &self,
        plugin: Option<usize>,
        attributes: &Attributes<'_>,
        result: &Result<(), StatusError>,
        took: Duration,
    ) {
        if let Some(observer) = self.observer {
            let (step, rejected) = (self.step, result.is_err());
            observer.observe(AdmissionWork { plugin, step, attributes, rejected, took });
        }
    }
}
