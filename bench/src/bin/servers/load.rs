//! What is done to a server, and what it costs.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use kevel_conformance::Result;
use kevel_conformance::client::{Client, Request};
use kevel_conformance::control_plane::ControlPlane;
use kevel_conformance::process::Process;
use serde_json::{Value, json};

use crate::Sizes;

const NAMESPACE: &str = "/api/v1/namespaces/bench";
/// How many requests are under way at a time, and of lists.
const CLIENTS: usize = 32;
const LIST_CLIENTS: usize = 4;
/// How often one of the watched objects changes.
const UPDATES: usize = 200;
const WATCHED: usize = 20;
/// How long to wait for the last event of a watch.
const DELIVERY_LIMIT: Duration = Duration::from_secs(60);
/// A server may go on for a moment after its last answer; that belongs to the phase.
const AFTERMATH: Duration = Duration::from_millis(300);

/// A phase: so many requests, each made of its number; or the watch.
pub struct Load {
    pub name: &'static str,
    work: Work,
}

enum Work {
    Prepare,
    Requests { count: usize, clients: usize, request: Box<dyn Fn(usize) -> Request + Send + Sync> },
    Watch { watchers: usize },
    Rest(&'static str),
}

/// What a phase cost. Figures that make no sense for it are none.
#[derive(Clone, Debug)]
pub struct Measurement {
    /// `µs` of CPU, `MiB` or `ms`.
    pub unit: &'static str,
    pub cost: f64,
    pub per_second: Option<f64>,
    pub p50_ms: Option<f64>,
    pub p99_ms: Option<f64>,
    pub name: &'static str,
}

/// A server under load.
pub struct Target {
    client: Arc<Client>,
    processes: Vec<Process>,
}

impl Target {
    pub fn new(plane: &ControlPlane) -> Result<Self> {
        Ok(Target { client: Arc::new(plane.client(8)?), processes: plane.processes.clone() })
    }

    fn cpu_seconds(&self) -> f64 {
        self.processes.iter().map(Process::cpu_seconds).sum()
    }

    fn memory_mib(&self, line: &str) -> f64 {
        self.processes.iter().map(|process| process.memory_mib(line)).sum()
    }
}

impl Measurement {
    pub fn start(took: Duration) -> Self {
        let plain = Measurement::plain("start until ready", "ms");
        Measurement { cost: took.as_secs_f64() * 1e3, ..plain }
    }

    fn plain(name: &'static str, unit: &'static str) -> Self {
        Measurement { name, unit, cost: 0.0, per_second: None, p50_ms: None, p99_ms: None }
    }
}

impl fmt::Display for Measurement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:10.1} {}", self.cost, self.unit)?;
        self.per_second.map_or(Ok(()), |rate| write!(f, " {rate:8.0}/s"))
    }
}

