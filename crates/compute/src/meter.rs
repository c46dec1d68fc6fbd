//! Meter of one request.

use std::hash::{BuildHasher as _, RandomState};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, OnceLock};
use std::time::Instant;

/// Size from which data is heavy: building, validating and encoding its tree takes some milliseconds.
const HEAVY_BYTES: usize = 64 << 10;

/// Share of permits: requests of one flow delay each other, not those of other flows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct ComputeFlow(u64);

impl ComputeFlow {
    /// The flow of a name, of a user for example.
    pub fn of(name: &str) -> Self {
        static HASHER: LazyLock<RandomState> = LazyLock::new(RandomState::new);
        ComputeFlow(HASHER.hash_one(name))
    }
}

/// Compute account of a request: its flow, its deadline, and whether its turns run beside the workers. Clones are of the
/// same request.
#[derive(Clone, Debug, Default)]
pub struct ComputeMeter(Arc<MeterState>);

#[derive(Debug, Default)]
struct MeterState {
    flow: AtomicU64,
    deadline: OnceLock<Instant>,
    heavy: AtomicBool,
    exempt: bool,
    label: OnceLock<String>,
}

impl ComputeMeter {
    /// A meter whose turns belong to a flow.
    pub fn of(flow: ComputeFlow) -> Self {
        let meter = ComputeMeter::default();
        meter.set_flow(flow);
        meter
    }

    /// A meter of one of the server's own tasks, which need no permit: they are few, and requests wait for them.
    pub fn exempt(name: &str) -> Self {
        let meter = ComputeMeter(Arc::new(MeterState { exempt: true, ..MeterState::default() }));
        meter.set_label(|| name.to_owned());
        meter
    }

    /// Whether turns beside the workers need no permit.
    pub(crate) fn is_exempt(&self) -> bool {
        self.0.exempt
    }

    /// Sets the flow. Before authentication all requests share one.
    pub fn set_flow(&self, flow: ComputeFlow) {
        self.0.flow.store(flow.0, Ordering::Relaxed);
    }

    /// The flow of the request.
    pub fn flow(&self) -> ComputeFlow {
        ComputeFlow(self.0.flow.load(Ordering::Relaxed))
    }

    /// Sets the deadline, once: computing ends with it ([`checkpoint`](crate::checkpoint)).
    pub fn set_deadline(&self, deadline: Instant) {
        let _ = self.0.deadline.set(deadline);
    }

    /// The deadline, if there is one.
    pub fn deadline(&self) -> Option<Instant> {
        self.0.deadline.get().copied()
    }

    /// Names the request in reports of long turns.
    pub fn set_label(&self, label: impl FnOnce() -> String) {
        if cfg!(feature = "long-turns") {
            let _ = self.0.label.set(label());
        }
    }

    /// The name of the request in reports.
    pub fn label(&self) -> &str {
        self.0.label.get().map_or("", String::as_str)
    }

    /// Announces that so many bytes are about to be worked on. Returns whether the request has become heavy by them: the
    /// caller then ends its turn, and the next one runs beside the workers.
    pub fn expect(&self, bytes: usize) -> bool {
        bytes > HEAVY_BYTES && !self.0.heavy.swap(true, Ordering::Relaxed)
    }

    /// Whether the request's turns run beside the workers.
    pub fn is_heavy(&self) -> bool {
        self.0.heavy.load(Ordering::Relaxed)
    }

    pub(crate) fn set_heavy(&self) {
        self.0.heavy.store(true, Ordering::Relaxed);
    }
}
