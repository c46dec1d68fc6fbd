//! Servers behind a balancer are restarted one after the other, and clients do not notice.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use futures_util::{Stream, StreamExt as _};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kevel_test_support::{Client, PATIENCE, Replica, Replicas, until};
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::runtime::watcher;
use serde_json::json;

use crate::relay::Relay;

/// The delay is for the balancer to see that a server is to be left, however busy the machine is.
const FLAGS: &[&str] = &[
    "--shutdown-delay-duration=3s",
    "--shutdown-send-retry-after=true",
    "--shutdown-watch-termination-grace-period=2s",
    "--goaway-chance=0.01",
];
/// How often the balancer looks.
const LOOK: Duration = Duration::from_millis(50);
const WORKERS: usize = 6;
const WATCHERS: usize = 4;

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_rolling_restart_fails_no_request_and_no_watch_begins_anew() {
    let Some(replicas) = Replicas::new().await else { return };
    let names = ["a", "b", "c"];
    let mut servers: Vec<Replica> = Vec::new();
    for name in names {
        servers.push(replicas.start(name, FLAGS).await);
    }
    let balancer = Balancer::start().await;
    for (name, server) in names.iter().zip(&servers) {
        balancer.add(name, server);
    }
    let mut config = servers[0].config.clone();
    config.default_retry = true;
    config.cluster_url = format!("https://127.0.0.1:{}", balancer.relay.port).parse().unwrap();
    until(async || balancer.in_use() == names.len()).await;

    let seen = Arc::new(Seen::default());
    // Clients of their own: connections of their own.
    let api = || Api::default_namespaced(kube::Client::try_from(config.clone()).unwrap());
    let watchers: Vec<_> = (0..WATCHERS)
        .map(|number| tokio::spawn(watch(watcher(api(), Default::default()), number, seen.clone())))
        .collect();
    // Of which nothing is heard all the time: what its watcher has heard last is old.
    let quiet = Arc::new(Seen::default());
    let secrets: Api<Secret> =
        Api::default_namespaced(kube::Client::try_from(config.clone()).unwrap());
    let secret = |name: &str| Secret {
        metadata: ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() },
        ..Secret::default()
    };
    secrets.create(&PostParams::default(), &secret("first")).await.unwrap();
    let of_secrets =
        tokio::spawn(watch(watcher(secrets.clone(), Default::default()), 0, quiet.clone()));
    until(async || quiet.lists() == [1]).await;
    let workers: Vec<_> =
        (0..WORKERS).map(|number| tokio::spawn(work(api(), number, seen.clone()))).collect();
    for (name, server) in names.iter().zip(std::mem::take(&mut servers)) {
        let before = seen.done.load(Ordering::Relaxed);
        server.stop().await;
        balancer.remove(name);
        let server = replicas.start(name, FLAGS).await;
        balancer.add(name, &server);
        until(async || balancer.in_use() == names.len()).await;
        // Meanwhile there was something to do.
        until(async || seen.done.load(Ordering::Relaxed) > before + WORKERS).await;
        servers.push(server);
    }
    seen.over.store(true, Ordering::Relaxed);
    for worker in workers {
        worker.await.unwrap();
    }
    println!("{} requests, {:?}", seen.done.load(Ordering::Relaxed), seen.interruptions());
    assert_eq!(*seen.failures.lock().unwrap(), Vec::<String>::new());
    // Every watcher has heard of everything, and has listed once.
    let made = seen.made.lock().unwrap().clone();
    assert!(made.len() >= WORKERS);
    let missed = || -> Vec<usize> {
        let watched = seen.watched.lock().unwrap();
        watched.values().map(|watched| made.difference(&watched.names).count()).collect()
    };
    let started = Instant::now();
    while missed() != [0; WATCHERS] {
        let lists = seen.lists();
        assert!(
            started.elapsed() < PATIENCE,
            "{:?} {lists:?} {:?}",
            missed(),
            seen.interruptions()
        );
        tokio::time::sleep(LOOK).await;
    }
    assert_eq!(seen.lists(), [1; WATCHERS], "{:?}", seen.interruptions());
    secrets.create(&PostParams::default(), &secret("last")).await.unwrap();
    until(async || quiet.watched.lock().unwrap()[&0].names.contains("last")).await;
    assert_eq!(quiet.lists(), [1], "{:?}", quiet.interruptions());
    watchers.iter().chain([&of_secrets]).for_each(|watcher| watcher.abort());
    drop(balancer);
    for server in servers {
        server.stop().await;
    }
}

