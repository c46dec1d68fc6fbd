//! An API server in a process: for tests of controllers, and for embedding.
//!
//! ```no_run
//! # async fn start() -> Result<(), Box<dyn std::error::Error>> {
//! let server = kevel::Server::builder().start().await?;
//! println!("kubectl --kubeconfig {} get namespaces", server.kubeconfig_path().display());
//! server.stop().await?;
//! # Ok(()) }
//! ```

use std::error::Error;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use kevel_clock::Clock;
use kube_apiserver::options::ServerRunOptions;
use kube_apiserver::server::{self, RunningServer};
use tempfile::TempDir;

pub use kevel_clock::ManualClock;

/// A server that runs in this process, on a port of its own.
#[derive(Debug)]
pub struct Server {
    running: RunningServer,
    kubeconfig: PathBuf,
    /// Folder of keys and certificates, and of the store unless it is in memory. Removed with the server.
    _directory: Option<TempDir>,
}

/// Options of a server.
#[derive(Debug, Default)]
pub struct Builder {
    flags: Vec<String>,
    data_dir: Option<PathBuf>,
    clock: Clock,
}

impl Server {
    /// A server in memory, on any free port.
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// Address of the server.
    pub fn address(&self) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], self.running.address.port()))
    }

    /// A kubeconfig of its administrator.
    pub fn kubeconfig_path(&self) -> &Path {
        &self.kubeconfig
    }

    /// The administrator's configuration, for kube-rs.
    #[cfg(feature = "client")]
    pub async fn client_config(&self) -> Result<kube::Config, Box<dyn Error>> {
        let kubeconfig = kube::config::Kubeconfig::read_from(&self.kubeconfig)?;
        let options = kube::config::KubeConfigOptions::default();
        Ok(kube::Config::from_custom_kubeconfig(kubeconfig, &options).await?)
    }

    /// Stops the server in order: requests under way are answered, watches end.
    pub async fn stop(self) -> Result<(), Box<dyn Error>> {
        self.running.stop().await
    }
}

impl Builder {
    /// Adds a flag of kube-apiserver, as on its command line.
    pub fn flag(mut self, flag: impl Into<String>) -> Self {
        self.flags.push(flag.into());
        self
    }

    /// Stores objects in a directory, for the next start.
    pub fn data_dir(mut self, directory: impl Into<PathBuf>) -> Self {
        self.data_dir = Some(directory.into());
        self
    }

    /// Takes the server's time from a clock that a test moves: a [`ManualClock`]. Tokens, leases, cached decisions and
    /// objects with a time to live expire by it, and objects show its time.
    pub fn clock(mut self, clock: &ManualClock) -> Self {
        self.clock = clock.clock();
        self
    }

    /// Starts the server. Must be called within a multi-threaded tokio runtime.
    pub async fn start(self) -> Result<Server, Box<dyn Error>> {
        let directory = match self.data_dir {
            Some(_) => None,
            None => Some(TempDir::with_prefix("kevel-")?),
        };
        let storage = if directory.is_some() { "memory" } else { "embedded" };
        let path = directory.as_ref().map(|directory| directory.path().to_owned());
        let path = path.or(self.data_dir).ok_or("no directory")?;
        let mut arguments = vec![
            format!("--data-dir={}", path.display()),
            format!("--storage={storage}"),
            "--bind-address=127.0.0.1".to_owned(),
        ];
        arguments.extend(self.flags);
        let mut options = ServerRunOptions::default();
        options.parse(arguments)?;
        let mut options = options.complete()?;
        options.clock = self.clock;
        let errors = options.validate();
        if !errors.is_empty() {
            return Err(errors.join("; ").into());
        }
        if !options.flags.given.has("secure_port") {
            options.flags.secure_serving.secure_port = 0;
        }
        let running = server::prepare(options).await?.start().await?;
        let kubeconfig = running.kubeconfig.clone().ok_or("the server has keys of others")?;
        Ok(Server { running, kubeconfig: kubeconfig.into(), _directory: directory })
    }
}
