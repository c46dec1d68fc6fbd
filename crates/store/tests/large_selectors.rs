//! Watches with selectors as large as a request allows, and their cost to other watches.

#![allow(clippy::unwrap_used)]

use std::sync::Arc;
use std::time::Duration;

use kevel_api::selector::label::LabelSelector;
use kevel_store::Engine;
use kevel_store::cache::{Cache, Caches, FieldPath, JsonDecode, KeyOrder, Resource, Selection};
use kevel_store::embedded::{Embedded, Options};
use kevel_test_support::soon;

const PREFIX: &str = "/registry/pods/";
const WATCHES: usize = 400;
/// Fewer, since a debug build takes long to parse so many.
const DIFFERENT: usize = 50;
const WRITES: usize = 40;
/// At least ten times the time of a debug build. Evaluating each requirement of each selector takes far longer.
const LIMIT: Duration = Duration::from_secs(30);

/// 57 KB of requirements that match.
fn selector(salt: usize) -> LabelSelector {
    let requirements = (0..5700).map(|i| format!("!k{i}-{salt:03}"));
    requirements.collect::<Vec<_>>().join(",").parse().unwrap()
}

fn pods(engine: &Arc<Embedded>) -> (Caches, Arc<Cache>) {
    let caches = Caches::start(engine.clone(), "/registry/");
    let cache = caches.add(Resource {
        prefix: PREFIX.to_owned(),
        decode: Arc::new(JsonDecode { order: KeyOrder::Struct }),
        fields: Arc::new([]),
        indexed: Vec::new(),
    });
    (caches, cache)
}

async fn write(engine: &Embedded, namespace: &str, number: usize) {
    let labels = (0..20).map(|i| format!(r#""label{i}":"v{number}""#)).collect::<Vec<_>>();
    let labels = labels.join(",");
    let value = format!(
        r#"{{"metadata":{{"name":"p{number}","namespace":"{namespace}","labels":{{{labels}}}}}}}"#
    );
    let key = format!("{PREFIX}{namespace}/p{number}");
    engine.create(key.as_bytes(), value.into(), None).await.unwrap();
}

/// Time until all watches have received all writes.
async fn watched(selectors: Vec<LabelSelector>) -> Duration {
    let engine = Arc::new(Embedded::memory(Options::default()).unwrap());
    let (_caches, cache) = pods(&engine);
    cache.loaded().await.unwrap();
    let paths = Arc::<[FieldPath]>::default();
    let from = cache.latest().revision();
    let mut watches = Vec::new();
    for labels in selectors {
        let (prefix, paths) = ("ns/".to_owned(), paths.clone());
        let selection = Selection { prefix, labels, paths, ..Selection::default() };
        let mut watcher = cache.watch(selection, from).await.unwrap();
        watches.push(tokio::spawn(async move {
            let mut seen = Vec::new();
            while seen.len() < WRITES {
                soon(watcher.next(&mut seen)).await.unwrap();
            }
            seen.len()
        }));
    }
    let started = kevel_clock::monotonic_now();
    for number in 0..WRITES {
        write(&engine, "ns", number).await;
        write(&engine, "other", number).await;
    }
    for watch in watches {
        assert_eq!(watch.await.unwrap(), WRITES);
    }
    started.elapsed()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn equal_watches_with_large_selectors_hear_of_writes_soon() {
    let took = watched(vec![selector(0); WATCHES]).await;
    assert!(took < LIMIT, "{took:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn different_watches_with_large_selectors_hear_of_writes_soon() {
    let took = watched((0..DIFFERENT).map(selector).collect()).await;
    assert!(took < LIMIT, "{took:?}");
}
