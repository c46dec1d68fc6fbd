//! Indexes of caches that follow a store.

use std::collections::BTreeSet;

use kevel_test_support::until;

use super::*;
use crate::Engine;
use crate::cache::{At, Caches, FieldPath, JsonDecode, KeyOrder, Resource};
use crate::embedded::{Embedded, Options};

const PREFIX: &str = "/registry/pods/";

fn stored(number: usize) -> bytes::Bytes {
    let labels: Vec<String> = (0..2 * MAX_INDEXES).map(|i| format!(r#""l{i}":"x""#)).collect();
    format!(
        r#"{{"metadata":{{"name":"p","labels":{{"app":"a{}",{}}}}},"spec":{{"nodeName":"n{}"}}}}"#,
        number % 7,
        labels.join(","),
        number % 5
    )
    .into()
}

async fn write(engine: &Arc<dyn Engine>, number: usize) {
    let key = format!("{PREFIX}ns/p{number:04}");
    let old = engine.get(key.as_bytes(), None).await.unwrap().entry;
    match old {
        // Another value of the label, or none.
        Some(old) if number.is_multiple_of(3) => {
            let _ = engine.delete(key.as_bytes(), old.mod_revision).await.unwrap();
        }
        Some(old) => {
            let value = stored(number + 1);
            let _ = engine.update(key.as_bytes(), value, old.mod_revision, None).await.unwrap();
        }
        None => drop(engine.create(key.as_bytes(), stored(number), None).await.unwrap()),
    }
}

async fn filled() -> (Arc<dyn Engine>, Caches, Arc<Cache>) {
    let engine: Arc<dyn Engine> = Arc::new(Embedded::memory(Options::default()).unwrap());
    for number in 0..INDEXED_OBJECTS + 20 {
        write(&engine, number).await;
    }
    let caches = Caches::start(engine.clone(), "/registry/");
    let field = FieldPath::new("spec.nodeName", "spec.nodeName");
    let cache = caches.add(Resource {
        prefix: PREFIX.to_owned(),
        decode: Arc::new(JsonDecode { order: KeyOrder::Struct }),
        fields: [field].into(),
        indexed: Vec::new(),
    });
    cache.loaded().await.unwrap();
    (engine, caches, cache)
}

fn selection(cache: &Cache, labels: &str, fields: &str) -> Selection {
    Selection {
        labels: labels.parse().unwrap(),
        fields: fields.parse().unwrap(),
        paths: cache.resource.fields.clone(),
        ..Selection::default()
    }
}

/// Whether a list uses an index. Its result must be that of a look at every object.
fn list(cache: &Arc<Cache>, snapshot: &Snapshot, selection: &Selection) -> bool {
    let candidates = cache.candidates(snapshot, selection, None);
    let is_indexed = candidates.index.is_some();
    let keys = |objects: &mut dyn Iterator<Item = &Arc<super::super::Object>>| -> Vec<String> {
        let selected = objects.filter(|object| selection.matches(object));
        selected.map(|object| object.key().to_owned()).collect()
    };
    let mut candidates = candidates;
    assert_eq!(keys(&mut candidates), keys(&mut snapshot.range("", None)));
    is_indexed
}

#[tokio::test]
async fn repeated_selection_is_indexed_and_stays_current() {
    let (engine, _caches, cache) = filled().await;
    for (labels, fields) in [("app=a1", ""), ("", "spec.nodeName=n1")] {
        let selection = selection(&cache, labels, fields);
        assert!(!list(&cache, &cache.latest(), &selection), "the first looks at every object");
        assert_eq!(
            cache.demand.lock().iter().filter(|one| one.stage != IndexStage::Asked).count(),
            usize::from(labels.is_empty())
        );
        let before = cache.snapshot(At::Consistent).await.unwrap();
        // Writes while the index is built.
        let mut number = 0;
        until(async || {
            number += 1;
            write(&engine, number * 31 % 700).await;
            list(&cache, &cache.latest(), &selection)
        })
        .await;
        for number in 0..300 {
            write(&engine, number * 17 % 700).await;
            if number % 50 == 0 {
                let snapshot = cache.snapshot(At::Consistent).await.unwrap();
                assert!(list(&cache, &snapshot, &selection));
            }
        }
        let past = cache.snapshot(At::Exact(before.revision())).await.unwrap();
        assert!(list(&cache, &past, &selection), "the past has the index, too");
        let keys = |s: &Snapshot| -> BTreeSet<String> {
            s.range("", None).map(|object| object.key().to_owned()).collect()
        };
        assert_eq!(keys(&past), keys(&before));
    }
}

#[tokio::test]
async fn unused_index_is_dropped_and_others_stay() {
    let (_engine, _caches, cache) = filled().await;
    let all = ["app=a1", "l1=x"].map(|labels| selection(&cache, labels, ""));
    for selection in &all {
        until(async || list(&cache, &cache.latest(), selection)).await;
    }
    let later = monotonic_now() + INDEX_IDLE + Duration::from_secs(1);
    let key = IndexKey::Label("app".into());
    cache.demand.used(&key, later);
    cache.drop_idle_indexes(later);
    let used =
        all.each_ref().map(|selection| cache.latest().candidates(selection, None).index.is_some());
    assert_eq!(used, [true, false]);
    until(async || list(&cache, &cache.latest(), &all[1])).await;
}

#[tokio::test]
async fn number_of_indexes_is_limited() {
    let (_engine, _caches, cache) = filled().await;
    let all: Vec<Selection> =
        (0..2 * MAX_INDEXES).map(|i| selection(&cache, &format!("l{i}=x"), "")).collect();
    for _ in 0..3 {
        for selection in &all {
            let _ = list(&cache, &cache.latest(), selection);
        }
    }
    let indexed = || all.iter().filter(|one| list(&cache, &cache.latest(), one)).count();
    until(async || indexed() == MAX_INDEXES).await;
    assert_eq!(
        cache.demand.lock().iter().filter(|one| one.stage != IndexStage::Asked).count(),
        MAX_INDEXES
    );
}

#[tokio::test]
async fn demand_remembers_a_limited_number_of_properties() {
    let demand = IndexDemand::default();
    let now = monotonic_now();
    for number in 0..10 * REMEMBERED {
        let at = now + Duration::from_secs(number as u64);
        assert!(!demand.ask(IndexKey::Label(format!("k{number}").into()), at));
    }
    assert_eq!(demand.lock().len(), REMEMBERED);
    let last = IndexKey::Label(format!("k{}", 10 * REMEMBERED - 1).into());
    assert!(demand.ask(last, now + Duration::from_secs(10 * REMEMBERED as u64)));
    let long_ago = IndexKey::Label(format!("k{}", 10 * REMEMBERED - 2).into());
    assert!(!demand.ask(long_ago, now + 3 * INDEX_IDLE), "asked for once, long ago");
}

#[tokio::test]
async fn small_ranges_and_lists_of_all_are_not_indexed() {
    let (_engine, _caches, cache) = filled().await;
    let mut other = selection(&cache, "app=a1", "");
    other.prefix = "other/".to_owned();
    for selection in [other, selection(&cache, "", ""), selection(&cache, "app!=a1", "")] {
        for _ in 0..3 {
            assert!(!list(&cache, &cache.latest(), &selection));
        }
    }
    assert!(cache.demand.lock().is_empty());
}
