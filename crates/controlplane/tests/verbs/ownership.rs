//! Owner references and owned fields: what writes keep, drop and come to own.

use bytes::Bytes;
use http_body_util::BodyExt as _;
use kevel_registry::storage::Format;
use kevel_test_support::{InMemory, Warnings};

use crate::CM;

const MERGE: &str = "application/merge-patch+json";
const JSON: &str = "application/json";
const APPLY: &str = "application/apply-patch+yaml";
const PODS: &str = "/api/v1/namespaces/ns/pods";
const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/ns/deployments";
const POD: &str = r#"{"metadata":{"name":"p","labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"i"}]}}"#;
const DEPLOYMENT: &str = r#"{"metadata":{"name":"web","labels":{"a":"b"}},"spec":{"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"i"}]}}}}"#;

/// The code, body and warnings of an answer.
async fn send(
    server: &InMemory,
    what: &str,
    body: &str,
    media: &str,
) -> (u16, String, Vec<String>) {
    let body = Bytes::from(body.to_owned());
    let response = server.send_as(None, what, &[("content-type", media)], body).await;
    let code = response.status().as_u16();
    let Warnings(warnings) = response.extensions().get().cloned().unwrap();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    (code, String::from_utf8_lossy(&body).into_owned(), warnings)
}

#[tokio::test]
async fn duplicate_owner_references_are_dropped_with_a_warning() {
    let server = InMemory::start(Format::Json).await;
    let owner =
        |uid: &str| format!(r#"{{"apiVersion":"v1","kind":"ConfigMap","name":"o","uid":"{uid}"}}"#);
    let owners = [owner("1"), owner("2"), owner("1"), owner("2"), owner("1")].join(",");
    let object = |name: &str| {
        format!(
            r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"{name}","ownerReferences":[{owners}]}}}}"#
        )
    };
    let warning = |when: &str| {
        format!(
            ".metadata.ownerReferences contains duplicate entries{when}; API server dedups owner references in 1.20+, \
             and may reject such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: 1, 2, 1"
        )
    };
    let (sent, patched) = (warning(""), warning(" after mutating admission happens"));
    let cases = [
        (format!("POST {CM}"), object("a"), JSON, &sent),
        (format!("PUT {CM}/a"), object("a"), JSON, &sent),
        (format!("PATCH {CM}/a"), object("a"), MERGE, &patched),
    ];
    for (what, body, media, warning) in cases {
        let (code, answer, warnings) = send(&server, &what, &body, media).await;
        assert!(code < 300, "{what}: {answer}");
        assert_eq!(warnings, [warning.as_str()], "{what}");
        let kept = format!(r#""ownerReferences":[{},{}]"#, owner("1"), owner("2"));
        assert!(answer.contains(&kept), "{what}: {answer}");
    }
    // What is applied is a map by UID, which has none twice.
    let what = format!("PATCH {CM}/a?fieldManager=m&force=true");
    let refused = server.typed(&what, &object("a"), 500, APPLY).await;
    assert!(refused.contains("duplicate entries for key"), "{refused}");
}

#[tokio::test]
async fn deletion_timestamp_sent_to_pod_status_is_ignored() {
    let server = InMemory::start(Format::Json).await;
    server.ok(&format!("POST {PODS}"), POD, 201).await;
    let status = r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p","annotations":{"x":"y"},
        "deletionTimestamp":"2020-01-01T00:00:00Z","ownerReferences":[{"apiVersion":"v1","kind":"K","name":"n","uid":"u"}]},
        "status":{"message":"m"}}"#;
    for (what, media) in [
        (format!("PATCH {PODS}/p/status?fieldManager=applier"), APPLY),
        (format!("PATCH {PODS}/p/status?fieldManager=patcher"), MERGE),
    ] {
        let answer = server.typed(&what, status, 200, media).await;
        assert!(!answer.contains("deletionTimestamp"), "{what}: {answer}");
        assert!(!answer.contains("ownerReferences"), "{what}: {answer}");
        assert!(answer.contains(r#""message":"m""#) && answer.contains(r#""x":"y""#), "{answer}");
    }
}

#[tokio::test]
async fn labels_that_deployment_status_keeps_are_not_owned() {
    let server = InMemory::start(Format::Json).await;
    server.ok(&format!("POST {DEPLOYMENTS}"), DEPLOYMENT, 201).await;
    let status = r#"{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"web","labels":{"new":"l"},
        "annotations":{"x":"y"}},"status":{"observedGeneration":7}}"#;
    for (manager, media) in [("applier", APPLY), ("patcher", MERGE)] {
        let what = format!("PATCH {DEPLOYMENTS}/web/status?fieldManager={manager}&force=true");
        let what = if media == MERGE { what.replace("&force=true", "") } else { what };
        let answer = server.typed(&what, status, 200, media).await;
        assert!(!answer.contains("f:new") && !answer.contains(r#""new":"l""#), "{what}: {answer}");
        assert!(answer.contains("f:x") && answer.contains("f:observedGeneration"), "{answer}");
    }
}

#[tokio::test]
async fn status_of_a_missing_object_cannot_be_applied() {
    let server = InMemory::start(Format::Json).await;
    let status = r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p"},"status":{}}"#;
    for (at, body, code, said) in [
        ("p/status", status, 404, r#"pods \"p\" not found"#),
        ("p/status", "{", 404, r#"pods \"p\" not found"#),
        ("p", "{", 400, "error decoding YAML"),
    ] {
        let what = format!("PATCH {PODS}/{at}?fieldManager=m");
        let answer = server.typed(&what, body, code, APPLY).await;
        assert!(answer.contains(said), "{what} {body}: {answer}");
    }
}

#[tokio::test]
async fn status_writes_warn_about_the_status_only() {
    let server = InMemory::start(Format::Json).await;
    let deployment = DEPLOYMENT
        .replace(r#""containers":["#, r#""terminationGracePeriodSeconds":-1,"containers":["#);
    let (_, _, warnings) = send(&server, &format!("POST {DEPLOYMENTS}"), &deployment, JSON).await;
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    server.ok(&format!("POST {PODS}"), POD, 201).await;
    let status = r#"{"status":{"podIPs":[{"ip":"fd00::0:1"}],"podIP":"fd00::0:1"}}"#;
    for (what, body, expected) in [
        (format!("PATCH {DEPLOYMENTS}/web/status"), r#"{"status":{"replicas":1}}"#, None),
        (
            format!("PATCH {PODS}/p/status"),
            status,
            Some(
                r#"status.podIPs[0].ip: IPv6 address "fd00::0:1" should be in RFC 5952 canonical format ("fd00::1")"#,
            ),
        ),
    ] {
        let (code, answer, warnings) = send(&server, &what, body, MERGE).await;
        assert_eq!(code, 200, "{answer}");
        assert_eq!(warnings, expected.into_iter().collect::<Vec<_>>(), "{what}");
    }
}
