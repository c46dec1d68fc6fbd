//! Tests of the checks with histories that must pass, and ones that must fail: a checker that cannot fail proves
//! nothing.

use super::{Violation, all};
use crate::history::{
    At, Change, History, Interest, Nanos, Operation, Outcome, Request, Seen, Version, Watched,
};

fn version(value: &str, revision: u64) -> Version {
    let selected = value.ends_with(".in");
    Version { value: value.to_owned(), uid: "u".to_owned(), revision, selected }
}

fn create(start: Nanos, value: &str, revision: u64) -> Operation {
    let request = Request::Create { key: "k".to_owned(), value: value.to_owned() };
    let outcome = Outcome::Object(version(value, revision));
    Operation { client: 0, request, start, end: start + 5, outcome }
}

fn update(start: Nanos, value: &str, expected: u64, revision: u64) -> Operation {
    let (key, value) = ("k".to_owned(), value.to_owned());
    let outcome = Outcome::Object(version(&value, revision));
    let request = Request::Update { key, value, expected: Some(expected) };
    Operation { client: 0, request, start, end: start + 5, outcome }
}

fn delete(start: Nanos) -> Operation {
    let request = Request::Delete { key: "k".to_owned(), revision: None, uid: None };
    Operation { client: 0, request, start, end: start + 5, outcome: Outcome::Deleted }
}

fn get(start: Nanos, found: Option<Version>) -> Operation {
    let request = Request::Get { key: "k".to_owned(), at: At::Consistent };
    let outcome = found.map_or(Outcome::NotFound, Outcome::Object);
    Operation { client: 1, request, start, end: start + 5, outcome }
}

fn list(start: Nanos, at: At, revision: u64, items: &[Version]) -> Operation {
    let items = items.iter().map(|version| ("k".to_owned(), version.clone())).collect();
    let outcome = Outcome::List { revision, items, pages: 1 };
    Operation {
        client: 1,
        request: Request::List { at, limit: None },
        start,
        end: start + 5,
        outcome,
    }
}

fn event(change: Change, value: &str, revision: u64) -> Seen {
    Seen::Event { change, key: "k".to_owned(), version: version(value, revision) }
}

fn bookmark(revision: u64) -> Seen {
    Seen::Bookmark { revision, initial_end: false }
}

fn watcher(interest: Interest, lines: Vec<Seen>) -> Watched {
    let begin = [Seen::Listed { revision: 1, items: Vec::new() }, Seen::Opened { after: Some(1) }];
    let log = begin.into_iter().chain(lines).enumerate();
    let log = log.map(|(at, seen)| (at as Nanos + 1000, seen)).collect();
    Watched { name: format!("{interest:?}"), interest, log }
}

/// History of an object: created selected at 2, changed to unselected at 3, deleted at 4, created at 5; observed by a
/// watcher of everything.
fn history() -> History {
    let operations = vec![
        create(10, "c0.1.in", 2),
        update(20, "c0.2.out", 2, 3),
        delete(30),
        create(40, "c0.3.in", 5),
    ];
    History { operations, watchers: vec![watcher(Interest::All, told())], ..History::default() }
}

fn told() -> Vec<Seen> {
    vec![
        event(Change::Added, "c0.1.in", 2),
        event(Change::Modified, "c0.2.out", 3),
        event(Change::Deleted, "c0.2.out", 4),
        event(Change::Added, "c0.3.in", 5),
    ]
}

fn told_selected() -> Vec<Seen> {
    vec![
        event(Change::Added, "c0.1.in", 2),
        event(Change::Deleted, "c0.1.in", 3),
        event(Change::Added, "c0.3.in", 5),
    ]
}

fn broken(change: impl FnOnce(&mut History)) -> Vec<&'static str> {
    let mut history = history();
    change(&mut history);
    all(&history).0.iter().map(|Violation { promise, .. }| *promise).collect()
}

/// Violations if a second watcher receives these lines.
fn broken_by(interest: Interest, lines: Vec<Seen>) -> Vec<&'static str> {
    broken(|history| history.watchers.push(watcher(interest, lines)))
}

#[test]
fn what_is_as_promised_passes() {
    assert_eq!(broken(|_| {}), Vec::<&str>::new());
    assert_eq!(broken_by(Interest::All, told()), Vec::<&str>::new());
    assert_eq!(broken_by(Interest::Selected, told_selected()), Vec::<&str>::new());
    assert_eq!(broken_by(Interest::Name("k".to_owned()), told()), Vec::<&str>::new());
    let reads = [
        get(26, Some(version("c0.2.out", 3))),
        get(36, None),
        list(46, At::Consistent, 5, &[version("c0.3.in", 5)]),
        list(50, At::Exact(3), 3, &[version("c0.2.out", 3)]),
        list(50, At::Exact(4), 4, &[]),
    ];
    assert_eq!(broken(|history| history.operations.extend(reads)), Vec::<&str>::new());
}

