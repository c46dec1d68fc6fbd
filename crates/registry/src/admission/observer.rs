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

/// Measurement of one step: the clock is read once for each plug-in, and not at all without an observer.
pub(super) struct StepMeasurement<'a>(Option<ObservedStep<'a>>);

struct ObservedStep<'a> {
    observer: &'a Arc<dyn ObserveAdmission>,
    step: AdmissionStep,
    begun: Instant,
    last: Instant,
}

impl<'a> StepMeasurement<'a> {
    pub fn start(observer: Option<&'a Arc<dyn ObserveAdmission>>, step: AdmissionStep) -> Self {
        StepMeasurement(observer.map(|observer| {
            let begun = monotonic_now();
            ObservedStep { observer, step, begun, last: begun }
        }))
    }

    /// Records the work of a plug-in since the last call.
    pub fn plugin(
        &mut self,
        plugin: usize,
        attributes: &Attributes<'_>,
        result: &Result<(), StatusError>,
    ) {
        let Some(observed) = &mut self.0 else { return };
        let now = monotonic_now();
        let took = now.saturating_duration_since(observed.last);
        observed.last = now;
        observed.record(Some(plugin), attributes, result, took);
    }

    /// Records the whole step.
    pub fn end(self, attributes: &Attributes<'_>, result: &Result<(), StatusError>) {
        let Some(observed) = self.0 else { return };
        let took = observed.last.saturating_duration_since(observed.begun);
        observed.record(None, attributes, result, took);
    }
}

impl ObservedStep<'_> {
    fn record(
        &self,
        plugin: Option<usize>,
        attributes: &Attributes<'_>,
        result: &Result<(), StatusError>,
        took: Duration,
    ) {
        let (step, rejected) = (self.step, result.is_err());
        self.observer.observe(AdmissionWork { plugin, step, attributes, rejected, took });
    }
}
