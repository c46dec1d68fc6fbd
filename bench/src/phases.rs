//! Phases of load that servers are compared by.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use kevel_conformance::Result;
use kevel_conformance::client::{Client, Request};
use serde_json::{Value, json};

use crate::load::{AFTERMATH, Measurement, NAMESPACE, Target, new_pod, prepare, requests, succeed};

/// Concurrent requests, and concurrent lists.
const CLIENTS: usize = 32;
const LIST_CLIENTS: usize = 4;
/// Number of updates of one watched object.
const UPDATES: usize = 200;
const WATCHED: usize = 20;
/// Timeout for the last event of a watch.
const DELIVERY_LIMIT: Duration = Duration::from_secs(60);
/// Leases that are renewed in turn.
const LEASES: usize = 100;
const LEASE_PATH: &str = "/apis/coordination.k8s.io/v1/namespaces/bench/leases";

/// Size of the load.
#[derive(Clone, Copy, Debug)]
pub struct Sizes {
    /// Number of pods that are created.
    pub pods: usize,
    /// Number of clients that watch.
    pub watchers: usize,
    /// Number of times that each measurement is taken.
    pub rounds: usize,
}

/// A phase: so many requests, each made of its number; or the watch.
pub struct Phase {
    /// Name of the measurement.
    pub name: &'static str,
    work: Work,
}

enum Work {
    Prepare,
    Requests { count: usize, clients: usize, request: Box<dyn Fn(usize) -> Request + Send + Sync> },
    Watch { watchers: usize },
    Rest(&'static str),
}

impl std::fmt::Debug for Phase {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Phase").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Phase {
    /// All phases, in order: later ones need what earlier ones made.
    pub fn all(sizes: Sizes) -> Vec<Phase> {
        let pods = sizes.pods.max(1);
        let pod = |index: usize| format!("{NAMESPACE}/pods/pod-{index:06}");
        let requests =
            |name, count: usize, clients, request: Box<dyn Fn(usize) -> Request + Send + Sync>| {
                Phase { name, work: Work::Requests { count: count.max(1), clients, request } }
            };
        let list = |name, count, path: &'static str| {
            requests(name, count, LIST_CLIENTS, Box::new(move |_| Request::get(path)))
        };
        vec![
            Phase { name: "memory, idle", work: Work::Rest("VmRSS") },
            Phase { name: "prepare", work: Work::Prepare },
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
            requests(
                "Lease update",
                pods,
                CLIENTS,
                Box::new(|index| {
                    let name = format!("lease-{}", index % LEASES);
                    let path = format!("{LEASE_PATH}/{name}");
                    Request::patch(path, "merge-patch+json", &lease(&name, index))
                }),
            ),
            list("list all, cached", 40, "/api/v1/pods?resourceVersion=0"),
            list("list all, consistent", 20, "/api/v1/pods"),
            list("list by label", 400, "/api/v1/namespaces/bench/pods?labelSelector=app%3Dapp-7"),
            list("list page of 500", 100, "/api/v1/pods?limit=500"),
            Phase { name: "memory, full", work: Work::Rest("VmRSS") },
            Phase { name: "watch, per event", work: Work::Watch { watchers: sizes.watchers } },
            requests("delete", pods, CLIENTS, Box::new(move |index| Request::delete(pod(index)))),
            Phase { name: "memory, highest", work: Work::Rest("VmHWM") },
        ]
    }

    /// Puts the load on a server.
    pub async fn run(&self, target: &Target) -> Result<Measurement> {
        match &self.work {
            Work::Rest(line) => {
                let plain = Measurement::plain(self.name, "MiB");
                Ok(Measurement { cost: target.memory_mib(line), ..plain })
            }
            Work::Prepare => {
                prepare(&target.client).await?;
                watched(&target.client).await?;
                leases(&target.client).await.map(|()| Measurement::plain(self.name, ""))
            }
            Work::Requests { count, clients, request } => {
                requests(target, self.name, *count, *clients, request.as_ref()).await
            }
            Work::Watch { watchers } => self.watch(target, *watchers).await,
        }
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

async fn watched(client: &Client) -> Result<()> {
    for index in 0..WATCHED {
        let object = config_map(&format!("watched-{index}"), 0);
        succeed(client, Request::post(format!("{NAMESPACE}/configmaps"), &object)).await?;
    }
    Ok(())
}

async fn leases(client: &Client) -> Result<()> {
    for index in 0..LEASES {
        let lease = lease(&format!("lease-{index}"), 0);
        succeed(client, Request::post(LEASE_PATH, &lease)).await?;
    }
    Ok(())
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

/// A Lease as a kubelet renews it.
fn lease(name: &str, renewal: usize) -> Value {
    let (minute, second) = (renewal / 60 % 60, renewal % 60);
    json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": name},
        "spec": {
            "holderIdentity": name, "leaseDurationSeconds": 40,
            "renewTime": format!("2026-01-01T00:{minute:02}:{second:02}.000000Z"),
        },
    })
}

fn config_map(name: &str, revision: usize) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name},
        "data": {"revision": revision.to_string(), "text": "x".repeat(512)},
    })
}
