//! Reads: which state a list shows, which names and paths are read, and how a watch begins.

use http_body_util::BodyExt as _;
use kevel_registry::storage::Format;
use kevel_test_support::{InMemory, soon};

use crate::{CM, field};

/// Number of small objects that a watch examines for a piece of its initial state, and some more.
const MANY: usize = 1100;

fn map(name: &str, data: &str) -> String {
    format!(r#"{{"metadata":{{"name":"{name}"}},"data":{{"k":"{data}"}}}}"#)
}

/// Names of a list's items, one letter each.
fn names(list: &str) -> String {
    let (_, items) = list.split_once(r#""items":["#).unwrap();
    let parts = items.split(r#"{"metadata":{"name":""#).skip(1);
    parts.map(|item| item.split('"').next().unwrap()).collect()
}

/// The state that a list shows, from its resourceVersion, how that is to be matched, and its limit. The state of the
/// past that is asked for has `a` and `b`, the present one `b` and `c`.
#[tokio::test]
async fn list_shows_the_state_that_was_asked_for() {
    let server = InMemory::start(Format::Json).await;
    server.ok(&format!("POST {CM}"), &map("a", ""), 201).await;
    let past = server.ok(&format!("POST {CM}"), &map("b", ""), 201).await;
    let past = field(&past, "resourceVersion").to_owned();
    server.ok(&format!("DELETE {CM}/a"), "", 200).await;
    server.ok(&format!("POST {CM}"), &map("c", ""), 201).await;
    let all = server.ok(&format!("GET {CM}"), "", 200).await;
    let present = field(&all, "resourceVersion").to_owned();
    for (version, matching, limit, code, shown, of) in [
        ("", "", 0, 200, "bc", &present),
        ("", "", 1, 200, "b", &present),
        ("", "Exact", 0, 422, "", &present),
        ("", "NotOlderThan", 0, 422, "", &present),
        // Any state: all that is at hand, whatever the limit.
        ("0", "", 0, 200, "bc", &present),
        ("0", "", 1, 200, "bc", &present),
        ("0", "NotOlderThan", 1, 200, "bc", &present),
        ("0", "Exact", 0, 422, "", &present),
        ("PAST", "", 0, 200, "bc", &present),
        ("PAST", "NotOlderThan", 0, 200, "bc", &present),
        ("PAST", "NotOlderThan", 1, 200, "b", &present),
        ("PAST", "Exact", 0, 200, "ab", &past),
        ("PAST", "Exact", 1, 200, "a", &past),
        ("PAST", "", 1, 200, "a", &past),
        ("PAST", "Older", 0, 422, "", &present),
    ] {
        let version = version.replace("PAST", &past);
        let query =
            format!("resourceVersion={version}&resourceVersionMatch={matching}&limit={limit}");
        let what = format!("GET {CM}?{query}");
        let list = server.ok(&what, "", code).await;
        if code != 200 {
            continue;
        }
        assert_eq!(names(&list), shown, "{what}: {list}");
        assert_eq!(field(&list, "resourceVersion"), of, "{what}: {list}");
        assert_eq!(list.contains(r#""continue":""#), shown.len() == 1, "{what}: {list}");
        if shown.len() == 1 {
            assert!(list.contains(r#""remainingItemCount":1"#), "{what}: {list}");
            // The rest of the list is of the same state, all of it.
            let next = format!("GET {CM}?continue={}", field(&list, "continue"));
            let rest = server.ok(&next, "", 200).await;
            let shown = if of == &past { "b" } else { "c" };
            let found = (names(&rest), field(&rest, "resourceVersion").to_owned());
            assert_eq!(found, (shown.to_owned(), of.clone()), "{what}: {rest}");
        }
    }
}

/// Deprecated paths of watches name an object: a field selector may say it again, and select no other.
#[tokio::test]
async fn watch_of_a_named_object_selects_no_other() {
    let server = InMemory::start(Format::Json).await;
    for name in ["a", "b"] {
        server.ok(&format!("POST {CM}"), &map(name, ""), 201).await;
    }
    let said = "fieldSelector metadata.name doesn't match requested name";
    for (selector, fits) in [
        ("", true),
        ("metadata.name=a", true),
        ("metadata.name=a,metadata.namespace=ns", true),
        ("metadata.name=b", false),
        ("metadata.name!=b", false),
        ("metadata.namespace=ns", false),
    ] {
        let what = format!(
            "GET /api/v1/watch/namespaces/ns/configmaps/a?timeoutSeconds=1&fieldSelector={selector}"
        );
        let response = server.send(&what, "", "").await;
        let code = response.status().as_u16();
        let body = soon(response.into_body().collect()).await.unwrap().to_bytes();
        let body = String::from_utf8_lossy(&body);
        match fits {
            true => {
                let events: Vec<&str> = body.lines().collect();
                assert!(code == 200 && events.len() == 1, "{what}: {code} {body}");
                assert_eq!(field(events[0], "name"), "a", "{what}");
            }
            false => assert!(code == 400 && body.contains(said), "{what}: {code} {body}"),
        }
    }
}

/// Names that are no segments of a path are refused, not looked for.
#[tokio::test]
async fn name_that_is_no_segment_of_a_path_is_refused() {
    let server = InMemory::start(Format::Json).await;
    let merge = "application/merge-patch+json";
    for (name, shown, why) in [
        ("a%25b", "a%b", "may not contain '%'"),
        ("%2525", "%25", "may not contain '%'"),
        (".", ".", "may not be '.'"),
        ("..", "..", "may not be '..'"),
    ] {
        for (method, body, media) in [
            ("GET", String::new(), ""),
            ("PUT", map(shown, ""), "application/json"),
            ("PATCH", "{}".to_owned(), merge),
            ("DELETE", String::new(), ""),
        ] {
            let what = format!("{method} {CM}/{name}");
            let refused = server.typed(&what, &body, 400, media).await;
            let said = format!(r#"Name parameter invalid: \"{shown}\": {why}"#);
            assert!(refused.contains(&said), "{what}: {refused}");
        }
    }
}

/// Paths that lead to no object: below a namespace for objects of the cluster, without a name for what has one.
#[tokio::test]
async fn paths_in_the_wrong_scope_are_not_served() {
    let server = InMemory::start(Format::Json).await;
    server.ok("POST /api/v1/nodes", r#"{"metadata":{"name":"n"}}"#, 201).await;
    let merge = "application/merge-patch+json";
    let not_found = "the server could not find the requested resource";
    for plural in ["api/v1/RS/nodes", "apis/rbac.authorization.k8s.io/v1/RS/clusterroles"] {
        let path = format!("/{}", plural.replace("RS", "namespaces/ns"));
        for (method, below, body) in [
            ("GET", "", ""),
            ("POST", "", r#"{"metadata":{"name":"m"}}"#),
            ("DELETE", "", ""),
            ("GET", "/n", ""),
            ("PUT", "/n", r#"{"metadata":{"name":"n"}}"#),
            ("PATCH", "/n", "{}"),
            ("DELETE", "/n", ""),
            ("GET", "/n/status", ""),
        ] {
            let media = if method == "PATCH" { merge } else { "application/json" };
            let what = format!("{method} {path}{below}");
            let refused = server.typed(&what, body, 404, media).await;
            assert!(refused.contains(not_found), "{what}: {refused}");
        }
    }
    server.ok("GET /api/v1/nodes/n", "", 200).await;
    let pods = "/api/v1/namespaces/ns/pods";
    for (method, body) in [("GET", ""), ("PUT", r#"{"metadata":{}}"#), ("PATCH", "{}"), ("GET", "")]
    {
        let media = if method == "PATCH" { merge } else { "application/json" };
        let what = format!("{method} {pods}//status");
        let refused = server.typed(&what, body, 400, media).await;
        assert!(refused.contains("name must be provided"), "{what}: {refused}");
    }
}

/// The state that a watch begins with is complete, however many pieces it is sent in, and its end is marked.
#[tokio::test]
async fn initial_events_are_all_that_is_there() {
    let server = InMemory::start(Format::Json).await;
    let large = "x".repeat(40 << 10);
    let mut written = 0;
    // Nothing, one piece, a piece by size, and pieces by number.
    for (count, data) in [(0, ""), (3, ""), (9, &*large), (MANY, "")] {
        while written < count {
            server.ok(&format!("POST {CM}"), &map(&format!("m{written:04}"), data), 201).await;
            written += 1;
        }
        for query in [
            "&sendInitialEvents=true&resourceVersionMatch=NotOlderThan",
            "&resourceVersion=0",
            "&fieldSelector=metadata.name!=none",
        ] {
            let query = format!("watch=1&allowWatchBookmarks=true{query}");
            let response = server.send(&format!("GET {CM}?{query}"), "", "").await;
            assert_eq!(response.status(), 200, "{query}");
            let (mut body, mut text) = (response.into_body(), String::new());
            while !text.contains(r#""k8s.io/initial-events-end":"true""#) {
                let frame = soon(body.frame()).await.unwrap().unwrap();
                text += std::str::from_utf8(&frame.into_data().unwrap()).unwrap();
            }
            let lines: Vec<&str> = text.lines().collect();
            let (end, told) = lines.split_last().unwrap();
            assert!(end.starts_with(r#"{"type":"BOOKMARK""#), "{query}: {end}");
            let told: Vec<&str> = told.iter().map(|line| field(line, "name")).collect();
            let expected: Vec<String> = (0..written).map(|n| format!("m{n:04}")).collect();
            assert_eq!(told, expected, "{query}");
        }
    }
}
