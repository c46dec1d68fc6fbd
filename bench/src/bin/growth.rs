//! Cost of small requests on a store of many Pods: `cargo run --release -p kevel-bench --bin growth [-- PODS...]`.
//!
//! Requests go through the endpoints of the built-in kinds, without a socket and without the handler chain; figures
//! are CPU time of the process.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::BodyExt as _;
use kevel_auth::authorization::{NodeAuthorizer, NodeFeatures};
use kevel_bench::{Outcome, process_cpu_time};
use kevel_component::signals::Signal;
use kevel_controlplane::{RowsConfig, StorageOptions, rows, storages};
use kevel_registry::admission::Admission;
use kevel_registry::backends::{Backend, Backends};
use kevel_registry::resource::Resources;
use kevel_registry::storage::{Format, Storage};
use kevel_registry::storages::Storages;
use kevel_registry::user::User;
use kevel_server::authorization::{AlwaysAllow, Attributes, Decision};
use kevel_server::delegate::Delegate;
use kevel_server::endpoints::{Endpoints, MIN_REQUEST_TIMEOUT};
use kevel_server::handler::Handler as _;
use kevel_server::lifecycle::Tasks;
use kevel_server::request::{Request, RequestBody};
use kevel_server::request_info::RequestInfo;
use kevel_store::Engine;
use kevel_store::cache::{At, Selection};
use kevel_store::embedded::{Embedded, Options};

/// Pods of one application, of one team and of one node.
const OF_APP: usize = 100;
const OF_TEAM: usize = 600;
const OF_NODE: usize = 100;
/// Namespaces that the Pods are in.
const NAMESPACES: usize = 10;
const PAGE: usize = 500;
const WRITES: usize = 2000;

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() -> Outcome<()> {
    let sizes: Vec<usize> = std::env::args().skip(1).filter_map(|n| n.parse().ok()).collect();
    let sizes = if sizes.is_empty() { vec![5_000, 30_000, 100_000] } else { sizes };
    for pods in sizes {
        println!("\n{pods} Pods");
        let directory = tempfile::tempdir().map_err(|error| error.to_string())?;
        fill(directory.path(), pods).await?;
        measure(directory.path(), pods).await?;
    }
    Ok(())
}

fn row(what: &str, unit: &str, figure: f64) {
    println!("{what:44} {figure:>10.2} {unit}");
}

/// CPU time of the process, after what still runs has ended.
async fn cpu() -> Duration {
    let mut last = process_cpu_time();
    loop {
        tokio::time::sleep(Duration::from_millis(20)).await;
        let now = process_cpu_time();
        if now - last < Duration::from_micros(500) {
            return now;
        }
        last = now;
    }
}

struct BenchServer {
    delegate: Delegate,
    storages: Storages,
    _backends: Backends,
}

impl BenchServer {
    fn open(path: &Path) -> Outcome<Self> {
        let engine = Embedded::open(path, Options::default()).map_err(|error| error.to_string())?;
        let engine: Arc<dyn Engine> = Arc::new(engine);
        let backends = Backends::new(Backend::new(engine, "/registry/"));
        let options = StorageOptions::new(Format::Json);
        let storages = storages(|row| row.on, &options, &backends)?;
        let resources = Resources::default();
        resources.install(rows(|row| row.on, &RowsConfig::new(&storages))?);
        let endpoints = Endpoints {
            admission: Admission::new(Vec::new()),
            authorizer: Some(Arc::new(AlwaysAllow)),
            min_request_timeout: MIN_REQUEST_TIMEOUT,
            connecters: Default::default(),
            features: Default::default(),
            shard_selectors: None,
        };
        let delegate = Delegate {
            name: "kube",
            resources: Arc::new(resources),
            owns_groups: true,
            endpoints: Arc::new(endpoints),
            paths: Vec::new(),
            next: None,
        };
        Ok(BenchServer { delegate, storages, _backends: backends })
    }

    fn pods(&self) -> Outcome<Arc<Storage>> {
        Ok(self.storages.required("", "pods")?)
    }

    /// Sends a request. Returns whether it succeeded, and the pieces of the answer.
    async fn send(&self, uri: &str) -> Outcome<(bool, Vec<Bytes>)> {
        let request = http::Request::builder().uri(uri).body(());
        let parts = request.map_err(|error| error.to_string())?.into_parts().0;
        let request = Request::new(parts, RequestBody::Bytes(Bytes::new()), Arc::default());
        let response = self.delegate.handle(request.ok_or("not a request")?).await;
        let succeeded = response.status().is_success();
        let (mut body, mut pieces) = (response.into_body(), Vec::new());
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|error| error.to_string())?;
            pieces.extend(frame.into_data().ok());
        }
        Ok((succeeded, pieces))
    }

    /// CPU time of one of several equal requests, in milliseconds.
    async fn cost(&self, uri: &str, times: usize, items: usize) -> Outcome<f64> {
        let mut all = Duration::ZERO;
        for _ in 0..times {
            let start = process_cpu_time();
            let answer = self.send(uri).await?;
            all += process_cpu_time() - start;
            let found = count(&body(answer)?);
            if found != items {
                return Err(format!("{uri}: {found} items, not {items}").into());
            }
        }
        Ok(ms(all) / times as f64)
    }
}

