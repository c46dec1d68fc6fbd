//! Indexes of a snapshot's objects by a label or a selectable field.
//!
//! An index belongs to a snapshot as its objects do: it is persistent, shared between copies, and changed with each
//! object. `demand.rs` decides which there are.

#[cfg(test)]
mod model;

use std::collections::BTreeMap;
use std::sync::Arc;

use imbl::OrdMap;
use kevel_api::selector::label::Operator;

use super::object_set::ObjectSet;
use super::{FieldPath, Object, Selection, Snapshot};

/// Maximum length of an indexed value. Values of labels have at most 63 bytes; those of fields may have a megabyte,
/// and the index has a copy. Objects with longer values are not in the index, and it is not asked for them.
const MAX_VALUE: usize = 256;
/// Maximum number of values of one requirement (`key in (...)`) that an index is asked for: their objects are merged.
const MAX_VALUES: usize = 16;
/// Maximum number of a selection's requirements for which an index is looked for.
const MAX_REQUIREMENTS: usize = 16;
/// Number of objects that are indexed between two yields.
const PORTION: usize = 256;

/// Indexed property of objects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum IndexKey {
    Label(Arc<str>),
    /// Position in the resource's fields.
    Field(usize),
}

/// Requirement that an index can answer: the property has one of these values.
#[derive(Debug)]
pub(super) struct Wanted<'s> {
    key: WantedKey<'s>,
    values: Vec<&'s str>,
}

#[derive(Clone, Copy, Debug)]
enum WantedKey<'s> {
    Label(&'s str),
    Field(usize),
}

impl Wanted<'_> {
    pub fn key(&self) -> IndexKey {
        match self.key {
            WantedKey::Label(label) => IndexKey::Label(label.into()),
            WantedKey::Field(position) => IndexKey::Field(position),
        }
    }

    pub fn is_of(&self, key: &IndexKey) -> bool {
        match (self.key, key) {
            (WantedKey::Label(wanted), IndexKey::Label(label)) => *wanted == **label,
            (WantedKey::Field(wanted), IndexKey::Field(position)) => wanted == *position,
            _ => false,
        }
    }
}

/// Requirements of a selection that an index can answer.
pub(super) fn wanted(selection: &Selection) -> Vec<Wanted<'_>> {
    use Operator::{DoubleEquals, Equals, In};
    let labels = selection.labels.requirements().iter().take(MAX_REQUIREMENTS);
    let labels = labels.filter(|one| matches!(one.operator(), In | Equals | DoubleEquals));
    let labels = labels.filter(|one| one.values().len() <= MAX_VALUES).map(|one| {
        // They are sorted, and may be repeated.
        let mut values: Vec<&str> = one.values().iter().map(|value| value.as_str()).collect();
        values.dedup();
        Wanted { key: WantedKey::Label(one.key()), values }
    });
    let fields = selection.fields.requirements().iter().take(MAX_REQUIREMENTS);
    let fields = fields.filter_map(|one| {
        let position = selection.paths.iter().position(|path| *path.name == *one.field)?;
        let value = selection.fields.requires_exact_match(&one.field)?;
        Some(Wanted { key: WantedKey::Field(position), values: vec![value] })
    });
    let all = labels.chain(fields);
    all.filter(|one| one.values.iter().all(|value| value.len() <= MAX_VALUE)).collect()
}

/// Index of a snapshot's objects by one property.
#[derive(Clone, Debug)]
pub(super) struct SnapshotIndex {
    key: IndexKey,
    /// The resource's fields.
    paths: Arc<[FieldPath]>,
    values: OrdMap<Arc<str>, ObjectSet>,
}

