//! What the benchmarks share.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

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
