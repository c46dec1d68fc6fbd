//! Checks of the watch guarantees: ordered, unique, atomic, reliable, resumable, bookmarkable, with the previous value,
//! with creations marked, filtered; and 410 rather than a gap.

use super::reference::{Entry, Held, Stretch, stretches_of};
use super::{Checked, Reference, Violation, reads};
use crate::history::{Change, History, Interest, Seen, Version, Watched};
use crate::traffic::is_selected;

/// Checks all watchers.
pub fn check(
    history: &History,
    reference: &Reference,
    violations: &mut Vec<Violation>,
    checked: &mut Checked,
) {
    for watcher in &history.watchers {
        whole(watcher, violations);
        order(watcher, violations);
        states(watcher, reference, violations, checked);
        for stretch in stretches_of(&watcher.log) {
            Telling { watcher, reference, violations, checked }.check(&stretch);
        }
    }
}

/// Checks that every line is valid, and that a next line or the end always follows.
fn whole(watcher: &Watched, violations: &mut Vec<Violation>) {
    for (_, seen) in &watcher.log {
        if let Seen::Broken(why) = seen {
            let what = format!("{}: {why}", watcher.name);
            violations.push(Violation::new("a watch is whole events, and ends", what));
        }
    }
}

/// Checks that events are ordered, unique, resumable and bookmarkable: on a connection and across resumed ones,
/// revisions grow, and no event comes that a bookmark has covered. A revision changes one object, so that simultaneous
/// changes are one event (atomic).
fn order(watcher: &Watched, violations: &mut Vec<Violation>) {
    let mut told: Option<u64> = None;
    let mut bookmark: Option<u64> = None;
    let mut initial = false;
    for (_, seen) in &watcher.log {
        match seen {
            Seen::Listed { revision, .. } => (told, bookmark) = (Some(*revision), None),
            Seen::Opened { after } => {
                initial = after.is_none();
                told = *after;
            }
            Seen::Gone => (told, bookmark, initial) = (None, None, false),
            Seen::Bookmark { revision, initial_end } => {
                if !initial && told.is_some_and(|told| *revision < told) {
                    let what = format!("{}: {seen:?} after {told:?}", watcher.name);
                    violations.push(Violation::new("bookmarks do not go back", what));
                }
                initial &= !initial_end;
                told = told.max(Some(*revision));
                bookmark = Some(*revision);
            }
            Seen::Event { version, .. } if !initial => {
                if told.is_some_and(|told| version.revision <= told) {
                    let promise = match bookmark.is_some_and(|mark| version.revision <= mark) {
                        true => "after a bookmark nothing older comes",
                        false => "events are ordered and unique, also after a resumption",
                    };
                    let what = format!("{}: {seen:?} after revision {told:?}", watcher.name);
                    violations.push(Violation::new(promise, what));
                }
                told = told.max(Some(version.revision));
            }
            Seen::Event { .. } | Seen::Ended(_) | Seen::Broken(_) => {}
        }
    }
}

/// Checks that the initial state of a watcher is the history's state at that revision.
fn states(
    watcher: &Watched,
    reference: &Reference,
    violations: &mut Vec<Violation>,
    checked: &mut Checked,
) {
    let mut initial: Option<Vec<(String, Version)>> = None;
    for (_, seen) in &watcher.log {
        let (revision, items) = match seen {
            Seen::Listed { revision, items } => (*revision, items.clone()),
            Seen::Opened { after } => {
                initial = after.is_none().then(Vec::new);
                continue;
            }
            Seen::Event { change, key, version } => {
                if let Some(items) = &mut initial {
                    if *change != Change::Added {
                        let what = format!("{}: {seen:?} among the initial events", watcher.name);
                        violations.push(Violation::new("initial events are ADDED", what));
                    }
                    items.push((key.clone(), version.clone()));
                }
                continue;
            }
            Seen::Bookmark { revision, initial_end: true } => match initial.take() {
                Some(items) => (*revision, items),
                None => continue,
            },
            Seen::Bookmark { .. } => continue,
            Seen::Gone | Seen::Ended(_) | Seen::Broken(_) => {
                initial = None;
                continue;
            }
        };
        // Watchers with a selector are compared with their filtered view.
        match watcher.interest {
            Interest::All => {
                let who = format!("watcher {}'s state", watcher.name);
                reads::state(reference, revision, &items, &who, violations, checked);
            }
            _ => selected_state(watcher, reference, revision, &items, violations, checked),
        }
    }
}