impl Load {
    /// All phases, in order: later ones need what earlier ones made.
    pub fn all(sizes: Sizes) -> Vec<Load> {
        let pods = sizes.pods.max(1);
        let pod = |index: usize| format!("{NAMESPACE}/pods/pod-{index:06}");
        let requests =
            |name, count: usize, clients, request: Box<dyn Fn(usize) -> Request + Send + Sync>| {
                Load { name, work: Work::Requests { count: count.max(1), clients, request } }
            };
        let list = |name, count, path: &'static str| {
            requests(name, count, LIST_CLIENTS, Box::new(move |_| Request::get(path)))
        };
        vec![
            Load { name: "memory, idle", work: Work::Rest("VmRSS") },
            Load { name: "prepare", work: Work::Prepare },
            requests(
                "create",
                pods,
                CLIENTS,
                Box::new(|index| Request::post(format!("{NAMESPACE}/pods"), &new_pod(index))),
            ),
            requests(
                "get",
                pods * 4,
                CLIENTS,
                Box::new(move |index| Request::get(pod(index * 7919 % pods))),
            ),
            requests(
                "merge patch",
                pods,
                CLIENTS,
                Box::new(move |index| {
                    let patch = json!({"metadata": {"labels": {"revision": index.to_string()}}});
                    Request::patch(pod(index), "merge-patch+json", &patch)
                }),
            ),
            requests(
                "apply",
                pods / 2,
                CLIENTS,
                Box::new(move |index| {
                    let name = format!("pod-{index:06}");
                    let patch = json!({"apiVersion": "v1", "kind": "Pod",
                    "metadata": {"name": name, "annotations": {"applied": "yes"}}});
                    let path = format!("{}?fieldManager=bench&force=true", pod(index));
                    Request::patch(path, "apply-patch+yaml", &patch)
                }),
            ),
            list("list all, cached", 40, "/api/v1/pods?resourceVersion=0"),
            list("list all, consistent", 20, "/api/v1/pods"),
            list("list by label", 400, "/api/v1/namespaces/bench/pods?labelSelector=app%3Dapp-7"),
            list("list page of 500", 100, "/api/v1/pods?limit=500"),
            Load { name: "memory, full", work: Work::Rest("VmRSS") },
            Load { name: "watch, per event", work: Work::Watch { watchers: sizes.watchers } },
            requests("delete", pods, CLIENTS, Box::new(move |index| Request::delete(pod(index)))),
            Load { name: "memory, highest", work: Work::Rest("VmHWM") },
        ]
    }

    pub async fn run(&self, target: &Target) -> Result<Measurement> {
        match &self.work {
            Work::Rest(line) => {
                let plain = Measurement::plain(self.name, "MiB");
                Ok(Measurement { cost: target.memory_mib(line), ..plain })
            }
            Work::Prepare => {
                prepare(&target.client).await.map(|()| Measurement::plain(self.name, ""))
            }
            Work::Requests { count, clients, request } => {
                self.requests(target, *count, *clients, request.as_ref()).await
            }
            Work::Watch { watchers } => self.watch(target, *watchers).await,
        }
    }

    async fn requests(
        &self,
        target: &Target,
        count: usize,
        clients: usize,
        request: &(dyn Fn(usize) -> Request + Send + Sync),
    ) -> Result<Measurement> {
        // Made beforehand, so that the client's work is sending.
        let all: Arc<Vec<Request>> = Arc::new((0..count).map(request).collect());
        let next = Arc::new(AtomicUsize::new(0));
        let (cpu, begun) = (target.cpu_seconds(), Instant::now());
        let clients = (0..clients).map(|_| {
            let (client, all, next) =
                (Arc::clone(&target.client), Arc::clone(&all), Arc::clone(&next));
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
            name: self.name,
            unit: "µs",
            cost: cpu * 1e6 / count as f64,
            per_second: Some(count as f64 / wall),
            p50_ms: share(0.5),
            p99_ms: share(0.99),
        })
    }

    /// Every watcher sees every change.
    async fn watch(&self, target: &Target, watchers: usize) -> Result<Measurement> {
        let (delivered, open) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let path = format!("{NAMESPACE}/configmaps?watch=1&timeoutSeconds=600");
        let tasks: Vec<_> = (0..watchers)
            .map(|_| {
                let client = Arc::clone(&target.client);
                let (delivered, open, path) =
                    (Arc::clone(&delivered), Arc::clone(&open), path.clone());
                tokio::spawn(async move {
                    let mut events = client.watch(Request::get(path)).await?;
                    open.fetch_add(1, Ordering::Relaxed);
                    while let Some(bytes) = events.chunk().await? {
                        delivered.fetch_add(lines(&bytes), Ordering::Relaxed);
                    }
                    Ok::<_, kevel_conformance::Error>(())
                })
            })
            .collect();
        reach(&open, watchers).await?;
        // What is there comes first.
        reach(&delivered, watchers * WATCHED).await?;
        tokio::time::sleep(AFTERMATH).await;

        let (cpu, begun) = (target.cpu_seconds(), Instant::now());
        for update in 0..UPDATES {
            let name = format!("watched-{}", update % WATCHED);
            let request = Request::put(
                format!("{NAMESPACE}/configmaps/{name}"),
                &config_map(&name, update + 1),
            );
            succeed(&target.client, request).await?;
        }
        let events = watchers * UPDATES;
        reach(&delivered, watchers * WATCHED + events).await?;
        let wall = begun.elapsed().as_secs_f64();
        let cpu = target.cpu_seconds() - cpu;
        tasks.iter().for_each(tokio::task::JoinHandle::abort);
        let cost = cpu * 1e6 / events.max(1) as f64;
        let plain = Measurement::plain(self.name, "µs");
        Ok(Measurement { cost, per_second: Some(events as f64 / wall), ..plain })
    }
}

async fn prepare(client: &Client) -> Result<()> {
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "bench"}});
    succeed(client, Request::post("/api/v1/namespaces", &namespace)).await?;
    // Made by a controller elsewhere; where the server makes it by itself, it may be there already.
    let account =
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}});
    client.send(Request::post(format!("{NAMESPACE}/serviceaccounts"), &account)).await?;
    for index in 0..WATCHED {
        let object = config_map(&format!("watched-{index}"), 0);
        succeed(client, Request::post(format!("{NAMESPACE}/configmaps"), &object)).await?;
    }
    Ok(())
}

async fn succeed(client: &Client, request: Request) -> Result<()> {
    let what = format!("{} {}", request.method, request.path);
    let answer = client.send(request).await?;
    match answer.code {
        200..300 => Ok(()),
        code => Err(format!("{what}: {code} {}", String::from_utf8_lossy(&answer.body)).into()),
    }
}

async fn reach(counter: &AtomicUsize, wanted: usize) -> Result<()> {
    let until = Instant::now() + DELIVERY_LIMIT;
    while counter.load(Ordering::Relaxed) < wanted {
        if Instant::now() > until {
            return Err(format!("{} of {wanted} came", counter.load(Ordering::Relaxed)).into());
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    Ok(())
}

fn lines(bytes: &Bytes) -> usize {
    bytes.iter().filter(|byte| **byte == b'\n').count()
}

/// A Pod of about 1.5 KB as people write them; the server's answer has twice that.
fn new_pod(index: usize) -> Value {
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

fn config_map(name: &str, revision: usize) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name},
        "data": {"revision": revision.to_string(), "text": "x".repeat(512)},
    })
}
