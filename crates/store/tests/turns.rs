//! The watch cache's tasks: loading, applying and encoding many or large objects must not block a worker of the
//! runtime.

#![allow(clippy::unwrap_used)]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use kevel_store::cache::{Caches, Decode, JsonDecode, KeyOrder, Resource, Wire};
use kevel_store::embedded::{Embedded, Options};
use kevel_store::{Engine, Revision};
use kevel_test_support::until;

const PREFIX: &str = "/registry/maps/";
/// Number of objects, and the time that decoding one takes: half a second together.
const OBJECTS: usize = 100;
const COST: Duration = Duration::from_millis(5);
/// Maximum pause of another task. The machine may be busy; without yielding it is half a second.
const LONGEST: Duration = Duration::from_millis(200);

/// Decoder that is slow, as for objects with a megabyte of fields.
struct Expensive(JsonDecode);

impl Decode for Expensive {
    fn decode(&self, stored: &Bytes, revision: Revision) -> Result<Wire, String> {
        let end = kevel_clock::monotonic_now() + COST;
        while kevel_clock::monotonic_now() < end {
            kevel_compute::charge(10);
        }
        self.0.decode(stored, revision)
    }
}

fn expensive() -> Resource {
    Resource {
        prefix: PREFIX.to_owned(),
        decode: Arc::new(Expensive(JsonDecode { order: KeyOrder::Struct })),
        fields: Arc::new([]),
        indexed: Vec::new(),
    }
}

async fn write_all(engine: &Embedded) {
    for number in 0..OBJECTS {
        let value = format!(r#"{{"metadata":{{"name":"m{number}"}}}}"#);
        engine.create(format!("{PREFIX}m{number}").as_bytes(), value.into(), None).await.unwrap();
    }
}

/// Longest pause of a task that runs every millisecond, on a runtime with one worker, during `work`.
fn longest_pause(work: impl Future<Output = ()>) -> Duration {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    let runtime = builder.worker_threads(1).enable_all().build().unwrap();
    let longest = Arc::new(AtomicU64::new(0));
    let noted = longest.clone();
    runtime.block_on(async move {
        let heartbeat = tokio::spawn(async move {
            let mut last = kevel_clock::monotonic_now();
            loop {
                tokio::time::sleep(Duration::from_millis(1)).await;
                let pause = u64::try_from(last.elapsed().as_millis()).unwrap();
                noted.fetch_max(pause, Ordering::Relaxed);
                last = kevel_clock::monotonic_now();
            }
        });
        work.await;
        // A pause is measured when it is over.
        tokio::time::sleep(Duration::from_millis(20)).await;
        heartbeat.abort();
    });
    Duration::from_millis(longest.load(Ordering::Relaxed))
}

#[test]
fn loading_of_cache_leaves_worker_to_others() {
    let pause = longest_pause(async {
        let engine = Arc::new(Embedded::memory(Options::default()).unwrap());
        write_all(&engine).await;
        let caches = Caches::start(engine, "/registry/");
        let cache = caches.add(expensive());
        cache.loaded().await.unwrap();
        assert_eq!(cache.latest().len(), OBJECTS);
    });
    assert!(pause < LONGEST, "{pause:?}");
}

#[test]
fn events_of_watch_cache_leave_worker_to_others() {
    let pause = longest_pause(async {
        let engine = Arc::new(Embedded::memory(Options::default()).unwrap());
        let caches = Caches::start(engine.clone(), "/registry/");
        let cache = caches.add(expensive());
        cache.loaded().await.unwrap();
        write_all(&engine).await;
        until(async || cache.latest().len() == OBJECTS).await;
    });
    assert!(pause < LONGEST, "{pause:?}");
}
