//! Audit log backend: events in a file.

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use kevel_clock::Clock;

use super::backend::{Backend, Errors};
use super::event::Event;
use super::rotation::{Rotated, Rotation};
use kevel_component::future::Pending;

const PLUGIN: &str = "log";

/// Format of an event in the log (`--audit-log-format`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// A JSON object.
    Json,
    /// A line of text.
    Legacy,
}

/// Output of the log.
#[derive(Debug)]
pub enum Output {
    /// Standard output.
    Stdout,
    /// A file without rotation.
    File(File),
    /// A file with rotation by size.
    Rotated(Rotated),
}

impl Output {
    /// Opens the file at a path, created if absent, or standard output for `-`.
    pub fn open(path: &str, rotation: Rotation, clock: &Clock) -> Result<Self, String> {
        if path == "-" {
            return Ok(Output::Stdout);
        }
        let path = Path::new(path);
        let file = create(path).map_err(|error| {
            format!("ensureLogFile: --audit-log-path={}: {error}", path.display())
        })?;
        Ok(match rotation.max_bytes {
            0 => Output::File(file),
            _ => Output::Rotated(Rotated::new(path, rotation, clock.clone())),
        })
    }

    fn write(&mut self, line: &[u8]) -> io::Result<()> {
        match self {
            Output::Stdout => io::stdout().lock().write_all(line),
            Output::File(file) => file.write_all(line),
            Output::Rotated(file) => file.write(line),
        }
    }
}

/// Creates a file that only the server's user can read.
fn create(path: &Path) -> io::Result<File> {
    if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    }
    OpenOptions::new().create(true).append(true).mode(0o600).open(path)
}

/// Backend that writes events to a log.
#[derive(Debug)]
pub struct Log {
    output: Mutex<Output>,
    format: Format,
    errors: Errors,
}

impl Log {
    /// A log in a format.
    pub fn new(output: Output, format: Format, errors: Errors) -> Self {
        Log { output: Mutex::new(output), format, errors }
    }

    /// Writes an event with a single write, so that a line is never split.
    fn write(&self, event: &Arc<Event>) -> bool {
        let line = match self.format {
            Format::Json => event.to_json(),
            Format::Legacy => format!("{}\n", event.to_legacy()).into_bytes(),
        };
        let written = self.output.lock().unwrap_or_else(PoisonError::into_inner).write(&line);
        if let Err(error) = &written {
            self.errors.tell(PLUGIN, &error.to_string(), std::slice::from_ref(event));
        }
        written.is_ok()
    }
}

impl Backend for Log {
    fn name(&self) -> String {
        PLUGIN.to_owned()
    }

    fn process<'a>(&'a self, events: &'a [Arc<Event>]) -> Pending<'a, bool> {
        let failed = events.iter().filter(|event| !self.write(event)).count();
        Box::pin(std::future::ready(failed == 0))
    }
}