fn selected_state(
    watcher: &Watched,
    reference: &Reference,
    revision: u64,
    items: &[(String, Version)],
    violations: &mut Vec<Violation>,
    checked: &mut Checked,
) {
    checked.lists += 1;
    for key in reference.keys() {
        let Held::Known(held) = reference.held(key, revision) else {
            checked.unclear += 1;
            continue;
        };
        let expected = held.filter(|value| wants(&watcher.interest, key, value));
        let listed = items.iter().find(|(name, _)| name == key).map(|(_, v)| v.value.as_str());
        if expected != listed {
            let name = &watcher.name;
            let what = format!("{name} at {revision} has {key} as {listed:?}, not {expected:?}");
            violations.push(Violation::new("a filtered list is the history at its revision", what));
        }
    }
}

fn wants(interest: &Interest, key: &str, value: &str) -> bool {
    match interest {
        Interest::All => true,
        Interest::Selected => is_selected(value),
        Interest::Name(name) => name == key,
    }
}

/// Comparison of a contiguous part with the history.
struct Telling<'a> {
    watcher: &'a Watched,
    reference: &'a Reference,
    violations: &'a mut Vec<Violation>,
    checked: &'a mut Checked,
}

/// Event that a watcher must receive for a revision.
#[derive(Debug, PartialEq, Eq)]
struct Told<'a> {
    revision: u64,
    change: Change,
    key: &'a str,
    value: &'a str,
}

impl Telling<'_> {
    /// Checks reliability: every matching event, no other, and each with the right type and object.
    fn check(&mut self, stretch: &Stretch) {
        let Telling { watcher, reference, .. } = *self;
        let told = stretch.events.iter().filter_map(|place| told(&watcher.log[*place].1));
        let mut told = told.peekable();
        for (revision, entry) in reference.between(stretch.after, stretch.until) {
            let expected = match expected(reference, &watcher.interest, revision, entry) {
                Some(expected) => expected,
                None => {
                    // The previous value is unknown, so that the event of this revision is not checked.
                    self.checked.unclear += 1;
                    while told.next_if(|told| told.revision <= revision).is_some() {}
                    continue;
                }
            };
            self.checked.events += usize::from(expected.is_some());
            while let Some(seen) = told.next_if(|seen| seen.revision < revision) {
                self.phantom(&seen);
            }
            match told.peek() {
                Some(seen) if seen.revision == revision => {
                    if expected.as_ref() != Some(seen) {
                        let what = format!("{}: {seen:?}, not {expected:?}", watcher.name);
                        self.violations.push(Violation::new(promise_of(seen, &expected), what));
                    }
                    told.next();
                }
                _ => {
                    if let Some(expected) = expected {
                        let (name, stretch) = (&watcher.name, (stretch.after, stretch.until));
                        let what = format!("{name}: never told {expected:?}, within {stretch:?}");
                        self.violations.push(Violation::new("a watch has no gap", what));
                        return;
                    }
                }
            }
        }
        for seen in told {
            self.phantom(&seen);
        }
    }

    /// Reports an event that is not in the history, unless that part was not observed.
    fn phantom(&mut self, seen: &Told<'_>) {
        if !self.reference.is_covered(seen.revision.saturating_sub(1), seen.revision) {
            self.checked.unclear += 1;
            return;
        }
        let what = format!("{}: {seen:?} is not in the history", self.watcher.name);
        self.violations.push(Violation::new("no phantom events", what));
    }
}

fn told(seen: &Seen) -> Option<Told<'_>> {
    let Seen::Event { change, key, version } = seen else { return None };
    Some(Told { revision: version.revision, change: *change, key, value: &version.value })
}

/// Event that a watcher must receive for a revision. The outer `None` if it is unknown; the inner one if there is none.
fn expected<'a>(
    reference: &'a Reference,
    interest: &Interest,
    revision: u64,
    entry: &'a Entry,
) -> Option<Option<Told<'a>>> {
    let Entry { key, value } = entry;
    if matches!(interest, Interest::Name(name) if name != key) {
        return Some(None);
    }
    let Held::Known(before) = reference.held_before(key, revision) else { return None };
    let before = before.filter(|value| wants(interest, key, value));
    let after = value.as_deref().filter(|value| wants(interest, key, value));
    let (change, value) = match (before, after) {
        (None, None) => return Some(None),
        (None, Some(after)) => (Change::Added, after),
        (Some(_), Some(after)) => (Change::Modified, after),
        // The last object that the watcher knew, at the revision of its removal.
        (Some(before), None) => (Change::Deleted, before),
    };
    Some(Some(Told { revision, change, key, value }))
}

/// Guarantee that another event violates.
fn promise_of(seen: &Told<'_>, expected: &Option<Told<'_>>) -> &'static str {
    match (seen.change, expected.as_ref().map(|expected| expected.change)) {
        (Change::Deleted, Some(Change::Deleted)) => "DELETED carries the last object",
        (Change::Added | Change::Modified, Some(Change::Added | Change::Modified)) => {
            "ADDED is a creation, and a creation ADDED"
        }
        _ => "a filter tells what enters and leaves",
    }
}