/// What has happened so far.
#[derive(Default)]
struct Seen {
    over: AtomicBool,
    done: AtomicUsize,
    failures: Mutex<Vec<String>>,
    made: Mutex<BTreeSet<String>>,
    watched: Mutex<BTreeMap<usize, Watched>>,
}

#[derive(Default)]
struct Watched {
    lists: usize,
    names: BTreeSet<String>,
    /// What the watcher has said of its connection before it went on.
    interruptions: Vec<String>,
}

impl Seen {
    fn interruptions(&self) -> Vec<String> {
        let watched = self.watched.lock().unwrap();
        watched.values().flat_map(|watched| watched.interruptions.clone()).collect()
    }

    /// How often each watcher has listed.
    fn lists(&self) -> Vec<usize> {
        self.watched.lock().unwrap().values().map(|watched| watched.lists).collect()
    }

    fn note<T>(&self, what: &str, result: kube::Result<T>) -> Option<T> {
        self.done.fetch_add(1, Ordering::Relaxed);
        let failed = |error| self.failures.lock().unwrap().push(format!("{what}: {error:?}"));
        result.map_err(failed).ok()
    }
}

async fn work(api: Api<ConfigMap>, worker: usize, seen: Arc<Seen>) {
    let mut number = 0;
    while !seen.over.load(Ordering::Relaxed) {
        number += 1;
        let name = format!("map-{worker}-{number}");
        let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}});
        let map: ConfigMap = serde_json::from_value(map).unwrap();
        if seen.note("create", api.create(&PostParams::default(), &map).await).is_some() {
            seen.made.lock().unwrap().insert(name.clone());
        }
        seen.note("get", api.get(&name).await);
        let patch = Patch::Merge(json!({"data": {"a": "b"}}));
        seen.note("patch", api.patch(&name, &PatchParams::default(), &patch).await);
        seen.note("list", api.list(&ListParams::default().limit(10)).await);
        seen.note("delete", api.delete(&name, &DeleteParams::default()).await);
    }
}

async fn watch<K: kube::Resource>(
    events: impl Stream<Item = watcher::Result<watcher::Event<K>>>,
    number: usize,
    seen: Arc<Seen>,
) {
    let mut events = pin!(events);
    while let Some(event) = events.next().await {
        let mut watched = seen.watched.lock().unwrap();
        let watched = watched.entry(number).or_default();
        match event {
            Ok(watcher::Event::Init) => watched.lists += 1,
            Ok(watcher::Event::InitDone) => {}
            Ok(watcher::Event::InitApply(map) | watcher::Event::Apply(map)) => {
                watched.names.extend(map.meta().name.clone());
            }
            Ok(watcher::Event::Delete(_)) => {}
            Err(error) => watched.interruptions.push(format!("{error:?}")),
        }
    }
}

/// A TCP proxy that leads to the servers that are ready.
struct Balancer {
    relay: Arc<Relay>,
    backends: Backends,
    looking: tokio::task::JoinHandle<()>,
    ready: Arc<AtomicUsize>,
}

type Backends = Arc<Mutex<BTreeMap<String, (SocketAddr, Client)>>>;

impl Balancer {
    async fn start() -> Self {
        let relay = Arc::new(Relay::start().await);
        let (backends, ready) = (Backends::default(), Arc::new(AtomicUsize::new(0)));
        let looking = tokio::spawn({
            let (relay, backends, ready) = (relay.clone(), backends.clone(), ready.clone());
            async move {
                loop {
                    let all: Vec<_> = backends.lock().unwrap().values().cloned().collect();
                    let mut green = Vec::new();
                    for (address, client) in all {
                        if is_ready(&client).await {
                            green.push(address);
                        }
                    }
                    ready.store(green.len(), Ordering::Relaxed);
                    relay.lead_to(green);
                    tokio::time::sleep(LOOK).await;
                }
            }
        });
        Balancer { relay, backends, looking, ready }
    }

    fn add(&self, name: &str, server: &Replica) {
        let backend = (server.server.address, server.admin.clone());
        self.backends.lock().unwrap().insert(name.to_owned(), backend);
    }

    fn remove(&self, name: &str) {
        self.backends.lock().unwrap().remove(name);
    }

    fn in_use(&self) -> usize {
        self.ready.load(Ordering::Relaxed)
    }
}

impl Drop for Balancer {
    fn drop(&mut self) {
        self.looking.abort();
    }
}

/// Whether a server wants to be used.
async fn is_ready(client: &Client) -> bool {
    let request = http::Request::get("/readyz").body(kube::client::Body::empty()).unwrap();
    let answer = client.0.send(request).await;
    answer.is_ok_and(|answer| answer.status() == 200)
}
