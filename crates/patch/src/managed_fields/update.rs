//! Field ownership of writes other than apply: create, update, patch (upstream: FieldManager.UpdateNoErrors).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use compact_str::{CompactString, ToCompactString};
use kevel_api::time::Time;
use kevel_api::value::{Map, Value};
use thin_vec::thin_vec;

use super::atom::TypeRef;
use super::compare::{Comparison, Of, compare};
use super::conflict::Conflicts;
use super::creation::fields_of_new;
use super::entry::{Managed, ManagerId, Operation, Owned, entry, is_reset, managed_fields};
use super::field_manager::{FieldManager, remove_managed_fields, set_managed_fields};
use super::filter::Filter;
use super::reconcile::reconcile;
use super::set::Set;
use super::validate::{Duplicates, validate};
use crate::unstructured::unstructured_differences;

/// Limit on the updaters of an object; the oldest are merged beyond it (upstream: capManagersManager).
const MAX_UPDATERS: usize = 10;

/// Manager of the fields of merged updaters.
const ANCIENT: &str = "ancient-changes";

/// Fields without owner: the identity of an object, and fields that the server sets (upstream: stripMetaManager).
static UNOWNED: LazyLock<Set> = LazyLock::new(|| {
    Set::of_fields(&[
        &["apiVersion"],
        &["kind"],
        &["metadata"],
        &["metadata", "name"],
        &["metadata", "namespace"],
        &["metadata", "creationTimestamp"],
        &["metadata", "selfLink"],
        &["metadata", "uid"],
        &["metadata", "clusterName"],
        &["metadata", "generation"],
        &["metadata", "managedFields"],
        &["metadata", "resourceVersion"],
    ])
});

