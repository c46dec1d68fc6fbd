//! A server that serves, and its stop.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use kevel_component::signals::Signal;
use kevel_pki::Pki;
use kevel_registry::backends::Backends;
use kevel_server::lifecycle::{Lifecycle, Shutdown};
use kevel_server::serving::Serving;

use crate::error::ApiServerError;

/// An API server that serves.
pub struct RunningApiServer {
    serving: Serving,
    stop_http: Signal,
    lifecycle: Arc<Lifecycle>,
    backends: Backends,
    kubeconfig: PathBuf,
    ca: PathBuf,
}

impl std::fmt::Debug for RunningApiServer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "RunningApiServer({})", self.address())
    }
}

impl RunningApiServer {
    pub(crate) async fn begin(
        serving: Serving,
        stop_http: Signal,
        lifecycle: Arc<Lifecycle>,
        backends: Backends,
        pki: Pki,
    ) -> Result<Self, ApiServerError> {
        let context = lifecycle.hook_context();
        let started = lifecycle.hooks.run_post_start(context.clone()).await;
        started.map_err(|error| ApiServerError::Serve(error.to_string()))?;
        // All paths are there: a 404 is final.
        lifecycle.signals.mux_and_discovery_complete.signal();
        lifecycle.signals.has_been_ready.signal();
        let (kubeconfig, ca) = (pki.kubeconfig.clone(), pki.folder.join("ca.crt"));
        let stop = context.stop.clone();
        context.tasks.spawn("own-certificates", pki.keep(async move { stop.wait().await }));
        Ok(RunningApiServer { serving, stop_http, lifecycle, backends, kubeconfig, ca })
    }

    /// Address that the server listens on.
    pub fn address(&self) -> SocketAddr {
        self.serving.address
    }

    /// Kubeconfig of the server's administrator.
    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// CA certificate of the server, for the `caBundle` of an APIService.
    pub fn ca_certificate(&self) -> &Path {
        &self.ca
    }

    /// Stops the server: running requests are answered, watches end, the store is closed.
    pub async fn stop(self) -> Result<(), ApiServerError> {
        let stopped = self.serving.stopped.wait();
        let finish_busy = || self.serving.finish_busy();
        let shutdown = Shutdown::default();
        let ended = self.lifecycle.shut_down(&shutdown, finish_busy, &self.stop_http, stopped);
        let result = ended.await;
        let engines: Vec<_> = self.backends.all().map(|backend| backend.engine.clone()).collect();
        drop(self.backends);
        for engine in engines {
            engine.close().await;
        }
        result.map_err(ApiServerError::Stop)
    }
}
