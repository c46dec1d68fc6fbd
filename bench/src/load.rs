//! Load on a server, and what it costs.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use kevel_conformance::Result;
use kevel_conformance::client::{Client, Request};
use kevel_conformance::control_plane::ControlPlane;
use kevel_conformance::process::Process;
use serde_json::{Value, json};

/// The namespace that the load is in.
pub const NAMESPACE: &str = "/api/v1/namespaces/bench";
/// A server may go on for a moment after its last answer; that belongs to the phase.
pub const AFTERMATH: Duration = Duration::from_millis(300);

/// Result of a phase. Figures that do not apply to it are `None`.
#[derive(Clone, Debug)]
pub struct Measurement {
    /// `µs` of CPU, `MiB` or `ms`.
    pub unit: &'static str,
    /// Cost of one operation, in `unit`.
    pub cost: f64,
    /// Operations by the clock on the wall.
    pub per_second: Option<f64>,
    /// Median duration of the operations.
    pub p50_ms: Option<f64>,
    /// 99th percentile of the duration.
    pub p99_ms: Option<f64>,
    /// Name of the phase.
    pub name: &'static str,
}

/// A server under load.
#[derive(Debug)]
pub struct Target {
    /// Its client, an administrator.
    pub client: Arc<Client>,
    processes: Vec<Process>,
}

impl Target {
    /// Processes of a control plane.
    pub fn new(plane: &ControlPlane) -> Result<Self> {
        Ok(Target { client: Arc::new(plane.client(8)?), processes: plane.processes.clone() })
    }

    /// The CPU time that its processes have used.
    pub fn cpu_seconds(&self) -> f64 {
        self.processes.iter().map(Process::cpu_seconds).sum()
    }

    /// The sum of a line of `/proc/PID/status`.
    pub fn memory_mib(&self, line: &str) -> f64 {
        self.processes.iter().map(|process| process.memory_mib(line)).sum()
    }
}

impl Measurement {
    /// Result of a start.
    pub fn start(took: Duration) -> Self {
        let plain = Measurement::plain("start until ready", "ms");
        Measurement { cost: took.as_secs_f64() * 1e3, ..plain }
    }

    /// Nothing measured yet.
    pub fn plain(name: &'static str, unit: &'static str) -> Self {
        Measurement { name, unit, cost: 0.0, per_second: None, p50_ms: None, p99_ms: None }
    }
}

impl fmt::Display for Measurement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:10.1} {}", self.cost, self.unit)?;
        self.per_second.map_or(Ok(()), |rate| write!(f, " {rate:8.0}/s"))
    }
}

/// So many requests, each made of its number, so many under way at a time.
pub async fn requests(
    target: &Target,
    name: &'static str,
    count: usize,
    clients: usize,
    request: &(dyn Fn(usize) -> Request + Send + Sync),
) -> Result<Measurement> {
    // Made beforehand, so that the client's work is sending.
    let all: Arc<Vec<Request>> = Arc::new((0..count).map(request).collect());
    let next = Arc::new(AtomicUsize::new(0));
    let (cpu, begun) = (target.cpu_seconds(), Instant::now());
    let clients = (0..clients).map(|_| {
        let (client, all, next) = (Arc::clone(&target.client), Arc::clone(&all), Arc::clone(&next));
        tokio::spawn(async move {
            let mut times = Vec::new();
            while let Some(request) = all.get(next.fetch_add(1, Ordering::Relaxed)) {
                let begun = Instant::now();
                succeed(&client, request.clone()).await?;
                times.push(begun.elapsed().as_secs_f64() * 1e3);
            }
            Ok(times)
        })
    });
    let mut times: Vec<f64> = Vec::new();
    for client in clients.collect::<Vec<_>>() {
        let answered: Result<Vec<f64>> = client.await?;
        times.extend(answered?);
    }
    let wall = begun.elapsed().as_secs_f64();
    tokio::time::sleep(AFTERMATH).await;
    let cpu = target.cpu_seconds() - cpu;
    times.sort_by(f64::total_cmp);
    let share = |part: f64| times.get(((times.len() - 1) as f64 * part) as usize).copied();
    Ok(Measurement {
        name,
        unit: "µs",
        cost: cpu * 1e6 / count as f64,
        per_second: Some(count as f64 / wall),
        p50_ms: share(0.5),
        p99_ms: share(0.99),
    })
}

/// Fails unless the server consents.
pub async fn succeed(client: &Client, request: Request) -> Result<()> {
    let what = format!("{} {}", request.method, request.path);
    let answer = client.send(request).await?;
    match answer.code {
        200..300 => Ok(()),
        code => Err(format!("{what}: {code} {}", String::from_utf8_lossy(&answer.body)).into()),
    }
}

/// A Pod of about 1.5 KB as people write them; the server's answer has twice that.
pub fn new_pod(index: usize) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": format!("pod-{index:06}"),
            "labels": {"app": format!("app-{}", index % 50), "tier": "web", "release": "stable"},
            "annotations": {"example.com/checksum": "5d41402abc4b2a76b9719d911017c592"},
        },
        "spec": {
            "nodeName": format!("node-{}", index % 100),
            "terminationGracePeriodSeconds": 0,
            "containers": [{
                "name": "main", "image": "registry.example.com/team/app:1.2.3",
                "command": ["/app", "--port=8080"],
                "ports": [{"name": "http", "containerPort": 8080}],
                "env": [
                    {"name": "MODE", "value": "production"},
                    {"name": "POD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
                ],
                "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}, "limits": {"memory": "256Mi"}},
                "readinessProbe": {"httpGet": {"path": "/ready", "port": "http"}},
                "livenessProbe": {"httpGet": {"path": "/live", "port": "http"}},
                "volumeMounts": [{"name": "settings", "mountPath": "/etc/app"}],
            }],
            "volumes": [{"name": "settings", "configMap": {"name": "app"}}],
            "tolerations": [{"key": "dedicated", "operator": "Exists", "effect": "NoSchedule"}],
        },
    })
}

/// The namespace, and the account that pods in it need.
pub async fn prepare(client: &Client) -> Result<()> {
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "bench"}});
    succeed(client, Request::post("/api/v1/namespaces", &namespace)).await?;
    // Made by a controller elsewhere; where the server makes it by itself, it may be there already.
    let account =
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}});
    client.send(Request::post(format!("{NAMESPACE}/serviceaccounts"), &account)).await?;
    Ok(())
}
