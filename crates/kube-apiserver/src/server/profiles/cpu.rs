//! CPU profiles: samples of the stacks of all threads that run, by a signal of the process's own timer.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, SystemTime};

use pprof::{ProfilerGuard, ProfilerGuardBuilder, Report};
use tokio::task::JoinError;

use super::proto;

/// Samples in a second of processor time: Go's.
const FREQUENCY: i32 = 100;
const NANOS: i64 = 1_000_000_000;
/// Libraries in which no stack is looked at: what holds their locks must not be interrupted by what takes them.
const NOT_SAMPLED: [&str; 4] = ["libc", "libgcc", "pthread", "vdso"];

/// Whether a profile is being recorded: there is one timer in a process.
static IN_USE: AtomicBool = AtomicBool::new(false);

/// Reason why there is no profile.
#[derive(Debug, thiserror::Error)]
pub enum CpuProfileError {
    /// Another profile is being recorded.
    #[error("cpu profiling already in use")]
    InUse,
    /// The timer or its signal cannot be used.
    #[error(transparent)]
    Profiler(#[from] pprof::Error),
    /// The profile cannot be compressed.
    #[error(transparent)]
    Gzip(#[from] io::Error),
    /// The thread of the profile has ended.
    #[error(transparent)]
    Thread(#[from] JoinError),
}

/// A CPU profile.
#[derive(Debug)]
pub struct CpuProfile;

impl CpuProfile {
    /// Records for some time, and returns the compressed profile. Dropped, it stops at once.
    pub async fn record(duration: Duration, began: SystemTime) -> Result<Vec<u8>, CpuProfileError> {
        // The sender goes with this future.
        let (_present, left) = channel::<()>();
        // Stacks are walked when the report is made, which takes long: beside the workers.
        tokio::task::spawn_blocking(move || record(duration, began, &left)).await?
    }
}

fn record(
    duration: Duration,
    began: SystemTime,
    left: &Receiver<()>,
) -> Result<Vec<u8>, CpuProfileError> {
    let _turn = OnlyProfile::take()?;
    let guard: ProfilerGuard<'_> =
        ProfilerGuardBuilder::default().frequency(FREQUENCY).blocklist(&NOT_SAMPLED).build()?;
    if left.recv_timeout(duration) == Err(RecvTimeoutError::Disconnected) {
        return Ok(Vec::new());
    }
    let report = guard.report().build()?;
    drop(guard);
    Ok(proto::gzip(&profile(&report, began, duration))?)
}

/// The only profile that is being recorded.
struct OnlyProfile;

impl OnlyProfile {
    fn take() -> Result<Self, CpuProfileError> {
        match IN_USE.swap(true, Ordering::AcqRel) {
            true => Err(CpuProfileError::InUse),
            false => Ok(OnlyProfile),
        }
    }
}

impl Drop for OnlyProfile {
    fn drop(&mut self) {
        IN_USE.store(false, Ordering::Release);
    }
}

fn profile(report: &Report, began: SystemTime, duration: Duration) -> Vec<u8> {
    let period = NANOS / i64::from(FREQUENCY);
    let types = [("samples", "count"), ("cpu", "nanoseconds")];
    let mut profile = proto::ProfileBuilder::new(types, ("cpu", "nanoseconds"), period);
    for (frames, count) in &report.data {
        let count = i64::try_from(*count).unwrap_or(i64::MAX);
        let stack: Vec<_> = frames
            .frames
            .iter()
            .flatten()
            .map(|symbol| (symbol.name(), symbol.filename().into_owned(), symbol.lineno()))
            .collect();
        let walk = stack.iter().take_while(|(name, ..)| is_of_walk(name)).count();
        let walk = if walk == stack.len() { 0 } else { walk };
        let stack =
            stack.iter().skip(walk).map(|(name, file, line)| (name.as_str(), file.as_str(), *line));
        profile.add(stack, [count, count.saturating_mul(period)]);
    }
    profile.finish(began, Some(duration))
}

/// Whether a function belongs to the walk over the stack itself, which is innermost in each.
fn is_of_walk(name: &str) -> bool {
    let of = |prefix| name.trim_start_matches('<').starts_with(prefix);
    of("backtrace::") || of("pprof::") || of("perf_signal_handler") || name == "__restore_rt"
}
