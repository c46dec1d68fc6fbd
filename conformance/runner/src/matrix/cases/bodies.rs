//! Cases of names and namespaces in bodies, which must equal those of the path.

use super::{APPLY, Case, DRY, JSON, JSON_PATCH, MERGE, STRATEGIC, with};

const USERS: &[&str] = &[
    "admin",
    "update-foo",
    "patch-foo",
    "create-foo",
    "create-patch-foo",
    "create-update-foo",
    "all-a",
];
const OF_PARTS: &[&str] = &["admin", "update-foo", "patch-foo", "part-foo", "all-a"];
const EVERYWHERE: &[&str] = &["admin", "create-patch-foo", "all-a", "wide-foo"];

/// Collection, first fields of its objects, and names of the written objects.
const KINDS: [(&str, &str, &[&str]); 7] = [
    ("/api/v1/namespaces/a/configmaps", r#""apiVersion":"v1","kind":"ConfigMap""#, &["foo", "new"]),
    (
        "/apis/coordination.k8s.io/v1/namespaces/a/leases",
        r#""apiVersion":"coordination.k8s.io/v1","kind":"Lease""#,
        &["foo", "new"],
    ),
    (
        "/apis/x.io/v1/namespaces/a/things",
        r#""apiVersion":"x.io/v1","kind":"Thing""#,
        &["foo", "new", "foo/status"],
    ),
    (
        "/apis/x.io/v1/namespaces/a/things",
        r#""apiVersion":"autoscaling/v1","kind":"Scale""#,
        &["foo/scale"],
    ),
    (
        "/apis/apps/v1/namespaces/a/deployments",
        r#""apiVersion":"autoscaling/v1","kind":"Scale""#,
        &["foo/scale"],
    ),
    ("/apis/x.io/v1/wides", r#""apiVersion":"x.io/v1","kind":"Wide""#, &["foo", "new"]),
    ("/api/v1/namespaces", r#""apiVersion":"v1","kind":"Namespace""#, &["a", "new"]),
];

pub fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for (collection, kind, names) in KINDS {
        for name in names {
            let users = match (name.contains('/'), collection.contains("/namespaces/")) {
                (true, _) => OF_PARTS,
                (false, true) => USERS,
                (false, false) => EVERYWHERE,
            };
            let first = cases.len();
            let own = name.split('/').next().unwrap_or_default();
            for metadata in metadata(own) {
                let object = format!("{{{kind},\"metadata\":{metadata}}}");
                let path = with(&format!("{collection}/{name}"), DRY);
                let applied = with(&path, "fieldManager=m&force=true");
                cases.push(Case::new("PUT", path.clone()).body(JSON, object.clone()));
                cases.push(Case::new("PATCH", applied).body(APPLY, object.clone()));
                let patch = format!("{{\"metadata\":{metadata}}}");
                if *name != "new" {
                    cases.push(Case::new("PATCH", path).body(MERGE, patch));
                }
                if *name == "new" {
                    let path = with(collection, DRY);
                    cases.push(Case::new("POST", path).body(JSON, object.clone()));
                    // Built-in kinds have no such route.
                    let path = with(&format!("{collection}/{name}"), DRY);
                    cases.push(Case::new("POST", path).body(JSON, object));
                }
            }
            cases[first..].iter_mut().for_each(|case| case.users = users);
        }
    }
    let path = with("/api/v1/namespaces/a/configmaps/foo", DRY);
    for (media, patch) in [
        (STRATEGIC, r#"{"metadata":{"name":"evil"}}"#),
        (STRATEGIC, r#"{"metadata":{"namespace":"b"}}"#),
        (MERGE, r#"{"metadata":null}"#),
        (MERGE, r#"{"metadata":{"name":null}}"#),
        (MERGE, r#"{"metadata":{"namespace":null}}"#),
        (JSON_PATCH, r#"[{"op":"replace","path":"/metadata/name","value":"evil"}]"#),
        (JSON_PATCH, r#"[{"op":"replace","path":"/metadata/namespace","value":"b"}]"#),
        (JSON_PATCH, r#"[{"op":"remove","path":"/metadata/name"}]"#),
        (JSON_PATCH, r#"[{"op":"remove","path":"/metadata/namespace"}]"#),
    ] {
        cases.push(Case::new("PATCH", path.clone()).body(media, patch).by(USERS));
    }
    cases.extend(answers());
    cases.extend(real());
    cases
}

fn metadata(name: &str) -> Vec<String> {
    vec![
        format!(r#"{{"name":"{name}"}}"#),
        r#"{"name":"evil"}"#.to_owned(),
        format!(r#"{{"name":"{name}","namespace":"b"}}"#),
        "{}".to_owned(),
        r#"{"generateName":"evil-"}"#.to_owned(),
        format!(r#"{{"name":"{name}","uid":"u"}}"#),
    ]
}

/// Bodies sent to an object's subresources name that object.
fn answers() -> Vec<Case> {
    const USERS: &[&str] = &["admin", "none", "get-foo", "all-a", "all-b"];
    let pods = "/api/v1/namespaces/a/pods";
    let target = r#""target":{"kind":"Node","name":"n1"}"#;
    let binding = format!(r#""apiVersion":"v1","kind":"Binding",{target}"#);
    let eviction = r#""apiVersion":"policy/v1","kind":"Eviction""#.to_owned();
    let token = r#""apiVersion":"authentication.k8s.io/v1","kind":"TokenRequest","spec":{"audiences":["x"]}"#;
    let mut cases = Vec::new();
    for (path, own, kind) in [
        (format!("{pods}/p1/binding"), "p1", binding.clone()),
        ("/api/v1/namespaces/a/bindings".to_owned(), "p1", binding),
        (format!("{pods}/p1/eviction"), "p1", eviction),
        (
            "/api/v1/namespaces/a/serviceaccounts/default/token".to_owned(),
            "default",
            token.to_owned(),
        ),
    ] {
        for metadata in metadata(own) {
            let object = format!("{{{kind},\"metadata\":{metadata}}}");
            cases.push(Case::new("POST", with(&path, DRY)).body(JSON, object).by(USERS));
        }
    }
    cases
}

/// Real writes, whose answers include the state afterwards.
fn real() -> Vec<Case> {
    const USERS: &[&str] =
        &["create-foo", "create-patch-foo", "create-update-foo", "delete-foo", "all-a"];
    let maps = "/api/v1/namespaces/a/configmaps";
    let leases = "/apis/coordination.k8s.io/v1/namespaces/a/leases";
    let map = |name: &str| {
        format!(r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"{name}"}}}}"#)
    };
    let lease = |name: &str| format!(r#"{{"metadata":{{"name":"{name}"}}}}"#);
    let applied = format!("{maps}/new?fieldManager=m");
    let cases = vec![
        Case::new("PATCH", applied.clone()).body(APPLY, map("new")),
        Case::new("PATCH", applied).body(APPLY, map("evil")),
        Case::new("PUT", format!("{leases}/new")).body(JSON, lease("new")),
        Case::new("PUT", format!("{leases}/new")).body(JSON, lease("evil")),
        Case::new("POST", maps).body(JSON, map("new")),
        Case::new("POST", maps).body(JSON, map("evil")),
        Case::new("POST", format!("{maps}/new")).body(JSON, map("evil")),
        Case::new("DELETE", format!("{maps}?fieldSelector=metadata.name%3Dfoo")),
        Case::new("DELETE", format!("{maps}?fieldSelector=metadata.name%3Dbar")),
        Case::new("DELETE", format!("{maps}//foo")),
    ];
    cases.into_iter().map(|case| Case { real: true, ..case.by(USERS) }).collect()
}
