//! Cases of a node, which may read objects that its pods need, and write its own.

use super::{Case, DRY, JSON, MERGE, WATCH, with};

const USERS: &[&str] = &["node", "none", "admin"];

/// Selectors of lists: a node may list the pods that are bound to it.
const SELECTORS: [&str; 9] = [
    "",
    "fieldSelector=spec.nodeName%3Dn1",
    "fieldSelector=spec.nodeName%3Dn2",
    "fieldSelector=spec.nodeName!%3Dn2",
    "fieldSelector=spec.nodeName%3Dn1,spec.nodeName%3Dn2",
    "fieldSelector=spec.nodeName%3Dn1&fieldSelector=spec.nodeName%3Dn2",
    "fieldSelector=spec.nodeName%3Dn2&fieldSelector=spec.nodeName%3Dn1",
    "fieldSelector=spec.nodeName%3Dn1;x",
    "fieldSelector=spec.nodeName%3Dn1&labelSelector=%3D",
];

const READ: [&str; 14] = [
    "/api/v1/namespaces/a/pods/p1",
    "/api/v1/namespaces/a/pods/p2",
    "/api/v1/namespaces/a/secrets/foo",
    "/api/v1/namespaces/a/secrets/bar",
    "/api/v1/namespaces/b/secrets/foo",
    "/api/v1/namespaces/a/secrets",
    "/api/v1/namespaces/a/secrets/foo/status",
    "/api/v1/namespaces/a/serviceaccounts/default",
    "/api/v1/nodes",
    "/api/v1/nodes/n1",
    "/api/v1/nodes/n2",
    "/api/v1/nodes/n1/status",
    "/api/v1/nodes/n2/status",
    "/apis/coordination.k8s.io/v1/namespaces/a/leases/foo",
];

pub fn cases() -> Vec<Case> {
    let mut cases: Vec<Case> = READ.into_iter().map(|path| Case::new("GET", path)).collect();
    for selector in SELECTORS {
        for path in ["/api/v1/pods", "/api/v1/namespaces/a/pods"] {
            cases.push(Case::new("GET", with(path, selector)));
            cases.push(Case::new("GET", with(&with(path, selector), WATCH)));
        }
        cases.push(Case::new("GET", with(&with("/api/v1/watch/pods", selector), WATCH)));
        let pods = with("/api/v1/namespaces/a/pods", selector);
        cases.push(Case::new("DELETE", with(&pods, DRY)));
    }
    for name in ["n1", "n2"] {
        let selector = format!("fieldSelector=metadata.name%3D{name}");
        let own = with(&with("/api/v1/nodes", &selector), WATCH);
        cases.push(Case::new("GET", own));
        cases.push(Case::new("GET", with(&format!("/api/v1/watch/nodes/{name}"), WATCH)));
        let other =
            with(&format!("/api/v1/watch/nodes/{name}"), "fieldSelector=metadata.name%3Dn2");
        cases.push(Case::new("GET", with(&other, WATCH)));
    }
    for (method, path) in [
        ("PATCH", "/api/v1/nodes/n1"),
        ("PATCH", "/api/v1/nodes/n1/status"),
        ("PATCH", "/api/v1/nodes/n2/status"),
        ("PATCH", "/api/v1/namespaces/a/pods/p1/status"),
        ("PATCH", "/api/v1/namespaces/a/pods/p2/status"),
        ("PATCH", "/api/v1/namespaces/a/secrets/foo"),
    ] {
        let labels = r#"{"metadata":{"labels":{"x":"y"}}}"#;
        cases.push(Case::new(method, with(path, DRY)).body(MERGE, labels));
        let renamed = r#"{"metadata":{"name":"n2"}}"#;
        cases.push(Case::new(method, with(path, DRY)).body(MERGE, renamed));
    }
    for path in ["/api/v1/namespaces/a/pods/p1", "/api/v1/namespaces/a/pods/p2", "/api/v1/nodes/n2"]
    {
        cases.push(Case::new("DELETE", with(path, DRY)));
    }
    cases.push(
        Case::new("POST", with("/api/v1/nodes", DRY)).body(JSON, r#"{"metadata":{"name":"new"}}"#),
    );
    cases.into_iter().map(|case| case.by(USERS)).collect()
}
