//! Servers behind a balancer are restarted one after the other, and clients do not notice.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::SocketAddr;
use std::pin::pin;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::{Stream, StreamExt as _};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kevel_test_support::{Client, PATIENCE, Relay, Replica, Replicas, program, soon, until};
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::runtime::watcher;
use serde_json::json;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader};
use tokio::process::Command;

/// The delay is for the balancer to see that a server is to be left, however busy the machine is.
const FLAGS: &[&str] = &[
    "--shutdown-delay-duration=6s",
    "--shutdown-send-retry-after=true",
    "--shutdown-watch-termination-grace-period=2s",
    "--goaway-chance=0.01",
];
/// Interval of the balancer's health checks.
const LOOK: Duration = Duration::from_millis(50);
const NAMES: [&str; 3] = ["a", "b", "c"];
const WORKERS: usize = 6;
const WATCHERS: usize = 4;

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_rolling_restart_fails_no_request_and_relists_no_watch() {
    let Some(mut cluster) = Rolling::start().await else { return };
    let mut config = cluster.servers[0].config.clone();
    config.default_retry = true;
    config.cluster_url = cluster.url().parse().unwrap();

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
    for _ in NAMES {
        let before = seen.done.load(Ordering::Relaxed);
        cluster.restart_next().await;
        // Meanwhile there was something to do.
        until(async || seen.done.load(Ordering::Relaxed) > before + WORKERS).await;
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
    let started = kevel_clock::monotonic_now();
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
    cluster.stop().await;
}

/// Over HTTP/2, where connections end by GOAWAY. The program is `conformance/clientgo`, which says itself what it has noticed;
/// `conformance rolling` is the same with processes, and with the reference.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn client_go_does_not_notice_a_rolling_restart() {
    let Some(program) = program("client-go-load") else { return };
    let Some(mut cluster) = Rolling::start().await else { return };
    let mut load = Command::new(program)
        .arg(cluster.replicas.folder.path().join("admin.kubeconfig"))
        .arg(cluster.url())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut said = BufReader::new(load.stdout.take().unwrap());
    let mut text = String::new();
    soon(said.read_line(&mut text)).await.unwrap();
    assert_eq!(text, "begun\n");
    for _ in NAMES {
        cluster.restart_next().await;
    }
    // It ends when its input is closed.
    drop(load.stdin.take());
    soon(said.read_to_string(&mut text)).await.unwrap();
    assert!(soon(load.wait()).await.unwrap().success(), "{text}");
    cluster.stop().await;
}

/// Servers behind a balancer.
struct Rolling {
    replicas: Replicas,
    balancer: Balancer,
    /// Running servers, named by [`NAMES`], in the order in which they were started.
    servers: VecDeque<Replica>,
    restarted: usize,
}

impl Rolling {
    /// Starts them all; `None` without an etcd.
    async fn start() -> Option<Self> {
        let replicas = Replicas::new().await?;
        let (balancer, servers) = (Balancer::start().await, VecDeque::new());
        let mut cluster = Rolling { replicas, balancer, servers, restarted: 0 };
        for name in NAMES {
            cluster.start_one(name).await;
        }
        Some(cluster)
    }

    /// URL of the servers for clients.
    fn url(&self) -> String {
        format!("https://127.0.0.1:{}", self.balancer.relay.port)
    }

    /// Starts a server, and waits until the balancer leads to all.
    async fn start_one(&mut self, name: &str) {
        let server = self.replicas.start(name, FLAGS).await;
        self.balancer.add(name, &server);
        self.servers.push_back(server);
        until(async || self.balancer.in_use() == self.servers.len()).await;
    }

    /// Stops the server that has run longest, and starts it again.
    async fn restart_next(&mut self) {
        let name = NAMES[self.restarted % NAMES.len()];
        self.restarted += 1;
        self.servers.pop_front().unwrap().stop().await;
        self.balancer.remove(name);
        self.start_one(name).await;
    }

    async fn stop(self) {
        drop(self.balancer);
        for server in self.servers {
            server.stop().await;
        }
    }
}

/// Events so far.
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
    /// Interruptions of the watcher's connection.
    interruptions: Vec<String>,
}

impl Seen {
    fn interruptions(&self) -> Vec<String> {
        let watched = self.watched.lock().unwrap();
        watched.values().flat_map(|watched| watched.interruptions.clone()).collect()
    }

    /// Number of lists of each watcher.
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
