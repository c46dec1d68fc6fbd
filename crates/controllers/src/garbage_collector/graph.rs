//! Graph of owners and dependents: a state machine without I/O.
//!
//! Objects without owners are in the graph only while others refer to them, or while their deletion waits for others:
//! most objects of a cluster cost nothing here. An owner that the graph does not know is a virtual node until it was
//! looked up.

use std::cell::Cell;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::mem;
use std::sync::Arc;

use super::absent::AbsentOwners;
use super::identity::{ObjectIdentity, ObservedObject, OwnerReference, Uid};

/// Work that follows from a change of the graph.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum GraphEffect {
    /// Check whether the object must be deleted.
    Delete(Uid),
    /// Check whether the object must be deleted, after a delay.
    DeleteLater(Uid),
    /// Release the object's dependents.
    Orphan(Uid),
    /// Tell that the object refers to an owner in another namespace.
    InvalidNamespace(ObjectIdentity, ObjectIdentity),
}

/// An object in the graph.
#[derive(Clone, Debug)]
pub(super) struct GraphNode {
    pub identity: ObjectIdentity,
    pub owners: Vec<OwnerReference>,
    pub dependents: BTreeSet<Uid>,
    /// Whether the object is known only by references to it.
    pub is_virtual: bool,
    pub being_deleted: bool,
    pub deleting_dependents: bool,
    orphaning: bool,
}

impl GraphNode {
    fn is_idle(&self) -> bool {
        self.owners.is_empty()
            && self.dependents.is_empty()
            && !self.deleting_dependents
            && !self.orphaning
    }
}

/// Dependents of an owner.
type DependentIdentities = Vec<(Uid, ObjectIdentity)>;

/// The graph.
#[derive(Debug, Default)]
pub(super) struct OwnerGraph {
    nodes: HashMap<Uid, GraphNode>,
    /// Dependents of owners that were not found under the coordinates of a reference. One may exist under others, and
    /// come into the graph later.
    unfound: HashMap<Uid, BTreeSet<Uid>>,
    pub absent: AbsentOwners,
    effects: Vec<GraphEffect>,
    /// Number of nodes that were looked at.
    looked_at: Cell<usize>,
}

impl OwnerGraph {
    /// Takes the number of nodes that the last changes looked at: they are charged for when the graph is unlocked.
    pub fn take_looked_at(&mut self) -> usize {
        self.looked_at.take()
    }

    fn count(&self) {
        self.looked_at.set(self.looked_at.get() + 1);
    }

    /// Takes the work that the last changes caused.
    pub fn take_effects(&mut self) -> Vec<GraphEffect> {
        mem::take(&mut self.effects)
    }

    pub fn node(&self, uid: &str) -> Option<&GraphNode> {
        self.nodes.get(uid)
    }

    pub fn contains(&self, uid: &str) -> bool {
        self.nodes.contains_key(uid)
    }

