//! `--debug-socket-path`: profiles and `/debug/flags` on a Unix socket, without authentication: who may open the file may
//! ask (upstream: `DebugSocket`).

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use kevel_component::future::Pending;
use kevel_compute::Metered;
use kevel_server::handler::{Handler, Response};
use kevel_server::request::Request;
use kevel_server::responses::failure_to;
use kevel_server::serving::{Limits, serve_stream};
use tokio::net::UnixListener;
use tokio::sync::Semaphore;

use super::config::Config;
use super::debug_flags::{FlagIndex, Verbosity};
use super::profiles::{Profiles, ROOT};

/// Most connections at a time.
const MOST: usize = 16;
/// Wait after a connection that cannot be accepted.
const RETRY: Duration = Duration::from_millis(100);

/// Opens the socket, if there is to be one, and serves it.
pub fn start(config: &Config) -> Result<(), DebugSocketError> {
    let path = config.options.flags.features.debug_socket_path.as_str();
    if path.is_empty() {
        return Ok(());
    }
    let socket = DebugSocket::bind(Path::new(path));
    let socket = socket.map_err(|error| DebugSocketError { path: path.to_owned(), error })?;
    config.lifecycle.tasks.spawn_finite("debug-socket", socket.serve());
    Ok(())
}

/// Error of a socket that cannot be opened.
#[derive(Debug, thiserror::Error)]
#[error("--debug-socket-path={path}: {error}")]
pub struct DebugSocketError {
    path: String,
    error: io::Error,
}

/// Socket with a listener.
#[derive(Debug)]
struct DebugSocket {
    listener: UnixListener,
    path: PathBuf,
}

impl DebugSocket {
    /// Listens on a path, in place of the socket of an earlier server.
    fn bind(path: &Path) -> io::Result<Self> {
        match std::fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        Ok(DebugSocket { listener: UnixListener::bind(path)?, path: path.to_owned() })
    }

    /// Serves until it is dropped.
    async fn serve(self) {
        let handler: Arc<dyn Handler> = Arc::new(DebugPaths);
        let places = Arc::new(Semaphore::new(MOST));
        while let Ok(place) = places.clone().acquire_owned().await {
            match self.listener.accept().await {
                Ok((stream, _)) => {
                    let served = serve_stream(stream, false, handler.clone(), Limits::default());
                    let served = async move {
                        served.await;
                        drop(place);
                    };
                    tokio::spawn(Metered::task(Box::pin(served), "debug-socket"));
                }
                Err(error) => {
                    // Descriptors may have run out, which is when the socket is needed.
                    tracing::warn!(%error, "a connection to the debug socket failed");
                    tokio::time::sleep(RETRY).await;
                }
            }
        }
    }
}

impl Drop for DebugSocket {
    fn drop(&mut self) {
        // The next server removes it otherwise.
        let _ = std::fs::remove_file(&self.path);
    }
}

static VERBOSITY: Verbosity = Verbosity;
static INDEX: FlagIndex = FlagIndex;
static PROFILES: Profiles = Profiles;

/// Paths of the socket.
#[derive(Debug)]
struct DebugPaths;

impl Handler for DebugPaths {
    fn handle<'a>(&'a self, request: Request) -> Pending<'a, Response> {
        match request.info.path.as_str() {
            "/debug/flags/v" => VERBOSITY.handle(request),
            path if path == "/debug/flags" || path.starts_with("/debug/flags/") => {
                INDEX.handle(request)
            }
            path if path == ROOT.trim_end_matches('/') || path.starts_with(ROOT) => {
                PROFILES.handle(request)
            }
            _ => {
                let missing = kevel_registry::failure::bare(404);
                Box::pin(std::future::ready(failure_to(&request, missing)))
            }
        }
    }
}
