//! The auditor of a server: its policy and backends.

use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Waker};

use kevel_clock::Clock;
use tokio::runtime::Handle;
use tokio::task::JoinSet;

use super::backend::Backend;
use super::event::Event;
use super::metrics::AuditMetrics;
use super::policy::Policy;

/// Evaluates the audit policy and sends events to the backend.
pub struct Auditor {
    pub(super) policy: Policy,
    backend: Box<dyn Backend>,
    pub(super) metrics: AuditMetrics,
    pub(super) clock: Clock,
    /// Events of disconnected clients' requests, on their way to a backend.
    detached: Mutex<JoinSet<bool>>,
}

impl std::fmt::Debug for Auditor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Auditor({})", self.backend.name())
    }
}

impl Auditor {
    /// An auditor with a policy and a backend.
    pub fn new(
        policy: Policy,
        backend: Box<dyn Backend>,
        metrics: AuditMetrics,
        clock: Clock,
    ) -> Self {
        Auditor { policy, backend, metrics, clock, detached: Mutex::default() }
    }

    /// Sends an event to the backend.
    pub(super) async fn process(&self, event: Arc<Event>) -> bool {
        self.metrics.events.increment();
        self.backend.process(&[event]).await
    }

    /// Sends an event without waiting: the rest runs in a task.
    pub(super) fn process_detached(self: Arc<Self>, event: Arc<Event>) {
        let Ok(runtime) = Handle::try_current() else {
            tracing::error!("audit event {} is lost: the backend has ended", event.audit_id);
            return;
        };
        let auditor = self.clone();
        let mut processed = Box::pin(async move { auditor.process(event).await });
        let pending = processed.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        if pending.is_pending() {
            let mut detached = self.detached.lock().unwrap_or_else(PoisonError::into_inner);
            while detached.try_join_next().is_some() {}
            detached.spawn_on(processed, &runtime);
        }
    }

    /// Flushes all events. Must be called after the last request.
    pub async fn shut_down(&self) {
        let mut detached =
            std::mem::take(&mut *self.detached.lock().unwrap_or_else(PoisonError::into_inner));
        while detached.join_next().await.is_some() {}
        self.backend.shut_down().await;
    }
}