impl FieldManager<'_> {
    /// Sets `managedFields` of `new`, given the object that it replaces.
    ///
    /// A client may set `managedFields` itself, or send one empty entry to drop all managers; invalid ones are replaced
    /// by those of the live object.
    pub fn update(&self, live: Option<&Value>, new: &mut Value, manager: &str, now: Time) {
        let managed = self.decode_live_or_new(live, new);
        remove_managed_fields(new);
        if live.is_none()
            && managed.is_empty()
            && let Some(fields) = self.fields_of_new(new)
        {
            return self.record_new(new, fields, manager, now);
        }
        // An untracked object stays untracked until its first apply.
        let created = live.is_none_or(|live| live.str_at(&["metadata", "uid"]).is_empty());
        if managed.is_empty() && !created {
            return;
        }
        let trees = self.trees(live, new, &managed);
        if let Ok(managed) = self.updated(&trees, managed, manager, now) {
            set_managed_fields(new, managed.encode());
        }
    }

    /// FieldsV1 of the writer of a new object, if no comparison is needed.
    fn fields_of_new(&self, new: &Value) -> Option<String> {
        let excluded = match self.filter {
            Filter::All => &Set::new(),
            Filter::Exclude(fields) => fields,
            Filter::Include(_) => return None,
        };
        let builtin = !self.schema.is_custom();
        builtin.then(|| fields_of_new(new, self.schema, excluded, &UNOWNED)).flatten()
    }

    fn record_new(&self, new: &mut Value, fields: String, manager: &str, now: Time) {
        if fields == "{}" {
            return;
        }
        let id = self.manager_id(manager, Operation::Update);
        let entry = entry(&id, self.api_version, fields, Some(now.to_compact_string()));
        set_managed_fields(new, Some(Value::List(thin_vec![entry])));
    }

    /// Trees before and after a write, reduced to the differences for built-in types.
    fn trees(&self, live: Option<&Value>, new: &Value, managed: &Managed) -> Trees {
        let whole = || (self.tree(live), self.tree(Some(new)));
        if self.schema.is_custom() {
            return Trees::of(whole());
        }
        let other_versions = managed.0.values().any(|o| o.api_version != self.api_version);
        let converted = other_versions.then(whole);
        let empty = Value::Map(Map::new());
        let live = live.unwrap_or(&empty);
        let (mut before, mut after) = unstructured_differences(live, new, self.schema);
        self.finish_tree(&mut before);
        self.finish_tree(&mut after);
        Trees { before, after, converted }
    }

    fn decode_live_or_new(&self, live: Option<&Value>, new: &Value) -> Managed {
        let live = || Managed::decode(live.and_then(managed_fields)).unwrap_or_default();
        // Writers of a subresource may not change managedFields.
        if !self.subresource.is_empty() {
            return live();
        }
        let entries = managed_fields(new);
        if is_reset(entries) {
            return Managed::default();
        }
        match Managed::decode(entries) {
            Ok(managed) if !managed.is_empty() => managed,
            // Clients that do not know managedFields must not delete them.
            _ => live(),
        }
    }

    /// Managers after a write that changes one tree to another.
    pub(super) fn updated(
        &self,
        trees: &Trees,
        mut managed: Managed,
        manager: &str,
        now: Time,
    ) -> Result<Managed, String> {
        let Trees { before, after, .. } = trees;
        // The decoder of a built-in type has checked this already.
        if self.schema.is_custom() {
            for (tree, what) in [(after, "new"), (before, "live")] {
                validate(tree, TypeRef::of(self.schema), Duplicates::Allow).map_err(|errors| {
                    let name = self.name(tree);
                    format!("failed to convert {what} object ({name}) to smd typed: {errors}")
                })?;
            }
        }
        self.reconcile(before, &mut managed)?;
        let changes = match self.take_over(trees, &mut managed, None, true) {
            Ok(changes) => changes,
            Err(TakeOverError::Other(message)) => {
                let name = self.name(after);
                return Err(format!("failed to update ManagedFields ({name}): {message}"));
            }
            Err(TakeOverError::Conflicts(conflicts)) => return Err(conflicts.to_string()),
        };
        let mut set = changes.modified.merged(changes.added);
        set.subtract(&UNOWNED);
        if !set.is_empty() {
            let id = self.manager_id(manager, Operation::Update);
            let set = match managed.0.remove(&id) {
                Some(previous) => set.merged(previous.set),
                None => set,
            };
            let time = Some(now.to_compact_string());
            managed.0.insert(id, Owned { set, api_version: self.api_version.into(), time });
        }
        merge_oldest_updaters(&mut managed);
        Ok(managed)
    }

    /// Adapts field sets to the current schema, and drops managers in versions that are no longer served. An object with
    /// fields that the version of one of its managers does not declare is an error.
    // reference message
    pub(super) fn reconcile(&self, live: &Value, managed: &mut Managed) -> Result<(), String> {
        if self.schema.is_custom() {
            let versions = managed.0.values().map(|owned| &owned.api_version);
            for version in versions.collect::<BTreeSet<_>>() {
                self.convert(live, version)?;
            }
        }
        managed.0.retain(|_, owned| match self.type_in(&owned.api_version) {
            Some(ty) => {
                reconcile(&mut owned.set, ty);
                true
            }
            None => false,
        });
        Ok(())
    }

    /// Removes the fields that a write changes from all managers except `writer`; returns the conflicts unless `force`
    /// is set.
    pub(super) fn take_over(
        &self,
        trees: &Trees,
        managed: &mut Managed,
        writer: Option<&ManagerId>,
        force: bool,
    ) -> Result<Comparison, TakeOverError> {
        let of = if writer.is_none() { Of::Structs } else { Of::Documents };
        let (before, after) = (&trees.before, &trees.after);
        let own = self.comparison(before, after, self.api_version, of)?.unwrap_or_default();
        let (before, after) = trees.converted.as_ref().map_or((before, after), |(a, b)| (a, b));
        if managed.0.keys().all(|id| Some(id) == writer) {
            managed.0.retain(|_, owned| !owned.set.is_empty());
            return Ok(own);
        }
        let mut versions: BTreeMap<CompactString, Option<TakenFields>> = BTreeMap::new();
        versions.insert(self.api_version.into(), Some(TakenFields::by(&own)));
        let mut conflicts = Vec::new();
        let mut gone = BTreeSet::new();
        for (id, owned) in managed.0.iter_mut().filter(|(id, _)| Some(*id) != writer) {
            if !versions.contains_key(&owned.api_version) {
                let other = self.comparison(before, after, &owned.api_version, of)?;
                versions.insert(owned.api_version.clone(), other.as_ref().map(TakenFields::by));
            }
            let Some(Some(taken)) = versions.get(&owned.api_version) else {
                gone.insert(id.clone());
                continue;
            };
            let set = owned.set.intersection(&taken.set);
            owned.set.subtract(&set);
            owned.set.subtract(&taken.removed);
            if !force && !set.is_empty() {
                conflicts.push((id.clone(), set));
            }
        }
        if !conflicts.is_empty() {
            return Err(TakeOverError::Conflicts(Conflicts::new(conflicts)));
        }
        managed.0.retain(|id, owned| !owned.set.is_empty() && !gone.contains(id));
        Ok(own)
    }

    fn comparison(
        &self,
        before: &Value,
        after: &Value,
        api_version: &str,
        of: Of,
    ) -> Result<Option<Comparison>, TakeOverError> {
        let convert = |tree, what| {
            self.convert(tree, api_version).map_err(|error| {
                TakeOverError::Other(format!("failed to convert {what} object: {error}"))
            })
        };
        let Some((before, ty)) = convert(before, "old")? else { return Ok(None) };
        let Some((after, _)) = convert(after, "new")? else { return Ok(None) };
        let changes = compare(&before, &after, ty, of).map_err(|error| {
            TakeOverError::Other(format!("failed to compare objects: {}", error.0))
        })?;
        Ok(Some(changes.filtered(self.filter_in(api_version))))
    }

    /// Removes fields without owner from a manager's set.
    pub(super) fn strip(managed: &mut Managed, id: &ManagerId) {
        if let Some(owned) = managed.0.get_mut(id) {
            owned.set.subtract(&UNOWNED);
            if owned.set.is_empty() {
                managed.0.remove(id);
            }
        }
    }
}