fn body((succeeded, pieces): (bool, Vec<Bytes>)) -> Outcome<Vec<u8>> {
    let body = pieces.concat();
    match succeeded {
        true => Ok(body),
        false => Err(String::from_utf8_lossy(&body).into_owned().into()),
    }
}

fn count(body: &[u8]) -> usize {
    let needle = br#""generateName""#;
    // Only managed fields name it besides.
    body.windows(needle.len()).filter(|window| *window == needle).count()
}

async fn measure(path: &Path, pods: usize) -> Outcome<()> {
    let start = cpu().await;
    let server = BenchServer::open(path)?;
    let pods_storage = server.pods()?;
    let cache = &pods_storage.cache;
    cache.loaded().await.map_err(|error| error.to_string())?;
    row("restart, load", "µs an object", us(cpu().await - start) / pods as f64);
    follow(&server, pods).await?;
    selections(&server, pods).await?;
    pages(&server, pods).await?;
    gets(&server, pods).await?;
    writes(&server, pods).await
}

async fn follow(server: &BenchServer, pods: usize) -> Outcome<()> {
    let node = Arc::new(NodeAuthorizer::new(NodeFeatures::default()));
    let start = cpu().await;
    node.follow(&server.storages, &Tasks::new(Signal::new("stop")));
    let last = pods - 1;
    let user = User {
        name: format!("system:node:{}", node_of(last)),
        groups: vec!["system:nodes".into()],
        ..User::default()
    };
    let uri = format!("/api/v1/namespaces/{}/pods/{}", namespace_of(last), name_of(last));
    let uri = uri.parse().map_err(|error| format!("{uri}: {error}"))?;
    let info = RequestInfo::new(&http::Method::GET, &uri).ok_or("it is a resource")?;
    while node.decide(&Attributes::of(&info, &user)).decision != Decision::Allow {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    row("restart, node authorizer", "µs an object", us(cpu().await - start) / pods as f64);
    Ok(())
}

async fn selections(server: &BenchServer, pods: usize) -> Outcome<()> {
    let of_node = OF_NODE.min(pods);
    for (what, selector, items) in [
        ("list of a node's Pods", "fieldSelector=spec.nodeName%3Dnode-1", of_node),
        ("list by a label, 100", "labelSelector=app%3Dapp-1", OF_APP),
        ("list by a label, 600", "labelSelector=team%3Dteam-1", OF_TEAM),
        ("list by a label, none", "labelSelector=app%3Dno", 0),
    ] {
        let uri = format!("/api/v1/pods?{selector}");
        row(&format!("{what}: first"), "ms", server.cost(&uri, 1, items).await?);
        row(&format!("{what}: second"), "ms", server.cost(&uri, 1, items).await?);
        cpu().await;
        row(&format!("{what}: then"), "ms", server.cost(&uri, 20, items).await?);
    }
    let uri = format!("/api/v1/pods?labelSelector=team%3Dteam-1&limit={OF_APP}");
    row("page of 100 of a label's 600", "ms", server.cost(&uri, 20, OF_APP).await?);
    Ok(())
}

async fn pages(server: &BenchServer, pods: usize) -> Outcome<()> {
    let first = format!("/api/v1/pods?limit={PAGE}");
    row("page of 500, the first", "ms", server.cost(&first, 20, PAGE).await?);
    let (mut uri, mut read, mut middle) = (first.clone(), 0, first.clone());
    let mut all = Duration::ZERO;
    loop {
        let start = process_cpu_time();
        let answer = server.send(&uri).await?;
        all += process_cpu_time() - start;
        let body = body(answer)?;
        read += PAGE;
        let Some(token) = token(&body) else { break };
        uri = format!("{first}&continue={token}");
        if read * 2 <= pods {
            middle.clone_from(&uri);
        }
    }
    row("all pages of 500", "ms", ms(all));
    row("page of 500, in the middle", "ms", server.cost(&middle, 20, PAGE).await?);
    Ok(())
}

fn token(body: &[u8]) -> Option<String> {
    let head = String::from_utf8_lossy(body.get(..1000.min(body.len()))?).into_owned();
    let (_, rest) = head.split_once(r#""continue":""#)?;
    rest.split_once('"').map(|(token, _)| token.to_owned())
}

async fn gets(server: &BenchServer, pods: usize) -> Outcome<()> {
    const GETS: usize = 20_000;
    let uris: Vec<String> = (0..GETS)
        .map(|i| {
            let pod = i * 7919 % pods;
            format!("/api/v1/namespaces/{}/pods/{}", namespace_of(pod), name_of(pod))
        })
        .collect();
    let pods_storage = server.pods()?;
    let cache = &pods_storage.cache;
    let start = process_cpu_time();
    for uri in &uris {
        server.send(uri).await?;
    }
    row("get", "µs", us(process_cpu_time() - start) / GETS as f64);
    let keys: Vec<&str> = uris.iter().map(|uri| &uri["/api/v1/namespaces/".len()..]).collect();
    let keys: Vec<String> = keys.iter().map(|key| key.replace("/pods/", "/")).collect();
    let start = process_cpu_time();
    for key in &keys {
        cache.latest().get(key).ok_or_else(|| key.clone())?;
    }
    row("get, in the snapshot", "µs", us(process_cpu_time() - start) / GETS as f64);
    Ok(())
}

/// Updates of Pods in the store, without the request: what caches and followers pay.
async fn writes(server: &BenchServer, pods: usize) -> Outcome<()> {
    let storage = server.pods()?;
    update(&storage, pods, 0).await?;
    row("an update of the store", "µs", update(&storage, pods, 1).await?);
    let fields = "spec.nodeName=node-1".parse().map_err(|error| format!("{error}"))?;
    let paths = storage.fields.clone();
    let selection = Selection { fields, paths, ..Selection::default() };
    let watch = storage.cache.list_watch(selection, At::Any).await;
    let (_, _watcher) = watch.map_err(|error| error.to_string())?;
    row("and beside a watch of a node's Pods", "µs", update(&storage, pods, 2).await?);
    Ok(())
}

async fn update(storage: &Arc<Storage>, pods: usize, round: usize) -> Outcome<f64> {
    let mut tasks = Vec::new();
    let snapshot = storage.cache.latest();
    let start = cpu().await;
    for i in 0..WRITES {
        let number = i * 7919 % pods;
        let (storage, snapshot) = (storage.clone(), snapshot.clone());
        tasks.push(tokio::spawn(async move {
            let (namespace, name) = (namespace_of(number), name_of(number));
            let old = snapshot.get(&format!("{namespace}/{name}"));
            let old = old.ok_or("no such Pod")?.revision();
            let value = pod(number)
                .replace(r#""restartCount":0"#, &format!(r#""restartCount":{}"#, round + 1));
            let key = storage.key(&namespace, &name);
            let written = storage.engine.update(&key, value.into(), old, None).await;
            written.map(drop).map_err(|error| error.to_string())
        }));
        if tasks.len() == 64 {
            for task in tasks.drain(..) {
                task.await.map_err(|error| error.to_string())??;
            }
        }
    }
    for task in tasks {
        task.await.map_err(|error| error.to_string())??;
    }
    storage.cache.snapshot(At::Consistent).await.map_err(|error| error.to_string())?;
    Ok(us(cpu().await - start) / WRITES as f64)
}

async fn fill(path: &Path, pods: usize) -> Outcome<()> {
    let server = BenchServer::open(path)?;
    let storage = server.pods()?.clone();
    for batch in (0..pods).collect::<Vec<_>>().chunks(1000) {
        let mut writes = Vec::new();
        for number in batch.iter().copied() {
            let storage = storage.clone();
            writes.push(tokio::spawn(async move {
                let key = storage.key(&namespace_of(number), &name_of(number));
                storage.engine.create(&key, pod(number).into(), None).await
            }));
        }
        for write in writes {
            let written = write.await.map_err(|error| error.to_string())?;
            written.map_err(|error| error.to_string())?;
        }
    }
    storage.cache.snapshot(At::Consistent).await.map_err(|error| error.to_string())?;
    storage.engine.close().await;
    Ok(())
}

fn namespace_of(pod: usize) -> String {
    format!("ns-{}", pod % NAMESPACES)
}

fn name_of(pod: usize) -> String {
    format!("web-7c5ddbdf54-{pod:06}")
}

fn node_of(pod: usize) -> String {
    format!("node-{}", pod / OF_NODE)
}

/// A Pod as it is stored.
fn pod(number: usize) -> String {
    let uid = format!("0f6c3f0e-8f2b-4a39-9a57-{number:012}");
    let text = include_str!("../stored-pod.json").trim_end();
    [
        ("%NAME%", name_of(number)),
        ("%NAMESPACE%", namespace_of(number)),
        ("%UID%", uid),
        ("%APP%", format!("app-{}", number / OF_APP)),
        ("%TEAM%", format!("team-{}", number / OF_TEAM)),
        ("%NODE%", node_of(number)),
    ]
    .into_iter()
    .fold(text.to_owned(), |text, (place, value)| text.replace(place, &value))
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

fn us(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}
