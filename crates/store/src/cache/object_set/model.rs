//! The set beside a naive model: changes at random, and every question asked.

use std::collections::BTreeMap;

use bytes::Bytes;

use super::*;
use crate::Revision;
use crate::cache::{Span, Wire};

/// Numbers that look random, the same in every run.
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % end
    }
}

type Model = BTreeMap<String, u64>;

fn object(key: &str, revision: u64) -> Arc<Object> {
    let span = Span::default();
    let wire = Wire { bytes: Bytes::new(), revision: span, labels: span };
    Arc::new(Object::readable(key, Revision(revision), wire))
}

fn key(number: usize) -> String {
    format!("ns-{}/p{number:04}", number % 3)
}

fn shown<'s>(objects: impl Iterator<Item = &'s Arc<Object>>) -> Vec<(String, u64)> {
    objects.map(|object| (object.key().to_owned(), object.revision().0)).collect()
}

/// Checks contents, widths and counts of a node; returns its number of objects.
fn check_node(node: &ObjectNode, is_root: bool) -> usize {
    assert!(is_root || node.width() > 0, "no node is empty");
    assert!(node.width() <= FANOUT);
    if let ObjectNode::Inner(branches) = node {
        for branch in branches {
            assert_eq!(check_node(&branch.node, false), branch.len);
            assert!(*branch.least <= *branch.node.least());
        }
    }
    node.len()
}

fn check(set: &ObjectSet, model: &Model, edge: &str, count: usize) {
    assert_eq!(check_node(&set.root, true), model.len());
    let all = || model.iter().map(|(key, revision)| (key.clone(), *revision));
    assert_eq!(shown(set.iter()), all().collect::<Vec<_>>());
    for edge in [Edge::Before(edge), Edge::After(edge)] {
        let rank = model.keys().filter(|key| edge.is_behind(key)).count();
        assert_eq!(set.rank(edge), rank, "{edge:?}");
        let expected: Vec<_> = all().skip(rank).take(count).collect();
        assert_eq!(shown(set.from(edge, count)), expected, "{edge:?}");
    }
    let found = set.get(edge).map(|object| object.revision().0);
    assert_eq!(found, model.get(edge).copied());
}

#[test]
fn set_equals_a_map_whatever_changes() {
    for seed in 1..=12 {
        let mut random = Random(0x9e37_79b9_7f4a_7c15 ^ seed);
        let (mut set, mut model) = (ObjectSet::default(), Model::new());
        let keys = [5, 40, 400, 1500][seed as usize % 4];
        let mut kept: Vec<(ObjectSet, Model)> = Vec::new();
        for revision in 0..1500 {
            let changed = key(random.below(keys));
            // Grows at first, and shrinks at the end.
            match random.below(1500) > revision {
                true => {
                    let replaced = set.insert(object(&changed, revision as u64));
                    let expected = model.insert(changed, revision as u64);
                    assert_eq!(replaced.map(|object| object.revision().0), expected);
                }
                false => {
                    let removed = set.remove(&changed);
                    assert_eq!(removed.map(|o| o.revision().0), model.remove(&changed));
                }
            }
            if revision % 50 == 0 {
                kept.push((set.clone(), model.clone()));
            }
            if revision % 7 == 0 {
                check(&set, &model, &key(random.below(keys)), random.below(30));
            }
        }
        // Earlier copies have not changed.
        for (set, model) in kept {
            check(&set, &model, &key(random.below(keys)), random.below(30));
        }
        let left: Vec<String> = model.keys().cloned().collect();
        left.iter().for_each(|key| drop(set.remove(key)));
        assert!(set.is_empty() && set.iter().next().is_none());
        assert!(set.is_same(&ObjectSet::default()));
    }
}

#[test]
fn set_of_sorted_objects_equals_one_filled_singly() {
    for count in [0, 1, FANOUT, FANOUT + 1, FANOUT * FANOUT, FANOUT * FANOUT + 1, 5000] {
        let objects: Vec<_> = (0..count).map(|n| object(&format!("p{n:05}"), n as u64)).collect();
        let model: Model = objects.iter().map(|o| (o.key().to_owned(), o.revision().0)).collect();
        let mut filled = ObjectSet::default();
        objects.iter().for_each(|object| drop(filled.insert(object.clone())));
        for set in [ObjectSet::from_sorted(objects), filled] {
            for edge in ["", "p", "p00000", "p00015", "p00016", "p02500", "p04999", "q"] {
                check(&set, &model, edge, 40);
            }
        }
    }
}

#[test]
fn merged_sets_are_in_order() {
    let mut random = Random(7);
    for sets in 0..6 {
        let mut model = Model::new();
        let mut parts = vec![ObjectSet::default(); sets];
        for number in 0..200 {
            if let Some(part) = parts.get_mut(random.below(8)) {
                part.insert(object(&key(number), number as u64));
                model.insert(key(number), number as u64);
            }
        }
        let merged = MergedObjects::new(parts.iter().map(ObjectSet::iter));
        assert_eq!(shown(merged), model.into_iter().collect::<Vec<_>>());
    }
}
