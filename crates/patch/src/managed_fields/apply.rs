//! Server-side apply (upstream: FieldManager.Apply, merge.Updater).

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
use super::update::{TakeOverError, Trees};
use super::validate::{Duplicates, validate};
use crate::from_unstructured;

/// Manager of the fields of an object that was not tracked before its first apply.
const BEFORE_FIRST_APPLY: &str = "before-first-apply";

/// Error of applying a configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ApplyError {
    /// The configuration is invalid: 400.
    BadRequest(String),
    /// Other managers own some of its fields: 409.
    Conflicts(Conflicts),
    /// The configuration does not fit the object's type, which the reference answers with 500.
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

/// Object after an apply, and its managed fields.
pub(super) struct Applied {
    pub(super) tree: Value,
    managed: Managed,
}

impl FieldManager<'_> {
    /// Applies a configuration to an object, or creates one: returns the new tree, which is still to be decoded,
    /// defaulted and validated.
    ///
    /// `config` is the tree that the client sent, `live` the stored object. Conflicts are an error unless `force` is
    /// set.
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
            // An invalid apiVersion prints as an empty kind.
            let kind = match api_version.matches('/').count() {
                0 | 1 => go_kind(api_version, kind),
                _ => go_kind("", ""),
            };
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

    /// Error of decoding a value as managedFields.
    fn read_entries(&self, value: &Value) -> Result<(), String> {
        let metadata = self.schema.field("metadata");
        let entries = metadata.and_then(|metadata| metadata.schema().field("managedFields"));
        entries.map_or(Ok(()), |entries| from_unstructured(&mut value.clone(), entries.schema()))
    }

    /// Checks that a configuration fits this object.
    fn check_config(&self, live: &Value, config: &Value) -> Result<(), ApplyError> {
        // An empty list is not nil. managedFields that do not decode pass here, and are an error below.
        let entries =
            config.at(&["metadata", "managedFields"]).filter(|entries| !entries.is_null());
        let read = entries.map(|entries| self.read_entries(entries));
        if let Some(Ok(())) = read {
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
        if let Some(Err(why)) = read {
            let (name, kind) = (self.name(config), go_kind(self.api_version, self.kind));
            return Err(ApplyError::Internal(format!(
                "failed to convert new object ({name}) to proper version: unable to convert \
                 unstructured object to {kind}: {why}"
            )));
        }
        if self.schema.is_custom() { check(live, "live", Duplicates::Allow) } else { Ok(()) }
    }

    /// Applies a configuration once, without the last-applied annotation.
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
            let trees = Trees::of((self.tree(None), live.clone()));
            let first = self.updated(&trees, managed, BEFORE_FIRST_APPLY, now);
            managed = first.map_err(|error| {
                ApplyError::Internal(format!(
                    "failed to create manager for existing fields: {error}"
                ))
            })?;
        }
        self.check_config(live, config)?;
        let ty = TypeRef::of(self.schema);
        let id = self.manager_id(manager, Operation::Apply);
        // The time outlives a version that is no longer served, whose fields are dropped.
        let time = managed.0.get(&id).and_then(|last| last.time.clone());
        self.reconcile(live, &mut managed).map_err(ApplyError::Internal)?;
        let merged = merge(live, config, ty);
        let last = managed.0.remove(&id);
        let set = self.filter.apply(field_set(config, ty));
        let owned = Owned { set: set.clone(), api_version: self.api_version.into(), time };
        managed.0.insert(id.clone(), owned);
        let new = match &last {
            Some(last) if !last.set.is_empty() => {
                let pruned = self.prune(merged, &managed, &set, last);
                pruned
                    .map_err(|why| ApplyError::Internal(format!("failed to prune fields: {why}")))?
            }
            _ => merged,
        };
        let trees = Trees::of((live.clone(), new.clone()));
        self.take_over(&trees, &mut managed, Some(&id), force).map_err(|error| match error {
            TakeOverError::Conflicts(conflicts) => ApplyError::Conflicts(conflicts),
            TakeOverError::Other(message) => ApplyError::Internal(message),
        })?;
        Self::strip(&mut managed, &id);
        // A configuration that changes nothing does not update the time.
        if same_values(live, &new) {
            return Ok(Applied { tree: live.clone(), managed });
        }
        if let Some(owned) = managed.0.get_mut(&id) {
            owned.time = Some(now.to_compact_string());
        }
        Ok(Applied { tree: new, managed })
    }

    /// Removes the fields that the manager applied last time and not now, unless other managers own them.
    fn prune(
        &self,
        merged: Value,
        managed: &Managed,
        set: &Set,
        last: &Owned,
    ) -> Result<Value, String> {
        // The configuration has all fields of the last one: nothing to remove.
        if last.api_version == self.api_version && last.set.difference(set).is_empty() {
            return Ok(merged);
        }
        let at_last = |what: &'static str| {
            move |why| format!("failed to convert {what} object to last applied version: {why}")
        };
        let then = self.convert(&merged, &last.api_version).map_err(at_last("merged"))?;
        let Some((merged_then, ty)) = then else { return Ok(merged) };
        let last_set = with_named_fields(&last.set, Some(ty));
        let mut pruned = remove_items(&merged_then, &last_set, ty);
        let mut owned_in: BTreeMap<CompactString, Vec<Set>> = BTreeMap::new();
        for owned in managed.0.values() {
            owned_in.entry(owned.api_version.clone()).or_default().push(owned.set.clone());
        }
        // The version of the last apply comes first: required fields of other versions may be missing until their
        // owners' fields are added back.
        let first = owned_in.remove_entry(&last.api_version);
        for (version, owned) in first.into_iter().chain(owned_in) {
            let owned = Set::union_of(owned);
            let added = self.add_back_owned(&merged_then, pruned, &version, &owned);
            pruned = added.map_err(|why| format!("failed add back owned items: {why}"))?;
        }
        let then = self.convert(&pruned, &last.api_version).map_err(at_last("pruned"));
        let then = then.map_err(|why| format!("failed add back dangling items: {why}"))?;
        let Some((pruned, _)) = then else { return Ok(merged) };
        let all = with_named_fields(&field_set(&merged_then, ty), Some(ty));
        let left = with_named_fields(&field_set(&pruned, ty), Some(ty));
        let removed = all.difference(&left).intersection(&last_set);
        let pruned = remove_items(&merged_then, &removed, ty);
        Ok(match self.convert(&pruned, self.api_version)? {
            Some((pruned, _)) => pruned.into_owned(),
            None => merged,
        })
    }

    /// Adds back the pruned fields that a manager in this version owns.
    fn add_back_owned(
        &self,
        merged: &Value,
        pruned: Value,
        version: &str,
        owned: &Set,
    ) -> Result<Value, String> {
        let at_version = |what: &'static str| {
            move |why| format!("failed to convert {what} object at version {version}: {why}")
        };
        let merged = self.convert(merged, version).map_err(at_version("merged"))?;
        let Some((merged, ty)) = merged else { return Ok(pruned) };
        let converted = self.convert(&pruned, version).map_err(at_version("pruned"))?;
        let Some((converted, _)) = converted else { return Ok(pruned) };
        let all = with_named_fields(&field_set(&merged, ty), Some(ty));
        let left = with_named_fields(&field_set(&converted, ty), Some(ty));
        let owned = with_named_fields(owned, Some(ty));
        Ok(remove_items(&merged, &all.difference(&left.union(&owned)), ty))
    }
}