    /// Dependents whose reference blocks the deletion of their owner.
    pub fn blocking_dependents<'a>(
        &'a self,
        owner: &'a GraphNode,
    ) -> impl Iterator<Item = &'a GraphNode> {
        let dependents = owner.dependents.iter().filter_map(|uid| self.nodes.get(uid));
        dependents.filter(|dependent| {
            let mut owners = dependent.owners.iter();
            owners.any(|reference| reference.uid == owner.identity.uid && reference.blocks)
        })
    }

    /// Takes in the state of an object.
    pub fn observe(&mut self, observed: ObservedObject) {
        let uid = observed.identity.uid.clone();
        if !self.contains(&uid) {
            if observed.is_plain() {
                return;
            }
            let ObservedObject { identity, owners, being_deleted, .. } = observed.clone();
            let dependents = self.unfound.remove(&uid).unwrap_or_default();
            self.nodes.insert(
                uid.clone(),
                GraphNode {
                    identity,
                    owners: owners.clone(),
                    dependents,
                    is_virtual: false,
                    being_deleted,
                    deleting_dependents: false,
                    orphaning: false,
                },
            );
            self.add_to_owners(&uid, &owners);
        } else {
            self.confirm(observed.identity.clone());
            self.change_owners(&uid, &observed.owners);
        }
        self.transition(&uid, &observed);
        self.prune(&uid);
    }

    /// Notes that an object of this identity exists.
    pub fn confirm(&mut self, identity: ObjectIdentity) {
        let Some(node) = self.nodes.get_mut(&identity.uid) else { return };
        if !mem::replace(&mut node.is_virtual, false) || node.identity == identity {
            return;
        }
        node.identity = identity.clone();
        let (_, invalid) = self.partition(&identity);
        for (uid, dependent) in invalid {
            if !identity.namespace.is_empty() && dependent.namespace != identity.namespace {
                self.report(&uid, &identity.uid);
            }
            self.effects.push(GraphEffect::Delete(uid));
        }
    }

    /// Notes that an object was deleted.
    pub fn forget(&mut self, identity: &ObjectIdentity) {
        let Some(node) = self.nodes.remove(&identity.uid) else { return };
        self.remove_from_owners(&identity.uid, &node.owners);
        if !node.dependents.is_empty() {
            self.absent.add(identity.clone());
            if node.is_virtual {
                self.unfound.insert(identity.uid.clone(), node.dependents.clone());
            }
        }
        self.effects.extend(node.dependents.into_iter().map(GraphEffect::Delete));
        for owner in &node.owners {
            let waits = self.nodes.get(&owner.uid).is_some_and(|owner| owner.deleting_dependents);
            if waits {
                // The last dependent may be gone.
                self.effects.push(GraphEffect::Delete(owner.uid.clone()));
            }
        }
    }

    /// Notes that a look-up did not find an object of this identity. Others may refer to the UID by other coordinates.
    pub fn not_found(&mut self, identity: &ObjectIdentity) {
        let Some(node) = self.nodes.get(&identity.uid) else { return };
        let (is_virtual, same) = (node.is_virtual, node.identity == *identity);
        let (matching, others) = self.partition(identity);
        if (is_virtual && others.is_empty()) || (!is_virtual && same) {
            return self.forget(identity);
        }
        if !matching.is_empty() {
            self.absent.add(identity.clone());
            self.effects.extend(matching.into_iter().map(|(uid, _)| GraphEffect::Delete(uid)));
        }
        if is_virtual
            && same
            && let Some(alternative) = self.alternative(&others, identity)
            && let Some(node) = self.nodes.get_mut(&identity.uid)
        {
            node.identity = alternative;
            self.effects.push(GraphEffect::DeleteLater(identity.uid.clone()));
        }
    }

    /// Forgets all objects of a kind but the listed ones: their deletions were missed.
    pub fn retain(&mut self, api_version: &str, kind: &str, listed: &HashSet<Uid>) {
        let gone: Vec<ObjectIdentity> = self
            .of_kind(api_version, kind)
            .filter(|node| !node.is_virtual && !listed.contains(&node.identity.uid))
            .map(|node| node.identity.clone())
            .collect();
        gone.iter().for_each(|identity| self.forget(identity));
    }

    /// Notes that a kind is no longer served: its objects can only be looked up.
    pub fn unobserve(&mut self, api_version: &str, kind: &str) {
        let uids: Vec<Uid> =
            self.of_kind(api_version, kind).map(|node| node.identity.uid.clone()).collect();
        for uid in uids {
            if let Some(node) = self.nodes.get_mut(&uid) {
                node.is_virtual = true;
                self.effects.push(GraphEffect::DeleteLater(uid));
            }
        }
    }

    fn of_kind<'a>(
        &'a self,
        api_version: &'a str,
        kind: &'a str,
    ) -> impl Iterator<Item = &'a GraphNode> {
        self.nodes.values().inspect(|_| self.count()).filter(move |node| {
            &*node.identity.kind == kind && &*node.identity.api_version == api_version
        })
    }

    fn transition(&mut self, uid: &Uid, observed: &ObservedObject) {
        let Some(node) = self.nodes.get_mut(uid) else { return };
        node.being_deleted |= observed.being_deleted;
        let starts_orphaning =
            !mem::replace(&mut node.orphaning, observed.orphaning) && observed.orphaning;
        let was = mem::replace(&mut node.deleting_dependents, observed.deleting_dependents);
        if starts_orphaning {
            self.effects.push(GraphEffect::Orphan(uid.clone()));
        } else if observed.deleting_dependents && !was {
            self.effects.extend(node.dependents.iter().cloned().map(GraphEffect::Delete));
            self.effects.push(GraphEffect::Delete(uid.clone()));
        }
    }

    fn change_owners(&mut self, uid: &Uid, owners: &[OwnerReference]) {
        let Some(node) = self.nodes.get_mut(uid) else { return };
        if node.owners == owners {
            return;
        }
        let old = mem::replace(&mut node.owners, owners.to_vec());
        let find = |list: &[OwnerReference], uid: &Uid| {
            list.iter().rfind(|reference| reference.uid == *uid).cloned()
        };
        let added: Vec<_> =
            owners.iter().filter(|new| find(&old, &new.uid).is_none()).cloned().collect();
        let removed: Vec<_> =
            old.iter().filter(|old| find(owners, &old.uid).is_none()).cloned().collect();
        for reference in old.iter().filter(|old| old.blocks) {
            let unblocks = find(owners, &reference.uid).is_none_or(|new| !new.blocks);
            if unblocks && self.contains(&reference.uid) {
                self.effects.push(GraphEffect::Delete(reference.uid.clone()));
            }
        }
        self.add_to_owners(uid, &added);
        self.remove_from_owners(uid, &removed);
    }

    /// Adds an object to its owners' dependents. Owners that are not in the graph are added as virtual nodes, and
    /// looked up. An object whose reference does not fit the owner is checked.
    fn add_to_owners(&mut self, uid: &Uid, owners: &[OwnerReference]) {
        let Some(namespace) = self.nodes.get(uid).map(|node| node.identity.namespace.clone())
        else {
            return;
        };
        let (mut doubtful, mut reported) = (false, Vec::new());
        for reference in owners {
            let Some(owner) = self.nodes.get_mut(&reference.uid) else {
                let mut dependents = self.unfound.remove(&reference.uid).unwrap_or_default();
                dependents.insert(uid.clone());
                self.nodes.insert(
                    reference.uid.clone(),
                    GraphNode {
                        identity: reference.identity(&namespace),
                        owners: Vec::new(),
                        dependents,
                        is_virtual: true,
                        being_deleted: false,
                        deleting_dependents: false,
                        orphaning: false,
                    },
                );
                self.effects.push(GraphEffect::Delete(reference.uid.clone()));
                continue;
            };
            owner.dependents.insert(uid.clone());
            if doubtful {
                continue;
            }
            let ObjectIdentity { namespace: of_owner, .. } = &owner.identity;
            if !of_owner.is_empty() && *of_owner != namespace {
                if !owner.is_virtual {
                    reported.push(reference.uid.clone());
                }
                doubtful = true;
            } else {
                let cluster_scoped = of_owner.is_empty() && !namespace.is_empty();
                doubtful =
                    !reference.matches(&owner.identity) || cluster_scoped && owner.is_virtual;
            }
        }
        reported.iter().for_each(|owner| self.report(uid, owner));
        if doubtful {
            self.effects.push(GraphEffect::Delete(uid.clone()));
        }
    }

    fn remove_from_owners(&mut self, uid: &Uid, owners: &[OwnerReference]) {
        for reference in owners {
            if let Some(owner) = self.nodes.get_mut(&reference.uid) {
                owner.dependents.remove(uid);
            }
            if let Some(dependents) = self.unfound.get_mut(&reference.uid) {
                dependents.remove(uid);
                if dependents.is_empty() {
                    self.unfound.remove(&reference.uid);
                }
            }
            self.prune(&reference.uid);
        }
    }

    /// Removes a node that says nothing.
    fn prune(&mut self, uid: &Uid) {
        if self.nodes.get(uid).is_some_and(GraphNode::is_idle) {
            self.nodes.remove(uid);
        }
    }

    fn report(&mut self, dependent: &Uid, owner: &Uid) {
        let Some(node) = self.nodes.get(dependent) else { return };
        let reference = node.owners.iter().find(|reference| reference.uid == *owner);
        if let Some(reference) = reference {
            let (of, owner) = (node.identity.clone(), reference.identity(&node.identity.namespace));
            self.effects.push(GraphEffect::InvalidNamespace(of, owner));
        }
    }

    /// Dependents whose references name this identity, and those that name the UID with other coordinates.
    fn partition(&self, owner: &ObjectIdentity) -> (DependentIdentities, DependentIdentities) {
        let (mut matching, mut others) = (Vec::new(), Vec::new());
        let dependents = self.nodes.get(&owner.uid).map(|node| node.dependents.iter());
        for node in dependents.into_iter().flatten().filter_map(|uid| self.nodes.get(uid)) {
            self.count();
            let found = (node.identity.uid.clone(), node.identity.clone());
            if !owner.namespace.is_empty() && owner.namespace != node.identity.namespace {
                others.push(found);
                continue;
            }
            let references = || node.owners.iter().filter(|owned| owned.uid == owner.uid);
            if references().any(|reference| reference.matches(owner)) {
                matching.push(found.clone());
            }
            if references().any(|reference| !reference.matches(owner)) {
                others.push(found);
            }
        }
        (matching, others)
    }

    /// Other coordinates under which dependents refer to an owner: the next after `absent`, or the first.
    fn alternative(
        &self,
        others: &[(Uid, ObjectIdentity)],
        absent: &ObjectIdentity,
    ) -> Option<ObjectIdentity> {
        let nodes = others.iter().filter_map(|(uid, _)| self.nodes.get(uid));
        let mut alternatives: BTreeSet<ObjectIdentity> = nodes
            .flat_map(|node| {
                let references = node.owners.iter().filter(|owner| owner.uid == absent.uid);
                references.map(|reference| reference.identity(&node.identity.namespace))
            })
            .map(|mut identity| {
                let same_kind =
                    identity.kind == absent.kind && identity.api_version == absent.api_version;
                if absent.namespace.is_empty() && same_kind {
                    identity.namespace = Arc::from("");
                }
                identity
            })
            .collect();
        alternatives.remove(absent);
        let next = alternatives.range(absent..).next().cloned();
        next.or_else(|| alternatives.first().cloned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity(namespace: &str, name: &str) -> ObjectIdentity {
        ObjectIdentity {
            kind: "ConfigMap".into(),
            api_version: "v1".into(),
            namespace: namespace.into(),
            name: name.into(),
            uid: name.into(),
        }
    }

    fn observed(namespace: &str, name: &str, owner: Option<&str>) -> ObservedObject {
        let owners = owner.into_iter().map(|owner| {
            let ObjectIdentity { kind, api_version, name, uid, .. } = identity("", owner);
            OwnerReference { api_version, kind, name, uid, blocks: true }
        });
        ObservedObject {
            identity: identity(namespace, name),
            owners: owners.collect(),
            being_deleted: false,
            deleting_dependents: false,
            orphaning: false,
        }
    }

    #[test]
    fn owner_observed_after_a_failed_look_up_has_its_dependents() {
        let mut graph = OwnerGraph::default();
        graph.observe(observed("a", "dependent", Some("owner")));
        graph.not_found(&identity("a", "owner"));
        assert!(!graph.contains("owner"));
        let mut owner = observed("b", "owner", None);
        owner.orphaning = true;
        graph.observe(owner);
        let dependents = graph.node("owner").map(|owner| owner.dependents.clone());
        assert_eq!(dependents, Some(BTreeSet::from(["dependent".into()])));
    }

    #[test]
    fn dependents_of_a_missing_owner_are_forgotten_with_them() {
        let mut graph = OwnerGraph::default();
        graph.observe(observed("a", "dependent", Some("owner")));
        graph.not_found(&identity("a", "owner"));
        assert_eq!(graph.unfound.len(), 1);
        graph.forget(&identity("a", "dependent"));
        assert!(graph.unfound.is_empty() && graph.nodes.is_empty());
    }
}
