//! Clients in separate processes: they share no state, and one can be killed in the middle of a request.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use kevel_test_support::process;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader};
use tokio::process::{Child, Command};
use tokio::sync::Notify;

use crate::api::Target;
use crate::history::{HistoryClock, Operation, Outcome};
use crate::record::{Line, Operations};
use crate::traffic::Traffic;

/// Command that runs a client process.
pub const CLIENT: &str = "client";
/// Increment of a client's number at each restart, so that values of its earlier processes differ.
const LIFE: usize = 1000;
/// Time limit for a client to find the server, or to end.
const PATIENCE: Duration = Duration::from_secs(60);

/// Handles to kill clients.
#[derive(Debug, Default)]
pub struct Clients(Vec<Arc<Notify>>);

impl Clients {
    /// Kills a client (SIGKILL); another takes its place.
    pub fn kill(&self, number: usize) {
        if let Some(client) = self.0.get(number % self.0.len().max(1)) {
            client.notify_one();
        }
    }

    /// Runs a client until traffic stops. `folder` has the server's keys below.
    pub fn start(
        &mut self,
        traffic: Arc<Traffic>,
        folder: &Path,
        port: u16,
    ) -> impl Future<Output = Result<Vec<Operation>, String>> + Send + use<> {
        let (number, die) = (self.0.len(), Arc::new(Notify::new()));
        self.0.push(die.clone());
        let mut client = Client { traffic, folder: folder.to_owned(), port, number };
        async move {
            let mut heard = Operations::default();
            while client.live(&die, &mut heard).await? {
                client.number += LIFE;
            }
            Ok(heard.done)
        }
    }
}

/// Parent's side of a client.
struct Client {
    traffic: Arc<Traffic>,
    folder: PathBuf,
    port: u16,
    number: usize,
}

impl Client {
    /// Runs one process from its start to its end. Returns true if it was killed.
    async fn live(&self, die: &Notify, heard: &mut Operations) -> Result<bool, String> {
        let mut child = self.spawn()?;
        let lines = child.stdout.take().ok_or("a client without a voice")?;
        let mut lines = BufReader::new(lines).lines();
        let mut killed = false;
        loop {
            let line = tokio::select! {
                line = lines.next_line() => line.map_err(|error| error.to_string())?,
                () = die.notified(), if !killed => {
                    killed = true;
                    child.kill().await.map_err(|error| error.to_string())?;
                    continue;
                }
                // It ends when its standard input is closed.
                () = self.stopped(), if child.stdin.is_some() => {
                    child.stdin = None;
                    continue;
                }
            };
            // The last line of a killed client may be incomplete.
            let Some(line) = line.as_deref().and_then(Line::parse) else { break };
            if let Line::Done(outcome, _) = &line
                && !matches!(outcome, Outcome::Unknown(_) | Outcome::Refused(_))
            {
                self.traffic.answered.fetch_add(1, Ordering::Relaxed);
            }
            heard.hear(self.number, line);
        }
        heard.end(self.number, self.traffic.clock.now());
        let ended = tokio::time::timeout(PATIENCE, child.wait()).await;
        let status = ended.map_err(|_| "a client does not end")?.map_err(|e| e.to_string())?;
        match killed || status.success() {
            true => Ok(killed && !self.traffic.stop.load(Ordering::Relaxed)),
            false => Err(format!("client {} ended by itself: {status}", self.number)),
        }
    }

    fn spawn(&self) -> Result<Child, String> {
        let program = std::env::current_exe().map_err(|error| error.to_string())?;
        let traffic = &self.traffic;
        let mut command = Command::new(program);
        command
            .args([CLIENT, &self.number.to_string(), &self.port.to_string()])
            .arg(&self.folder)
            .arg(format!("--seed={}", traffic.seed))
            .arg(format!("--keys={}", traffic.keys.len()))
            .arg(format!("--pause={}", traffic.pause.as_millis()))
            .env(CLOCK, traffic.clock.base().to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true);
        command.spawn().map_err(|error| format!("a client does not start: {error}"))
    }

    async fn stopped(&self) {
        while !self.traffic.stop.load(Ordering::Relaxed) {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

/// Environment variable with the start time of the run.
const CLOCK: &str = "KEVEL_ROBUSTNESS_CLOCK";

/// Runs a client process.
pub async fn run(words: &[String], seed: u64, keys: usize, pause: u64) -> Result<(), String> {
    let [number, port, folder] = words else { return Err("client NUMBER PORT FOLDER".to_owned()) };
    let number: usize = number.parse().map_err(|_| "a client has a number")?;
    let port: u16 = port.parse().map_err(|_| "a server has a port")?;
    let base = std::env::var(CLOCK).ok().and_then(|text| text.parse().ok());
    let traffic = Arc::new(Traffic {
        clock: HistoryClock::from_base(base.ok_or("there is no clock")?),
        seed,
        keys: Traffic::keys(keys),
        stop: AtomicBool::new(false),
        answered: AtomicU64::new(0),
        pause: Duration::from_millis(pause),
    });
    let tls = async {
        loop {
            match process::ready(Path::new(folder), port).await {
                Some(tls) => return tls,
                None => tokio::time::sleep(Duration::from_millis(20)).await,
            }
        }
    };
    let tls = tokio::time::timeout(PATIENCE, tls).await.map_err(|_| "the server is not there")?;
    let ending = traffic.clone();
    tokio::spawn(async move {
        // Nothing is ever sent; the end of the input stops the client.
        let _ = tokio::io::stdin().read_u8().await;
        ending.stop.store(true, Ordering::Relaxed);
    });
    // A line is printed before its request is sent.
    traffic.client(number, Target { port, tls }, |line| println!("{}", line.print())).await;
    Ok(())
}
