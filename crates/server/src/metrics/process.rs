//! `process_*` metrics from the operating system.

use std::collections::BTreeSet;
use std::fs;

use tokio::runtime::Handle;

use super::text::Text;

/// Ticks per second in `/proc`, part of Linux's ABI.
const TICKS: f64 = 100.0;

/// Name, type and help of a metric.
type ProcessMetric = (&'static str, &'static str, &'static str);

const ROWS: [ProcessMetric; 10] = [
    (
        "go_goroutines",
        "gauge",
        "Tasks of the server's runtime: they are what goroutines are in Go.",
    ),
    ("process_cpu_seconds_total", "counter", "CPU time used, in seconds."),
    ("process_max_fds", "gauge", "Most open files."),
    ("process_network_receive_bytes_total", "counter", "Bytes received over the network."),
    ("process_network_transmit_bytes_total", "counter", "Bytes sent over the network."),
    ("process_open_fds", "gauge", "Open files."),
    ("process_resident_memory_bytes", "gauge", "Resident memory."),
    ("process_start_time_seconds", "gauge", "[ALPHA] When the process began, in Unix time."),
    ("process_virtual_memory_bytes", "gauge", "Virtual memory."),
    ("process_virtual_memory_max_bytes", "gauge", "Most virtual memory."),
];

/// Descriptions of the metrics.
pub(super) fn descriptions() -> impl Iterator<Item = ProcessMetric> {
    ROWS.into_iter()
}

/// Writes the available metrics; few on other systems than Linux.
pub(super) fn show(text: &mut Text, disabled: &BTreeSet<String>) {
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let limits = fs::read_to_string("/proc/self/limits").unwrap_or_default();
    let network = fs::read_to_string("/proc/self/net/dev").unwrap_or_default();
    let (received, sent) = network_bytes(&network).unzip();
    let tasks =
        Handle::try_current().ok().map(|runtime| runtime.metrics().num_alive_tasks() as f64);
    // Fields are numbered as in the manual, where the first after the name is 3.
    let cpu = field(&stat, 14).zip(field(&stat, 15)).map(|(user, system)| (user + system) / TICKS);
    let open = fs::read_dir("/proc/self/fd").ok().map(|entries| entries.count() as f64);
    // In the order of the rows.
    let values = [
        tasks,
        cpu,
        limit(&limits, "Max open files"),
        received,
        sent,
        open,
        kibibytes(&status, "VmRSS:"),
        start_time(),
        kibibytes(&status, "VmSize:"),
        // Unlimited is the largest number.
        limit(&limits, "Max address space").or(Some(u64::MAX as f64)),
    ];
    for ((name, kind, help), value) in ROWS.into_iter().zip(values) {
        if let Some(value) = value.filter(|_| !disabled.contains(name)) {
            text.single(name, help, kind, value);
        }
    }
}

/// Start time of the process, in Unix time.
pub fn start_time() -> Option<f64> {
    let stat = fs::read_to_string("/proc/self/stat").ok()?;
    let boot = boot_time(&fs::read_to_string("/proc/stat").ok()?)?;
    Some(boot + field(&stat, 22)? / TICKS)
}

/// A field of `/proc/self/stat`, numbered as in its manual. The name in the second may contain spaces.
fn field(stat: &str, number: usize) -> Option<f64> {
    let (_, after_name) = stat.rsplit_once(") ")?;
    after_name.split(' ').nth(number.checked_sub(3)?)?.parse().ok()
}

fn boot_time(stat: &str) -> Option<f64> {
    stat.lines().find_map(|line| line.strip_prefix("btime "))?.trim().parse().ok()
}

fn kibibytes(status: &str, name: &str) -> Option<f64> {
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    Some(line.trim().strip_suffix(" kB")?.parse::<f64>().ok()? * 1024.0)
}

fn limit(limits: &str, name: &str) -> Option<f64> {
    let line = limits.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse().ok()
}

fn network_bytes(devices: &str) -> Option<(f64, f64)> {
    let mut total = None;
    for (_, numbers) in devices.lines().filter_map(|line| line.split_once(':')) {
        let numbers: Vec<f64> = numbers.split_whitespace().flat_map(str::parse).collect();
        if let (Some(received), Some(sent)) = (numbers.first(), numbers.get(8)) {
            let (r, s) = total.unwrap_or((0.0, 0.0));
            total = Some((r + received, s + sent));
        }
    }
    total
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_system_is_read_right() {
        let stat = "7 (a) b) S 1 7 7 0 -1 4194560 100 0 0 0 250 50 0 0 20 0 4 0 12345 1000";
        assert_eq!(
            (field(stat, 14), field(stat, 15), field(stat, 22)),
            (Some(250.0), Some(50.0), Some(12345.0))
        );
        assert_eq!(field("", 14), None);
        assert_eq!(kibibytes("VmSize:\t  20 kB\nVmRSS:\t 10 kB\n", "VmRSS:"), Some(10240.0));
        let limits = "Max address space         unlimited            unlimited            bytes\n\
                      Max open files            1024                 4096                 files\n";
        assert_eq!(limit(limits, "Max open files"), Some(1024.0));
        assert_eq!(limit(limits, "Max address space"), None);
        let network = "Inter-|   Receive\n face |bytes\n lo: 10 1 0 0 0 0 0 0 20 1\neth0: 1 1 0 0 0 0 0 0 2 1\n";
        assert_eq!(network_bytes(network), Some((11.0, 22.0)));
    }
}