impl SnapshotIndex {
    /// Indexes a snapshot in portions.
    pub async fn build(snapshot: &Snapshot, key: IndexKey, paths: Arc<[FieldPath]>) -> Self {
        let mut values: BTreeMap<Arc<str>, Vec<Arc<Object>>> = BTreeMap::new();
        for (number, object) in snapshot.range("", None).enumerate() {
            if number % PORTION == 0 {
                tokio::task::yield_now().await;
            }
            let Some(value) = key.value(object, &paths) else { continue };
            match values.get_mut(value) {
                Some(objects) => objects.push(object.clone()),
                None => drop(values.insert(value.into(), vec![object.clone()])),
            }
        }
        let mut index = SnapshotIndex { key, paths, values: OrdMap::new() };
        for (number, (value, objects)) in values.into_iter().enumerate() {
            if number % PORTION == 0 {
                tokio::task::yield_now().await;
            }
            kevel_compute::charge(objects.len());
            index.values.insert(value, ObjectSet::from_sorted(objects));
        }
        index
    }

    pub fn key(&self) -> &IndexKey {
        &self.key
    }

    /// Takes in the change of a readable object.
    pub fn change(&mut self, before: Option<&Arc<Object>>, after: Option<&Arc<Object>>) {
        let (key, paths) = (&self.key, &self.paths);
        let old = before.and_then(|object| key.value(object, paths));
        let new = after.and_then(|object| key.value(object, paths));
        if let (Some(old), Some(object)) = (old.filter(|_| old != new), before)
            && let Some(objects) = self.values.get_mut(old)
        {
            objects.remove(object.key());
            if objects.is_empty() {
                self.values.remove(old);
            }
        }
        let (Some(new), Some(object)) = (new, after) else { return };
        match self.values.get_mut(new) {
            Some(objects) => drop(objects.insert(object.clone())),
            None => {
                let objects = ObjectSet::from_sorted(vec![object.clone()]);
                self.values.insert(new.into(), objects);
            }
        }
    }
}

impl IndexKey {
    fn value<'o>(&self, object: &'o Object, paths: &[FieldPath]) -> Option<&'o str> {
        let value = match self {
            IndexKey::Label(label) => object.label(label),
            IndexKey::Field(position) => Some(object.field(paths, *position)),
        };
        value.filter(|value| value.len() <= MAX_VALUE)
    }
}

/// The objects of an index that may be selected.
#[derive(Debug)]
pub(super) struct Best<'i> {
    pub key: IndexKey,
    pub sets: Vec<&'i ObjectSet>,
    /// Number of the objects in the range that is asked for.
    pub count: usize,
}

/// Indexes of a snapshot.
#[derive(Clone, Debug, Default)]
pub(super) struct Indexes(Arc<Vec<SnapshotIndex>>);

impl Indexes {
    pub fn add(&mut self, index: SnapshotIndex) {
        let indexes = Arc::make_mut(&mut self.0);
        indexes.retain(|one| one.key != index.key);
        indexes.push(index);
    }

    pub fn retain(&mut self, mut keep: impl FnMut(&IndexKey) -> bool) {
        if !self.0.is_empty() {
            Arc::make_mut(&mut self.0).retain(|index| keep(&index.key));
        }
    }

    /// Takes in the change of a readable object.
    pub fn change(&mut self, before: Option<&Arc<Object>>, after: Option<&Arc<Object>>) {
        if self.0.is_empty() || before.is_none() && after.is_none() {
            return;
        }
        for index in Arc::make_mut(&mut self.0) {
            index.change(before, after);
        }
    }

    /// The index by which the fewest objects come into question.
    pub fn best(
        &self,
        selection: &Selection,
        count: impl Fn(&ObjectSet) -> usize,
    ) -> Option<Best<'_>> {
        if self.0.is_empty() {
            return None;
        }
        let all = wanted(selection).into_iter().filter_map(|wanted| {
            let index = self.0.iter().find(|index| wanted.is_of(&index.key))?;
            if matches!(index.key, IndexKey::Field(_))
                && !Arc::ptr_eq(&index.paths, &selection.paths)
            {
                return None;
            }
            let sets = wanted.values.iter().filter_map(|value| index.values.get(*value));
            let sets: Vec<&ObjectSet> = sets.collect();
            let count = sets.iter().map(|set| count(set)).sum();
            Some(Best { key: index.key.clone(), sets, count })
        });
        all.min_by_key(|best| best.count)
    }
}
