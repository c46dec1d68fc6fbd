//! Metrics that only this server has: its store and its runtime. All begin with `kevel_`.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use kevel_server::metrics::{Description, FloatGauge, Metrics};
use kevel_store::embedded::{BATCH_WRITES, COMMIT_SECONDS, StoreMetrics};
use tokio::runtime::Handle;

/// End of the name of the store's write-ahead log.
const LOG: &str = "-wal";

/// Registers the metrics of the embedded store; those of its files if it is in a folder.
pub fn store(metrics: &Metrics, folder: Option<PathBuf>) -> StoreMetrics {
    let describe = |name, help| Description { name, help, labels: &[] };
    let counter = |name, help| metrics.counter(describe(name, help)).with(&[]);
    let histogram = |name, help, bounds| metrics.histogram(describe(name, help), bounds).with(&[]);
    if let Some(folder) = folder {
        let gauge = |name, help| metrics.gauge(describe(name, help)).with(&[]);
        let size = gauge(
            "kevel_store_size_bytes",
            "Bytes of the store's files, its write-ahead log included.",
        );
        let log = gauge("kevel_store_wal_bytes", "Bytes of the store's write-ahead log.");
        let free = gauge("kevel_store_free_disk_bytes", "Free bytes of the store's disk.");
        metrics.before_show(move || {
            let (all, of_log) = sizes(&folder);
            size.set(clamped(all));
            log.set(clamped(of_log));
            if let Ok(disk) = rustix::fs::statvfs(&folder) {
                free.set(clamped(disk.f_bavail.saturating_mul(disk.f_frsize)));
            }
        });
    }
    StoreMetrics {
        commit_seconds: histogram(
            "kevel_store_commit_duration_seconds",
            "Seconds of a transaction of the store, until it is on the disk.",
            COMMIT_SECONDS,
        ),
        batch_writes: histogram(
            "kevel_store_batch_writes",
            "Writes that were committed in one transaction.",
            BATCH_WRITES,
        ),
        commit_errors: counter(
            "kevel_store_commit_errors_total",
            "Transactions of the store that failed.",
        ),
        compactions: counter("kevel_store_compactions_total", "Compactions of the store."),
        checkpoints: counter(
            "kevel_store_checkpoints_total",
            "Times that the write-ahead log was carried over into the database.",
        ),
    }
}

/// Bytes of all files of a folder, and of its write-ahead log.
fn sizes(folder: &Path) -> (u64, u64) {
    let (mut all, mut log) = (0, 0);
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let size = entry.metadata().map_or(0, |metadata| metadata.len());
        all += size;
        if entry.file_name().to_string_lossy().ends_with(LOG) {
            log += size;
        }
    }
    (all, log)
}

fn clamped(bytes: u64) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

/// Registers the metrics of the runtime that this is called in.
pub fn runtime(metrics: &Metrics) {
    let Ok(runtime) = Handle::try_current() else { return };
    let gauge = |name, help, labels| metrics.gauge(Description { name, help, labels });
    let tasks = gauge("kevel_runtime_tasks", "Tasks of the runtime.", &[]).with(&[]);
    let workers = gauge("kevel_runtime_workers", "Threads that run tasks.", &[]).with(&[]);
    let waiting = gauge(
        "kevel_runtime_queued_tasks",
        "Tasks that wait for a worker in the queue that all share.",
        &[],
    );
    let waiting = waiting.with(&[]);
    let heavy =
        gauge("kevel_runtime_heavy_waiting", "Turns of heavy work that wait for a processor.", &[]);
    let heavy = heavy.with(&[]);
    let busy = metrics.family(
        Description {
            name: "kevel_runtime_worker_busy_seconds",
            help: "Seconds that a worker has polled tasks, since the start.",
            labels: &["worker"],
        },
        FloatGauge::default,
    );
    metrics.before_show(move || {
        let now = runtime.metrics();
        let number = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
        tasks.set(number(now.num_alive_tasks()));
        workers.set(number(now.num_workers()));
        waiting.set(number(now.global_queue_depth()));
        heavy.set(number(kevel_compute::waiting()));
        for worker in 0..now.num_workers() {
            let seconds: Arc<FloatGauge> = busy.with(&[&worker.to_string()]);
            seconds.set(now.worker_total_busy_duration(worker).as_secs_f64());
        }
    });
}
