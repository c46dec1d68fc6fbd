//! Cases of methods on every kind of path.

use super::{APPLY, Case, DRY, JSON, JSON_PATCH, MERGE, STRATEGIC, with};

const USERS: &[&str] = &[
    "admin",
    "none",
    "get-foo",
    "update-foo",
    "patch-foo",
    "create-patch-foo",
    "create-update-foo",
    "delete-foo",
    "part-foo",
    "all-a",
];

const PLACES: [&str; 16] = [
    "/api/v1/namespaces/a/configmaps",
    "/api/v1/namespaces/a/configmaps/foo",
    "/api/v1/namespaces/a/configmaps/new",
    "/api/v1/namespaces//configmaps/foo",
    "/api/v1/namespaces/a/configmaps//foo",
    "/api/v1/configmaps",
    "/api/v1/configmaps/foo",
    "/api/v1/watch/namespaces/a/configmaps",
    "/apis/apps/v1/namespaces/a/deployments/foo/scale",
    "/apis/apps/v1/namespaces/a/deployments//scale",
    "/apis/x.io/v1/namespaces/a/things",
    "/apis/x.io/v1/namespaces/a/things/foo",
    "/apis/x.io/v1/namespaces/a/things/new",
    "/apis/x.io/v1/namespaces/a/things/foo/status",
    "/apis/x.io/v1/namespaces/a/things/foo/scale",
    "/apis/coordination.k8s.io/v1/namespaces/a/leases/new",
];

pub fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for place in PLACES {
        // Watches begin with the current state, and end.
        let place = match place.contains("watch") {
            true => with(place, super::WATCH),
            false => place.to_owned(),
        };
        for method in ["HEAD", "OPTIONS", "FOO"] {
            cases.push(Case::new(method, place.clone()));
        }
        let path = with(&place, DRY);
        cases.push(Case::new("DELETE", path.clone()));
        let object = object(&place);
        cases.push(Case::new("POST", path.clone()).body(JSON, object.clone()));
        cases.push(Case::new("PUT", path.clone()).body(JSON, object.clone()));
        let labels = r#"{"metadata":{"labels":{"x":"y"}}}"#;
        cases.push(Case::new("PATCH", path.clone()).body(MERGE, labels));
        cases.push(Case::new("PATCH", path.clone()).body(STRATEGIC, labels));
        let added = r#"[{"op":"add","path":"/metadata/labels","value":{"x":"y"}}]"#;
        cases.push(Case::new("PATCH", path.clone()).body(JSON_PATCH, added));
        let applied = with(&path, "fieldManager=m&force=true");
        cases.push(Case::new("PATCH", applied).body(APPLY, object));
    }
    cases.into_iter().map(|case| case.by(USERS)).collect()
}

/// Object of the kind and name in a path.
fn object(place: &str) -> String {
    let kind = match place {
        place if place.contains("/scale") => r#""apiVersion":"autoscaling/v1","kind":"Scale""#,
        place if place.contains("/things") => r#""apiVersion":"x.io/v1","kind":"Thing""#,
        place if place.contains("/leases") => {
            r#""apiVersion":"coordination.k8s.io/v1","kind":"Lease""#
        }
        _ => r#""apiVersion":"v1","kind":"ConfigMap""#,
    };
    let name = if place.contains("foo") { "foo" } else { "new" };
    format!(r#"{{{kind},"metadata":{{"name":"{name}"}}}}"#)
}
