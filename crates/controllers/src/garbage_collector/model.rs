//! The graph and its decisions beside a naive model: random owners with cycles, missing owners and finalizers, whose
//! deletions are heard of in any order between resources.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use kevel_api::value::{Map, Value};

use super::decision::{GarbageDecision, OwnerState, Propagation, decide};
use super::graph::{GraphEffect, OwnerGraph};
use super::identity::{FOREGROUND, ORPHAN, ObjectIdentity, ObservedObject, OwnerReference, Uid};

/// Objects of a world, and owners that never exist.
const OBJECTS: usize = 9;
const MISSING: usize = 2;
/// Resources: each has a stream of events of its own.
const RESOURCES: usize = 3;
const CUSTOM: &str = "example.com/custom";
/// Steps after which a world that does not settle has failed.
const PATIENCE: usize = 20_000;

struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % limit as u64) as usize
    }

    fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }
}

#[derive(Clone, Debug)]
struct Stored {
    owners: BTreeMap<usize, bool>,
    finalizers: BTreeSet<&'static str>,
    deleted: bool,
}

enum Event {
    Apply(ObservedObject),
    Delete(ObjectIdentity),
}

struct World {
    random: Random,
    objects: BTreeMap<usize, Stored>,
    events: [VecDeque<Event>; RESOURCES],
    graph: OwnerGraph,
    deleting: VecDeque<Uid>,
    orphaning: VecDeque<Uid>,
}

fn identity(object: usize) -> ObjectIdentity {
    ObjectIdentity {
        kind: format!("Kind{}", object % RESOURCES).into(),
        api_version: "v1".into(),
        namespace: "".into(),
        name: format!("name{object}").into(),
        uid: object.to_string().into(),
    }
}

fn number(uid: &Uid) -> usize {
    uid.parse().unwrap()
}

fn reference(owner: usize, blocks: bool) -> OwnerReference {
    let ObjectIdentity { kind, api_version, name, uid, .. } = identity(owner);
    OwnerReference { api_version, kind, name, uid, blocks }
}

