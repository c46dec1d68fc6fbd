//! What audits a server: its policy and its backends.

use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Waker};

use tokio::runtime::Handle;
use tokio::task::JoinSet;

use super::backend::Backend;
use super::event::Event;
use super::policy::Policy;
use crate::metrics::{Counter, Description, Family, Metrics};

/// Decides what is kept, and keeps it.
pub struct Auditor {
    pub(super) policy: Policy,
    backend: Box<dyn Backend>,
    events: Arc<Counter>,
    pub(super) levels: Arc<Family<Counter>>,
    pub(super) rejected: Arc<Counter>,
    /// Events of requests that nobody waits for any more, on their way to a backend.
    detached: Mutex<JoinSet<bool>>,
}

impl std::fmt::Debug for Auditor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Auditor({})", self.backend.name())
    }
}

impl Auditor {
    /// Audits by a policy.
    pub fn new(policy: Policy, backend: Box<dyn Backend>, metrics: &Metrics) -> Self {
        let counter = |name, help, labels| metrics.counter(Description { name, help, labels });
        Auditor {
            policy,
            backend,
            events: counter(
                "apiserver_audit_event_total",
                "[ALPHA] Audit events given to the backends.",
                &[],
            )
            .with(&[]),
            levels: counter(
                "apiserver_audit_level_total",
                "[ALPHA] Requests by the level at which they are audited.",
                &["level"],
            ),
            rejected: counter(
                "apiserver_audit_requests_rejected_total",
                "[ALPHA] Requests refused because their audit event could not be kept.",
                &[],
            )
            .with(&[]),
            detached: Mutex::default(),
        }
    }

    /// Gives an event to the backends.
    pub(super) async fn process(&self, event: Arc<Event>) -> bool {
        self.events.increment();
        self.backend.process(&[event]).await
    }

    /// The same where nobody can wait: what is not done at once is done beside.
    pub(super) fn process_detached(self: Arc<Self>, event: Arc<Event>) {
        let Ok(runtime) = Handle::try_current() else {
            tracing::error!("audit event {} is lost: nobody is there to keep it", event.audit_id);
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

    /// Keeps all events that there are. No request may come any more.
    pub async fn shut_down(&self) {
        let mut detached =
            std::mem::take(&mut *self.detached.lock().unwrap_or_else(PoisonError::into_inner));
        while detached.join_next().await.is_some() {}
        self.backend.shut_down().await;
    }
}
