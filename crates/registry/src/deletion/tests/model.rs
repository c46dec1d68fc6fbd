//! Naive model: the fate of an object by the reference's rules, one after the other.

use std::collections::BTreeSet;

use kevel_api::value::Value;

use super::DeleteOptions;
use crate::strategy::{Dependents, Strategy};

/// Default grace period of the graceful kind, in seconds.
const USUAL_GRACE: i64 = 30;
/// A controller's finalizer.
pub(super) const OWN: &str = "example.com/own";

/// Kinds that differ in their deletion.
#[derive(Clone, Copy, Debug)]
pub(super) struct TestKind {
    pub graceful: bool,
    pub dependents: Dependents,
}

impl Strategy for TestKind {
    fn default_dependents(&self) -> Dependents {
        self.dependents
    }

    fn graceful(&self) -> bool {
        self.graceful
    }

    fn grace_period(&self, _: &Value, asked: Option<i64>) -> Option<i64> {
        self.graceful.then(|| asked.unwrap_or(USUAL_GRACE))
    }
}

/// A deletion under way: the granted grace period, and the seconds from now to the deletionTimestamp.
pub(super) type UnderWay = Option<(Option<i64>, i64)>;

/// One row of the matrix.
#[derive(Clone, Debug)]
pub(super) struct Case {
    pub kind: TestKind,
    pub garbage_collection: bool,
    pub under_way: UnderWay,
    pub finalizers: &'static [&'static str],
    pub options: DeleteOptions,
}

/// Expectation: the fate of the object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// Unchanged.
    Untouched,
    /// Removed; `seen` if watchers see it marked before.
    Removed { seen: bool },
    /// Marked and still stored.
    Marked { finalizers: Vec<&'static str>, grace: i64, at: At, generation: i64 },
}

/// Expectation: the deletionTimestamp.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum At {
    /// Seconds after the request.
    AfterRequest(i64),
    /// Seconds after the object was created.
    AfterCreation(i64),
}

/// `shouldOrphanDependents`
fn orphans(case: &Case) -> bool {
    if case.kind.dependents == Dependents::Ignored {
        return false;
    }
    if let Some(orphan) = case.options.orphan_dependents {
        return orphan;
    }
    if let Some(policy) = &case.options.propagation {
        return policy == "Orphan";
    }
    match case.finalizers.iter().find(|f| matches!(**f, "orphan" | "foregroundDeletion")) {
        Some(first) => *first == "orphan",
        None => case.kind.dependents == Dependents::Orphaned,
    }
}

/// `shouldDeleteDependents`
fn deletes_in_foreground(case: &Case) -> bool {
    if case.kind.dependents == Dependents::Ignored || case.options.orphan_dependents.is_some() {
        return false;
    }
    if let Some(policy) = &case.options.propagation {
        return policy == "Foreground";
    }
    let mut known =
        case.finalizers.iter().filter(|f| matches!(**f, "orphan" | "foregroundDeletion"));
    known.next() == Some(&"foregroundDeletion")
}

/// `deletionFinalizersForGarbageCollection`
fn finalizers_after(case: &Case) -> Vec<&'static str> {
    let before = case.finalizers.to_vec();
    if !case.garbage_collection {
        return before;
    }
    let mut after = before.clone();
    after.retain(|f| !matches!(*f, "orphan" | "foregroundDeletion"));
    after.extend(orphans(case).then_some("orphan"));
    after.extend(deletes_in_foreground(case).then_some("foregroundDeletion"));
    let set = |list: &[&'static str]| list.iter().copied().collect::<BTreeSet<_>>();
    if set(&before) == set(&after) { before } else { after }
}

/// Grace period and deletionTimestamp of a graceful deletion; `Err` where nothing is to be done (upstream:
/// `BeforeDelete`).
fn granted(case: &Case) -> Result<Option<(i64, At)>, ()> {
    if !case.kind.graceful {
        return Ok(None);
    }
    let Some((before, at)) = case.under_way else {
        let seconds = case.options.grace_period.unwrap_or(USUAL_GRACE);
        return Ok(Some((seconds, At::AfterRequest(seconds))));
    };
    let before = before.map(|seconds| if seconds < 0 { 1 } else { seconds });
    let Some(before) = before.filter(|seconds| *seconds != 0) else { return Ok(None) };
    let Some(asked) = case.options.grace_period else { return Err(()) };
    if asked >= before {
        return Err(());
    }
    match at - before + asked {
        past if past <= 0 => Ok(Some((asked.min(1), At::AfterRequest(0)))),
        future => Ok(Some((asked, At::AfterCreation(future)))),
    }
}

/// The naive model.
pub(super) fn expected(case: &Case) -> Fate {
    let Ok(granted) = granted(case) else { return Fate::Untouched };
    let finalizers = finalizers_after(case);
    let generation = if case.under_way.is_none() { 6 } else { 5 };
    match granted {
        None if finalizers.is_empty() => Fate::Removed { seen: false },
        None => {
            let at = match case.under_way {
                Some((_, at)) if at <= 0 => At::AfterCreation(at),
                _ => At::AfterRequest(0),
            };
            Fate::Marked { finalizers, grace: 0, at, generation }
        }
        Some((0, _)) if finalizers.is_empty() => Fate::Removed { seen: true },
        Some((grace, at)) => Fate::Marked { finalizers, grace, at, generation },
    }
}
