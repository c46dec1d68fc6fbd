//! Process group: a process with all its descendants.

use std::process::ExitStatus;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::process::{Child, Command};

use crate::Result;

/// A process and its descendants, killed together when dropped.
#[derive(Debug)]
pub struct ProcessGroup {
    child: Child,
    group: Option<Pid>,
}

impl ProcessGroup {
    /// Starts a command in a process group of its own.
    pub fn spawn(command: &mut Command) -> Result<Self> {
        let child = command.process_group(0).spawn()?;
        let group = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        Ok(ProcessGroup { child, group })
    }

    /// Exit status of the first process; `None` if it still runs after the limit.
    pub async fn wait(&mut self, limit: Duration) -> Result<Option<ExitStatus>> {
        match tokio::time::timeout(limit, self.child.wait()).await {
            Ok(status) => Ok(Some(status?)),
            Err(_) => Ok(None),
        }
    }
}

impl Drop for ProcessGroup {
    fn drop(&mut self) {
        if let Some(group) = self.group {
            // The group may be empty already.
            let _ = kill_process_group(group, Signal::KILL);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[tokio::test]
    async fn processes_started_by_the_first_end_with_the_group() -> Result<()> {
        let mut command = Command::new("sh");
        command.args(["-c", "sleep 600 & echo $! >&2; wait"]).stderr(std::process::Stdio::piped());
        let mut group = ProcessGroup::spawn(&mut command)?;
        let mut error = tokio::io::BufReader::new(group.child.stderr.take().ok_or("no output")?);
        let mut line = String::new();
        tokio::io::AsyncBufReadExt::read_line(&mut error, &mut line).await?;
        let process = format!("/proc/{}/stat", line.trim());
        assert!(Path::new(&process).exists());
        assert!(group.wait(Duration::from_millis(1)).await?.is_none());
        drop(group);
        // Gone, or a zombie until the init process reaps it.
        let runs = || std::fs::read_to_string(&process).is_ok_and(|stat| !stat.contains(") Z "));
        kevel_test_support::until(async || !runs()).await;
        Ok(())
    }
}