#[test]
fn an_acknowledged_write_that_is_lost_is_found() {
    let linearizable = "operations on an object are linearizable, in the order of revisions";
    assert_eq!(broken(|h| h.operations.push(get(60, None))), [linearizable]);
    let stale = get(60, Some(version("c0.1.in", 2)));
    assert_eq!(broken(|h| h.operations.push(stale)), [linearizable]);
    // Another write gets the revision of an acknowledged one.
    let again = update(60, "c0.4.in", 5, 5);
    assert!(broken(|h| h.operations.push(again)).contains(&"a revision is one write"));
}

#[test]
fn a_swap_of_what_is_not_there_is_found() {
    let promise = "operations on an object are linearizable, in the order of revisions";
    assert!(broken(|h| h.operations.push(update(60, "c0.4.in", 2, 6))).contains(&promise));
}

#[test]
fn phantoms_are_found() {
    let phantom = get(60, Some(version("c9.9.in", 6)));
    assert!(broken(|h| h.operations.push(phantom)).contains(&"no phantom"));
    let mut refused = update(44, "c0.4.in", 2, 6);
    refused.outcome = Outcome::Conflict;
    let seen = get(60, Some(version("c0.4.in", 6)));
    assert!(broken(|h| h.operations.extend([refused, seen])).contains(&"no phantom"));
}

#[test]
fn lists_that_are_not_the_history_are_found() {
    let promise = "a list is the history at its revision";
    for wrong in [
        list(50, At::Exact(3), 3, &[]),
        list(50, At::Exact(4), 4, &[version("c0.2.out", 3)]),
        list(50, At::Exact(3), 3, &[version("c0.1.in", 2)]),
    ] {
        assert_eq!(broken(|h| h.operations.push(wrong)), [promise]);
    }
    let other = list(50, At::Exact(3), 2, &[version("c0.1.in", 2)]);
    assert_eq!(
        broken(|h| h.operations.push(other)),
        ["a list has the revision that was asked for"]
    );
    let old = list(60, At::Consistent, 3, &[version("c0.2.out", 3)]);
    assert!(broken(|h| h.operations.push(old)).contains(&"revisions grow with time"));
}

#[test]
fn gaps_are_found_and_410_is_none() {
    for missing in 0..3 {
        let mut lines = told();
        lines.remove(missing);
        assert_eq!(broken_by(Interest::All, lines), ["a watch has no gap"], "{missing}");
    }
    // The last event is missing only once a later line implies it.
    let mut lines = told();
    lines.pop();
    assert_eq!(broken_by(Interest::All, lines.clone()), Vec::<&str>::new());
    lines.push(bookmark(5));
    assert_eq!(broken_by(Interest::All, lines), ["a watch has no gap"]);
    let gone = vec![event(Change::Added, "c0.1.in", 2), Seen::Gone];
    assert_eq!(broken_by(Interest::All, gone), Vec::<&str>::new());
    let mut selected = told_selected();
    selected.remove(1);
    assert_eq!(broken_by(Interest::Selected, selected), ["a watch has no gap"]);
}

#[test]
fn order_and_bookmarks_are_held() {
    let ordered = "events are ordered and unique, also after a resumption";
    let mut twice = told();
    twice.insert(1, event(Change::Added, "c0.1.in", 2));
    assert!(broken_by(Interest::All, twice).contains(&ordered));
    let mut swapped = told();
    swapped.swap(0, 1);
    assert!(broken_by(Interest::All, swapped).contains(&ordered));
    let mut resumed = told();
    resumed.splice(2..2, [Seen::Opened { after: Some(3) }, event(Change::Modified, "c0.2.out", 3)]);
    assert!(broken_by(Interest::All, resumed).contains(&ordered));
    let mut late = told();
    late.insert(1, bookmark(3));
    let after = "after a bookmark nothing older comes";
    assert!(broken_by(Interest::All, late).contains(&after));
}

#[test]
fn the_kind_of_an_event_is_held() {
    let change = |place: usize, seen: Seen| {
        let mut lines = told();
        lines[place] = seen;
        broken_by(Interest::All, lines)
    };
    let creation = "ADDED is a creation, and a creation ADDED";
    assert_eq!(change(0, event(Change::Modified, "c0.1.in", 2)), [creation]);
    assert_eq!(change(1, event(Change::Added, "c0.2.out", 3)), [creation]);
    let last = "DELETED carries the last object";
    assert_eq!(change(2, event(Change::Deleted, "c0.1.in", 4)), [last]);
    let mut stays = told_selected();
    stays[1] = event(Change::Modified, "c0.2.out", 3);
    assert_eq!(broken_by(Interest::Selected, stays), ["a filter tells what enters and leaves"]);
}
