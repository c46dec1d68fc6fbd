//! Shards of collections, behind the gate `ShardedListAndWatch`.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;

use kevel_test_support::Cluster;
use serde_json::{Value, json};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const GATE: &str = "--feature-gates=ShardedListAndWatch=true";
/// The halves of all hashes.
const HALVES: [(&str, &str); 2] =
    [("0x0000000000000000", "0x8000000000000000"), ("0x8000000000000000", "0x10000000000000000")];

fn selector(field: &str, (start, end): (&str, &str)) -> String {
    format!("shardRange(object.metadata.{field}, '{start}', '{end}')")
}

/// A selector as a parameter of a query.
fn parameter(selector: &str) -> String {
    let escape = |byte: u8| match byte {
        b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' => char::from(byte).to_string(),
        byte => format!("%{byte:02X}"),
    };
    format!("shardSelector={}", selector.bytes().map(escape).collect::<String>())
}

fn names(list: &Value) -> BTreeSet<String> {
    let items = list["items"].as_array().unwrap().iter();
    items.map(|item| item["metadata"]["name"].as_str().unwrap().to_owned()).collect()
}

/// Makes enough config maps for both halves to have some; returns their names.
async fn fill(cluster: &Cluster) -> BTreeSet<String> {
    let all: BTreeSet<String> = (0..32).map(|i| format!("map-{i:02}")).collect();
    for name in &all {
        cluster
            .admin
            .create(MAPS, &json!({"metadata": {"name": name, "labels": {"a": "b"}}}))
            .await;
    }
    all
}

#[tokio::test(flavor = "multi_thread")]
async fn every_object_is_in_one_shard() {
    let cluster = Cluster::start(&[GATE]).await;
    let all = fill(&cluster).await;
    let mut found = BTreeSet::new();
    for half in HALVES {
        let selector = selector("uid", half);
        let path = format!("{MAPS}?labelSelector=a&{}", parameter(&selector));
        let list = cluster.ok("admin", &format!("GET {path}"), "").await;
        assert_eq!(list["metadata"]["shardInfo"], json!({"selector": selector}));
        assert!(!names(&list).is_empty() && names(&list).is_disjoint(&found));
        found.extend(names(&list));
        // In pages, the same.
        let (mut paged, mut token) = (BTreeSet::new(), String::new());
        loop {
            let page =
                cluster.ok("admin", &format!("GET {path}&limit=3&continue={token}"), "").await;
            assert_eq!(page["metadata"]["remainingItemCount"], Value::Null);
            paged.extend(names(&page));
            match page["metadata"]["continue"].as_str() {
                Some(more) => token = more.to_owned(),
                None => break,
            }
        }
        assert_eq!(paged, names(&list));
        // Other forms of the list do not say which part it is, except YAML.
        for (accept, shown) in [
            ("application/json;as=Table;g=meta.k8s.io;v=v1", false),
            ("application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1", false),
            ("application/yaml", true),
        ] {
            let get = format!("GET {path}");
            let (_, text) = cluster.send_with("admin", &get, &[("accept", accept)], "").await;
            assert_eq!(text.contains("shardInfo"), shown, "{accept}: {text}");
        }
    }
    assert_eq!(found, all);
    let both = HALVES.map(|half| selector("uid", half)).join(" || ");
    let list = cluster.ok("admin", &format!("GET {MAPS}?{}", parameter(&both)), "").await;
    assert_eq!(list["metadata"]["shardInfo"]["selector"], both);
    assert!(names(&list).is_superset(&all));
    // All objects of a namespace have one hash.
    let found =
        HALVES.map(|half| format!("GET {MAPS}?{}", parameter(&selector("namespace", half))));
    let mut counts = Vec::new();
    for get in found {
        counts.push(names(&cluster.ok("admin", &get, "").await).len());
    }
    counts.sort_unstable();
    assert_eq!(counts[0], 0);
    assert!(counts[1] >= all.len(), "{counts:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn watches_and_collection_deletions_are_of_the_shard() {
    let cluster = Cluster::start(&[GATE]).await;
    let empty = cluster.ok("admin", &format!("GET {MAPS}"), "").await;
    let since = empty["metadata"]["resourceVersion"].as_str().unwrap();
    fill(&cluster).await;
    let lower = parameter(&selector("uid", HALVES[0]));
    let list = cluster.ok("admin", &format!("GET {MAPS}?labelSelector=a&{lower}"), "").await;
    for from in [format!("resourceVersion={since}"), "resourceVersion=0&labelSelector=a".to_owned()]
    {
        let watch = format!("GET {MAPS}?watch=true&timeoutSeconds=1&{from}&{lower}");
        let (code, text) = cluster.send("admin", &watch, "").await;
        let events = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let added: BTreeSet<String> = events
            .inspect(|event| assert_eq!(event["type"], "ADDED"))
            .map(|event| event["object"]["metadata"]["name"].as_str().unwrap().to_owned())
            .collect();
        assert_eq!((code, added), (200, names(&list)), "{from}");
    }
    cluster.ok("admin", &format!("DELETE {MAPS}?labelSelector=a&{lower}"), "").await;
    let left = cluster.ok("admin", &format!("GET {MAPS}?labelSelector=a"), "").await;
    assert!(names(&left).is_disjoint(&names(&list)) && !names(&left).is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_selector_is_refused_behind_the_gate_alone() {
    let cluster = Cluster::start(&[GATE]).await;
    for query in ["", "watch=true&"] {
        let get = format!("GET {MAPS}?{query}{}", parameter("true"));
        assert_eq!(
            cluster.refused("admin", &get, "").await,
            "500 invalid shard selector: unexpected expression kind 5; expected shardRange() call or || \
             operator"
        );
    }
    let list = cluster.ok("admin", &format!("GET {MAPS}?shardSelector="), "").await;
    assert_eq!(list["metadata"].get("shardInfo"), None);
    cluster.stop().await;

    let cluster = Cluster::alone().await;
    cluster.admin.create(MAPS, &json!({"metadata": {"name": "a"}})).await;
    let get = format!("GET {MAPS}?{}", parameter("true"));
    let list = cluster.ok("admin", &get, "").await;
    assert_eq!(list["metadata"].get("shardInfo"), None);
    assert!(names(&list).contains("a"));
}
