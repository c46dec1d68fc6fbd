//! Checks of objects as registers that can be created, replaced, swapped, deleted and read: linearizable, and in the
//! order of revisions.

use std::collections::HashMap;

use super::linear::{self, Model, Timed};
use super::{Checked, Reference, Violation};
use crate::history::{At, History, NEVER, Nanos, Operation, Outcome, Request};

/// Model of an object.
struct Register<'a> {
    reference: &'a Reference,
}

/// State of an object.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct State<'a> {
    /// Value; `None` if the object does not exist.
    value: Option<&'a str>,
    /// Last known revision.
    revision: u64,
}

/// Precondition of an operation.
#[derive(Debug, Clone)]
enum Need<'a> {
    Nothing,
    Something,
    /// The value written at the expected revision; `None` if that was never observed.
    Value(Option<&'a str>),
    Uid(&'a str),
}

/// An operation with its outcome.
#[derive(Debug, Clone)]
enum Input<'a> {
    /// The write took effect: the new value, and the revision if it was observed.
    Done { need: Vec<Need<'a>>, value: Option<&'a str>, revision: Option<u64> },
    /// The write was refused because of this state.
    Refused(Vec<Need<'a>>),
    /// The operation read this value.
    Read(Option<&'a str>),
}

impl<'a> Register<'a> {
    fn meets(&self, state: &State<'a>, need: &Need<'a>) -> bool {
        match (need, state.value) {
            (Need::Nothing, value) => value.is_none(),
            (_, None) => false,
            (Need::Something, Some(_)) => true,
            (Need::Value(expected), Some(value)) => *expected == Some(value),
            (Need::Uid(uid), Some(value)) => self.uid(value).is_none_or(|known| known == *uid),
        }
    }

    /// Whether an operation with this precondition can be refused with a conflict, although the object exists.
    fn conflicts(&self, state: &State<'a>, need: &Need<'a>) -> bool {
        match (need, state.value) {
            (Need::Value(expected), Some(value)) => *expected != Some(value),
            (Need::Uid(uid), Some(value)) => self.uid(value).is_none_or(|known| known != *uid),
            _ => false,
        }
    }

    fn uid(&self, value: &str) -> Option<&str> {
        self.reference.value(value)?.uid.as_deref()
    }
}

impl<'a> Model for Register<'a> {
    type State = State<'a>;
    type Input = Input<'a>;

    fn step(&self, state: &State<'a>, input: &Input<'a>) -> Option<State<'a>> {
        match input {
            Input::Done { need, value, revision } => {
                let may = need.iter().all(|need| self.meets(state, need));
                let later = revision.is_none_or(|revision| revision > state.revision);
                let revision = revision.unwrap_or(state.revision);
                (may && later).then_some(State { value: *value, revision })
            }
            Input::Refused(needs) => {
                let refused = match needs.as_slice() {
                    [need @ (Need::Nothing | Need::Something)] => self.meets(state, need),
                    needs => needs.iter().any(|need| self.conflicts(state, need)),
                };
                refused.then(|| state.clone())
            }
            Input::Read(value) => (*value == state.value).then(|| state.clone()),
        }
    }
}

/// Checks every key by itself.
pub fn check(
    history: &History,
    reference: &Reference,
    violations: &mut Vec<Violation>,
    checked: &mut Checked,
) {
    let mut by_key: HashMap<&str, Vec<(&Operation, Timed<Input<'_>>)>> = HashMap::new();
    for operation in &history.operations {
        match operation.request.key() {
            Some(key) => {
                if let Some(timed) = timed(history, reference, operation) {
                    by_key.entry(key).or_default().push((operation, timed));
                }
            }
            None => list(reference, operation, &mut by_key),
        }
    }
    let mut keys: Vec<&str> = by_key.keys().copied().collect();
    keys.sort_unstable();
    for key in keys {
        let Some(all) = by_key.remove(key) else { continue };
        let operations: Vec<Timed<Input<'_>>> =
            all.iter().map(|(_, timed)| timed.clone()).collect();
        checked.ordered += operations.len();
        let initial = State { value: None, revision: 0 };
        if let Err(stuck) = linear::check(&Register { reference }, initial, &operations) {
            let promise = match stuck.gave_up {
                true => "the checker must come to an end",
                false => "operations on an object are linearizable, in the order of revisions",
            };
            let around: Vec<String> =
                stuck.around.iter().map(|place| format!("  {:?}", all[*place].0)).collect();
            let what = format!("{key}: one of these can have no place:\n{}", around.join("\n"));
            violations.push(Violation::new(promise, what));
        }
    }
}

/// Adds a consistent list as a read of every object.
fn list<'a>(
    reference: &'a Reference,
    operation: &'a Operation,
    by_key: &mut HashMap<&'a str, Vec<(&'a Operation, Timed<Input<'a>>)>>,
) {
    // Pages after the first read the past.
    let Request::List { at: At::Consistent, limit: None } = operation.request else { return };
    let Outcome::List { items, .. } = &operation.outcome else { return };
    for key in reference.keys() {
        let item = items.iter().find(|(name, _)| name == key);
        let input = Input::Read(item.map(|(_, version)| version.value.as_str()));
        let timed = Timed { call: operation.start, ret: operation.end, maybe: false, input };
        by_key.entry(key).or_default().push((operation, timed));
    }
}

/// Input of the checker for an operation; `None` if it says nothing about its object.
fn timed<'a>(
    history: &History,
    reference: &'a Reference,
    operation: &'a Operation,
) -> Option<Timed<Input<'a>>> {
    let Operation { request, outcome, start, end, .. } = operation;
    let input = match (request, outcome) {
        (Request::Get { at: At::Consistent, .. }, Outcome::Object(version)) => {
            Input::Read(Some(&version.value))
        }
        (Request::Get { at: At::Consistent, .. }, Outcome::NotFound) => Input::Read(None),
        (Request::Get { .. } | Request::List { .. }, _) => return None,
        (Request::Create { .. }, Outcome::Exists) => Input::Refused(vec![Need::Something]),
        (Request::Create { .. }, Outcome::NotFound) => return None,
        (_, Outcome::NotFound) => Input::Refused(vec![Need::Nothing]),
        (_, Outcome::Conflict) => match needs(reference, request) {
            // Without a precondition, a conflict means too many concurrent writes.
            needs if matches!(needs.as_slice(), [Need::Something]) => return None,
            needs => Input::Refused(needs),
        },
        (_, Outcome::Object(version)) => Input::Done {
            need: needs(reference, request),
            value: Some(&version.value),
            revision: Some(version.revision),
        },
        (_, Outcome::Deleted) => {
            Input::Done { need: needs(reference, request), value: None, revision: None }
        }
        (_, Outcome::Unknown(_)) => return unknown(history, reference, operation),
        _ => return None,
    };
    Some(Timed { call: *start, ret: *end, maybe: false, input })
}

