//! Startup and shutdown of the server: config, server chain, prepare, run.
//!
//! [`Config`] opens the port and the store and builds what all servers need, each part of what is there
//! before it. [`create_server_chain`] puts the three servers together from the inside out;
//! [`PreparedServer::start`] lets informers follow, serves and runs the hooks; [`RunningServer::stop`] stops
//! in order.

mod admission;
mod admission_metrics;
mod aggregator;
mod announcement;
mod audit;
mod authentication;
mod authorization;
mod build_info;
mod cache_metrics;
mod certificate_files;
mod certificates;
mod chain;
mod config;
mod connect;
mod controllers;
mod csr_durations;
mod debug_flags;
mod debug_socket;
mod egress;
mod encryption;
mod etcd_metrics;
mod etcd_wait;
mod extensions;
mod flag_files;
mod flowcontrol;
mod handlers;
mod health;
mod jwt;
mod kube;
mod own_metrics;
mod paths;
mod peers;
mod profiles;
mod services;
mod stand_in;
mod storage;
mod tables;
mod traces;
mod ui;
#[cfg(test)]
mod webhook_files;

use std::error::Error;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;

use kevel_component::signals::Signal;
use kevel_registry::backends::Backends;
use kevel_registry::resource::Resources;
use kevel_registry::storages::Storages;
use kevel_server::audit::Auditor;
use kevel_server::certificates::Pki;
use kevel_server::handler::Handler;
use kevel_server::lifecycle::{self, Lifecycle, Shutdown};
use kevel_server::metrics::Metrics;
use kevel_server::serving::{self, SecureServing, Serving};
use kevel_trace::TraceProvider;
use kevel_ui::Front;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::runtime::Runtime;

use self::announcement::Announcement;
use self::authorization::Authorization;
use self::chain::create_server_chain;
use self::config::Config;
use self::stand_in::StandIn;
use crate::options::CompletedOptions;

/// Number of task turns of a worker between two polls of its sockets: a bound on the delay of a new connection during a
/// flood. A poll costs a microsecond.
const EVENT_INTERVAL: u32 = 16;

/// The stack of a worker, of which the pages that are used count. Documents nest up to a thousand levels, and each level of
/// a merge costs a few KiB in a build that is not optimised.
pub const STACK: usize = 16 << 20;

/// Most threads beside the workers. A request that leaves its worker holds one while it waits for a permit and computes;
/// if there were none left, the worker that it leaves would have no thread. Far more than the requests that priority and
/// fairness lets execute; a thread that is not used does not exist.
const MAX_BLOCKING_THREADS: usize = 4096;

/// Runs the server until a signal asks it to stop.
pub fn run(options: CompletedOptions) -> Result<(), Box<dyn Error>> {
    raise_file_limit();
    let runtime = runtime()?;
    let result = runtime.block_on(async {
        let announcement = Announcement::new(&options);
        // etcd and hooks may take as long as they like to start; a stop is not kept waiting.
        let mut stop = pin!(lifecycle::stop_requested());
        let prepared = tokio::select! {
            prepared = prepare(options) => prepared?,
            requested = &mut stop => {
                tracing::info!("Stopped before the server has started");
                return Ok(requested?);
            }
        };
        let mut running = prepared.serve()?;
        let mut stand_in_gone = pin!(stand_in::gone(running.stand_in.take()));
        tokio::select! {
            started = running.run_hooks() => {
                started?;
                announcement.say(running.address, running.kubeconfig.as_deref());
                if let Some(ui) = &running.ui {
                    ui::use_terminal(ui, running.address);
                }
                lifecycle::notify_ready()?;
                tokio::select! {
                    requested = &mut stop => requested?,
                    gone = &mut stand_in_gone => return Err(gone.into()),
                }
            }
            requested = &mut stop => requested?,
            gone = &mut stand_in_gone => return Err(gone.into()),
        }
        // Its test was killed: there is no client left to stop for in order.
        tokio::select! {
            stopped = running.stop() => stopped,
            gone = stand_in_gone => Err(gone.into()),
        }
    });
    // Nothing can complete the remaining tasks: drop them.
    runtime.shutdown_background();
    result
}

/// A runtime as a server needs it.
pub fn runtime() -> io::Result<Runtime> {
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .event_interval(EVENT_INTERVAL)
        .thread_stack_size(STACK)
        .max_blocking_threads(MAX_BLOCKING_THREADS)
        .build()
}

/// Takes as many file descriptors as the system allows, one for each client: the limit that a process
/// begins with is for programs that would not know how to handle more.
fn raise_file_limit() {
    let limit = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
}

/// Builds the server: config, then the server chain.
pub async fn prepare(options: CompletedOptions) -> Result<PreparedServer, Box<dyn Error>> {
    let config = Config::new(options).await?;
    Ok(create_server_chain(config)?)
}

/// A server that is complete and does not run yet (upstream: `PrepareRun`, `preparedGenericAPIServer`).
pub struct PreparedServer {
    metrics: Arc<Metrics>,
    /// The chain, and behind it all servers.
    pub handler: Arc<dyn Handler>,
    /// The page for browsers, if it is served.
    pub ui: Option<Arc<Front>>,
    /// Handler of the server's own clients.
    pub internal: Arc<dyn Handler>,
    /// Hooks, tasks, and how far the server has come.
    pub lifecycle: Arc<Lifecycle>,
    /// Timing of the shutdown.
    pub shutdown: Shutdown,
    /// The served resources: of the aggregator, built-in ones, definitions of custom ones, custom ones.
    pub tables: [Arc<Resources>; 4],
    /// The port, with its TLS configuration and limits, unless the server is in-process.
    pub serving: Option<SecureServing>,
    /// Auditor; `None` without a policy or a backend.
    pub audit: Option<Arc<Auditor>>,
    /// Stand-in for etcd that the store belongs to, if it is one.
    pub stand_in: Option<StandIn>,
    /// Stores with their caches.
    pub backends: Backends,
    /// Storages of the built-in kinds.
    pub storages: Storages,
    /// The configured authorizers.
    pub authorization: Authorization,
    /// Own certificate authority, if the server was started without flags for certificates.
    pub pki: Option<Pki>,
    /// The recorder of spans, if they are recorded.
    pub tracer: Option<TraceProvider>,
}

