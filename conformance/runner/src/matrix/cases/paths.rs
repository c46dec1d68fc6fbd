//! Cases of paths: with slashes, dots and escapes everywhere, in the old form, of the wrong scope.

use super::{Case, DRY, WATCH, with};

const USERS: &[&str] = &[
    "admin",
    "none",
    "anonymous",
    "get-foo",
    "list-foo",
    "watch-foo",
    "all-a",
    "all-b",
    "read-all",
    "wide-foo",
    "node",
];

/// Valid paths by their segments, and users that may access them, or nearly.
const PLACES: [(&str, &[&str]); 5] = [
    (
        "api/v1/namespaces/a/secrets/foo",
        &["admin", "none", "anonymous", "get-foo", "watch-foo", "all-a", "all-b", "node"],
    ),
    ("api/v1/namespaces/a/secrets", &["admin", "none", "get-foo", "list-foo", "all-a", "node"]),
    ("apis/x.io/v1/namespaces/a/things/foo", &["admin", "none", "get-foo", "watch-foo", "all-a"]),
    ("apis/x.io/v1/wides/foo", &["admin", "none", "wide-foo", "all-a"]),
    ("apis/far.io/v1/namespaces/a/things/foo", &["admin", "none", "anonymous", "all-a"]),
];

pub fn cases() -> Vec<Case> {
    let get = |users: &'static [&'static str]| move |path| Case::new("GET", path).by(users);
    let mut cases: Vec<Case> = Vec::new();
    for (place, users) in PLACES {
        cases.extend(forms(place).into_iter().map(get(users)));
    }
    cases.extend(OTHERS.map(str::to_owned).into_iter().map(get(USERS)));
    // Rights on everything in a namespace give none outside of it.
    for path in ["/api/v1/namespaces/a/namespaces/b", "/apis/x.io/v1/namespaces/a/wides/foo"] {
        cases.push(Case::new("DELETE", with(path, DRY)).by(USERS));
        let patch = r#"{"metadata":{"labels":{"x":"y"}}}"#;
        cases.push(Case::new("PATCH", with(path, DRY)).body(super::MERGE, patch).by(USERS));
    }
    cases
}

/// All forms of a path.
fn forms(place: &str) -> Vec<String> {
    let steps: Vec<&str> = place.split('/').collect();
    let joined = |steps: &[String]| format!("/{}", steps.join("/"));
    let changed = |at: usize, change: &dyn Fn(&str) -> String| {
        let mut steps: Vec<String> = steps.iter().map(|step| (*step).to_owned()).collect();
        steps[at] = change(&steps[at]);
        joined(&steps)
    };
    let mut forms = vec![format!("/{place}"), format!("/{place}/"), format!("/{place}//")];
    for at in 0..steps.len() {
        // An empty segment before each, a segment with an escaped letter, an escaped slash.
        forms.push(changed(at, &|step| format!("/{step}")));
        forms.push(changed(at, &|step| format!("%{:02x}{}", step.as_bytes()[0], &step[1..])));
        if at > 0 {
            let (before, after) = steps.split_at(at);
            forms.push(format!("/{}%2F{}", before.join("/"), after.join("/")));
        }
    }
    // After the version, segments without effect.
    let version = if place.starts_with("apis") { 3 } else { 2 };
    for at in version..steps.len() {
        forms.push(changed(at, &|step| format!("./{step}")));
        forms.push(changed(at, &|step| format!("x/../{step}")));
        forms.push(changed(at, &|step| format!("x/%2e%2e/{step}")));
        forms.push(changed(at, &|step| step.to_uppercase()));
    }
    for old in ["watch", "proxy"] {
        let form = changed(version, &|step| format!("{old}/{step}"));
        forms.push(with(&form, WATCH));
    }
    forms
}

const OTHERS: [&str; 47] = [
    "/api/v1/namespaces/a/secrets/foo/status",
    "/api/v1/namespaces/a/secrets/foo/x/y",
    "/api/v1/namespaces/a/secrets//status",
    "/api/v1/namespaces/a/secrets/foo?",
    "/api/v1/namespaces/a/secrets/foo?x=%zz",
    "/api/v1/namespaces/a/secrets/%zz",
    "/api/v1/namespaces/a/secrets/foo%",
    "/api/v1/namespaces/a/secrets/foo%00",
    "/api/v1/namespaces/a/secrets/foo;x",
    "/api/v1/namespaces/a/secrets/foo+",
    "/api/v1/namespaces/a/secrets/foo%20",
    "/api/v1/namespaces/a/secrets/%ff",
    "/api/v1/namespaces/a/secrets/..",
    "/api/v1/namespaces/a/secrets/%2e",
    "/api/v1/namespaces/b/secrets/foo",
    "/api/v1/namespaces/c/secrets/foo",
    "/api/v1/secrets",
    "/api/v1/secrets/foo",
    "/api/v1/namespaces",
    "/api/v1/namespaces/a",
    "/api/v1/namespaces/b",
    "/api/v1/namespaces/a/status",
    "/api/v1/namespaces/a/status/x",
    "/api/v1/namespaces/a/namespaces/b",
    "/api/v1/namespaces/a/namespaces",
    "/api/v1/namespaces/a/nodes/n1",
    "/api/v1/nodes/n1",
    "/api/v1/nodes/n2",
    "/api/v1/namespaces/a/pods/p1",
    "/api/v1/namespaces/a/pods/p1/status",
    "/api/v1/namespaces/a/pods//status",
    "/apis/x.io/v1/namespaces/a/wides/foo",
    "/apis/x.io/v1/namespaces/a/wides",
    "/apis/x.io/v1/things/foo",
    "/apis/x.io/v1/things",
    "/apis/x.io/v1/namespaces/a/things/foo/status",
    "/apis/x.io/v1/namespaces/a/things/foo/status/x/y",
    "/apis/x.io/v1/namespaces/a/things//status",
    "/apis/x.io/v1/namespaces/a/things/foo/nothing",
    "/apis/x.io/v2/namespaces/a/things/foo",
    "/apis/nothing.io/v1/namespaces/a/things/foo",
    "/api/v1/watch",
    "/apis/x.io/v1/watch/",
    "/apis/far.io/v1",
    "/apis/far.io/v1//",
    "/apis/x.io/v1/",
    "//",
];
