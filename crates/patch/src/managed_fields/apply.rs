//! Server-side apply.

use std::collections::BTreeMap;
use std::fmt;

use compact_str::{CompactString, ToCompactString};
use kevel_api::time::Time;
use kevel_api::value::Value;

use super::atom::TypeRef;
use super::conflict::Conflicts;
use super::entry::{Managed, Operation, Owned, managed_fields};
use super::field_manager::{FieldManager, go_kind, set_managed_fields};
use super::field_set::field_set;
use super::merge::merge;
use super::path::same_values;
use super::remove::{remove_items, with_named_fields};
use super::set::Set;
use super::update::TakeOverError;
use super::validate::{Duplicates, validate};

/// Whom the fields of an object belong to that was not tracked before its first apply.
const BEFORE_FIRST_APPLY: &str = "before-first-apply";

/// Why a configuration cannot be applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ApplyError {
    /// It is not what it must be: 400.
    BadRequest(String),
    /// Somebody else owns some of its fields: 409.
    Conflicts(Conflicts),
    /// It is not of the object's type, which the reference answers with 500.
    Internal(String),
}

impl fmt::Display for ApplyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ApplyError::BadRequest(message) | ApplyError::Internal(message) => f.write_str(message),
            ApplyError::Conflicts(conflicts) => conflicts.fmt(f),
        }
    }
}

impl std::error::Error for ApplyError {}

/// An object after an apply, and the record that goes into it.
pub(super) struct Applied {
    pub(super) tree: Value,
    managed: Managed,
}

impl FieldManager<'_> {
    /// Applies a configuration to an object, or to nothing: the object's tree afterwards, which is
    /// still to be decoded, defaulted and validated.
    ///
    /// `config` is the tree that the client sent, `live` the object as it is stored. Conflicts are
    /// an error unless `force` is set.
    pub fn apply(
        &self,
        live: Option<&Value>,
        config: &Value,
        manager: &str,
        force: bool,
        now: Time,
    ) -> Result<Value, ApplyError> {
        let (api_version, kind) = (config.str_at(&["apiVersion"]), config.str_at(&["kind"]));
        if (api_version, kind) != (self.api_version, self.kind) {
            let kind = go_kind(api_version, kind);
            return Err(ApplyError::BadRequest(format!("invalid object type: {kind}")));
        }
        let managed = Managed::decode(live.and_then(managed_fields)).map_err(|error| {
            ApplyError::Internal(format!("failed to decode managed fields: {error}"))
        })?;
        let tree = self.tree(live);
        let applied = self.apply_over_last_applied(&tree, config, managed, manager, force, now)?;
        let Applied { mut tree, managed } = applied;
        set_managed_fields(&mut tree, managed.encode());
        Ok(tree)
    }

    /// Whether a configuration is one for this object.
    fn check_config(&self, live: &Value, config: &Value) -> Result<(), ApplyError> {
        if managed_fields(config).is_some_and(|entries| !entries.is_empty()) {
            return Err(ApplyError::BadRequest("metadata.managedFields must be nil".into()));
        }
        let check = |tree: &Value, what: &str, duplicates| {
            validate(tree, TypeRef::of(self.schema), duplicates).map_err(|errors| {
                let name = self.name(tree);
                ApplyError::Internal(format!(
                    "failed to create typed {what} object ({name}): {errors}"
                ))
            })
        };
        check(config, "patch", Duplicates::Forbid)?;
        if self.schema.is_custom() { check(live, "live", Duplicates::Allow) } else { Ok(()) }
    }

    /// Applies a configuration once, without regard to how the object was written before.
    pub(super) fn apply_once(
        &self,
        live: &Value,
        config: &Value,
        mut managed: Managed,
        manager: &str,
        force: bool,
        now: Time,
    ) -> Result<Applied, ApplyError> {
        if managed.is_empty() {
            let empty = self.tree(None);
            let first = self.updated(&empty, live, managed, BEFORE_FIRST_APPLY, now);
            managed = first.map_err(|error| {
                ApplyError::Internal(format!(
                    "failed to create manager for existing fields: {error}"
                ))
            })?;
        }
        self.check_config(live, config)?;
        self.reconcile(&mut managed);
        let ty = TypeRef::of(self.schema);
        let id = self.manager_id(manager, Operation::Apply);
        let merged = merge(live, config, ty);
        let last = managed.0.remove(&id);
        let set = self.filter.apply(field_set(config, ty));
        let time = last.as_ref().and_then(|last| last.time.clone());
        let owned = Owned { set: set.clone(), api_version: self.api_version.into(), time };
        managed.0.insert(id.clone(), owned);
        let new = match &last {
            Some(last) if !last.set.is_empty() => self.prune(merged, &managed, &set, last),
            _ => merged,
        };
        self.take_over(live, &new, &mut managed, Some(&id), force).map_err(
            |error| match error {
                TakeOverError::Conflicts(conflicts) => ApplyError::Conflicts(conflicts),
                TakeOverError::Other(message) => ApplyError::Internal(message),
            },
        )?;
        Self::strip(&mut managed, &id);
        // A configuration that changes nothing leaves no mark of when it was applied.
        if same_values(live, &new) {
            return Ok(Applied { tree: live.clone(), managed });
        }
        if let Some(owned) = managed.0.get_mut(&id) {
            owned.time = Some(now.to_compact_string());
        }
        Ok(Applied { tree: new, managed })
    }

    /// Takes out what the manager applied last time and does not now, unless somebody else owns it.
    fn prune(&self, merged: Value, managed: &Managed, set: &Set, last: &Owned) -> Value {
        // All that was said is said again: nothing can go.
        if last.api_version == self.api_version && last.set.difference(set).is_empty() {
            return merged;
        }
        let Some((merged_then, ty)) = self.convert(&merged, &last.api_version) else {
            return merged;
        };
        let last_set = with_named_fields(&last.set, Some(ty));
        let mut pruned = remove_items(&merged_then, &last_set, ty);
        let mut owned_in: BTreeMap<CompactString, Vec<Set>> = BTreeMap::new();
        for owned in managed.0.values() {
            owned_in.entry(owned.api_version.clone()).or_default().push(owned.set.clone());
        }
        // The version of the last apply comes first: what another version cannot do without may
        // be missing until its owners have it back.
        let first = owned_in.remove_entry(&last.api_version);
        for (version, owned) in first.into_iter().chain(owned_in) {
            let owned = Set::union_of(owned);
            pruned = self.add_back_owned(&merged_then, pruned, &version, &owned);
        }
        let Some((pruned, _)) = self.convert(&pruned, &last.api_version) else { return merged };
        let all = with_named_fields(&field_set(&merged_then, ty), Some(ty));
        let left = with_named_fields(&field_set(&pruned, ty), Some(ty));
        let removed = all.difference(&left).intersection(&last_set);
        let pruned = remove_items(&merged_then, &removed, ty);
        match self.convert(&pruned, self.api_version) {
            Some((pruned, _)) => pruned.into_owned(),
            None => merged,
        }
    }

    /// Puts back what was pruned although a manager in this version owns it.
    fn add_back_owned(&self, merged: &Value, pruned: Value, version: &str, owned: &Set) -> Value {
        let Some((merged, ty)) = self.convert(merged, version) else { return pruned };
        let Some((converted, _)) = self.convert(&pruned, version) else { return pruned };
        let all = with_named_fields(&field_set(&merged, ty), Some(ty));
        let left = with_named_fields(&field_set(&converted, ty), Some(ty));
        let owned = with_named_fields(owned, Some(ty));
        remove_items(&merged, &all.difference(&left.union(&owned)), ty)
    }
}