/// Trees of an object before and after a write.
pub(super) struct Trees {
    before: Value,
    after: Value,
    /// Whole trees, for the conversion to other versions.
    converted: Option<(Value, Value)>,
}

impl Trees {
    pub fn of((before, after): (Value, Value)) -> Self {
        Trees { before, after, converted: None }
    }
}

/// Fields that a write takes from other managers, in one version.
struct TakenFields {
    /// Fields that the writer owns now.
    set: Set,
    /// Fields that no longer exist.
    removed: Set,
}

impl TakenFields {
    fn by(changes: &Comparison) -> TakenFields {
        let set = changes.modified.union(&changes.added);
        TakenFields { set, removed: changes.removed.clone() }
    }
}

/// Error of taking over the fields that a write changes.
#[derive(Clone, Debug)]
pub(super) enum TakeOverError {
    Conflicts(Conflicts),
    Other(String),
}

/// Merges the oldest updaters, one per version, until the limit holds.
fn merge_oldest_updaters(managed: &mut Managed) {
    let updaters = managed.0.iter().filter(|(id, _)| id.operation == Operation::Update);
    let mut updaters: Vec<_> =
        updaters.map(|(id, owned)| (owned.seconds(), id.identifier(), id.clone())).collect();
    let mut count = updaters.len();
    if count <= MAX_UPDATERS {
        return;
    }
    updaters.sort();
    let mut oldest: BTreeMap<CompactString, ManagerId> = BTreeMap::new();
    let mut sets: BTreeMap<ManagerId, Vec<Set>> = BTreeMap::new();
    for (_, _, id) in updaters {
        if count <= MAX_UPDATERS {
            break;
        }
        let Some(version) = managed.0.get(&id).map(|owned| owned.api_version.clone()) else {
            continue;
        };
        let bucket = ManagerId::new(ANCIENT, Operation::Update, &version, "");
        let Some(first) = oldest.get(&version) else {
            oldest.insert(version, id);
            continue;
        };
        if id == bucket {
            continue;
        }
        if !managed.0.contains_key(&bucket)
            && let Some(owned) = managed.0.remove(first)
        {
            managed.0.insert(bucket.clone(), owned);
        }
        let Some(owned) = managed.0.remove(&id) else { continue };
        if let Some(ancient) = managed.0.get_mut(&bucket) {
            ancient.time = owned.time;
        }
        sets.entry(bucket).or_default().push(owned.set);
        count -= 1;
    }
    for (bucket, mut sets) in sets {
        if let Some(ancient) = managed.0.get_mut(&bucket) {
            sets.push(std::mem::take(&mut ancient.set));
            ancient.set = Set::union_of(sets);
        }
    }
}
