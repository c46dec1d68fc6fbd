//! Background processes that outlive the command that started them, identified by process ID.

use std::fs::{self, File};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::Result;

/// Time limit for a program to end after SIGTERM before it is killed.
const STOP_LIMIT: Duration = Duration::from_secs(20);
/// Time limit for a process to end after SIGKILL.
const KILL_LIMIT: Duration = Duration::from_secs(2);
/// Clock ticks in a second, as /proc counts them on Linux.
const TICKS: f64 = 100.0;

/// A background process.
#[derive(Clone, Debug)]
pub struct Process {
    /// Name of the program.
    pub name: String,
    /// Process ID.
    pub pid: u32,
    /// Start time in clock ticks, which distinguishes a later process with the same ID.
    begun: u64,
    /// Log file of its output.
    pub log: PathBuf,
}

impl Process {
    /// Starts a program with its output in `<folder>/<name>.log`.
    pub fn spawn(name: &str, program: &Path, arguments: &[String], folder: &Path) -> Result<Self> {
        let log = folder.join(format!("{name}.log"));
        let out = File::options().create(true).append(true).open(&log)?;
        // The reference calls itself by the name of its program where it manages fields.
        let called = program.display().to_string().replace("reference-apiserver", "kube-apiserver");
        let child = Command::new(program)
            .arg0(called)
            .args(arguments)
            .current_dir(folder)
            .stdin(Stdio::null())
            .stdout(out.try_clone()?)
            .stderr(out)
            .spawn()
            .map_err(|error| format!("{}: {error}", program.display()))?;
        let begun = stat(child.id()).map(|stat| stat.begun).unwrap_or_default();
        Ok(Process { name: name.to_owned(), pid: child.id(), begun, log })
    }

    /// Whether the process runs.
    pub fn is_alive(&self) -> bool {
        stat(self.pid).is_some_and(|stat| stat.begun == self.begun && stat.state != 'Z')
    }

    /// First child process that still runs.
    pub fn child(&self) -> Option<Self> {
        let list = fs::read_to_string(format!("/proc/{0}/task/{0}/children", self.pid)).ok()?;
        let pid = list.split_whitespace().next()?.parse().ok()?;
        let begun = stat(pid)?.begun;
        Some(Process { name: self.name.clone(), pid, begun, log: self.log.clone() })
    }

    /// Kills the process (SIGKILL), and waits until its last thread has ended and its ports are free.
    pub fn kill(&self) {
        let pid = i32::try_from(self.pid).ok().and_then(Pid::from_raw);
        if let Some(pid) = pid.filter(|_| self.is_alive()) {
            // It may end between the check and the signal.
            let _ = kill_process(pid, Signal::KILL);
        }
        let until = Instant::now() + KILL_LIMIT;
        while (self.is_alive() || self.threads() > 1) && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Number of threads; those of a process whose first thread has ended may still hold its files.
    fn threads(&self) -> usize {
        let same = stat(self.pid).is_some_and(|stat| stat.begun == self.begun);
        let tasks = fs::read_dir(format!("/proc/{}/task", self.pid)).ok().filter(|_| same);
        tasks.map_or(0, Iterator::count)
    }

    /// Sends SIGTERM, then SIGKILL after the time limit.
    pub fn stop(&self) {
        let Some(pid) = i32::try_from(self.pid).ok().and_then(Pid::from_raw) else { return };
        for (signal, limit) in [(Signal::TERM, STOP_LIMIT), (Signal::KILL, KILL_LIMIT)] {
            if !self.is_alive() {
                return;
            }
            // It may end between the check and the signal.
            let _ = kill_process(pid, signal);
            let until = Instant::now() + limit;
            while self.is_alive() && Instant::now() < until {
                std::thread::sleep(Duration::from_millis(20));
            }
        }
    }

    /// CPU time used, in seconds.
    pub fn cpu_seconds(&self) -> f64 {
        stat(self.pid).map(|stat| stat.ticks as f64 / TICKS).unwrap_or_default()
    }

    /// A line of /proc/PID/status in MiB: `VmRSS` now, `VmHWM` at its highest.
    pub fn memory_mib(&self, line: &str) -> f64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid)).unwrap_or_default();
        let found = status.lines().find(|text| text.starts_with(line));
        let kib = found.and_then(|text| text.split_whitespace().nth(1)?.parse::<f64>().ok());
        kib.unwrap_or_default() / 1024.0
    }

    /// Last lines of its log.
    pub fn last_words(&self) -> String {
        let text = fs::read(&self.log).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let lines: Vec<&str> = text.lines().rev().take(15).collect();
        lines.into_iter().rev().collect::<Vec<_>>().join("\n")
    }

    /// State by which it can be found again.
    pub fn to_json(&self) -> Value {
        json!({"name": self.name, "pid": self.pid, "begun": self.begun, "log": self.log})
    }

    /// Process from its recorded state.
    pub fn from_json(value: &Value) -> Option<Self> {
        Some(Process {
            name: value["name"].as_str()?.to_owned(),
            pid: value["pid"].as_u64()?.try_into().ok()?,
            begun: value["begun"].as_u64()?,
            log: value["log"].as_str()?.into(),
        })
    }
}

struct Stat {
    state: char,
    ticks: u64,
    begun: u64,
}

/// Parses /proc/PID/stat. Its second field, the program's name, may contain anything, so that fields are counted from
/// the closing parenthesis.
fn stat(pid: u32) -> Option<Stat> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let fields: Vec<&str> = text.rsplit_once(") ")?.1.split(' ').collect();
    let number = |index: usize| fields.get(index)?.parse::<u64>().ok();
    Some(Stat {
        state: fields.first()?.chars().next()?,
        ticks: number(11)? + number(12)?,
        begun: number(19)?,
    })
}
