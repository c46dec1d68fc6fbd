//! Shared parts of the benchmarks.

pub mod kinds;
pub mod load;
pub mod phases;
pub mod probe;

use std::error::Error;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// Result of a benchmark, which ends with its first error.
pub type Outcome<T = ()> = Result<T, Box<dyn Error + Send + Sync>>;

/// The CPU time that this thread has used: what is measured does not depend on what else runs.
pub fn cpu_time() -> Duration {
    read(ClockId::ThreadCPUTime)
}

/// The CPU time that all threads have used.
pub fn process_cpu_time() -> Duration {
    read(ClockId::ProcessCPUTime)
}

fn read(clock: ClockId) -> Duration {
    let time = clock_gettime(clock);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// The bytes of memory that this process holds.
pub fn resident() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<usize>().ok());
    kib.unwrap_or(0) << 10
}

/// The number after an argument.
pub fn option(
    arguments: &[String],
    name: &str,
    default: usize,
) -> kevel_conformance::Result<usize> {
    let Some(place) = arguments.iter().position(|argument| argument == name) else {
        return Ok(default);
    };
    let value = arguments.get(place + 1).ok_or_else(|| format!("{name} needs a number"))?;
    value.parse().map_err(|_| format!("{name}: not a number: {value}").into())
}
