//! Selections of lists and watches, and the selections that several watches share.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex, PoisonError, Weak};

use kevel_api::selector::field::FieldSelector;
use kevel_api::selector::label::LabelSelector;
use kevel_api::selector::shard::{ShardField, ShardSelector};

use super::{Change, Event, FieldPath, Object};

/// Selection of objects: prefix, labels and fields (upstream: `SelectionPredicate`).
#[derive(Debug, Default)]
pub struct Selection {
    /// `namespace/` or nothing.
    pub prefix: String,
    /// Label selector.
    pub labels: LabelSelector,
    /// Field selector.
    pub fields: FieldSelector,
    /// The resource's selectable fields, besides name and namespace.
    pub paths: Arc<[FieldPath]>,
    /// Shard selector; `None` for all objects.
    pub shard: Option<Arc<ShardSelector>>,
}

/// Path of the field by which objects are mostly sharded.
static UID: LazyLock<FieldPath> = LazyLock::new(|| FieldPath::new("metadata.uid", "metadata.uid"));

impl Selection {
    /// Whether the object is selected. An object that cannot be read is not.
    pub fn matches(&self, object: &Object) -> bool {
        object.wire().is_ok()
            && object.key().starts_with(&self.prefix)
            && (self.labels.is_empty() || self.labels.selects(object))
            && (self.fields.is_empty()
                || self.fields.matches(|name| Some(self.field(object, name))))
            && self.shard.as_ref().is_none_or(|shard| selects(shard, object))
    }

    /// Whether every readable object below the prefix is selected.
    pub fn selects_all(&self) -> bool {
        self.labels.is_empty() && self.fields.is_empty() && self.shard.is_none()
    }

    fn field<'o>(&self, object: &'o Object, name: &str) -> &'o str {
        match name {
            "metadata.name" => object.name(),
            "metadata.namespace" => object.namespace(),
            name => {
                let position = self.paths.iter().position(|path| *path.name == *name);
                position.map_or("", |position| object.field(&self.paths, position))
            }
        }
    }

    /// The indexed field and value that all selected objects share, if the selection requires one.
    pub(super) fn topic(&self, indexed: &[usize]) -> Option<Topic> {
        if let Some(name) = self.fields.requires_exact_match("metadata.name") {
            return Some((NAME, name.into()));
        }
        indexed.iter().find_map(|position| {
            let path = self.paths.get(*position)?;
            let value = self.fields.requires_exact_match(&path.name)?;
            Some((*position, value.into()))
        })
    }

    /// Event type for a client that sees only the selected objects.
    pub(super) fn change(&self, event: &Event) -> Option<Change> {
        if event.is_damaged() {
            return self.change_of_damaged(event);
        }
        let selected = |object: Option<&Arc<Object>>| object.is_some_and(|o| self.matches(o));
        match (selected(event.previous()), selected(event.current())) {
            (false, true) => Some(Change::Added),
            (true, true) => Some(Change::Modified),
            (true, false) => Some(Change::Deleted),
            (false, false) => None,
        }
    }
}

impl Selection {
    /// Event type of a change from or to an unreadable state, which clients do not see: what they have of the object
    /// stays until it can be read again or is deleted.
    fn change_of_damaged(&self, event: &Event) -> Option<Change> {
        match event.current() {
            Some(object) if object.wire().is_err() => None,
            Some(object) if self.matches(object) => Some(Change::Added),
            // The client may have the object's last readable state, which it has to forget.
            _ => event.previous().filter(|lost| self.may_match(lost)).map(|_| Change::Deleted),
        }
    }

    /// Whether an object that cannot be read may be selected: of its fields, only name and namespace are known.
    fn may_match(&self, object: &Object) -> bool {
        let known = |name: &str| matches!(name, "metadata.name" | "metadata.namespace");
        let named = |field: &str| {
            let value = self.fields.requires_exact_match(field);
            value.is_none_or(|value| !known(field) || value == self.field(object, field))
        };
        object.key().starts_with(&self.prefix)
            && named("metadata.name")
            && named("metadata.namespace")
    }
}

/// Whether a shard has an object.
fn selects(shard: &ShardSelector, object: &Object) -> bool {
    shard.selects(match shard.field {
        ShardField::Namespace => object.namespace(),
        ShardField::Uid => object.text_at(&UID),
    })
}

/// Position and value of an indexed field.
pub(super) type Topic = (usize, Box<str>);
/// Position that stands for `metadata.name`.
pub(super) const NAME: usize = usize::MAX;

impl Selection {
    /// Whether the selection is worth sharing: a small one is evaluated faster than looked up.
    fn is_large(&self) -> bool {
        self.labels.is_large() || self.fields.is_large()
    }

