//! Lifecycle signals: events that happen once.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::Notify;

/// A named event that happens once (upstream: `lifecycleSignal`).
///
/// ```
/// let ready = kevel_component::signals::Signal::new("Ready");
/// assert!(!ready.is_signaled());
/// ready.signal();
/// assert!(ready.is_signaled());
/// ```
#[derive(Clone, Debug)]
pub struct Signal(Arc<Event>);

#[derive(Debug)]
struct Event {
    name: &'static str,
    happened: AtomicBool,
    waiters: Notify,
}

impl Signal {
    /// An event that has not happened yet.
    pub fn new(name: &'static str) -> Self {
        Signal(Arc::new(Event { name, happened: AtomicBool::new(false), waiters: Notify::new() }))
    }

    /// Name of the event.
    pub fn name(&self) -> &'static str {
        self.0.name
    }

    /// Signals the event; a second call has no effect.
    pub fn signal(&self) {
        if !self.0.happened.swap(true, Ordering::AcqRel) {
            tracing::debug!(name = self.0.name, "lifecycle event");
            self.0.waiters.notify_waiters();
        }
    }

    /// Whether the event has happened.
    pub fn is_signaled(&self) -> bool {
        self.0.happened.load(Ordering::Acquire)
    }

    /// Completes when the event has happened.
    pub fn wait(&self) -> impl Future<Output = ()> + Send + use<> {
        let event = self.0.clone();
        async move {
            let mut notified = std::pin::pin!(event.waiters.notified());
            // Registered before the flag is read, so that an event in between is not missed.
            notified.as_mut().enable();
            if !event.happened.load(Ordering::Acquire) {
                notified.await;
            }
        }
    }
}

/// Lifecycle signals of a server (upstream: `lifecycleSignals`).
#[derive(Clone, Debug)]
pub struct Signals {
    /// Shutdown was requested.
    pub shutdown_initiated: Signal,
    /// Half of the shutdown delay has passed: load balancers have had time to notice.
    pub leaving: Signal,
    /// The shutdown delay has passed.
    pub after_shutdown_delay_duration: Signal,
    /// All pre-shutdown hooks have run.
    pub pre_shutdown_hooks_stopped: Signal,
    /// New requests are refused from now on.
    pub not_accepting_new_request: Signal,
    /// All running requests have been answered.
    pub in_flight_requests_drained: Signal,
    /// The HTTP server no longer listens.
    pub http_server_stopped_listening: Signal,
    /// `/readyz` has passed for the first time.
    pub has_been_ready: Signal,
    /// All paths are installed: a 404 is final.
    pub mux_and_discovery_complete: Signal,
}

impl Default for Signals {
    fn default() -> Self {
        Signals {
            shutdown_initiated: Signal::new("ShutdownInitiated"),
            leaving: Signal::new("Leaving"),
            after_shutdown_delay_duration: Signal::new("AfterShutdownDelayDuration"),
            pre_shutdown_hooks_stopped: Signal::new("PreShutdownHooksStopped"),
            not_accepting_new_request: Signal::new("NotAcceptingNewRequest"),
            in_flight_requests_drained: Signal::new("InFlightRequestsDrained"),
            http_server_stopped_listening: Signal::new("HTTPServerStoppedListening"),
            has_been_ready: Signal::new("HasBeenReady"),
            mux_and_discovery_complete: Signal::new("MuxAndDiscoveryComplete"),
        }
    }
}

impl Signals {
    /// All signals.
    pub fn all(&self) -> [&Signal; 9] {
        [
            &self.shutdown_initiated,
            &self.leaving,
            &self.after_shutdown_delay_duration,
            &self.pre_shutdown_hooks_stopped,
            &self.not_accepting_new_request,
            &self.in_flight_requests_drained,
            &self.http_server_stopped_listening,
            &self.has_been_ready,
            &self.mux_and_discovery_complete,
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn signal_wakes_all_waiters_and_later_ones() {
        let signal = Signal::new("x");
        let early = [tokio::spawn(signal.wait()), tokio::spawn(signal.wait())];
        tokio::task::yield_now().await;
        signal.signal();
        signal.signal();
        for waiter in early {
            waiter.await.unwrap();
        }
        signal.wait().await;
    }
}
