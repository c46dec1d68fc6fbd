//! Deletions that take their time, and updates that create.

use std::sync::Arc;

use kevel_registry::storage::Format;
use kevel_server::authorization::AlwaysDeny;
use kevel_test_support::InMemory;

use crate::field;

const PODS: &str = "/api/v1/namespaces/ns/pods";

fn pod(name: &str, node: &str) -> String {
    format!(
        r#"{{"metadata":{{"name":"{name}"}},"spec":{{"nodeName":"{node}","containers":[{{"name":"c","image":"i"}}]}}}}"#
    )
}

#[tokio::test]
async fn a_pod_that_runs_is_given_time() {
    let server = InMemory::start(Format::Json).await;
    server.ok(&format!("POST {PODS}"), &pod("a", "node"), 201).await;
    let marked = server.ok(&format!("DELETE {PODS}/a"), "", 200).await;
    assert!(marked.contains(r#""deletionGracePeriodSeconds":30"#), "{marked}");
    assert!(marked.contains(r#""generation":2"#), "{marked}");
    // Asking again for as much changes nothing, asking for less does.
    let again = server.ok(&format!("DELETE {PODS}/a"), "", 200).await;
    assert_eq!(field(&again, "resourceVersion"), field(&marked, "resourceVersion"));
    let less = server.ok(&format!("DELETE {PODS}/a?gracePeriodSeconds=5"), "", 200).await;
    assert!(less.contains(r#""deletionGracePeriodSeconds":5"#), "{less}");
    assert!(field(&less, "deletionTimestamp") < field(&marked, "deletionTimestamp"), "{less}");
    server.ok(&format!("GET {PODS}/a"), "", 200).await;
    let gone = server.ok(&format!("DELETE {PODS}/a?gracePeriodSeconds=0"), "", 200).await;
    assert!(gone.contains(r#""deletionGracePeriodSeconds":0"#), "{gone}");
    server.ok(&format!("GET {PODS}/a"), "", 404).await;
}

#[tokio::test]
async fn a_pod_that_runs_nowhere_goes_at_once() {
    let server = InMemory::start(Format::Json).await;
    server.ok(&format!("POST {PODS}"), &pod("a", ""), 201).await;
    let gone = server.ok(&format!("DELETE {PODS}/a"), "", 200).await;
    assert!(gone.contains(r#""kind":"Pod""#) && gone.contains("deletionTimestamp"), "{gone}");
    server.ok(&format!("GET {PODS}/a"), "", 404).await;
}

#[tokio::test]
async fn dependents_are_left_to_the_garbage_collector() {
    let server = InMemory::start(Format::Json).await;
    let jobs = "/apis/batch/v1/namespaces/ns/jobs";
    let job = r#"{"metadata":{"name":"NAME"},"spec":{"template":{"spec":{"restartPolicy":"Never","containers":[{"name":"c","image":"i"}]}}}}"#;
    let cases = [
        ("a", "", r#""finalizers":["orphan"]"#),
        ("b", r#"{"propagationPolicy":"Foreground"}"#, r#""finalizers":["foregroundDeletion"]"#),
        ("c", r#"{"orphanDependents":true}"#, r#""finalizers":["orphan"]"#),
        ("d", r#"{"propagationPolicy":"Background"}"#, r#""status":"Success""#),
    ];
    for (name, options, expected) in cases {
        server.ok(&format!("POST {jobs}"), &job.replace("NAME", name), 201).await;
        let deleted = server.ok(&format!("DELETE {jobs}/{name}"), options, 200).await;
        assert!(deleted.contains(expected), "{name}: {deleted}");
    }
    let both = r#"{"orphanDependents":true,"propagationPolicy":"Orphan"}"#;
    let refused = server.ok(&format!("DELETE {jobs}/a"), both, 422).await;
    assert!(refused.contains("orphanDependents and deletionPropagation cannot be both set"));
}

#[tokio::test]
async fn some_updates_create_if_creation_is_authorized() {
    let leases = "/apis/coordination.k8s.io/v1/namespaces/ns/leases";
    let lease = r#"{"metadata":{"name":"l"},"spec":{"holderIdentity":"me"}}"#;
    let map = r#"{"metadata":{"name":"m"}}"#;
    let maps = "/api/v1/namespaces/ns/configmaps";
    let server = InMemory::start(Format::Json).await;
    server.ok(&format!("PUT {leases}/l"), lease, 201).await;
    let unversioned = server.ok(&format!("PUT {leases}/l"), lease, 422).await;
    assert!(
        unversioned.contains("metadata.resourceVersion: Invalid value: 0: must be specified"),
        "{unversioned}"
    );
    server.ok(&format!("PUT {maps}/m"), map, 404).await;

    let strict = InMemory::with(Format::Json, Arc::new(AlwaysDeny)).await;
    strict.ok(&format!("PUT {leases}/l"), lease, 403).await;
    strict.ok(&format!("GET {leases}/l"), "", 404).await;
    let config = r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"m"}}"#;
    let apply = format!("PATCH {maps}/m?fieldManager=me");
    strict.typed(&apply, config, 403, "application/apply-patch+yaml").await;
    strict.ok(&format!("GET {maps}/m"), "", 404).await;
}

/// One row of the matrix: a request to delete, by name or by a selection.
#[derive(Clone, Copy, Debug)]
struct Row {
    /// Whether the kind is given time to end: a pod on a node.
    graceful: bool,
    finalizer: bool,
    grace: Option<i64>,
    dry_run: bool,
    precondition: Precondition,
    collection: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Precondition {
    None,
    Met,
    WrongUid,
    WrongVersion,
}

impl Row {
    fn all() -> Vec<Row> {
        use Precondition::{Met, None as Unsaid, WrongUid, WrongVersion};
        let mut rows = Vec::new();
        for number in 0..2 * 2 * 2 * 2 {
            let bit = |position: u32| number >> position & 1 == 1;
            for grace in [None, Some(0), Some(5)] {
                for precondition in [Unsaid, Met, WrongUid, WrongVersion] {
                    rows.push(Row {
                        graceful: bit(0),
                        finalizer: bit(1),
                        grace,
                        dry_run: bit(2),
                        precondition,
                        collection: bit(3),
                    });
                }
            }
        }
        rows
    }

    fn object(&self, name: &str) -> String {
        let finalizers = if self.finalizer { r#","finalizers":["example.com/f"]"# } else { "" };
        let spec = match self.graceful {
            true => r#","spec":{"nodeName":"n","containers":[{"name":"c","image":"i"}]}"#,
            false => "",
        };
        format!(r#"{{"metadata":{{"name":"{name}"{finalizers}}}{spec}}}"#)
    }

    fn options(&self, made: &str) -> String {
        let grace = self.grace.map(|seconds| format!(r#""gracePeriodSeconds":{seconds}"#));
        let (uid, version) = (field(made, "uid"), field(made, "resourceVersion"));
        let precondition = match self.precondition {
            Precondition::None => None,
            Precondition::Met => Some(format!(r#""uid":"{uid}","resourceVersion":"{version}""#)),
            Precondition::WrongUid => Some(r#""uid":"another""#.to_owned()),
            Precondition::WrongVersion => Some(r#""resourceVersion":"1""#.to_owned()),
        };
        let precondition = precondition.map(|of| format!(r#""preconditions":{{{of}}}"#));
        let dry_run = self.dry_run.then(|| r#""dryRun":["All"]"#.to_owned());
        let parts: Vec<_> = [grace, precondition, dry_run].into_iter().flatten().collect();
        format!("{{{}}}", parts.join(","))
    }
}

/// The object is left alone by a dry run and where a precondition fails; it is gone at once where neither its time nor a
/// finalizer holds it, and marked otherwise.
#[tokio::test]
async fn deletions_by_name_and_by_selection_keep_what_holds() {
    let server = InMemory::start(Format::Json).await;
    for (number, row) in Row::all().into_iter().enumerate() {
        let name = format!("o{number}");
        let path = if row.graceful { PODS } else { "/api/v1/namespaces/ns/configmaps" };
        let made = server.ok(&format!("POST {path}"), &row.object(&name), 201).await;
        let request = match row.collection {
            true => format!("DELETE {path}?fieldSelector=metadata.name={name}"),
            false => format!("DELETE {path}/{name}"),
        };
        let refused =
            matches!(row.precondition, Precondition::WrongUid | Precondition::WrongVersion);
        let code = if refused { 409 } else { 200 };
        let answer = server.ok(&request, &row.options(&made), code).await;
        let gone = !row.finalizer && (!row.graceful || row.grace == Some(0));
        let found = server.send(&format!("GET {path}/{name}"), "", "").await;
        let status = found.status().as_u16();
        let left = http_body_util::BodyExt::collect(found.into_body()).await.unwrap().to_bytes();
        let left = String::from_utf8_lossy(&left).into_owned();
        let what = format!("{row:?}: {answer}: {left}");
        if refused || row.dry_run {
            assert_eq!(left, made, "{what}");
        } else if gone {
            assert_eq!(status, 404, "{what}");
        } else {
            assert_eq!(status, 200, "{what}");
            let grace = if row.graceful { row.grace.unwrap_or(30) } else { 0 };
            assert!(left.contains(&format!(r#""deletionGracePeriodSeconds":{grace}"#)), "{what}");
            assert!(
                field(&left, "deletionTimestamp") >= field(&left, "creationTimestamp"),
                "{what}"
            );
        }
    }
}