/// Input for a write of unknown outcome. Other observations say whether it happened; and a dead server cannot have done
/// it.
fn unknown<'a>(
    history: &History,
    reference: &'a Reference,
    operation: &'a Operation,
) -> Option<Timed<Input<'a>>> {
    let Operation { request, start, .. } = operation;
    let dead = history.deaths.iter().copied().filter(|death| death >= start).min();
    let value = request.value();
    let known = value.and_then(|value| reference.value(value));
    let (maybe, ret): (bool, Nanos) = match known {
        Some(known) => (false, known.first_seen.min(dead.unwrap_or(NEVER))),
        None if value.is_some() && reference.is_complete() => return None,
        None => (true, dead.unwrap_or(NEVER)),
    };
    let revision = known.map(|known| known.revision);
    let input = Input::Done { need: needs(reference, request), value, revision };
    Some(Timed { call: *start, ret, maybe, input })
}

/// Preconditions of a write.
fn needs<'a>(reference: &'a Reference, request: &'a Request) -> Vec<Need<'a>> {
    match request {
        Request::Create { .. } => vec![Need::Nothing],
        Request::Update { expected: Some(revision), .. } => {
            vec![Need::Value(reference.written_at(*revision))]
        }
        Request::Delete { revision, uid, .. } if revision.is_some() || uid.is_some() => {
            let revision = revision.map(|revision| Need::Value(reference.written_at(revision)));
            revision.into_iter().chain(uid.as_deref().map(Need::Uid)).collect()
        }
        _ => vec![Need::Something],
    }
}
