//! Server process: started, stopped, killed and restarted on the same folder and port.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use kevel_test_support::{free_port, process};
use rustix::process::{Pid, Signal, kill_process};
use tokio::process::{Child, Command};

use crate::api::Target;

/// Time limit of a start, even on a busy machine.
const START: Duration = Duration::from_secs(60);
/// Time limit of a graceful stop.
const STOP: Duration = Duration::from_secs(60);

/// A server's process, with the parameters of its restart.
#[derive(Debug)]
pub struct Server {
    program: PathBuf,
    folder: PathBuf,
    flags: Vec<String>,
    port: u16,
    child: Option<Child>,
}

impl Server {
    /// Starts a server in a folder, and waits until it is ready.
    pub async fn start(
        program: &Path,
        folder: &Path,
        flags: Vec<String>,
    ) -> Result<(Server, Target), String> {
        let (program, folder) = (program.to_owned(), folder.to_owned());
        let mut server = Server { program, folder, flags, port: free_port(), child: None };
        let target = server.start_again(&[], &[]).await?;
        Ok((server, target))
    }

    /// Restarts it, with additional flags and environment variables.
    pub async fn start_again(
        &mut self,
        flags: &[String],
        variables: &[(&str, String)],
    ) -> Result<Target, String> {
        self.spawn(flags, variables)?;
        let deadline = tokio::time::Instant::now() + START;
        loop {
            if let Some(tls) = process::ready(&self.folder, self.port).await {
                return Ok(Target { port: self.port, tls });
            }
            if let Some(status) = self.ended()? {
                let log = self.log();
                if log.contains("Address already in use") {
                    tokio::time::sleep(Duration::from_millis(100)).await;
                    self.spawn(flags, variables)?;
                } else {
                    return Err(format!("the server ended with {status}:\n{}", tail(&log)));
                }
            }
            if tokio::time::Instant::now() > deadline {
                return Err(format!("the server is not ready in time:\n{}", tail(&self.log())));
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    fn spawn(&mut self, flags: &[String], variables: &[(&str, String)]) -> Result<(), String> {
        let cannot = |error| format!("cannot start {}: {error}", self.program.display());
        let log = std::fs::File::options().create(true).append(true).open(self.folder.join("log"));
        let mut command = Command::new(&self.program);
        command
            .arg(format!("--data-dir={}", self.folder.join("data").display()))
            .arg(format!("--secure-port={}", self.port))
            .arg("--bind-address=127.0.0.1")
            // The traffic's writers are the only ones.
            .arg("--controllers=")
            .args(&self.flags)
            .args(flags)
            .envs(variables.iter().map(|(name, value)| (*name, value.as_str())))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log.map_err(cannot)?)
            .kill_on_drop(true);
        self.child = Some(command.spawn().map_err(cannot)?);
        Ok(())
    }

    /// Exit status, if it has ended.
    pub fn ended(&mut self) -> Result<Option<String>, String> {
        let Some(child) = &mut self.child else { return Ok(Some("nothing".to_owned())) };
        let status = child.try_wait().map_err(|error| error.to_string())?;
        Ok(status.map(|status| status.to_string()))
    }

    /// Sends a signal.
    pub fn signal(&self, signal: Signal) -> Result<(), String> {
        let id = self.child.as_ref().and_then(Child::id).and_then(|id| Pid::from_raw(id as i32));
        let id = id.ok_or("the server is not running")?;
        kill_process(id, signal).map_err(|error| error.to_string())
    }

    /// Kills the process (SIGKILL), and waits for its end.
    pub async fn kill(&mut self) -> Result<(), String> {
        let Some(child) = &mut self.child else { return Ok(()) };
        child.kill().await.map_err(|error| error.to_string())
    }

    /// Waits until it has ended by itself; `false` after the limit.
    pub async fn wait(&mut self, limit: Duration) -> Result<bool, String> {
        let Some(child) = &mut self.child else { return Ok(true) };
        match tokio::time::timeout(limit, child.wait()).await {
            Ok(ended) => ended.map(|_| true).map_err(|error| error.to_string()),
            Err(_) => Ok(false),
        }
    }

    /// Sends SIGTERM, and waits for the end.
    pub async fn terminate(&mut self) -> Result<(), String> {
        self.signal(Signal::TERM)?;
        match self.wait(STOP).await? {
            true => Ok(()),
            false => Err("the server does not stop".to_owned()),
        }
    }

    /// Log of all starts.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.folder.join("log")).unwrap_or_default()
    }

    /// Folder of the embedded store.
    pub fn store(&self) -> PathBuf {
        self.folder.join("data/db")
    }
}

/// Last lines of a long text.
pub fn tail(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(20)..].join("\n")
}