impl World {
    fn new(seed: u64) -> Self {
        World {
            random: Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1),
            objects: BTreeMap::new(),
            events: std::array::from_fn(|_| VecDeque::new()),
            graph: OwnerGraph::default(),
            deleting: VecDeque::new(),
            orphaning: VecDeque::new(),
        }
    }

    fn observed(&self, object: usize) -> ObservedObject {
        let stored = &self.objects[&object];
        ObservedObject {
            identity: identity(object),
            owners: stored
                .owners
                .iter()
                .map(|(owner, blocks)| reference(*owner, *blocks))
                .collect(),
            being_deleted: stored.deleted,
            deleting_dependents: stored.deleted && stored.finalizers.contains(FOREGROUND),
            orphaning: stored.deleted && stored.finalizers.contains(ORPHAN),
        }
    }

    /// Tells of a change; an object that is being deleted and has no finalizer is gone.
    fn changed(&mut self, object: usize) {
        let stored = &self.objects[&object];
        let event = if stored.deleted && stored.finalizers.is_empty() {
            self.objects.remove(&object);
            Event::Delete(identity(object))
        } else {
            Event::Apply(self.observed(object))
        };
        self.events[object % RESOURCES].push_back(event);
    }

    fn create(&mut self) {
        for object in 0..OBJECTS {
            let mut owners = BTreeMap::new();
            for _ in 0..self.random.below(3) {
                let owner = self.random.below(OBJECTS + MISSING);
                let blocks = self.random.chance(70);
                owners.insert(owner, blocks);
            }
            owners.remove(&object);
            let finalizers = BTreeSet::from_iter(self.random.chance(20).then_some(CUSTOM));
            self.objects.insert(object, Stored { owners, finalizers, deleted: false });
        }
        (0..OBJECTS).for_each(|object| self.changed(object));
    }

    fn delete(&mut self, object: usize, propagation: Propagation) {
        let Some(stored) = self.objects.get_mut(&object) else { return };
        stored.deleted = true;
        stored.finalizers.retain(|finalizer| ![FOREGROUND, ORPHAN].contains(finalizer));
        stored.finalizers.extend(match propagation {
            Propagation::Background => None,
            Propagation::Foreground => Some(FOREGROUND),
            Propagation::Orphan => Some(ORPHAN),
        });
        self.changed(object);
    }

    fn remove_finalizer(&mut self, object: usize, finalizer: &str) {
        let Some(stored) = self.objects.get_mut(&object) else { return };
        if stored.finalizers.remove(finalizer) {
            self.changed(object);
        }
    }

    fn hear(&mut self) -> bool {
        let first = self.random.below(RESOURCES);
        let queues = (0..RESOURCES).map(|offset| (first + offset) % RESOURCES);
        let mut queues = queues.filter(|queue| !self.events[*queue].is_empty());
        let Some(queue) = queues.next() else { return false };
        match self.events[queue].pop_front().unwrap() {
            Event::Apply(observed) => self.graph.observe(observed),
            Event::Delete(identity) => self.graph.forget(&identity),
        }
        true
    }

    fn work(&mut self) -> bool {
        if self.random.chance(50)
            && let Some(uid) = self.orphaning.pop_front()
        {
            self.attempt_to_orphan(&uid);
            return true;
        }
        let Some(uid) = self.deleting.pop_front() else { return !self.orphaning.is_empty() };
        self.attempt_to_delete(&uid);
        true
    }

    fn settle(&mut self) {
        for _ in 0..PATIENCE {
            let moved = (self.random.chance(50) && self.hear()) || self.work() || self.hear();
            for effect in self.graph.take_effects() {
                let (queue, uid) = match effect {
                    GraphEffect::Delete(uid) | GraphEffect::DeleteLater(uid) => {
                        (&mut self.deleting, uid)
                    }
                    GraphEffect::Orphan(uid) => (&mut self.orphaning, uid),
                    GraphEffect::InvalidNamespace(..) => panic!("all objects are cluster-scoped"),
                };
                if !queue.contains(&uid) {
                    queue.push_back(uid);
                }
            }
            if !moved {
                return;
            }
        }
        panic!("the world does not settle: {:?}", self.objects);
    }

    fn owner_state(&mut self, owner: usize) -> OwnerState {
        let found = self.objects.get(&owner);
        if self.graph.absent.has(&identity(owner)) {
            assert!(found.is_none(), "{owner} exists");
        }
        match found {
            None => {
                self.graph.absent.add(identity(owner));
                OwnerState::Dangling
            }
            Some(owner) if owner.deleted && owner.finalizers.contains(FOREGROUND) => {
                OwnerState::Waiting
            }
            Some(_) => OwnerState::Solid,
        }
    }

    fn attempt_to_delete(&mut self, uid: &Uid) {
        let Some(node) = self.graph.node(uid).cloned() else { return };
        if node.being_deleted && !node.deleting_dependents {
            return;
        }
        let object = number(uid);
        let Some(stored) = self.objects.get(&object).cloned() else {
            return self.graph.not_found(&node.identity);
        };
        self.graph.confirm(node.identity.clone());
        if node.deleting_dependents {
            return self.wait_for_dependents(uid);
        }
        let mut states = Vec::new();
        for (owner, blocks) in &stored.owners {
            states.push((reference(*owner, *blocks), self.owner_state(*owner)));
        }
        let dependents = &self.graph.node(uid).unwrap().dependents;
        let waiting: Vec<bool> = dependents
            .iter()
            .filter_map(|uid| Some(self.graph.node(uid)?.deleting_dependents))
            .collect();
        let finalizers = stored.finalizers.iter().map(|name| Value::from(*name)).collect();
        let metadata = Map::from_iter([("finalizers", Value::List(finalizers))]);
        let latest = Map::from_iter([("metadata", Value::Map(metadata))]).into();
        match decide(&latest, &states, &waiting) {
            GarbageDecision::Keep => {}
            GarbageDecision::RemoveOwners(gone) => {
                let owners = &mut self.objects.get_mut(&object).unwrap().owners;
                owners.retain(|owner, _| !gone.iter().any(|uid| number(uid) == *owner));
                self.changed(object);
            }
            GarbageDecision::Delete { propagation, unblock } => {
                let owners = &mut self.objects.get_mut(&object).unwrap().owners;
                assert!(states.iter().all(|(_, state)| *state != OwnerState::Solid));
                if unblock {
                    owners.values_mut().for_each(|blocks| *blocks = false);
                    self.changed(object);
                }
                self.delete(object, propagation);
            }
        }
    }

    fn wait_for_dependents(&mut self, uid: &Uid) {
        let node = self.graph.node(uid).unwrap();
        let blocking: Vec<(Uid, bool)> = self
            .graph
            .blocking_dependents(node)
            .map(|node| (node.identity.uid.clone(), node.deleting_dependents))
            .collect();
        if blocking.is_empty() {
            let owner = number(uid);
            let blocks = |stored: &Stored| stored.owners.get(&owner) == Some(&true);
            assert!(!self.objects.values().any(blocks), "{owner} goes before its dependents");
            return self.remove_finalizer(owner, FOREGROUND);
        }
        self.deleting.extend(blocking.into_iter().filter(|(_, waits)| !waits).map(|(uid, _)| uid));
    }

    fn attempt_to_orphan(&mut self, uid: &Uid) {
        let Some(node) = self.graph.node(uid).cloned() else { return };
        for dependent in &node.dependents {
            let Some(stored) = self.objects.get_mut(&number(dependent)) else { continue };
            if stored.owners.remove(&number(uid)).is_some() {
                self.changed(number(dependent));
            }
        }
        self.remove_finalizer(number(uid), ORPHAN);
    }
}

