//! The log, in the look of the reference's.
//!
//! The code logs through `tracing`. Levels stand for verbosity: errors, warnings and information
//! are always logged, debugging from `-v=4` on, tracing from `-v=5` on; what the reference logs at
//! another level has that as its target, such as `v3`. The libraries below us are heard only from
//! `-v=8` and `-v=10` on, unless `--vmodule` names them. A subscriber of our own
//! writes the lines: there are no spans to keep and no filter language to read, which is most of
//! what a subscriber library would bring along.

mod buffer;
mod line;
mod vmodule;

use crate::options::{Level as Verbosity, Logs};
use buffer::InfoBuffer;
use line::{Format, Line};
use std::io::{self, Write};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::Interest;
use tracing::{Event, Level, Metadata, Subscriber};

static VERBOSITY: OnceLock<Arc<AtomicU32>> = OnceLock::new();

/// Begins to log. What was begun first stays.
pub fn install(logs: &Logs) {
    let json = logs.logging_format == "json";
    let split = if json { logs.log_json_split_stream } else { logs.log_text_split_stream };
    let size = if json { &logs.log_json_info_buffer_size } else { &logs.log_text_info_buffer_size };
    let size = usize::try_from(size.value()).unwrap_or(0);
    // Only information that has a stream of its own is held back.
    let buffer = BUFFER.get_or_init(|| InfoBuffer::new(if split { size } else { 0 }));
    if buffer.holds_back() {
        flush_every(logs.log_flush_frequency.0);
    }
    let verbosity = Arc::new(AtomicU32::new(logs.v.0));
    let log = Log {
        format: if json { Format::Json } else { Format::Text },
        verbosity: verbosity.clone(),
        modules: logs.vmodule.0.clone(),
        write: Box::new(move |level, line| {
            let informs = *level >= Level::INFO || (json && *level == Level::WARN);
            // A log that cannot be written has nowhere to say so.
            let _ = match split && informs {
                true => buffer.write(line, &mut io::stdout()),
                false => io::stderr().write_all(line),
            };
        }),
    };
    if tracing::subscriber::set_global_default(log).is_ok() {
        VERBOSITY.get_or_init(|| verbosity);
    }
}

static BUFFER: OnceLock<InfoBuffer> = OnceLock::new();

/// Writes what the log holds back.
pub fn flush() {
    if let Some(buffer) = BUFFER.get() {
        let _ = buffer.flush(&mut io::stdout());
    }
}

/// Flushes at an interval (`--log-flush-frequency`), in a thread of its own: the runtime may be busy.
fn flush_every(nanoseconds: i64) {
    let interval = Duration::from_nanos(u64::try_from(nanoseconds).unwrap_or(0).max(1));
    let spawned = std::thread::Builder::new().name("log-flush".into()).spawn(move || {
        loop {
            std::thread::sleep(interval);
            flush();
        }
    });
    if let Err(error) = spawned {
        eprintln!("the log is flushed at the end only: {error}");
    }
}

/// Level of `-v`.
pub fn verbosity() -> u32 {
    VERBOSITY.get().map_or(0, |verbosity| verbosity.load(Ordering::Relaxed))
}

/// Changes the level of `-v` while the server runs.
pub fn set_verbosity(level: u32) {
    if let Some(verbosity) = VERBOSITY.get() {
        verbosity.store(level, Ordering::Relaxed);
        tracing::callsite::rebuild_interest_cache();
    }
}

type Sink = dyn Fn(&Level, &[u8]) + Send + Sync;

struct Log {
    format: Format,
    verbosity: Arc<AtomicU32>,
    modules: Vec<(String, Verbosity)>,
    write: Box<Sink>,
}

impl Log {
    /// Whether the verbosity of the module reaches the level.
    fn hears(&self, metadata: &Metadata<'_>) -> bool {
        let module = metadata.module_path().unwrap_or_default();
        let named = self.modules.iter().find(|(pattern, _)| vmodule::matches(pattern, module));
        let ours = module.starts_with("kevel") || module.starts_with("kube_apiserver");
        let needed = match *metadata.level() {
            Level::DEBUG if !ours && named.is_none() => 8,
            Level::TRACE if !ours && named.is_none() => 10,
            _ => needed(metadata),
        };
        self.verbosity.load(Ordering::Relaxed) >= needed
            || named.is_some_and(|(_, level)| level.0 >= needed)
    }
}

/// The verbosity that a message of ours needs.
fn needed(metadata: &Metadata<'_>) -> u32 {
    let said = metadata.target().strip_prefix('v').and_then(|digits| digits.parse().ok());
    match *metadata.level() {
        Level::DEBUG => said.unwrap_or(4),
        Level::TRACE => said.unwrap_or(5),
        _ => 0,
    }
}

impl Subscriber for Log {
    fn register_callsite(&self, metadata: &'static Metadata<'static>) -> Interest {
        match !metadata.is_span() && self.hears(metadata) {
            true => Interest::always(),
            false => Interest::never(),
        }
    }

    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        !metadata.is_span() && self.hears(metadata)
    }

    fn event(&self, event: &Event<'_>) {
        let line = Line::of(event).print(self.format);
        (self.write)(event.metadata().level(), &line);
    }

    // Spans are not logged.
    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    fn logged(format: Format, verbosity: u32, vmodule: &[(&str, u32)], run: fn()) -> String {
        let out = Arc::new(Mutex::new(Vec::new()));
        let sink = Arc::clone(&out);
        let log = Log {
            format,
            verbosity: Arc::new(AtomicU32::new(verbosity)),
            modules: vmodule.iter().map(|&(p, v)| (p.to_owned(), Verbosity(v))).collect(),
            write: Box::new(move |_, line| sink.lock().unwrap().extend_from_slice(line)),
        };
        tracing::subscriber::with_default(log, run);
        String::from_utf8(out.lock().unwrap().clone()).unwrap()
    }

    #[test]
    fn levels_are_verbosity() {
        fn run() {
            tracing::error!("error");
            tracing::info!("info");
            tracing::debug!("debug");
            tracing::trace!("trace");
            tracing::debug!(target: "x", "other target, same module");
            if tracing::enabled!(target: "v2", tracing::Level::DEBUG) {
                tracing::debug!(target: "v2", "verbosity");
            }
        }
        for (verbosity, vmodule, lines) in [
            (0, &[][..], 2),
            (1, &[], 2),
            (2, &[], 3),
            (3, &[], 3),
            (4, &[], 5),
            (5, &[], 6),
            (0, &[("tests", 4)], 5),
            (0, &[("kube_apiserver::log*", 9)], 6),
            (0, &[("nobody", 9)], 2),
            (5, &[("tests", 0)], 6),
        ] {
            let text = logged(Format::Text, verbosity, vmodule, run);
            assert_eq!(text.lines().count(), lines, "-v={verbosity} {vmodule:?}:\n{text}");
        }
    }

    #[test]
    fn lines_are_whole() {
        let text = logged(Format::Text, 0, &[], || tracing::warn!(pod = "a/b", n = 3, "seen"));
        let (head, tail) = text.split_once("] ").unwrap();
        assert_eq!(tail, "\"seen\" pod=\"a/b\" n=3\n");
        assert!(head.starts_with('W') && head.contains(" mod.rs:"), "{head}");
        assert_eq!(head.find('.'), Some(14), "{head}");
    }
}
