//! Checks of reads: a list is the complete, ordered state at its revision; and revisions grow with time.

use super::reference::Held;
use super::{Checked, Reference, Violation};
use crate::history::{At, History, Operation, Outcome, Request, Version};

/// Checks all reads.
pub fn check(
    history: &History,
    reference: &Reference,
    violations: &mut Vec<Violation>,
    checked: &mut Checked,
) {
    for operation in &history.operations {
        if let Outcome::Broken(why) = &operation.outcome {
            let what = format!("{:?}: {why}", operation.request);
            violations
                .push(Violation::new("an answer makes sense, and pages have one revision", what));
        }
        if let Outcome::List { revision, items, .. } = &operation.outcome {
            let who = format!("client {}'s {:?}", operation.client, operation.request);
            revision_asked_for(operation, *revision, violations);
            state(reference, *revision, items, &who, violations, checked);
        }
    }
    in_time(history, violations);
}

/// Checks that a list has the requested revision.
fn revision_asked_for(operation: &Operation, revision: u64, violations: &mut Vec<Violation>) {
    let Request::List { at, .. } = operation.request else { return };
    let fits = match at {
        At::Exact(wanted) => revision == wanted,
        At::NotOlderThan(wanted) => revision >= wanted,
        At::Consistent | At::Any => true,
    };
    if !fits {
        let what = format!("{:?} was answered at {revision}", operation.request);
        violations.push(Violation::new("a list has the revision that was asked for", what));
    }
}

/// Checks that a reported state is the history's state at that revision.
pub fn state(
    reference: &Reference,
    revision: u64,
    items: &[(String, Version)],
    who: &str,
    violations: &mut Vec<Violation>,
    checked: &mut Checked,
) {
    let promise = "a list is the history at its revision";
    checked.lists += 1;
    if !items.is_sorted_by(|(a, _), (b, _)| a < b) {
        let names: Vec<&String> = items.iter().map(|(name, _)| name).collect();
        let what = format!("{who} at {revision} has {names:?}: not in order, or twice");
        violations.push(Violation::new(promise, what));
    }
    for key in reference.keys() {
        let listed = items.iter().find(|(name, _)| name == key).map(|(_, v)| v.value.as_str());
        match reference.held(key, revision) {
            Held::Known(held) if held != listed => {
                let what =
                    format!("{who} at {revision} has {key} as {listed:?}, which was {held:?}");
                violations.push(Violation::new(promise, what));
            }
            Held::Known(_) => {}
            Held::Unclear => checked.unclear += 1,
        }
    }
    if let Some((key, version)) = items.iter().find(|(_, version)| version.revision > revision) {
        let what = format!("{who} at {revision} has {key} of revision {}", version.revision);
        violations.push(Violation::new(promise, what));
    }
}

/// An operation with its revision: its own, or the last one that it saw.
struct Placed<'a> {
    revision: u64,
    write: bool,
    operation: &'a Operation,
}

/// Checks that an operation that ended before another began has a smaller revision: the order of revisions is a
/// linearization.
fn in_time(history: &History, violations: &mut Vec<Violation>) {
    let mut by_start: Vec<Placed<'_>> = history.operations.iter().filter_map(place).collect();
    by_start.sort_by_key(|placed| placed.operation.start);
    let mut by_end: Vec<&Placed<'_>> = by_start.iter().collect();
    by_end.sort_by_key(|placed| placed.operation.end);
    let mut ended = by_end.into_iter().peekable();
    let mut greatest: Option<&Placed<'_>> = None;
    for current in &by_start {
        let start = current.operation.start;
        while let Some(before) = ended.next_if(|before| before.operation.end < start) {
            if greatest.is_none_or(|greatest| greatest.revision < before.revision) {
                greatest = Some(before);
            }
        }
        let Some(before) = greatest else { continue };
        // A write has a greater revision than everything before; a list may have the revision of an earlier operation.
        if current.revision < before.revision
            || (current.write && current.revision == before.revision)
        {
            let (current, before) = (current.operation, before.operation);
            let what = format!("{current:?}\nthough before it ended\n{before:?}");
            violations.push(Violation::new("revisions grow with time", what));
            return;
        }
    }
}

fn place(operation: &Operation) -> Option<Placed<'_>> {
    let write = operation.request.is_write();
    let revision = match (&operation.request, &operation.outcome) {
        (_, Outcome::Object(version)) if write => version.revision,
        // The first page of several is the consistent one, and all have its revision.
        (Request::List { at: At::Consistent, .. }, Outcome::List { revision, .. }) => *revision,
        _ => return None,
    };
    Some(Placed { revision, write, operation })
}
