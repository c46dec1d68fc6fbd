//! A command whose output goes to a file, as the reference's images have it at `/go-runner` (upstream: kube-log-runner).
//!
//! Kevel's image has no second program: there `/go-runner` is another name of the server's. Where the output goes to one
//! place, the process becomes the command, which so gets its signals itself; only with `--also-stdout` it stays, to copy.

use std::ffi::{OsStr, OsString};
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, ExitStatus};
use std::thread;

use rustix::process::{Pid, Signal, kill_process};
use tokio::signal::unix::{SignalKind, signal};

/// Names under which the program is a log runner.
const NAMES: [&str; 2] = ["go-runner", "kube-log-runner"];
/// Bytes that are copied at a time: some dozens of lines.
const CHUNK: usize = 16 << 10;
/// Exit code of a command line that is not understood.
const USAGE: u8 = 2;
/// A command that a signal ended exits with this and the signal, as in a shell.
const SIGNALLED: i32 = 128;

/// A failure before the command runs, or of its run.
#[derive(Debug, thiserror::Error)]
enum LogRunnerError {
    #[error("flag provided but not defined: -{0}")]
    UnknownFlag(String),
    #[error("flag needs an argument: -{0}")]
    NoValue(String),
    #[error("invalid value {1:?} for flag -{0}")]
    InvalidValue(String, String),
    #[error("log files are not rotated: -log-file-size has to be 0")]
    Rotation,
    #[error("not enough arguments to run")]
    NoCommand,
    #[error("failed to create log file {}: {source}", path.display())]
    LogFile { path: PathBuf, source: io::Error },
    #[error("starting command: {0}")]
    Start(io::Error),
    #[error("running command: {0}")]
    Run(io::Error),
}

impl LogRunnerError {
    fn code(&self) -> u8 {
        match self {
            LogRunnerError::UnknownFlag(_)
            | LogRunnerError::NoValue(_)
            | LogRunnerError::InvalidValue(..) => USAGE,
            _ => 1,
        }
    }
}

/// Whether the program was called by a name that asks for a log runner.
pub fn is_called(program: &OsStr) -> bool {
    let name = Path::new(program).file_name().unwrap_or_default();
    NAMES.iter().any(|known| name == *known)
}

/// Runs the command that the arguments name.
pub fn main(arguments: impl Iterator<Item = OsString>) -> ExitCode {
    let arguments = arguments.map(|argument| argument.to_string_lossy().into_owned()).collect();
    // A process that could not become the command has the command's output already.
    let stderr = io::stderr().as_fd().try_clone_to_owned().map(File::from);
    match LogRunner::parse(arguments).and_then(|runner| runner.run()) {
        Ok(code) => code,
        Err(error) => {
            if let Ok(mut stderr) = stderr {
                let _ = writeln!(stderr, "{error}");
            }
            ExitCode::from(error.code())
        }
    }
}

/// The command, and where its output goes.
#[derive(Debug, PartialEq, Eq)]
struct LogRunner {
    log_file: Option<PathBuf>,
    also_stdout: bool,
    redirect_stderr: bool,
    command: Vec<String>,
}

impl LogRunner {
    /// Reads flags as Go's `flag` does: one or two dashes, up to the first argument that is none.
    fn parse(arguments: Vec<String>) -> Result<Self, LogRunnerError> {
        let mut runner = LogRunner {
            log_file: None,
            also_stdout: false,
            redirect_stderr: true,
            command: Vec::new(),
        };
        let mut rest = arguments.into_iter().peekable();
        while let Some(flag) = rest.next_if(|next| next.len() > 1 && next.starts_with('-')) {
            if flag == "--" {
                break;
            }
            let flag = flag.strip_prefix("--").or(flag.strip_prefix('-')).unwrap_or(&flag);
            let (name, value) = match flag.split_once('=') {
                Some((name, value)) => (name, Some(value.to_owned())),
                None => (flag, None),
            };
            let value = match name {
                "also-stdout" | "redirect-stderr" => value.unwrap_or_else(|| "true".to_owned()),
                _ => {
                    value.or_else(|| rest.next()).ok_or(LogRunnerError::NoValue(name.to_owned()))?
                }
            };
            runner.set(name, value)?;
        }
        runner.command = rest.collect();
        if runner.command.is_empty() { Err(LogRunnerError::NoCommand) } else { Ok(runner) }
    }

    fn set(&mut self, name: &str, value: String) -> Result<(), LogRunnerError> {
        match name {
            "log-file" => self.log_file = (!value.is_empty()).then(|| value.into()),
            "also-stdout" => self.also_stdout = truth(name, value)?,
            "redirect-stderr" => self.redirect_stderr = truth(name, value)?,
            "log-file-size" if value != "0" => return Err(LogRunnerError::Rotation),
            // Lines are written at once; without rotation no file grows old.
            "log-file-size" | "log-file-age" | "flush-interval" => {}
            _ => return Err(LogRunnerError::UnknownFlag(name.to_owned())),
        }
        Ok(())
    }

