//! Lifecycle of a server: its signals, hooks, and the order of its shutdown (upstream: `lifecycleSignals`).
//!
//! ```text
//!                      stop requested (SIGTERM, SIGINT)
//!                                   |
//!                           ShutdownInitiated          /readyz turns red
//!                       ____________|____________
//!                      |                         |
//!            (shutdown delay;           (pre-shutdown hooks)
//!         half of it: Leaving, each
//!        answer ends its connection)
//!          AfterShutdownDelayDuration  PreShutdownHooksStopped
//!                      |_________________________|
//!                                   |
//!                        NotAcceptingNewRequest ------------. the HTTP server stops here,
//!                       ____________|____________           | unless retry-after is sent
//!                      |                         |          |
//!            (requests drained)         (watches drained)   |
//!                      |_________________________|          |
//!                                   |                       |
//!                        InFlightRequestsDrained -----------' and otherwise here
//!                                   |
//!                       HTTPServerStoppedListening
//! ```

mod hooks;
mod process;
mod request_group;
mod tasks;

use std::future::Future;
use std::time::Duration;

pub use hooks::{HookContext, HookResult, Hooks};
pub use process::{notify_ready, stop_requested};
pub use request_group::{InFlight, RequestGroup};
pub use tasks::Tasks;

use kevel_component::signals::{Signal, Signals};

/// Options of the shutdown.
#[derive(Clone, Debug)]
pub struct Shutdown {
    /// `--shutdown-delay-duration`: time in which requests are still served after the shutdown is initiated, for load
    /// balancers to see the failing `/readyz`.
    pub delay: Duration,
    /// `--shutdown-send-retry-after`: keep listening until requests are drained, and answer new ones with 429.
    pub send_retry_after: bool,
    /// `--shutdown-watch-termination-grace-period`: time to drain watches.
    pub watch_termination_grace_period: Duration,
    /// Time to drain requests.
    pub request_timeout: Duration,
}

impl Default for Shutdown {
    fn default() -> Self {
        Shutdown {
            delay: Duration::ZERO,
            send_retry_after: false,
            watch_termination_grace_period: Duration::ZERO,
            request_timeout: Duration::from_secs(60),
        }
    }
}

impl Shutdown {
    /// Time for the HTTP server from the stop signal to its end.
    pub fn http_timeout(&self) -> Duration {
        match self.send_retry_after {
            // Requests are drained by then: clients still have to read their GOAWAY.
            true => Duration::from_secs(2),
            false => self.request_timeout,
        }
    }
}

/// Signals, hooks, tasks and running requests of a server.
#[derive(Debug)]
pub struct Lifecycle {
    /// Lifecycle signals.
    pub signals: Signals,
    /// Post-start and pre-shutdown hooks.
    pub hooks: Hooks,
    /// Background tasks.
    pub tasks: Tasks,
    /// Running requests that are not long-running.
    pub requests: RequestGroup,
    /// Running watches.
    pub watches: RequestGroup,
}

impl Default for Lifecycle {
    fn default() -> Self {
        let signals = Signals::default();
        let tasks = Tasks::new(signals.shutdown_initiated.clone());
        let (hooks, requests, watches) = Default::default();
        Lifecycle { signals, hooks, tasks, requests, watches }
    }
}

impl Lifecycle {
    /// Context of post-start hooks.
    pub fn hook_context(&self) -> HookContext {
        HookContext { stop: self.signals.shutdown_initiated.clone(), tasks: self.tasks.clone() }
    }

    /// Shuts the server down by the graph above. `finish_busy` lets connections end after their running requests,
    /// `stop_http` tells the HTTP server to stop; `http_stopped` completes when it has, at most
    /// [`Shutdown::http_timeout`] later.
    ///
    /// The error is that of failed pre-shutdown hooks; the server has stopped all the same.
    pub async fn shut_down(
        &self,
        shutdown: &Shutdown,
        finish_busy: impl FnOnce(),
        stop_http: &Signal,
        http_stopped: impl Future<Output = ()>,
    ) -> Result<(), String> {
        let signals = &self.signals;
        signals.shutdown_initiated.signal();

        let delay = async {
            let half = shutdown.delay / 2;
            tokio::time::sleep(half).await;
            signals.leaving.signal();
            tokio::time::sleep(shutdown.delay - half).await;
            signals.after_shutdown_delay_duration.signal();
        };
        let hooks = async {
            let result = self.hooks.run_pre_shutdown().await;
            signals.pre_shutdown_hooks_stopped.signal();
            result
        };
        let ((), result) = tokio::join!(delay, hooks);
        signals.not_accepting_new_request.signal();
        // Before watches end: a client that reconnects on the same connection would be refused.
        finish_busy();

        if !shutdown.send_retry_after {
            stop_http.signal();
        }
        let grace = shutdown.watch_termination_grace_period;
        tokio::join!(self.drain_requests(shutdown.request_timeout), self.drain_watches(grace));
        signals.in_flight_requests_drained.signal();

        stop_http.signal();
        http_stopped.await;
        signals.http_server_stopped_listening.signal();
        result
    }

