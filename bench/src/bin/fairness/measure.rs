//! Measurement of other clients during the flood.

use std::fmt;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use kevel_conformance::Result;
use kevel_conformance::client::{Client, Request};
use kevel_conformance::control_plane::ControlPlane;
use serde_json::{Value, json};

use crate::setup::{QUIET, QUIET_OBJECT, kubelet, lease_path};
use crate::{Phase, Sizes};

/// The quiet client rests between two requests.
const PAUSE: Duration = Duration::from_millis(10);
/// A kubelet renews its lease as often, and has missed one that took as long.
const RENEW_INTERVAL: Duration = Duration::from_secs(10);

/// Result of a phase.
#[derive(Clone, Debug)]
pub struct Measurement {
    /// Durations of the quiet client's requests in milliseconds, in order.
    pub times: Vec<f64>,
    /// Its requests that failed, and how the last of them did.
    pub failures: usize,
    failure: String,
    /// Renewals of leases, and how many of them failed or came too late.
    pub renewals: usize,
    pub missed: usize,
    /// The most memory of the server's processes so far.
    pub memory_mib: f64,
    /// Response codes of the flood.
    pub flood: Value,
}

impl Measurement {
    pub fn percentile(&self, part: f64) -> f64 {
        let last = self.times.len().saturating_sub(1) as f64;
        self.times.get((last * part).round() as usize).copied().unwrap_or(f64::NAN)
    }

    pub fn p99(&self) -> f64 {
        self.percentile(0.99)
    }
}

impl fmt::Display for Measurement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (median, p99) = (self.percentile(0.5), self.p99());
        write!(f, "p50 {median:8.2} p99 {p99:8.2} ms, {} failed", self.failures)
    }
}

/// Measures for a while, in a thread of its own: nothing else runs there.
pub async fn measure(plane: &ControlPlane, phase: Phase, sizes: Sizes) -> Result<Measurement> {
    let (credentials, port) = (plane.folder.join("pki"), plane.port);
    let seen = tokio::task::spawn_blocking(move || {
        get_a_processor_at_once()?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(look(credentials, port, phase, sizes))
    });
    let mut seen = seen.await??;
    if seen.times.is_empty() {
        return Err(
            format!("{}: no answer to the quiet client: {}", phase.name, seen.failure).into()
        );
    }
    seen.memory_mib = plane.processes.iter().map(|process| process.memory_mib("VmHWM")).sum();
    seen.times.sort_by(f64::total_cmp);
    Ok(seen)
}

/// A client with a machine of its own does not wait for a processor behind the server that it asks. Here it would, for a tick of
/// 4 ms at a time: so this thread goes before all others (SCHED_RR), which only root may ask for.
fn get_a_processor_at_once() -> Result<()> {
    let thread = std::fs::read_link("/proc/thread-self")?;
    let thread = thread.file_name().ok_or("no thread")?.to_owned();
    let changed = Command::new("chrt").args(["--rr", "--pid", "1"]).arg(thread).status()?;
    if changed.success() { Ok(()) } else { Err("chrt --rr: only root may".into()) }
}

async fn look(credentials: PathBuf, port: u16, phase: Phase, sizes: Sizes) -> Result<Measurement> {
    let until = Instant::now() + Duration::from_secs(sizes.seconds);
    let mut kubelets = tokio::task::JoinSet::new();
    for index in 0..if phase.kubelets { sizes.kubelets } else { 0 } {
        let client = Client::anonymous(&credentials, port, 1)?;
        // They do not all come at once.
        let offset = RENEW_INTERVAL.mul_f64(index as f64 / sizes.kubelets.max(1) as f64);
        kubelets.spawn(async move {
            tokio::time::sleep(offset).await;
            renew(&client, index, until).await
        });
    }
    let client = Client::anonymous(&credentials, port, 1)?;
    let (mut times, mut failures) = (Vec::new(), Vec::new());
    while Instant::now() < until {
        let request = Request::get(QUIET_OBJECT);
        let request = request.with_header("authorization", &format!("Bearer {QUIET}"));
        let begun = Instant::now();
        match client.send(request).await {
            Ok(answer) if answer.code == 200 => times.push(begun.elapsed().as_secs_f64() * 1e3),
            Ok(answer) => failures.push(format!("{} {:?}", answer.code, answer.body)),
            Err(error) => failures.push(error.to_string()),
        }
        tokio::time::sleep(PAUSE).await;
    }
    let (mut renewals, mut missed) = (0, 0);
    while let Some(renewed) = kubelets.join_next().await {
        let (all, late) = renewed?;
        renewals += all;
        missed += late;
    }
    Ok(Measurement {
        times,
        failures: failures.len(),
        failure: failures.pop().unwrap_or_default(),
        renewals,
        missed,
        memory_mib: 0.0,
        flood: Value::Null,
    })
}

/// Renews a lease until the end: how often, and how often that failed or came too late.
async fn renew(client: &Client, index: usize, until: Instant) -> (usize, usize) {
    let (mut renewals, mut missed) = (0, 0);
    while Instant::now() < until {
        renewals += 1;
        let renewed = json!({"spec": {"leaseTransitions": renewals}});
        let request = Request::patch(lease_path(index), "merge-patch+json", &renewed);
        let request = request.with_header("authorization", &format!("Bearer {}", kubelet(index)));
        let begun = Instant::now();
        let renewed = tokio::time::timeout(RENEW_INTERVAL, client.send(request)).await;
        if !matches!(renewed, Ok(Ok(answer)) if answer.code == 200) {
            missed += 1;
        }
        tokio::time::sleep(RENEW_INTERVAL.saturating_sub(begun.elapsed())).await;
    }
    (renewals, missed)
}