impl PreparedServer {
    /// Metrics of the server.
    pub fn metrics(&self) -> &Metrics {
        &self.metrics
    }
}

impl std::fmt::Debug for PreparedServer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PreparedServer").finish_non_exhaustive()
    }
}

impl PreparedServer {
    /// Serves, and runs the post-start hooks to their end.
    pub async fn start(self) -> Result<RunningServer, Box<dyn Error>> {
        let running = self.serve()?;
        running.run_hooks().await?;
        Ok(running)
    }

    /// Starts a server without a port, and runs the post-start hooks to their end.
    pub async fn start_in_process(self) -> Result<InProcessServer, Box<dyn Error>> {
        self.authorization.follow(&self.storages, &self.lifecycle.tasks);
        let server = InProcessServer {
            handler: self.internal,
            tables: self.tables,
            _lifecycle: self.lifecycle.clone(),
            _backends: self.backends,
        };
        self.lifecycle.hooks.run_post_start(self.lifecycle.hook_context()).await?;
        self.lifecycle.signals.has_been_ready.signal();
        Ok(server)
    }

    /// Opens the port and starts the background tasks.
    fn serve(self) -> Result<RunningServer, Box<dyn Error>> {
        let stop_http = Signal::new("StopHTTP");
        self.authorization.follow(&self.storages, &self.lifecycle.tasks);
        let secure = self.serving.ok_or("the server has no port")?;
        let serving = serving::serve(secure, self.handler, &stop_http)?;
        let context = self.lifecycle.hook_context();
        let kubeconfig = self.pki.as_ref().map(|pki| pki.kubeconfig.display().to_string());
        if let Some(pki) = self.pki {
            let stop = context.stop.clone();
            context.tasks.spawn("own-certificates", pki.keep(async move { stop.wait().await }));
        }
        Ok(RunningServer {
            address: serving.address,
            kubeconfig,
            ui: self.ui,
            serving,
            stop_http,
            _internal: self.internal,
            lifecycle: self.lifecycle,
            shutdown: self.shutdown,
            audit: self.audit,
            stand_in: self.stand_in,
            backends: self.backends,
            tracer: self.tracer,
        })
    }
}

/// A server that only its own process asks. It ends with its runtime.
pub struct InProcessServer {
    /// Answers requests as the user that they carry, without authentication.
    pub handler: Arc<dyn Handler>,
    /// The served resources, as [`PreparedServer::tables`].
    pub tables: [Arc<Resources>; 4],
    _lifecycle: Arc<Lifecycle>,
    _backends: Backends,
}

impl std::fmt::Debug for InProcessServer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("InProcessServer").finish_non_exhaustive()
    }
}

/// A server that serves.
pub struct RunningServer {
    /// Address that it serves.
    pub address: SocketAddr,
    /// Administrator's kubeconfig, if the server made one.
    pub kubeconfig: Option<String>,
    ui: Option<Arc<Front>>,
    serving: Serving,
    stop_http: Signal,
    /// Lives as long as the server, for its own clients.
    _internal: Arc<dyn Handler>,
    lifecycle: Arc<Lifecycle>,
    shutdown: Shutdown,
    audit: Option<Arc<Auditor>>,
    stand_in: Option<StandIn>,
    backends: Backends,
    tracer: Option<TraceProvider>,
}

impl std::fmt::Debug for RunningServer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "RunningServer({})", self.address)
    }
}

impl RunningServer {
    /// Runs the post-start hooks, and is done when they are.
    async fn run_hooks(&self) -> Result<(), Box<dyn Error>> {
        self.lifecycle.hooks.run_post_start(self.lifecycle.hook_context()).await?;
        self.lifecycle.signals.has_been_ready.signal();
        Ok(())
    }

    /// Stops in order: see [`lifecycle`].
    pub async fn stop(self) -> Result<(), Box<dyn Error>> {
        let stopped = self.serving.stopped.wait();
        let finish_busy = || self.serving.finish_busy();
        let ended = self.lifecycle.shut_down(&self.shutdown, finish_busy, &self.stop_http, stopped);
        let result = ended.await;
        // No request is left that could say anything.
        if let Some(audit) = self.audit {
            audit.shut_down().await;
        }
        let engines: Vec<_> = self.backends.all().map(|backend| backend.engine.clone()).collect();
        drop(self.backends);
        for engine in engines {
            engine.close().await;
        }
        if let Some(tracer) = self.tracer {
            stop_tracing(tracer).await;
        }
        Ok(result?)
    }
}

/// Sends the last spans, beside the workers: it may take as long as the collector does.
async fn stop_tracing(tracer: TraceProvider) {
    let stopped = tokio::task::spawn_blocking(move || tracer.shut_down()).await;
    if let Ok(Err(error)) = stopped {
        tracing::error!(%error, "failed to shut down tracer provider");
    }
}
