//! Decision about an object, from its owners: without I/O.

use kevel_api::value::Value;

use super::identity::{FOREGROUND, ORPHAN, OwnerReference, Uid, has_finalizer};

/// State of an owner, as the server tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OwnerState {
    /// The owner exists, and does not wait for its dependents.
    Solid,
    /// The owner does not exist.
    Dangling,
    /// The owner is being deleted in the foreground, and waits for its dependents.
    Waiting,
}

/// Propagation of a deletion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Propagation {
    Background,
    Foreground,
    Orphan,
}

impl Propagation {
    /// Value of `propagationPolicy`.
    pub fn name(self) -> &'static str {
        match self {
            Propagation::Background => "Background",
            Propagation::Foreground => "Foreground",
            Propagation::Orphan => "Orphan",
        }
    }
}

/// Decision about an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum GarbageDecision {
    /// The object stays.
    Keep,
    /// The object stays without its references to these owners.
    RemoveOwners(Vec<Uid>),
    /// The object is deleted; before that, its references are made not to block if that could be a cycle.
    Delete { propagation: Propagation, unblock: bool },
}

/// Decides about an object by the states of its owners. `dependents` says for each dependent whether it waits for its
/// own dependents.
pub(super) fn decide(
    latest: &Value,
    owners: &[(OwnerReference, OwnerState)],
    dependents: &[bool],
) -> GarbageDecision {
    let of = |state: OwnerState| owners.iter().filter(move |(_, other)| *other == state);
    if of(OwnerState::Solid).next().is_some() {
        let gone = of(OwnerState::Dangling).chain(of(OwnerState::Waiting));
        let gone: Vec<Uid> = gone.map(|(reference, _)| reference.uid.clone()).collect();
        return if gone.is_empty() {
            GarbageDecision::Keep
        } else {
            GarbageDecision::RemoveOwners(gone)
        };
    }
    if owners.is_empty() {
        return GarbageDecision::Keep;
    }
    if of(OwnerState::Waiting).next().is_some() && !dependents.is_empty() {
        // Owner and dependent both wait: the object may be between them on a cycle.
        let unblock = dependents.contains(&true);
        return GarbageDecision::Delete { propagation: Propagation::Foreground, unblock };
    }
    let propagation = if has_finalizer(latest, ORPHAN) {
        Propagation::Orphan
    } else if has_finalizer(latest, FOREGROUND) {
        Propagation::Foreground
    } else {
        Propagation::Background
    };
    GarbageDecision::Delete { propagation, unblock: false }
}
