//! Cost of requests to a server, and waiting times of other clients meanwhile.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use kevel_conformance::Result;
use kevel_conformance::client::{Client, Request};
use kevel_conformance::control_plane::ControlPlane;
use kevel_conformance::process::Process;
use tokio::task::JoinHandle;

/// Pause of a client between two requests, and of new clients: a handshake costs milliseconds of CPU, which count as
/// the measured request's.
const PAUSE: Duration = Duration::from_millis(5);
const PAUSE_OF_HANDSHAKES: Duration = Duration::from_millis(50);
/// Shortest time that other clients ask for.
const SHORTEST: Duration = Duration::from_millis(15);

/// CPU time, memory and waiting times of a measured phase.
#[derive(Clone, Copy, Debug, Default)]
pub struct ServerLoad {
    /// CPU time of the server.
    pub cpu: Duration,
    /// Highest memory above that at its beginning.
    pub growth_mib: f64,
    /// Longest `/livez`.
    pub livez: Duration,
    /// Longest time until a new connection is answered.
    pub handshake: Duration,
    /// Longest get of another user.
    pub get: Duration,
}

impl ServerLoad {
    /// The least of two attempts, or the most of two phases.
    pub fn merge(self, other: ServerLoad, choose: fn(f64, f64) -> f64) -> ServerLoad {
        let time = |one: Duration, other: Duration| {
            Duration::from_secs_f64(choose(one.as_secs_f64(), other.as_secs_f64()))
        };
        ServerLoad {
            cpu: time(self.cpu, other.cpu),
            growth_mib: choose(self.growth_mib, other.growth_mib),
            livez: time(self.livez, other.livez),
            handshake: time(self.handshake, other.handshake),
            get: time(self.get, other.get),
        }
    }
}

/// Other clients of a server that is measured.
#[derive(Debug)]
pub struct LoadProbe {
    server: Process,
    credentials: std::path::PathBuf,
    port: u16,
    livez: Arc<Client>,
    other: Arc<Client>,
    /// Request of the other user.
    get: Request,
}

impl LoadProbe {
    /// The clients; `get` is the other user's request, with the token that authenticates it.
    pub fn new(plane: &ControlPlane, get: Request) -> Result<Self> {
        let server = plane.processes.last().ok_or("no server runs")?.clone();
        let (credentials, port) = (plane.folder.join("pki"), plane.port);
        let client = Client::anonymous(&credentials, port, 1)?;
        let (livez, other) = (Arc::new(plane.client(1)?), Arc::new(client));
        Ok(LoadProbe { server, livez, other, get, credentials, port })
    }

    /// Measures the server while a future runs.
    pub async fn measure<T>(&self, work: impl Future<Output = T>) -> Result<(T, ServerLoad)> {
        // From here on the highest is the present.
        std::fs::write(format!("/proc/{}/clear_refs", self.server.pid), "5")?;
        let (cpu, memory) = (self.server.cpu_seconds(), self.server.memory_mib("VmRSS"));
        let (done, begun) = (Arc::new(AtomicBool::new(false)), Instant::now());
        let livez = repeat(self.livez.clone(), Request::get("/livez"), done.clone());
        let get = repeat(self.other.clone(), self.get.clone(), done.clone());
        let handshake = self.handshakes(done.clone());
        let outcome = work.await;
        tokio::time::sleep(SHORTEST.saturating_sub(begun.elapsed())).await;
        done.store(true, Ordering::Relaxed);
        let (livez, handshake, get) = (livez.await?, handshake.await?, get.await?);
        if !self.server.is_alive() {
            return Err(format!("the server has ended:\n{}", self.server.last_words()).into());
        }
        let cpu = Duration::from_secs_f64((self.server.cpu_seconds() - cpu).max(0.0));
        let growth_mib = (self.server.memory_mib("VmHWM") - memory).max(0.0);
        Ok((outcome, ServerLoad { cpu, growth_mib, livez, handshake, get }))
    }

    fn handshakes(&self, done: Arc<AtomicBool>) -> JoinHandle<Duration> {
        let (credentials, port) = (self.credentials.clone(), self.port);
        tokio::spawn(async move {
            let mut longest = Duration::ZERO;
            loop {
                let client = Client::anonymous(&credentials, port, 1);
                let begun = Instant::now();
                let answered = match client {
                    Ok(client) => client.send(Request::get("/livez")).await.is_ok(),
                    Err(_) => false,
                };
                longest = longest.max(if answered { begun.elapsed() } else { FAILED });
                if done.load(Ordering::Relaxed) {
                    return longest;
                }
                tokio::time::sleep(PAUSE_OF_HANDSHAKES).await;
            }
        })
    }
}

/// Waiting time in place of an answer that never came.
const FAILED: Duration = Duration::from_secs(999);

fn repeat(client: Arc<Client>, request: Request, done: Arc<AtomicBool>) -> JoinHandle<Duration> {
    tokio::spawn(async move {
        let mut longest = Duration::ZERO;
        loop {
            let begun = Instant::now();
            let waited = match client.send(request.clone()).await {
                Ok(answer) if answer.code == 200 => begun.elapsed(),
                answer => {
                    let outcome = answer
                        .map_or_else(|error| error.to_string(), |answer| answer.code.to_string());
                    println!("{}: {outcome}", request.path);
                    FAILED
                }
            };
            longest = longest.max(waited);
            if done.load(Ordering::Relaxed) {
                return longest;
            }
            tokio::time::sleep(PAUSE).await;
        }
    })
}
