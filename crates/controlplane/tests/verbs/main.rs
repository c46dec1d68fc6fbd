//! The verbs of resources, on a memory store, without a socket.

#![allow(clippy::unwrap_used)]

mod abandoned;
mod absent;
mod deletion;
mod in_process;
mod lists;
mod options;
mod ownership;
mod plugins;
mod reads;
mod rules;
mod size;
mod stored;
mod subresources;
mod validation;
mod watches;
mod writes;

use http_body_util::BodyExt as _;
use kevel_api::builtin;
use kevel_registry::storage::Format;
use kevel_test_support::{InMemory, soon};

const CM: &str = "/api/v1/namespaces/ns/configmaps";

#[tokio::test]
async fn an_object_is_created_read_changed_and_deleted() {
    for format in [Format::Json, Format::Protobuf] {
        let server = InMemory::start(format).await;
        let made = server
            .ok(&format!("POST {CM}"), r#"{"metadata":{"name":"a"},"data":{"x":"1"}}"#, 201)
            .await;
        assert!(made.starts_with(r#"{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"a","namespace":"ns","uid":""#), "{made}");
        assert_eq!(server.ok(&format!("GET {CM}/a"), "", 200).await, made);
        server.ok(&format!("POST {CM}"), r#"{"metadata":{"name":"a"}}"#, 409).await;
        let changed = made.replace(r#""x":"1""#, r#""x":"2""#);
        let updated = server.ok(&format!("PUT {CM}/a"), &changed, 200).await;
        assert_ne!(field(&updated, "resourceVersion"), field(&made, "resourceVersion"));
        // Writing what is there writes nothing.
        let again = server.ok(&format!("PUT {CM}/a"), &updated, 200).await;
        assert_eq!(again, updated);
        // The version that the first answer showed is gone.
        let conflict = server.ok(&format!("PUT {CM}/a"), &changed, 409).await;
        assert!(conflict.contains("the object has been modified"), "{conflict}");
        let patched = server
            .typed(
                &format!("PATCH {CM}/a"),
                r#"{"data":{"y":"3","x":null}}"#,
                200,
                "application/merge-patch+json",
            )
            .await;
        assert!(patched.contains(r#""data":{"y":"3"}"#), "{patched}");
        let patch = r#"[{"op":"test","path":"/data/y","value":"3"},{"op":"add","path":"/data/z","value":"4"}]"#;
        let patched =
            server.typed(&format!("PATCH {CM}/a"), patch, 200, "application/json-patch+json").await;
        assert!(patched.contains(r#""data":{"y":"3","z":"4"}"#), "{patched}");
        let gone = server.ok(&format!("DELETE {CM}/a"), "", 200).await;
        assert!(gone.contains(r#""status":"Success""#), "{gone}");
        let missing = server.ok(&format!("GET {CM}/a"), "", 404).await;
        assert!(missing.contains(r#"configmaps \"a\" not found"#), "{missing}");
    }
}

#[tokio::test]
async fn every_stored_kind_is_served() {
    let server = InMemory::start(Format::Json).await;
    let mut seen = 0;
    for resource in builtin::resources().iter().filter(|r| r.on && !r.path.contains('/')) {
        if !resource.verbs.contains(&"list") {
            continue;
        }
        let base = match resource.group {
            "" => format!("/api/{}", resource.version),
            group => format!("/apis/{group}/{}", resource.version),
        };
        let list = server.ok(&format!("GET {base}/{}", resource.path), "", 200).await;
        assert!(list.starts_with(&format!("{{\"kind\":\"{}List\"", resource.kind)), "{list}");
        seen += 1;
    }
    assert!(seen > 50, "{seen}");
}

#[tokio::test]
async fn lists_are_cut_and_continued() {
    let server = InMemory::start(Format::Json).await;
    for i in 0..5 {
        let body = format!(r#"{{"metadata":{{"name":"c{i}","labels":{{"odd":"{}"}}}}}}"#, i % 2);
        server.ok(&format!("POST {CM}"), &body, 201).await;
    }
    let first = server.ok(&format!("GET {CM}?limit=2"), "", 200).await;
    assert!(first.contains(r#""remainingItemCount":3"#), "{first}");
    // What is created meanwhile is not in the pages that follow.
    server.ok(&format!("POST {CM}"), r#"{"metadata":{"name":"c3z"}}"#, 201).await;
    let token = field(&first, "continue");
    let second = server.ok(&format!("GET {CM}?limit=5&continue={token}"), "", 200).await;
    let names: Vec<_> = second.matches(r#""name":"c"#).collect();
    assert_eq!((names.len(), second.contains("c3z")), (3, false), "{second}");
    let odd = server.ok(&format!("GET {CM}?labelSelector=odd%3D1"), "", 200).await;
    assert_eq!(odd.matches(r#""name":"c"#).count(), 2);
    let one = server.ok(&format!("GET {CM}?fieldSelector=metadata.name%3Dc3"), "", 200).await;
    assert_eq!(one.matches(r#""name":"c"#).count(), 1);
}

#[tokio::test]
async fn a_cut_list_of_few_among_many_is_full() {
    let server = InMemory::start(Format::Json).await;
    for i in 0..300 {
        let rare = i % 100 == 99;
        let body = format!(r#"{{"metadata":{{"name":"c{i:03}","labels":{{"rare":"{rare}"}}}}}}"#);
        server.ok(&format!("POST {CM}"), &body, 201).await;
    }
    let rare = format!("{CM}?labelSelector=rare%3Dtrue&limit=2");
    let first = server.ok(&format!("GET {rare}"), "", 200).await;
    for name in ["c099", "c199"] {
        assert!(first.contains(name), "{first}");
    }
    // How many follow is not known where there is a selector.
    assert!(!first.contains("remainingItemCount"), "{first}");
    let token = field(&first, "continue");
    let second = server.ok(&format!("GET {rare}&continue={token}"), "", 200).await;
    assert!(second.contains("c299") && !second.contains("c199"), "{second}");
    assert!(!second.contains(r#""continue":"#), "nothing follows: {second}");
    let one =
        server.ok(&format!("GET {CM}?fieldSelector=metadata.name%3Dc299&limit=1"), "", 200).await;
    assert!(one.contains("c299") && !one.contains(r#""continue":"#), "{one}");
}

#[tokio::test]
async fn a_watch_begins_with_what_is_there() {
    let server = InMemory::start(Format::Json).await;
    server.ok(&format!("POST {CM}"), r#"{"metadata":{"name":"a"}}"#, 201).await;
    let response = server
        .send(
            &format!("GET {CM}?watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"),
            "",
            "",
        )
        .await;
    assert_eq!(response.status(), 200);
    let mut body = response.into_body();
    let mut text = String::new();
    while !text.contains("BOOKMARK") {
        let frame = soon(body.frame()).await.unwrap().unwrap();
        text += std::str::from_utf8(&frame.into_data().unwrap()).unwrap();
    }
    assert!(text.starts_with(r#"{"type":"ADDED","object":{"kind":"ConfigMap""#), "{text}");
    assert!(text.contains(r#""k8s.io/initial-events-end":"true""#), "{text}");
    server.ok(&format!("DELETE {CM}/a"), "", 200).await;
    let frame = body.frame().await.unwrap().unwrap().into_data().unwrap();
    assert!(frame.starts_with(br#"{"type":"DELETED""#), "{frame:?}");
}

#[tokio::test]
async fn spec_and_status_are_written_apart() {
    let server = InMemory::start(Format::Json).await;
    let path = "/apis/apps/v1/namespaces/ns/deployments";
    let body = r#"{"metadata":{"name":"d"},"spec":{"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"i"}]}}},"status":{"replicas":7}}"#;
    let made = server.ok(&format!("POST {path}"), body, 201).await;
    assert!(made.contains(r#""generation":1"#) && made.contains(r#""status":{}"#), "{made}");
    let patch = r#"{"spec":{"replicas":3},"status":{"replicas":3}}"#;
    let merge = "application/merge-patch+json";
    let status = server.typed(&format!("PATCH {path}/d/status"), patch, 200, merge).await;
    assert!(
        status.contains(r#""status":{"replicas":3}"#) && status.contains(r#""spec":{"replicas":1"#),
        "{status}"
    );
    assert!(status.contains(r#""generation":1"#), "{status}");
    let spec = server.typed(&format!("PATCH {path}/d"), patch, 200, merge).await;
    assert!(
        spec.contains(r#""spec":{"replicas":3"#) && spec.contains(r#""generation":2"#),
        "{spec}"
    );
}

#[tokio::test]
async fn finalizers_hold_an_object() {
    let server = InMemory::start(Format::Json).await;
    let body = r#"{"metadata":{"name":"a","finalizers":["x.y/z"]}}"#;
    server.ok(&format!("POST {CM}"), body, 201).await;
    let held = server.ok(&format!("DELETE {CM}/a"), "", 200).await;
    assert!(held.contains("deletionTimestamp"), "{held}");
    let merge = "application/merge-patch+json";
    server.typed(&format!("PATCH {CM}/a"), r#"{"metadata":{"finalizers":null}}"#, 200, merge).await;
    server.ok(&format!("GET {CM}/a"), "", 404).await;
}

#[tokio::test]
async fn namespaces_are_looked_after() {
    let server = InMemory::start(Format::Json).await;
    let missing = server
        .ok("POST /api/v1/namespaces/none/configmaps", r#"{"metadata":{"name":"a"}}"#, 404)
        .await;
    assert!(missing.contains(r#"namespaces \"none\" not found"#), "{missing}");
    server.ok("POST /api/v1/namespaces", r#"{"metadata":{"name":"default"}}"#, 201).await;
    let kept = server.ok("DELETE /api/v1/namespaces/default", "", 403).await;
    assert!(kept.contains("this namespace may not be deleted"), "{kept}");
}

#[tokio::test]
async fn absent_field_is_zero_for_a_field_selector() {
    let server = InMemory::start(Format::Json).await;
    server.ok("POST /api/v1/nodes", r#"{"metadata":{"name":"open"}}"#, 201).await;
    let closed = r#"{"metadata":{"name":"closed"},"spec":{"unschedulable":true}}"#;
    server.ok("POST /api/v1/nodes", closed, 201).await;
    for (selector, expected) in [
        ("spec.unschedulable=false", "open"),
        ("spec.unschedulable!=false", "closed"),
        ("spec.unschedulable=true", "closed"),
    ] {
        let uri = format!("GET /api/v1/nodes?fieldSelector={}", selector.replace('=', "%3D"));
        let list = server.ok(&uri, "", 200).await;
        let names = list.matches(r#""metadata":{"name":""#).count();
        assert_eq!((names, field(&list, "name")), (1, expected), "{selector}: {list}");
    }
}

#[tokio::test]
async fn the_two_groups_of_events_name_their_fields_differently() {
    let server = InMemory::start(Format::Json).await;
    let event = r#"{"metadata":{"name":"e"},"involvedObject":{"kind":"Pod","name":"p","namespace":"ns"},"reason":"Made"}"#;
    server.ok("POST /api/v1/namespaces/ns/events", event, 201).await;
    for (path, found) in [
        ("/api/v1/namespaces/ns/events?fieldSelector=involvedObject.name%3Dp", 200),
        ("/apis/events.k8s.io/v1/namespaces/ns/events?fieldSelector=regarding.name%3Dp", 200),
        ("/apis/events.k8s.io/v1/namespaces/ns/events?fieldSelector=involvedObject.name%3Dp", 400),
    ] {
        let answer = server.ok(&format!("GET {path}"), "", found).await;
        assert_eq!(found == 200, answer.contains(r#""reason":"Made""#), "{path}: {answer}");
    }
}

#[tokio::test]
async fn routes_say_what_they_do_not_do() {
    let server = InMemory::start(Format::Json).await;
    for (what, code) in [
        ("POST /api/v1/pods", 405),
        ("DELETE /api/v1/pods", 405),
        ("GET /api/v1/pods/name", 404),
        ("HEAD /api/v1/pods", 405),
        ("GET /apis/apps/v2", 404),
        ("GET /api/v1/nothing", 404),
    ] {
        let answer = server.ok(what, "", code).await;
        assert!(answer.contains(r#""kind":"Status""#), "{what}: {answer}");
    }
}

#[tokio::test]
async fn what_is_immutable_stays_as_it_is() {
    let server = InMemory::start(Format::Json).await;
    let map = r#"{"metadata":{"name":"a"},"data":{"x":"1"},"immutable":true}"#;
    server.ok(&format!("POST {CM}"), map, 201).await;
    let merge = "application/merge-patch+json";
    let why = "Forbidden: field is immutable when `immutable` is set";
    for (patch, expected) in [
        (r#"{"data":{"x":"2"}}"#, format!("data: {why}")),
        (r#"{"immutable":false}"#, format!("immutable: {why}")),
        (r#"{"binaryData":{"y":"AA=="}}"#, format!("binaryData: {why}")),
    ] {
        let refused = server.typed(&format!("PATCH {CM}/a"), patch, 422, merge).await;
        assert!(refused.contains(&expected), "{refused}");
    }
    let labels = r#"{"metadata":{"labels":{"b":"c"}}}"#;
    server.typed(&format!("PATCH {CM}/a"), labels, 200, merge).await;
}

/// The text behind a name in JSON.
fn field<'t>(text: &'t str, name: &str) -> &'t str {
    let start = text.find(&format!("\"{name}\":\"")).unwrap_or_else(|| panic!("{name} in {text}"));
    let rest = &text[start + name.len() + 4..];
    &rest[..rest.find('"').unwrap()]
}
