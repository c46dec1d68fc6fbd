//! Cost of the watch cache: `cargo run --profile dist -p kevel-bench --bin cache [OBJECTS]`.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use kevel_bench::{process_cpu_time, resident};
use kevel_store::Engine;
use kevel_store::cache::{At, Cache, Caches, FieldPath, JsonDecode, KeyOrder, Resource, Selection};
use kevel_store::embedded::{Embedded, Options};

const PREFIX: &str = "/registry/pods/";
const WATCHERS: u64 = 1000;
const EVENTS: u64 = 2000;

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() {
    let objects: usize = std::env::args().nth(1).and_then(|n| n.parse().ok()).unwrap_or(100_000);
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path();
    let stored = fill(path, objects).await;

    let before = resident();
    let (start, cpu) = (Instant::now(), process_cpu_time());
    let engine: Arc<dyn Engine> =
        Arc::new(Embedded::open(path, Options::default()).expect("opens"));
    println!("open                        {:>10.1} ms", ms(start.elapsed()));
    let caches = Caches::start(engine.clone(), "/registry/");
    // A small resource is there long before the large one is.
    let small = caches.add(resource("/registry/configmaps/"));
    let pods = caches.add(resource(PREFIX));
    small.loaded().await.expect("loads");
    println!("another resource answers    {:>10.1} ms", ms(start.elapsed()));
    pods.loaded().await.expect("loads");
    let (wall, cpu) = (ms(start.elapsed()), ms(process_cpu_time() - cpu));
    println!("all {objects} loaded          {wall:>10.1} ms, {cpu:.1} ms CPU");
    let memory = resident().saturating_sub(before);
    println!(
        "memory                      {:>10.2} x of {} MB stored",
        memory as f64 / stored as f64,
        stored / 1_000_000
    );

    let snapshot = pods.snapshot(At::Any).await.expect("a snapshot");
    let mut best = f64::MAX;
    let mut bytes = 0;
    for _ in 0..5 {
        let cpu = kevel_bench::cpu_time();
        bytes = list(&snapshot);
        best = best.min((kevel_bench::cpu_time() - cpu).as_secs_f64());
    }
    println!("list into a sink            {:>10.2} GB/s", bytes as f64 / best / 1e9);
    watchers(&pods, &engine).await;
}

/// Joins a list in pieces of 64 KiB, as the server does.
fn list(snapshot: &kevel_store::cache::Snapshot) -> usize {
    let (mut total, mut piece) = (0, Vec::with_capacity(80 << 10));
    for object in snapshot.range("", None) {
        piece.extend_from_slice(object.wire().expect("readable"));
        piece.push(b',');
        if piece.len() >= 64 << 10 {
            total += std::hint::black_box(&piece).len();
            piece.clear();
        }
    }
    total + piece.len()
}

/// Many watchers of everything: what one delivered event costs before the socket.
async fn watchers(pods: &Arc<Cache>, engine: &Arc<dyn Engine>) {
    let delivered = Arc::new(AtomicU64::new(0));
    let revision = pods.snapshot(At::Consistent).await.expect("a snapshot").revision();
    let form: Arc<str> = "as stored".into();
    let mut tasks = Vec::new();
    for _ in 0..WATCHERS {
        let mut watcher = pods.watch(Selection::default(), revision).await.expect("a watch");
        let (delivered, form) = (delivered.clone(), form.clone());
        tasks.push(tokio::spawn(async move {
            let mut seen = Vec::new();
            while watcher.next(&mut seen).await.is_ok() {
                for delivery in seen.drain(..) {
                    // The frame is written once and shared: what is left is a copy of a handle.
                    let frame = delivery.event.encoded(&form, delivery.change, || {
                        let object = delivery.event.object(delivery.change).expect("an object");
                        object.wire().expect("readable").clone()
                    });
                    std::hint::black_box(frame);
                    delivered.fetch_add(1, Relaxed);
                }
            }
        }));
    }
    for paced in [false, true] {
        delivered.store(0, Relaxed);
        // What the writes cost without watchers is measured apart, on another resource.
        let base = writes(engine, "/registry/other/", paced).await;
        let cpu = writes_until(engine, paced, &delivered).await;
        let each = cpu.saturating_sub(base).as_secs_f64() * 1e6 / (WATCHERS * EVENTS) as f64;
        let name = if paced { "one at a time" } else { "as fast as written" };
        println!("watch, {WATCHERS} watchers, {name:18} {each:>7.3} µs CPU per delivered event");
    }
    tasks.iter().for_each(|task| task.abort());
}

async fn writes_until(engine: &Arc<dyn Engine>, paced: bool, delivered: &AtomicU64) -> Duration {
    let cpu = process_cpu_time();
    let prefix = format!("{PREFIX}watched-{paced}/");
    write(engine, &prefix, paced, Some(delivered)).await;
    while delivered.load(Relaxed) < WATCHERS * EVENTS {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    process_cpu_time() - cpu
}

async fn writes(engine: &Arc<dyn Engine>, prefix: &str, paced: bool) -> Duration {
    let cpu = process_cpu_time();
    write(engine, &format!("{prefix}{paced}/"), paced, None).await;
    process_cpu_time() - cpu
}

async fn write(engine: &Arc<dyn Engine>, prefix: &str, paced: bool, heard: Option<&AtomicU64>) {
    let create = |i: u64| {
        let (engine, key) = (engine.clone(), format!("{prefix}p{i}"));
        async move {
            engine.create(key.as_bytes(), pod(i as usize).into(), None).await.expect("created")
        }
    };
    if paced {
        for i in 0..EVENTS {
            create(i).await;
            while heard.is_some_and(|heard| heard.load(Relaxed) < (i + 1) * WATCHERS) {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        }
        return;
    }
    let all: Vec<_> = (0..EVENTS).map(|i| tokio::spawn(create(i))).collect();
    for one in all {
        one.await.expect("written");
    }
}

async fn fill(path: &std::path::Path, objects: usize) -> usize {
    let engine = Arc::new(Embedded::open(path, Options::default()).expect("opens"));
    let mut stored = 0;
    for batch in (0..objects).collect::<Vec<_>>().chunks(1000) {
        let writes: Vec<_> = batch
            .iter()
            .map(|i| {
                let (engine, key) = (engine.clone(), format!("{PREFIX}ns/p{i:06}"));
                let value = pod(*i);
                stored += value.len();
                tokio::spawn(async move { engine.create(key.as_bytes(), value.into(), None).await })
            })
            .collect();
        for write in writes {
            write.await.expect("ran").expect("created");
        }
    }
    engine.close().await;
    stored
}

fn resource(prefix: &str) -> Resource {
    let fields = ["spec.nodeName", "status.phase"].map(|field| FieldPath::new(field, field));
    let decode = Arc::new(JsonDecode { order: KeyOrder::Struct });
    Resource { prefix: prefix.to_owned(), decode, fields: fields.into(), indexed: vec![0] }
}

/// A Pod of about 2 KiB.
fn pod(i: usize) -> String {
    include_str!("../pod.json").trim_end().replace("web-7c5ddbdf54-x2x7k", &format!("web-{i}"))
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}
