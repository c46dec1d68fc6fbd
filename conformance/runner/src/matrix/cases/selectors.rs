//! Cases of selectors: the selected and the authorized objects must be the same.

use super::{Case, DRY, WATCH, with};

const LISTERS: &[&str] = &["admin", "none", "get-foo", "list-foo", "watch-foo", "all-a", "node"];
const WATCHERS: &[&str] = &["admin", "list-foo", "watch-foo", "all-a", "node"];
const DELETERS: &[&str] = &["admin", "list-foo", "delete-foo", "all-a", "all-b"];

const SELECTORS: [&str; 34] = [
    "",
    "fieldSelector=",
    "fieldSelector",
    "fieldSelector=metadata.name%3Dfoo",
    "fieldSelector=metadata.name=foo",
    "fieldSelector=metadata.name%3D%3Dfoo",
    "fieldSelector=metadata.name%3Dbar",
    "fieldSelector=metadata.name!%3Dfoo",
    "fieldSelector=metadata.name!%3Dbar",
    "fieldSelector=metadata.name%3D",
    "fieldSelector=metadata.name%3Dfoo,metadata.name%3Dbar",
    "fieldSelector=metadata.name%3Dfoo,metadata.name!%3Dbar",
    "fieldSelector=metadata.name%3Dfoo&fieldSelector=metadata.name%3Dbar",
    "fieldSelector=metadata.name%3Dbar&fieldSelector=metadata.name%3Dfoo",
    "fieldSelector=metadata.name%3Dfoo,metadata.namespace%3Db",
    "fieldSelector=metadata.namespace%3Da",
    "fieldSelector=metadata.Name%3Dfoo",
    "fieldSelector=%20metadata.name%3Dfoo",
    "fieldSelector=metadata.name%3Dfoo%20",
    "fieldSelector=metadata.name%3Dfoo+",
    "fieldSelector=metadata.name%3Dfo%5Co",
    "fieldSelector=metadata.name%3Df%5C%5Coo",
    "fieldSelector=metadata.name%3Dfoo%2Fbar",
    "fieldSelector=metadata.name%3Dfoo%2525",
    "fieldSelector=metadata.name%3D%2e%2e",
    "fieldSelector=metadata.name%3D%66oo",
    "fieldSelector=metadata.name%3Dfoo%ZZ",
    "fieldSelector=metadata.name%3Dfoo;x",
    "fieldSelector=%zz&fieldSelector=metadata.name%3Dfoo",
    "%66ieldSelector=metadata.name%3Dfoo",
    "FieldSelector=metadata.name%3Dfoo",
    "fieldSelector=metadata.name%3Dfoo&limit=x",
    "fieldSelector=metadata.name%3Dfoo&labelSelector=%3D",
    "fieldSelector=metadata.name",
];

/// Query parameters that make a list a watch, or not.
const FLAGS: [&str; 9] = [
    "watch",
    "watch=",
    "watch=1",
    "watch=0",
    "watch=FALSE",
    "watch=f",
    "watch=false&watch=true",
    "watch=true&watch=false",
    "Watch=1",
];

pub fn cases() -> Vec<Case> {
    let secrets = "/api/v1/namespaces/a/secrets";
    let things = "/apis/x.io/v1/namespaces/a/things";
    let mut cases = Vec::new();
    for selector in SELECTORS {
        cases.push(Case::new("GET", with(secrets, selector)).by(LISTERS));
        for path in [
            secrets,
            "/api/v1/watch/namespaces/a/secrets",
            "/api/v1/watch/namespaces/a/secrets/foo",
            things,
            "/apis/x.io/v1/watch/namespaces/a/things/foo",
        ] {
            cases.push(Case::new("GET", with(&with(path, selector), WATCH)).by(WATCHERS));
        }
        cases.push(Case::new("DELETE", with(&with(secrets, selector), DRY)).by(DELETERS));
    }
    // The old watch path, and each form of the `watch` parameter.
    let old = "/api/v1/watch/namespaces/a/secrets?sendInitialEvents=true&timeoutSeconds=1";
    cases.push(Case::new("GET", old).by(WATCHERS));
    for flag in FLAGS {
        let named = "fieldSelector=metadata.name%3Dfoo";
        let path = with(&with(secrets, named), &format!("{flag}&timeoutSeconds=1"));
        cases.push(Case::new("GET", path).by(&["admin", "list-foo", "watch-foo"]));
    }
    // A request for an object is one, whatever selectors it has.
    for selector in ["fieldSelector=metadata.name%3Dbar", "watch=1", "labelSelector=x"] {
        let path = with("/api/v1/namespaces/a/secrets/foo", selector);
        cases.push(Case::new("GET", path).by(LISTERS));
    }
    cases
}