    fn run(&self) -> Result<ExitCode, LogRunnerError> {
        let (program, arguments) = self.command.split_first().ok_or(LogRunnerError::NoCommand)?;
        let mut command = Command::new(program);
        command.args(arguments);
        let Some(path) = &self.log_file else {
            if self.redirect_stderr {
                let stdout = io::stdout().as_fd().try_clone_to_owned();
                command.stderr(stdout.map_err(LogRunnerError::Start)?);
            }
            return Err(LogRunnerError::Start(command.exec()));
        };
        let open = OpenOptions::new().append(true).create(true).open(path);
        let file = open.map_err(|source| LogRunnerError::LogFile { path: path.clone(), source })?;
        if self.also_stdout {
            return self.copy(command, &file);
        }
        let clone = file.try_clone().map_err(LogRunnerError::Start)?;
        if self.redirect_stderr {
            command.stderr(clone);
        }
        command.stdout(file);
        Err(LogRunnerError::Start(command.exec()))
    }

    /// Runs the command as a child, and copies its output to the file and to standard output.
    fn copy(&self, mut command: Command, file: &File) -> Result<ExitCode, LogRunnerError> {
        let (reader, writer) = io::pipe().map_err(LogRunnerError::Start)?;
        if self.redirect_stderr {
            command.stderr(writer.try_clone().map_err(LogRunnerError::Start)?);
        }
        command.stdout(writer);
        let status = thread::scope(|scope| {
            let copied = scope.spawn(|| tee(reader, file));
            let status = run_child(command);
            let _ = copied.join();
            status
        });
        Ok(code(status?))
    }
}

fn truth(name: &str, value: String) -> Result<bool, LogRunnerError> {
    match value.as_str() {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(false),
        _ => Err(LogRunnerError::InvalidValue(name.to_owned(), value)),
    }
}

/// Copies to both for as long as there is something: one that is full or closed does not keep the other from it.
fn tee(mut from: impl Read, mut file: &File) {
    let mut chunk = [0; CHUNK];
    loop {
        match from.read(&mut chunk) {
            Ok(0) => return,
            Ok(length) => {
                let mut stdout = io::stdout().lock();
                let _ = file.write_all(&chunk[..length]);
                let _ = stdout.write_all(&chunk[..length]).and_then(|()| stdout.flush());
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return,
        }
    }
}

/// Runs the child, which gets the signals that would end this process, from its first moment on.
fn run_child(mut command: Command) -> Result<ExitStatus, LogRunnerError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build();
    runtime.map_err(LogRunnerError::Start)?.block_on(async {
        let listen = |kind| signal(kind).map_err(LogRunnerError::Start);
        let mut hangup = listen(SignalKind::hangup())?;
        let mut interrupt = listen(SignalKind::interrupt())?;
        let mut quit = listen(SignalKind::quit())?;
        let mut terminate = listen(SignalKind::terminate())?;
        let mut child = command.spawn().map_err(LogRunnerError::Start)?;
        // The pipe of its output ends when nothing has its other end, and the command here has.
        drop(command);
        let pid = Pid::from_child(&child);
        let (sender, mut ended) = tokio::sync::oneshot::channel();
        thread::spawn(move || sender.send(child.wait()));
        loop {
            let received = tokio::select! {
                status = &mut ended => {
                    let status = status.map_err(io::Error::other).and_then(|status| status);
                    return status.map_err(LogRunnerError::Run);
                }
                _ = hangup.recv() => Signal::HUP,
                _ = interrupt.recv() => Signal::INT,
                _ = quit.recv() => Signal::QUIT,
                _ = terminate.recv() => Signal::TERM,
            };
            // A child that has just ended gets no signal.
            let _ = kill_process(pid, received);
        }
    })
}

fn code(status: ExitStatus) -> ExitCode {
    let signalled = status.signal().map(|signal| SIGNALLED + signal);
    let code = status.code().or(signalled).and_then(|code| u8::try_from(code).ok());
    code.map_or(ExitCode::FAILURE, ExitCode::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_are_read_as_go_reads_them() {
        let parse = |line: &str| {
            LogRunner::parse(line.split_whitespace().map(str::to_owned).collect())
                .map_err(|error| error.to_string())
        };
        let runner = |file: &str, also_stdout, redirect_stderr, command: &str| LogRunner {
            log_file: (!file.is_empty()).then(|| file.into()),
            also_stdout,
            redirect_stderr,
            command: command.split_whitespace().map(str::to_owned).collect(),
        };
        for (line, expected) in [
            ("a -b", runner("", false, true, "a -b")),
            ("--log-file=/f --also-stdout a", runner("/f", true, true, "a")),
            ("-log-file /f -redirect-stderr=false a", runner("/f", false, false, "a")),
            ("-flush-interval=5s -log-file-size=0 -- -a", runner("", false, true, "-a")),
        ] {
            assert_eq!(parse(line), Ok(expected), "{line}");
        }
        for (line, expected) in [
            ("", "not enough arguments to run"),
            ("--also-stdout", "not enough arguments to run"),
            ("--foo=1 a", "flag provided but not defined: -foo"),
            ("--log-file", "flag needs an argument: -log-file"),
            ("--also-stdout=x a", "invalid value \"x\" for flag -also-stdout"),
            ("--log-file-size=1Gi a", "log files are not rotated: -log-file-size has to be 0"),
        ] {
            assert_eq!(parse(line), Err(expected.to_owned()), "{line}");
        }
    }
}
