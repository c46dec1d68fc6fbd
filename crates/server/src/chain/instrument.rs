//! Request metrics (upstream: `InstrumentRouteFunc`).

use std::sync::Arc;
use std::time::Instant;

use super::held::{Hold, hold};
use super::long_running::is_long_running;
use super::panic_recovery::caught;
use super::{Installed, is_instrumented_path};
use crate::handler::{Abort, Filter, Handler, Response};
use crate::latency_trackers::LatencyTrackers;
use crate::metrics::{Metrics, Series, labels};
use crate::request::Request;
use kevel_component::future::Pending;

/// Records metrics of requests whose path or resource is served.
pub(super) struct Instrument {
    pub metrics: Arc<Metrics>,
    pub installed: Installed,
}

impl Filter for Instrument {
    fn filter<'a>(&'a self, mut request: Request, next: &'a dyn Handler) -> Pending<'a, Response> {
        let info = &request.info;
        let installed = || match info.is_resource {
            true => (self.installed)(info),
            false => is_instrumented_path(&info.path),
        };
        let Some(series) = self.metrics.of_request(info, &request.parts, installed) else {
            return next.handle(request);
        };
        let trackers = LatencyTrackers::of(&request).cloned();
        if let Some(trackers) = &trackers {
            trackers.set_series(series.clone());
        }
        let long_running = is_long_running(info);
        if long_running {
            series.long_running().add(1);
        }
        self.metrics.count_watch_events(&request.info, &mut request.parts.extensions);
        if let Some(sizes) = series.body_sizes() {
            request.parts.extensions.insert(sizes);
        }
        let validation = labels::field_validation(&request.info);
        let validation = validation.map(|label| (self.metrics.clone(), label));
        let started = request.received.started;
        let (code, size) = (None, 0);
        let mut record =
            RequestRecord { series, trackers, validation, long_running, started, code, size };
        let pending = next.handle(request);
        Box::pin(async move {
            let response = match caught(pending).await {
                Ok(response) => response,
                Err(panic) => {
                    if panic.is::<Abort>() {
                        record.series.aborted();
                    }
                    std::panic::resume_unwind(panic)
                }
            };
            record.code = Some(response.status().as_u16());
            hold(response, record)
        })
    }
}

/// Metrics of one request, recorded when the response has been sent or the client has disconnected. Without a response
/// nothing is recorded.
struct RequestRecord {
    series: Arc<Series>,
    trackers: Option<LatencyTrackers>,
    /// `fieldValidation` of a write.
    validation: Option<(Arc<Metrics>, &'static str)>,
    long_running: bool,
    started: Instant,
    code: Option<u16>,
    size: u64,
}

impl Hold for RequestRecord {
    fn sent(&mut self, bytes: u64) {
        self.size += bytes;
    }
}

impl Drop for RequestRecord {
    fn drop(&mut self) {
        if self.long_running {
            self.series.long_running().add(-1);
        }
        if let Some(code) = self.code {
            let excluded = self.trackers.as_ref().map(LatencyTrackers::excluded);
            let duration = self.started.elapsed();
            self.series.record(code, self.size, duration, excluded.unwrap_or_default());
            if let Some((metrics, label)) = &self.validation {
                metrics.count_validated(label, duration);
            }
        }
    }
}