    async fn drain_requests(&self, timeout: Duration) {
        let left = self.requests.drain(timeout).await;
        tracing::debug!(left, "in-flight requests that are not long-running have drained");
    }

    /// Ends the watches, spread over the grace period so that their clients do not all reconnect at once. Without a
    /// grace period they are not waited for: they end with the server.
    async fn drain_watches(&self, grace: Duration) {
        let left = self.watches.drain_evenly(grace).await;
        tracing::debug!(left, "watches have drained");
    }
}

#[cfg(test)]
mod tests {
    use kevel_clock::timer_now;
    use std::sync::{Arc, Mutex};

    use super::*;

    /// Shuts down on a paused clock and records when each signal came, in whole seconds.
    async fn walk(shutdown: Shutdown, request: Duration) -> Vec<(&'static str, u64)> {
        let lifecycle = Lifecycle::default();
        lifecycle
            .hooks
            .add_pre_shutdown("hook", || async {
                tokio::time::sleep(Duration::from_secs(3)).await;
                Ok(())
            })
            .unwrap();
        let start = timer_now();
        let events = Arc::new(Mutex::new(Vec::new()));
        let stop_http = Signal::new("stop http");
        let mut watchers = Vec::new();
        for signal in lifecycle.signals.all().into_iter().chain([&stop_http]) {
            let (name, wait, events) = (signal.name(), signal.wait(), events.clone());
            watchers.push(tokio::spawn(async move {
                wait.await;
                events.lock().unwrap().push((name, start.elapsed().as_secs()));
            }));
        }
        let in_flight = lifecycle.requests.enter().unwrap();
        watchers.push(tokio::spawn(async move {
            tokio::time::sleep(request).await;
            drop(in_flight);
        }));
        lifecycle.shut_down(&shutdown, || {}, &stop_http, async {}).await.unwrap();
        for watcher in watchers {
            // Signals of the start are never signaled here.
            let _ = tokio::time::timeout(Duration::from_millis(1), watcher).await;
        }
        let mut events = events.lock().unwrap().clone();
        events.sort_by_key(|event| event.1);
        events
    }

    #[tokio::test(start_paused = true)]
    async fn http_server_stops_once_no_request_is_accepted() {
        let shutdown = Shutdown { delay: Duration::from_secs(5), ..Shutdown::default() };
        let events = walk(shutdown, Duration::from_secs(20)).await;
        let at = |name| events.iter().find(|event| event.0 == name).map(|event| event.1);
        assert_eq!(at("ShutdownInitiated"), Some(0));
        assert_eq!(at("PreShutdownHooksStopped"), Some(3));
        assert_eq!(at("AfterShutdownDelayDuration"), Some(5));
        assert_eq!(at("NotAcceptingNewRequest"), Some(5));
        assert_eq!(at("stop http"), Some(5));
        assert_eq!(at("InFlightRequestsDrained"), Some(20));
        assert_eq!(at("HTTPServerStoppedListening"), Some(20));
        assert_eq!(at("HasBeenReady"), None);
    }

    #[tokio::test(start_paused = true)]
    async fn with_retry_after_it_stops_once_requests_are_drained() {
        let shutdown = Shutdown { send_retry_after: true, ..Shutdown::default() };
        let events = walk(shutdown, Duration::from_secs(20)).await;
        let at = |name| events.iter().find(|event| event.0 == name).map(|event| event.1);
        assert_eq!(at("NotAcceptingNewRequest"), Some(3));
        assert_eq!(at("InFlightRequestsDrained"), Some(20));
        assert_eq!(at("stop http"), Some(20));
    }

    #[tokio::test(start_paused = true)]
    async fn endless_request_delays_shutdown_until_its_timeout_only() {
        let events = walk(Shutdown::default(), Duration::from_secs(1000)).await;
        let drained = events.iter().find(|event| event.0 == "InFlightRequestsDrained");
        assert_eq!(drained.map(|event| event.1), Some(63));
    }

    #[tokio::test]
    async fn failing_hook_does_not_prevent_shutdown() {
        let lifecycle = Lifecycle::default();
        lifecycle.hooks.add_pre_shutdown("lease", || async { Err("no".to_owned()) }).unwrap();
        let stop = Signal::new("stop");
        let result = lifecycle.shut_down(&Shutdown::default(), || {}, &stop, async {}).await;
        assert_eq!(result, Err("PreShutdownHook \"lease\" failed: no".to_owned()));
        assert!(lifecycle.signals.http_server_stopped_listening.is_signaled());
    }
}
