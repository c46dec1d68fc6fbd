//! Bookmarks of watches, beside the writes that go on meanwhile.

use http_body_util::BodyExt as _;
use kevel_registry::storage::Format;
use kevel_test_support::{InMemory, soon};

use crate::{CM, field};

/// Selections that a watcher reads from the log of events or from a queue of its own.
const SELECTIONS: [&str; 5] = [
    "",
    "&labelSelector=team=a",
    "&fieldSelector=metadata.name=a",
    "&fieldSelector=metadata.name!=a",
    "&fieldSelector=metadata.name=none",
];

/// Beginnings of a watch.
const BEGINNINGS: [&str; 4] = [
    "&resourceVersion=START",
    "&resourceVersion=0",
    "",
    "&sendInitialEvents=true&resourceVersionMatch=NotOlderThan",
];

fn version(text: &str) -> u64 {
    field(text, "resourceVersion").parse().unwrap()
}

/// A client that has seen the last bookmark goes on from there. The bookmark must neither be ahead of what
/// is written next, which would be lost, nor behind what the client was told, which would come again.
#[tokio::test]
async fn final_bookmarks_lose_and_repeat_nothing() {
    let server = InMemory::start(Format::Json).await;
    let object = |name: &str, team: &str| {
        format!(r#"{{"metadata":{{"name":"{name}","labels":{{"team":"{team}"}}}}}}"#)
    };
    let start = version(&server.ok(&format!("POST {CM}"), &object("a", "a"), 201).await);
    let mut watches = Vec::new();
    for selection in SELECTIONS {
        for beginning in BEGINNINGS {
            let beginning = beginning.replace("START", &start.to_string());
            let query =
                format!("watch=1&timeoutSeconds=1&allowWatchBookmarks=true{selection}{beginning}");
            let response = server.send(&format!("GET {CM}?{query}"), "", "").await;
            assert_eq!(response.status(), 200, "{query}");
            watches.push((selection, query, response.into_body()));
        }
    }
    let b = version(&server.ok(&format!("POST {CM}"), &object("b", "b"), 201).await);
    let secrets = "/api/v1/namespaces/ns/secrets";
    server.ok(&format!("POST {secrets}"), &object("s", "a"), 201).await;
    let mut ended = Vec::new();
    for (selection, query, body) in watches {
        let text = soon(body.collect()).await.unwrap().to_bytes();
        let text = String::from_utf8(text.to_vec()).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        let (last, told) = lines.split_last().unwrap_or_else(|| panic!("{query}"));
        assert!(last.starts_with(r#"{"type":"BOOKMARK""#), "{query}: {text}");
        let told = told.iter().map(|line| version(line)).max().unwrap_or(0);
        assert!(told <= version(last), "{query}: {text}");
        let sees_b = !selection.contains("team=a") && !selection.contains("name=");
        assert_eq!(told >= b, sees_b, "{query}: {text}");
        ended.push((selection, query, version(last)));
    }
    // The next write of all: no watch can have told of it.
    let next = version(&server.ok(&format!("POST {CM}"), &object("c", "a"), 201).await);
    let (patch, merge) = (r#"{"data":{"k":"v"}}"#, "application/merge-patch+json");
    let changed = version(&server.typed(&format!("PATCH {CM}/a"), patch, 200, merge).await);
    for (selection, query, bookmark) in ended {
        assert!(start <= bookmark && bookmark < next, "{query}: {bookmark}, next {next}");
        let first = match selection {
            "&fieldSelector=metadata.name=a" => changed,
            "&fieldSelector=metadata.name=none" => continue,
            _ => next,
        };
        let request = format!("GET {CM}?watch=1&resourceVersion={bookmark}{selection}");
        let mut body = server.send(&request, "", "").await.into_body();
        let frame = soon(body.frame()).await.unwrap().unwrap().into_data().unwrap();
        assert_eq!(version(std::str::from_utf8(&frame).unwrap()), first, "{query}");
    }
}
