//! Where the command ends and the server begins: config, server chain, prepare, run.
//!
//! [`Config`] builds everything and runs nothing. [`create_server_chain`] puts the three servers
//! together from the inside out; [`PreparedServer::run`] listens, runs the hooks, and stops in order.

mod authentication;
mod certificates;
mod chain;
mod config;
mod storage;

use std::error::Error;
use std::sync::Arc;

use kevel_server::certificates::PkiFiles;
use kevel_server::handler::Handler;
use kevel_server::lifecycle::{self, HookContext, Lifecycle, Shutdown, Signal};
use kevel_server::serving::{self, SecureServing};

use self::chain::create_server_chain;
use self::config::Config;
use crate::options::CompletedOptions;

/// Runs the server until it is told to stop.
pub fn run(options: CompletedOptions) -> Result<(), Box<dyn Error>> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let result = runtime.block_on(async {
        let config = Config::new(options).await?;
        create_server_chain(config)?.run().await
    });
    // What still waits for somebody at this point waits in vain.
    runtime.shutdown_background();
    result
}

/// A server that is complete and does not run yet.
pub struct PreparedServer {
    pub handler: Arc<dyn Handler>,
    pub lifecycle: Arc<Lifecycle>,
    pub shutdown: Shutdown,
    pub serving: SecureServing,
    pub engine: Arc<dyn kevel_store::Engine>,
    pub caches: kevel_store::cache::Caches,
    /// What was made for whoever started it without flags.
    pub own: Option<(PkiFiles, String)>,
}

impl std::fmt::Debug for PreparedServer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PreparedServer").finish_non_exhaustive()
    }
}

impl PreparedServer {
    /// Serves until a signal asks it to stop, then stops in order.
    pub async fn run(self) -> Result<(), Box<dyn Error>> {
        let stop_http = Signal::new("StopHTTP");
        let serving = serving::serve(self.serving, self.handler, &stop_http)?;
        let context = HookContext { stop: self.lifecycle.signals.shutdown_initiated.clone() };
        self.lifecycle.hooks.run_post_start(context).await?;
        self.lifecycle.signals.has_been_ready.signal();
        if let Some((_, kubeconfig)) = &self.own {
            tracing::info!("Ready. Use it with: kubectl --kubeconfig {kubeconfig} get namespaces");
        }
        lifecycle::notify_ready()?;
        lifecycle::stop_requested().await?;
        let stopped = serving.stopped.wait();
        let result = self.lifecycle.shut_down(&self.shutdown, &stop_http, stopped).await;
        drop(self.caches);
        self.engine.close().await;
        Ok(result?)
    }
}
