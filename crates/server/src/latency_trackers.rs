//! Latency of a request by phase (upstream: `LatencyTrackers`).

use std::future::Future;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use kevel_clock::Stopwatch;
use kevel_registry::latency::{Phase, TrackLatency};

use crate::metrics::Series;
use crate::request::Request;

/// Phases with their audit annotations, and whether the longest time counts instead of the sum.
const PHASES: [(Phase, &str, bool); 9] = [
    (Phase::Authentication, "apiserver.latency.k8s.io/authentication", false),
    (Phase::Impersonation, "apiserver.latency.k8s.io/impersonation", false),
    (Phase::Queue, "apiserver.latency.k8s.io/apf-queue-wait", true),
    (Phase::Authorization, "apiserver.latency.k8s.io/authorization", true),
    (Phase::MutatingWebhook, "apiserver.latency.k8s.io/mutating-webhook", false),
    (Phase::ValidatingWebhook, "apiserver.latency.k8s.io/validating-webhook", true),
    (Phase::Storage, "apiserver.latency.k8s.io/etcd", false),
    (Phase::Serialization, "apiserver.latency.k8s.io/serialize-response-object", false),
    (Phase::ResponseWrite, "apiserver.latency.k8s.io/response-write", false),
];

/// Latency of each phase of a request.
#[derive(Clone, Debug, Default)]
pub struct LatencyTrackers(Arc<Tracked>);

#[derive(Debug, Default)]
struct Tracked {
    nanos: [AtomicU64; PHASES.len()],
    series: OnceLock<Arc<Series>>,
}

impl LatencyTrackers {
    /// Trackers of a request in the handler chain.
    pub fn of(request: &Request) -> Option<&Self> {
        request.parts.extensions.get()
    }

    /// Runs work and adds its time to a phase of a request.
    pub async fn track<T>(request: &Request, phase: Phase, work: impl Future<Output = T>) -> T {
        let started = Stopwatch::start();
        let done = work.await;
        LatencyTrackers::add_to(request, phase, started.elapsed());
        done
    }

    /// Adds time to a phase of a request.
    pub fn add_to(request: &Request, phase: Phase, time: Duration) {
        if let Some(trackers) = LatencyTrackers::of(request) {
            trackers.add(phase, time);
        }
    }

    /// Phases that took any time, with their audit annotations.
    pub fn all(&self) -> impl Iterator<Item = (&'static str, Duration)> {
        let nanos = self.0.nanos.iter().map(|nanos| Duration::from_nanos(nanos.load(Relaxed)));
        let rows = PHASES.iter().zip(nanos).map(|((_, key, _), time)| (*key, time));
        rows.filter(|(_, time)| !time.is_zero())
    }

    /// Time excluded from the server's SLO: webhooks and queueing.
    pub fn excluded(&self) -> Duration {
        const OTHERS: [Phase; 3] = [Phase::MutatingWebhook, Phase::ValidatingWebhook, Phase::Queue];
        let rows = PHASES.iter().zip(&self.0.nanos);
        let others = rows.filter(|((phase, ..), _)| OTHERS.contains(phase));
        others.map(|(_, nanos)| Duration::from_nanos(nanos.load(Relaxed))).sum()
    }

    /// Metrics of the request, once its resource is known.
    pub(crate) fn series(&self) -> Option<&Arc<Series>> {
        self.0.series.get()
    }

    pub(crate) fn set_series(&self, series: Arc<Series>) {
        let _ = self.0.series.set(series);
    }
}

impl TrackLatency for LatencyTrackers {
    fn add(&self, phase: Phase, time: Duration) {
        let nanos = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let rows = PHASES.iter().zip(&self.0.nanos);
        for ((_, _, longest), tracked) in rows.filter(|((of, ..), _)| *of == phase) {
            match longest {
                true => tracked.fetch_max(nanos, Relaxed),
                false => tracked.fetch_add(nanos, Relaxed),
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_summed_or_the_longest_counts() {
        let trackers = LatencyTrackers::default();
        let millis = Duration::from_millis;
        for (phase, time) in [
            (Phase::MutatingWebhook, 2),
            (Phase::MutatingWebhook, 3),
            (Phase::ValidatingWebhook, 7),
            (Phase::ValidatingWebhook, 4),
            (Phase::Storage, 1),
        ] {
            trackers.add(phase, millis(time));
        }
        let expected = [
            ("apiserver.latency.k8s.io/mutating-webhook", millis(5)),
            ("apiserver.latency.k8s.io/validating-webhook", millis(7)),
            ("apiserver.latency.k8s.io/etcd", millis(1)),
        ];
        assert_eq!(trackers.all().collect::<Vec<_>>(), expected);
        assert_eq!(trackers.excluded(), millis(12));
    }
}