/// Objects that remain, naively: those that were not deleted, and have no owners or one that remains. Orphaning may take
/// an owner away before or after others are gone, which `orphans_count` decides.
fn remaining(
    created: &BTreeMap<usize, Stored>,
    deleted: &BTreeMap<usize, Propagation>,
    orphans_count: bool,
) -> BTreeSet<usize> {
    let mut alive: BTreeSet<usize> =
        created.keys().copied().filter(|object| !deleted.contains_key(object)).collect();
    loop {
        let released = |owner: &usize| deleted.get(owner) == Some(&Propagation::Orphan);
        let stays = |object: &usize| {
            let owners = created[object].owners.keys();
            let bound: Vec<_> = owners.clone().filter(|owner| !released(owner)).collect();
            let free = if orphans_count { owners.len() != bound.len() } else { bound.is_empty() };
            owners.len() == 0 || free || bound.iter().any(|owner| alive.contains(owner))
        };
        let next: BTreeSet<usize> = alive.iter().copied().filter(stays).collect();
        if next == alive {
            return alive;
        }
        alive = next;
    }
}

#[test]
fn graph_collects_what_a_naive_model_collects() {
    let mut collected = 0;
    for seed in 1..3000 {
        let mut world = World::new(seed);
        world.create();
        let created = world.objects.clone();
        world.settle();
        let mut deleted = BTreeMap::new();
        for _ in 0..=world.random.below(3) {
            let object = world.random.below(OBJECTS);
            let policies = [Propagation::Background, Propagation::Foreground, Propagation::Orphan];
            let policy = policies[world.random.below(policies.len())];
            let free = world.objects.get(&object).is_some_and(|stored| !stored.deleted);
            if free && !deleted.contains_key(&object) {
                deleted.insert(object, policy);
                world.delete(object, policy);
            }
        }
        world.settle();
        for object in 0..OBJECTS {
            world.remove_finalizer(object, CUSTOM);
        }
        world.settle();
        let left: BTreeSet<usize> = world.objects.keys().copied().collect();
        let (least, most) =
            (remaining(&created, &deleted, false), remaining(&created, &deleted, true));
        assert!(
            least.is_subset(&left) && left.is_subset(&most),
            "seed {seed}: {left:?} remain, not {least:?} to {most:?}\n{created:?}\n{deleted:?}",
        );
        collected += OBJECTS - left.len();
        let idle = (0..OBJECTS + MISSING).filter(|object| !left.contains(object));
        for gone in idle {
            let uid: Uid = Arc::from(gone.to_string());
            assert!(!world.graph.contains(&uid), "seed {seed}: {gone} is still in the graph");
        }
    }
    assert!(collected > 3000, "{collected}");
}
