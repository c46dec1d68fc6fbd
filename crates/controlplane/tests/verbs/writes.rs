//! Preconditions of writes, objects that are being deleted, dry runs, and what a patch may say.

use http_body_util::BodyExt as _;
use kevel_registry::storage::Format;
use kevel_test_support::InMemory;

use crate::{CM, field};

const JSON: &str = "application/json";
const MERGE: &str = "application/merge-patch+json";
const STRATEGIC: &str = "application/strategic-merge-patch+json";
const JSON_PATCH: &str = "application/json-patch+json";
const APPLY: &str = "application/apply-patch+yaml";
const PODS: &str = "/api/v1/namespaces/ns/pods";
const MAP: &str =
    r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"k":"v"}}"#;

async fn send(server: &InMemory, what: &str, body: &str, media: &str) -> (u16, String) {
    let response = server.send(what, body, media).await;
    let code = response.status().as_u16();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    (code, String::from_utf8_lossy(&body).into_owned())
}

/// A UID in a write is that of the object it is about: a replacement of it is refused as one that is gone, a patch as a
/// change of what never changes.
#[tokio::test]
async fn write_of_another_uid_is_refused() {
    let server = InMemory::start(Format::Json).await;
    let made = server.ok(&format!("POST {CM}"), MAP, 201).await;
    let own = field(&made, "uid");
    for (uid, fits) in [("", true), (own, true), ("another", false)] {
        for dry_run in ["?dryRun=All", ""] {
            let object =
                made.replace(own, uid).replace(r#""k":"v""#, &format!(r#""k":"{uid}{dry_run}""#));
            let unversioned = {
                let (before, rest) = object.split_once(r#""resourceVersion":""#).unwrap();
                format!("{before}{}", rest.split_once("\",").unwrap().1)
            };
            let patch = format!(
                r#"{{"metadata":{{"uid":"{uid}"}},"data":{{"k":"{uid}{dry_run} by PATCH"}}}}"#
            );
            let strategic = patch.replace("PATCH", "another PATCH");
            let refused = format!(
                "Precondition failed: UID in precondition: {uid}, UID in object meta: {own}"
            );
            for (what, body, media, code, said) in [
                ("PUT", &unversioned, JSON, 409, &*refused),
                ("PATCH", &patch, MERGE, 422, "metadata.uid: Invalid value"),
                ("PATCH", &strategic, STRATEGIC, 422, "metadata.uid: Invalid value"),
            ] {
                let before = server.ok(&format!("GET {CM}/a"), "", 200).await;
                let (found, answer) =
                    send(&server, &format!("{what} {CM}/a{dry_run}"), body, media).await;
                let what = format!("{what} {media} {uid:?} {dry_run}: {answer}");
                let after = server.ok(&format!("GET {CM}/a"), "", 200).await;
                match fits {
                    true => assert_eq!((found, field(&after, "uid")), (200, own), "{what}"),
                    false => assert!(found == code && answer.contains(said), "{found} {what}"),
                }
                assert_eq!(after != before, fits && dry_run.is_empty(), "{what}");
            }
        }
    }
    // An update that would create has nothing to compare a UID with.
    let leases = "/apis/coordination.k8s.io/v1/namespaces/ns/leases";
    for (uid, code) in [("", 201), ("another", 409)] {
        let lease = format!(r#"{{"metadata":{{"name":"l{code}","uid":"{uid}"}}}}"#);
        let answer = server.ok(&format!("PUT {leases}/l{code}"), &lease, code).await;
        let said = "Precondition failed: UID in precondition: another, UID in object meta: ";
        assert_eq!(answer.contains(said), code == 409, "{answer}");
    }
}

/// A client writes into the namespace of the path, whether or not it says so; another one is refused, not replaced.
#[tokio::test]
async fn write_into_another_namespace_is_refused() {
    let server = InMemory::start(Format::Json).await;
    let said =
        "the namespace of the provided object does not match the namespace sent on the request";
    for (namespace, fits) in [("other", false), ("", true), ("ns", true)] {
        for (what, media, code) in [
            (format!("POST {CM}?fieldManager=m"), JSON, 201),
            (format!("PUT {CM}/a?fieldManager=m"), JSON, 200),
            (format!("PATCH {CM}/a?fieldManager=m"), MERGE, 200),
            (format!("PATCH {CM}/a?fieldManager=m"), STRATEGIC, 200),
            (format!("PATCH {CM}/a?fieldManager=m"), APPLY, 200),
        ] {
            if media != JSON || what.starts_with("PUT") {
                send(&server, &format!("POST {CM}"), MAP, JSON).await;
            }
            let metadata = format!(r#"{{"name":"a","namespace":"{namespace}"}}"#);
            let body = MAP.replace(r#"{"name":"a"}"#, &metadata);
            let (found, answer) = send(&server, &what, &body, media).await;
            let what = format!("{what} {media} {namespace:?}: {found} {answer}");
            match fits {
                true => assert!(found == code && field(&answer, "namespace") == "ns", "{what}"),
                false => assert!(found == 400 && answer.contains(said), "{what}"),
            }
            send(&server, &format!("DELETE {CM}/a"), "", JSON).await;
        }
    }
}

/// An object that is being deleted is removed by the update that takes its last finalizer away, if its time is over; by
/// no other update.
#[tokio::test]
async fn update_removes_only_what_nothing_holds() {
    let server = InMemory::start(Format::Json).await;
    for graceful in [false, true] {
        for finalizers in 0..3 {
            for media in [MERGE, STRATEGIC] {
                if !graceful && finalizers == 0 {
                    continue;
                }
                let path = if graceful { PODS } else { CM };
                let name = format!("o{graceful}{finalizers}{}", media.len());
                let all: Vec<String> = (0..finalizers).map(|n| format!(r#""x.y/{n}""#)).collect();
                let spec = match graceful {
                    true => r#","spec":{"nodeName":"n","containers":[{"name":"c","image":"i"}]}"#,
                    false => "",
                };
                let finalizers = all.join(",");
                let object = format!(
                    r#"{{"metadata":{{"name":"{name}","finalizers":[{finalizers}]}}{spec}}}"#
                );
                server.ok(&format!("POST {path}"), &object, 201).await;
                let marked = server.ok(&format!("DELETE {path}/{name}"), "", 200).await;
                assert!(marked.contains("deletionTimestamp"), "{marked}");
                let patch = format!("PATCH {path}/{name}");
                let label = r#"{"metadata":{"labels":{"x":"y"}}}"#;
                server.typed(&patch, label, 200, media).await;
                let kept = server.ok(&format!("GET {path}/{name}"), "", 200).await;
                assert!(kept.contains(r#""x":"y""#), "{kept}");
                // The finalizers are taken away, one after the other.
                for left in (0..all.len()).rev() {
                    let json =
                        format!(r#"[{{"op":"remove","path":"/metadata/finalizers/{left}"}}]"#);
                    server.typed(&patch, &json, 200, JSON_PATCH).await;
                    let code = if left == 0 && !graceful { 404 } else { 200 };
                    server.ok(&format!("GET {path}/{name}"), "", code).await;
                }
                if graceful {
                    let kept = server.ok(&format!("GET {path}/{name}"), "", 200).await;
                    assert!(kept.contains(r#""deletionGracePeriodSeconds":30"#), "{kept}");
                    server.ok(&format!("DELETE {path}/{name}?gracePeriodSeconds=0"), "", 200).await;
                    server.ok(&format!("GET {path}/{name}"), "", 404).await;
                }
            }
        }
    }
}

/// Grace periods below zero are the shortest there is, and policies are those that are known: in the body or in the
/// query, of one object or of many.
#[tokio::test]
async fn options_of_deletions_are_checked_wherever_they_stand() {
    let server = InMemory::start(Format::Json).await;
    let pod = r#"{"metadata":{"name":"p"},"spec":{"nodeName":"n","containers":[{"name":"c","image":"i"}]}}"#;
    for target in [format!("{PODS}/p"), format!("{PODS}?fieldSelector=metadata.name=p")] {
        for in_body in [true, false] {
            let request = |option: &str, value: &str, text: bool| {
                let query = if target.contains('?') { '&' } else { '?' };
                let quote = if text { "\"" } else { "" };
                match in_body {
                    true => (
                        format!("DELETE {target}"),
                        format!(r#"{{"{option}":{quote}{value}{quote}}}"#),
                    ),
                    false => (format!("DELETE {target}{query}{option}={value}"), String::new()),
                }
            };
            for (policy, code) in [("Sideways", 422), ("background", 422), ("Background", 200)] {
                let made = server.ok(&format!("POST {PODS}"), pod, 201).await;
                let (what, body) = request("propagationPolicy", policy, true);
                let answer = server.ok(&what, &body, code).await;
                let said = format!(
                    r#"Unsupported value: \"{policy}\": supported values: \"Foreground\", \"Background\", \"Orphan\", \"nil\""#
                );
                assert_eq!(answer.contains(&said), code == 422, "{what} {body}: {answer}");
                let after = server.ok(&format!("GET {PODS}/p"), "", 200).await;
                assert_eq!(after == made, code == 422, "{what} {body}: {after}");
                server.ok(&format!("DELETE {PODS}/p?gracePeriodSeconds=0"), "", 200).await;
            }
            // Of a pod that runs on, and of one whose time has begun.
            let asked = [("-1", 1), ("-30", 1), ("1", 1), ("7", 7)];
            for ((asked, granted), begun) in asked.into_iter().flat_map(|a| [(a, false), (a, true)])
            {
                server.ok(&format!("POST {PODS}"), pod, 201).await;
                if begun {
                    server.ok(&format!("DELETE {PODS}/p"), "", 200).await;
                }
                let (what, body) = request("gracePeriodSeconds", asked, false);
                server.ok(&what, &body, 200).await;
                let marked = server.ok(&format!("GET {PODS}/p"), "", 200).await;
                let period = format!(r#""deletionGracePeriodSeconds":{granted},"#);
                assert!(marked.contains(&period), "{what} {body} {begun}: {marked}");
                server.ok(&format!("DELETE {PODS}/p?gracePeriodSeconds=0"), "", 200).await;
                server.ok(&format!("GET {PODS}/p"), "", 404).await;
            }
        }
    }
}

/// A dry run of a creation tells what the creation would: what is there is refused, what is not is neither stored nor
/// found later.
#[tokio::test]
async fn dry_run_of_a_creation_answers_as_the_creation() {
    let server = InMemory::start(Format::Json).await;
    let leases = "/apis/coordination.k8s.io/v1/namespaces/ns/leases";
    let lease = r#"{"metadata":{"name":"l"},"spec":{"holderIdentity":"me"}}"#;
    for (what, named, body, media) in [
        (format!("POST {CM}?fieldManager=m"), format!("{CM}/a"), MAP, JSON),
        (format!("PATCH {CM}/a?fieldManager=m"), format!("{CM}/a"), MAP, APPLY),
        (format!("PUT {leases}/l?fieldManager=m"), format!("{leases}/l"), lease, JSON),
    ] {
        let dry_run = format!("{what}&dryRun=All");
        for _ in 0..2 {
            let (code, answer) = send(&server, &dry_run, body, media).await;
            assert_eq!(code, 201, "{dry_run}: {answer}");
            server.ok(&format!("GET {named}"), "", 404).await;
        }
        let (code, made) = send(&server, &what, body, media).await;
        assert_eq!(code, 201, "{what}: {made}");
        let (code, again) = send(&server, &what, body, media).await;
        let (dry_code, dry) = send(&server, &dry_run, body, media).await;
        assert_eq!(dry_code, code, "{dry_run}: {dry}");
        if what.starts_with("POST") {
            assert_eq!((code, &dry), (409, &again), "{dry_run}");
            assert!(dry.contains(r#""reason":"AlreadyExists""#), "{dry}");
        }
        assert_eq!(server.ok(&format!("GET {named}"), "", 200).await, made);
        server.ok(&format!("DELETE {named}"), "", 200).await;
    }
}

/// Writes of the server's own, for a request that is a dry run, are none either.
#[tokio::test]
async fn dry_run_of_a_binding_or_eviction_changes_nothing() {
    let server = InMemory::start(Format::Json).await;
    let pod = r#"{"metadata":{"name":"p","labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"i"}]}}"#;
    let binding = r#"{"metadata":{"name":"p"},"target":{"kind":"Node","name":"n"}}"#;
    let eviction = r#"{"apiVersion":"policy/v1","kind":"Eviction","metadata":{"name":"p"}}"#;
    for (what, body) in [
        (format!("POST {PODS}/p/binding"), binding),
        ("POST /api/v1/namespaces/ns/bindings".to_owned(), binding),
        (format!("POST {PODS}/p/eviction"), eviction),
    ] {
        let made = server.ok(&format!("POST {PODS}"), pod, 201).await;
        for _ in 0..2 {
            server.ok(&format!("{what}?dryRun=All"), body, 201).await;
            assert_eq!(server.ok(&format!("GET {PODS}/p"), "", 200).await, made, "{what}");
        }
        server.ok(&what, body, 201).await;
        let found = server.send(&format!("GET {PODS}/p"), "", "").await;
        match body == eviction {
            true => assert_eq!(found.status(), 404, "{what}"),
            false => {
                let bound = server.ok(&format!("GET {PODS}/p"), "", 200).await;
                assert!(bound.contains(r#""nodeName":"n""#), "{what}: {bound}");
                server.ok(&format!("DELETE {PODS}/p?gracePeriodSeconds=0"), "", 200).await;
            }
        }
    }
}

/// Discarding by the server itself: an object with finalizers is kept, and one that is not the one that was meant.
#[tokio::test]
async fn discarded_object_is_kept_by_finalizers() {
    let server = InMemory::start(Format::Json).await;
    let row = server.delegate.resources.current().get("", "v1", "configmaps").cloned().unwrap();
    let storage = row.storage.as_ref().unwrap();
    storage.discard("ns", "a").await.unwrap();
    for finalizer in [true, false] {
        for wanted in [false, true] {
            let finalizers = if finalizer { r#""x.y/z""# } else { "" };
            let object = format!(r#"{{"metadata":{{"name":"a","finalizers":[{finalizers}]}}}}"#);
            let made = server.ok(&format!("POST {CM}"), &object, 201).await;
            storage.discard_if("ns", "a", |_| wanted).await.unwrap();
            match finalizer || !wanted {
                true => assert_eq!(
                    server.ok(&format!("GET {CM}/a?resourceVersion="), "", 200).await,
                    made
                ),
                false => drop(server.ok(&format!("GET {CM}/a?resourceVersion="), "", 404).await),
            }
            let none = r#"{"metadata":{"finalizers":null}}"#;
            send(&server, &format!("PATCH {CM}/a"), none, MERGE).await;
            send(&server, &format!("DELETE {CM}/a"), "", JSON).await;
        }
    }
}

/// Fields that the kind does not have: refused, warned of or ignored, in each form of patch.
#[tokio::test]
async fn unknown_fields_of_patches_are_handled_as_asked() {
    let server = InMemory::start(Format::Json).await;
    server.ok(&format!("POST {CM}"), MAP, 201).await;
    let json =
        r#"[{"op":"add","path":"/bogus","value":1},{"op":"add","path":"/data/x","value":"N"}]"#;
    let merge = r#"{"bogus":1,"data":{"x":"N"}}"#;
    let mut number = 0;
    for (media, patch) in [(JSON_PATCH, json), (MERGE, merge), (STRATEGIC, merge)] {
        for validation in ["Strict", "Warn", "", "Ignore"] {
            number += 1;
            let body = patch.replace('N', &number.to_string());
            let query = format!("fieldManager=m&fieldValidation={validation}");
            let what = format!("PATCH {CM}/a?{query}");
            let before = server.ok(&format!("GET {CM}/a"), "", 200).await;
            let response = server.send(&what, &body, media).await;
            let code = response.status().as_u16();
            let warnings = response.extensions().get::<kevel_test_support::Warnings>().cloned();
            let warnings = format!("{warnings:?}");
            let answer = response.into_body().collect().await.unwrap().to_bytes();
            let answer = String::from_utf8_lossy(&answer);
            let after = server.ok(&format!("GET {CM}/a"), "", 200).await;
            let what = format!("{what} {media}: {code} {answer} {warnings}");
            if validation == "Strict" {
                assert!(matches!(code, 400 | 422), "{what}");
                assert!(answer.contains("bogus"), "{what}");
                assert_eq!(after, before, "{what}");
            } else {
                assert_eq!(code, 200, "{what}");
                assert!(after.contains(&format!(r#""x":"{number}""#)), "{what}");
                assert_eq!(warnings.contains("bogus"), validation != "Ignore", "{what}");
            }
        }
    }
}

/// A JSON patch may copy, but not without end, whatever is left of the copies.
#[tokio::test]
async fn copies_of_a_json_patch_are_limited() {
    const LARGE: usize = 64 << 10;
    let server = InMemory::start(Format::Json).await;
    let map = MAP.replace(r#""k":"v""#, &format!(r#""k":"{}""#, "v".repeat(LARGE)));
    for (copies, code) in [(0, 200), (1, 200), (10, 200), (40, 200), (60, 422)] {
        server.ok(&format!("POST {CM}"), &map, 201).await;
        let copy = r#"{"op":"copy","from":"/data/k","path":"/data/copied"}"#;
        let patch = format!("[{}]", vec![copy; copies].join(","));
        let (found, answer) = send(&server, &format!("PATCH {CM}/a"), &patch, JSON_PATCH).await;
        assert_eq!(found, code, "{copies}: {}", answer.get(..300).unwrap_or(&answer));
        let after = server.ok(&format!("GET {CM}/a"), "", 200).await;
        let expected = code == 200 && copies > 0;
        assert_eq!(after.contains(r#""copied":"vvv"#), expected, "{copies}");
        server.ok(&format!("DELETE {CM}/a"), "", 200).await;
    }
}