    fn is_same(&self, other: &Selection) -> bool {
        self.prefix == other.prefix
            && self.labels == other.labels
            && self.fields == other.fields
            && self.shard == other.shard
            && Arc::ptr_eq(&self.paths, &other.paths)
    }
}

/// A selection of one or more watches.
#[derive(Debug)]
pub(super) struct SharedSelection {
    selection: Selection,
    /// Number of a large selection; small ones have none.
    id: Option<u64>,
}

impl SharedSelection {
    pub fn get(&self) -> &Selection {
        &self.selection
    }

    /// Event type for a client that sees only the selected objects. Watches with equal large selections share the
    /// result.
    pub fn change(self: &Arc<Self>, event: &Event) -> Option<Change> {
        match self.id.filter(|_| Arc::strong_count(self) > 1) {
            Some(id) => event.seen_by(id, || self.selection.change(event)),
            None => self.selection.change(event),
        }
    }
}

/// The large selections of a resource's watches, each once. Holds at most as many as there are watches, and some of
/// ended watches that were not swept yet.
#[derive(Debug, Default)]
pub(super) struct Selections {
    by_hash: Mutex<SharedSelections>,
    hasher: RandomState,
    ids: AtomicU64,
}

#[derive(Debug, Default)]
struct SharedSelections {
    selections: HashMap<u64, Vec<Weak<SharedSelection>>>,
    /// Number of selections at which the selections of ended watches are dropped.
    sweep_at: usize,
}

/// Minimum number of selections before a sweep.
const SWEEP_AT_LEAST: usize = 64;

impl Selections {
    /// The selection, shared with the equal ones of other watches.
    pub fn share(&self, selection: Selection) -> Arc<SharedSelection> {
        if !selection.is_large() {
            return Arc::new(SharedSelection { selection, id: None });
        }
        let parts = (&selection.prefix, &selection.labels, &selection.fields, &selection.shard);
        let hash = self.hasher.hash_one(parts);
        let mut known = self.by_hash.lock().unwrap_or_else(PoisonError::into_inner);
        let alike = known.selections.get(&hash).into_iter().flatten();
        let mut alike = alike.filter_map(Weak::upgrade);
        if let Some(shared) = alike.find(|one| one.selection.is_same(&selection)) {
            return shared;
        }
        let id = Some(self.ids.fetch_add(1, Ordering::Relaxed));
        let shared = Arc::new(SharedSelection { selection, id });
        known.add(hash, Arc::downgrade(&shared));
        shared
    }
}

impl SharedSelections {
    fn add(&mut self, hash: u64, selection: Weak<SharedSelection>) {
        self.selections.entry(hash).or_default().push(selection);
        if self.selections.len() < self.sweep_at.max(SWEEP_AT_LEAST) {
            return;
        }
        self.selections.retain(|_, alike| {
            alike.retain(|one| one.strong_count() > 0);
            !alike.is_empty()
        });
        self.sweep_at = self.selections.len() * 2;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn selection(labels: &str) -> Selection {
        Selection { labels: labels.parse().unwrap(), ..Selection::default() }
    }

    fn large(salt: usize) -> String {
        (0..100).map(|i| format!("!k{i}-{salt}")).collect::<Vec<_>>().join(",")
    }

    #[test]
    fn equal_large_selections_are_shared_while_watched() {
        let (selections, paths) = (Selections::default(), Arc::<[FieldPath]>::default());
        let share = |labels: &str| {
            selections.share(Selection { paths: paths.clone(), ..selection(labels) })
        };
        let first = share(&large(1));
        assert!(Arc::ptr_eq(&first, &share(&large(1))));
        assert!(!Arc::ptr_eq(&first, &share(&large(2))));
        assert!(!Arc::ptr_eq(&share("a=b"), &share("a=b")), "a small one is not looked up");
        let id = first.id;
        drop(first);
        assert_ne!(share(&large(1)).id, id);
    }

    #[test]
    fn selections_of_ended_watches_are_forgotten() {
        let selections = Selections::default();
        let kept: Vec<_> = (0..10).map(|i| selections.share(selection(&large(i)))).collect();
        for salt in 0..1000 {
            selections.share(selection(&large(salt + 10)));
        }
        let known = selections.by_hash.lock().unwrap().selections.len();
        assert!((kept.len()..2 * SWEEP_AT_LEAST).contains(&known), "{known}");
    }

    #[test]
    fn event_is_evaluated_once_for_equal_selections() {
        let event = Event::new(1, crate::Revision(1), None, None);
        let mut evaluated = 0;
        for (id, expected) in
            [(1, Some(Change::Added)), (2, None), (1, Some(Change::Added)), (2, None)]
        {
            let seen = event.seen_by(id, || {
                evaluated += 1;
                expected
            });
            assert_eq!(seen, expected);
        }
        assert_eq!(evaluated, 2);
    }
}
