//! Progress of long maintenance on standard error: one line that is rewritten on a terminal, and otherwise a line now and
//! then.

use std::io::{self, IsTerminal as _, Write};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use kevel_clock::Stopwatch;
use kevel_store::MaintenanceProgress;

/// Time between two changes of the line on a terminal.
const REWRITE_EVERY: Duration = Duration::from_millis(100);
/// Time between two lines in a log. Most work is done before the first.
const LINE_EVERY: Duration = Duration::from_secs(5);
/// Returns to the beginning of the line and erases it.
const ERASE: &str = "\r\x1b[K";

/// Printer of progress.
pub struct ProgressPrinter {
    is_terminal: bool,
    line: Mutex<ProgressLine>,
}

/// State of the line.
struct ProgressLine {
    /// Since the last line was printed; `None` before the first.
    printed: Option<Stopwatch>,
    started: Stopwatch,
    /// Whether the terminal's line has text that the next output replaces.
    is_open: bool,
}

impl ProgressPrinter {
    /// A printer for standard error.
    pub fn new() -> Self {
        let line = ProgressLine { printed: None, started: Stopwatch::start(), is_open: false };
        ProgressPrinter { is_terminal: io::stderr().is_terminal(), line: Mutex::new(line) }
    }

    /// Prints progress, if it is time.
    pub fn report(&self, progress: &MaintenanceProgress) {
        let mut line = self.line.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(text) = line.next(progress, self.is_terminal) {
            // Output that cannot be written has no reader.
            let _ = io::stderr().write_all(text.as_bytes());
        }
    }

    /// Removes the line from a terminal: the result follows.
    pub fn finish(&self) {
        let mut line = self.line.lock().unwrap_or_else(PoisonError::into_inner);
        if std::mem::take(&mut line.is_open) {
            let _ = io::stderr().write_all(ERASE.as_bytes());
        }
    }
}

impl ProgressLine {
    /// Text to print now, if any.
    fn next(&mut self, progress: &MaintenanceProgress, is_terminal: bool) -> Option<String> {
        let (text, is_due) = match progress {
            MaintenanceProgress::Note(text) => (text.clone(), true),
            MaintenanceProgress::Counted { verb, units, done, total } => {
                (counted(verb, units, *done, *total), self.is_due(is_terminal))
            }
        };
        if !is_due {
            return None;
        }
        self.printed = Some(Stopwatch::start());
        if is_terminal {
            self.is_open = true;
            Some(format!("{ERASE}{text}"))
        } else {
            Some(format!("{text}\n"))
        }
    }

    fn is_due(&self, is_terminal: bool) -> bool {
        let since = self.printed.as_ref().unwrap_or(&self.started).elapsed();
        since >= if is_terminal { REWRITE_EVERY } else { LINE_EVERY }
    }
}

/// Like `checked 2048 of 4096 records (50 %)`. More than the total happens: it was counted before.
fn counted(verb: &str, units: &str, done: u64, total: u64) -> String {
    let percent = match total {
        0 => 100,
        total => (u128::from(done) * 100 / u128::from(total)).min(100),
    };
    format!("{verb} {done} of {total} {units} ({percent} %)")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_rewritten_on_terminals_only_and_not_too_often() {
        let note = MaintenanceProgress::Note("reading".to_owned());
        let counted = MaintenanceProgress::Counted {
            verb: "checked",
            units: "records",
            done: 2048,
            total: 4096,
        };
        let mut line = ProgressLine { printed: None, started: Stopwatch::start(), is_open: false };
        assert_eq!(line.next(&counted, false), None);
        assert_eq!(line.next(&note, false).unwrap(), "reading\n");
        assert!(!line.is_open);
        assert_eq!(line.next(&note, true).unwrap(), "\r\x1b[Kreading");
        assert!(line.is_open);
        assert_eq!(line.next(&counted, true), None, "it was rewritten just now");
        std::thread::sleep(REWRITE_EVERY);
        let text = line.next(&counted, true).unwrap();
        assert_eq!(text, "\r\x1b[Kchecked 2048 of 4096 records (50 %)");
        assert_eq!(line.next(&counted, false), None);
    }

    #[test]
    fn a_total_that_has_grown_is_all() {
        for (done, total, text) in [
            (0, 0, "copied 0 of 0 keys (100 %)"),
            (1, 3, "copied 1 of 3 keys (33 %)"),
            (5, 3, "copied 5 of 3 keys (100 %)"),
        ] {
            assert_eq!(counted("copied", "keys", done, total), text);
        }
    }
}
