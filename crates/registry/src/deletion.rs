//! Deletion of an object: planned (upstream: `BeforeDelete`), then carried out.

use std::sync::Arc;

use bytes::Bytes;
use kevel_api::field_error::{FieldError, Path};
use kevel_api::gvk::{GroupKind, GroupResource};
use kevel_api::status::StatusError;
use kevel_api::time::Time;
use kevel_api::value::Value;
use kevel_store::{Engine, Error, MAX_CONFLICTS, Revision};

use crate::allocation::{self, Allocation, to_the_end};
use crate::guaranteed_update::Failed;
use crate::metadata;
use crate::resource::Resource;
use crate::storage::Storage;
use crate::strategy::{Dependents, Strategy};

const ORPHAN: &str = "orphan";
const FOREGROUND: &str = "foregroundDeletion";

/// Options of a deletion (`meta/v1` DeleteOptions).
#[derive(Clone, Debug, Default)]
pub struct DeleteOptions {
    /// `gracePeriodSeconds`, if set.
    pub grace_period: Option<i64>,
    /// Precondition: UID (upstream: `Preconditions`).
    pub uid: Option<String>,
    /// Precondition: resourceVersion.
    pub resource_version: Option<String>,
    /// `propagationPolicy`: `Foreground`, `Background` or `Orphan` (upstream: `PropagationPolicy`).
    pub propagation: Option<String>,
    /// `orphanDependents`, the deprecated form of `propagation`.
    pub orphan_dependents: Option<bool>,
    /// `dryRun`: empty, or `All`.
    pub dry_run: Vec<String>,
    /// [`IGNORE_READ_ERROR`]: the object is deleted although it cannot be read.
    pub ignore_read_error: bool,
}

/// Option to delete an object that cannot be read. Ignored without the gate `AllowUnsafeMalformedObjectDeletion`.
pub const IGNORE_READ_ERROR: &str = "ignoreStoreReadErrorWithClusterBreakingPotential";

impl DeleteOptions {
    /// The `dryRun` stages of options given as an object.
    pub fn stages(options: &Value) -> Vec<String> {
        let stages = options.list_at(&["dryRun"]).iter();
        stages.filter_map(|stage| stage.as_str().map(str::to_owned)).collect()
    }

    /// Validates the options (upstream: `ValidateDeleteOptions`); `more` are further errors of them.
    pub fn validate(&self, more: impl IntoIterator<Item = FieldError>) -> Result<(), StatusError> {
        let mut errors = Vec::new();
        let path = Path::new("propagationPolicy");
        if let (Some(policy), Some(_)) = (&self.propagation, self.orphan_dependents) {
            let why = "orphanDependents and deletionPropagation cannot be both set";
            errors.push(FieldError::invalid(&path, policy.as_str(), why));
        }
        let known = ["Foreground", "Background", "Orphan"];
        if let Some(other) = self.propagation.as_deref().filter(|p| !known.contains(p)) {
            let supported = ["Foreground", "Background", "Orphan", "nil"];
            errors.push(FieldError::not_supported(&path, other, supported));
        }
        errors.extend(more);
        if self.ignore_read_error {
            errors.extend(self.excluded_by_ignored_read_error());
        }
        match errors.is_empty() {
            true => Ok(()),
            false => {
                let kind = GroupKind::new("meta.k8s.io", "DeleteOptions");
                Err(StatusError::invalid(&kind, "", errors))
            }
        }
    }

    /// Errors of the options that need the object, and so cannot go together with [`IGNORE_READ_ERROR`].
    fn excluded_by_ignored_read_error(&self) -> impl Iterator<Item = FieldError> {
        let preconditions = self.uid.is_some() || self.resource_version.is_some();
        let others = [
            (self.is_dry_run(), "dryRun"),
            (self.propagation.is_some(), "propagationPolicy"),
            (self.orphan_dependents.is_some(), "orphanDependents"),
            (self.grace_period.is_some(), "gracePeriodSeconds"),
            (preconditions, "preconditions"),
        ];
        others.into_iter().filter(|(set, _)| *set).map(|(_, option)| {
            let why = format!("cannot be set together with .{option}");
            FieldError::invalid(&Path::new(IGNORE_READ_ERROR), true, why)
        })
    }

    /// Whether the request is a dry run.
    pub fn is_dry_run(&self) -> bool {
        !self.dry_run.is_empty()
    }

    /// Checks the preconditions against an object.
    pub fn check(&self, resource: &Resource, object: &Value) -> Result<(), StatusError> {
        // The reference checks the preconditions of a namespace in the storage layer, with other messages.
        let stored = resource.strategy.begin_delete(&mut Value::Null);
        // For all other kinds the message names the kind where the resource is expected.
        let kind = resource.group_kind();
        let kind = match stored {
            true => resource.group_resource(),
            false => GroupResource::new(kind.group, kind.kind),
        };
        let name = metadata::text(object, "name");
        let uid = metadata::text(object, "uid");
        if let Some(asked) = self.uid.as_deref().filter(|asked| *asked != uid) {
            let why = match stored {
                true => format!(
                    "Precondition failed: UID in precondition: {asked}, UID in object meta: {uid}"
                ),
                false => format!(
                    "the UID in the precondition ({asked}) does not match the UID in record ({uid}). \
                     The object might have been deleted and then recreated"
                ),
            };
            return Err(StatusError::conflict(&kind, name, why));
        }
        let version = metadata::text(object, "resourceVersion");
        let asked = self.resource_version.as_deref();
        if let Some(asked) = asked.filter(|asked| *asked != version) {
            let why = match stored {
                true => format!(
                    "Precondition failed: ResourceVersion in precondition: {asked}, ResourceVersion in \
                     object meta: {version}"
                ),
                false => format!(
                    "the ResourceVersion in the precondition ({asked}) does not match the \
                     ResourceVersion in record ({version}). The object might have been modified"
                ),
            };
            return Err(StatusError::conflict(&kind, name, why));
        }
        Ok(())
    }

    /// The effective options, with the kind's additions: the granted grace period, or the UID of a namespace.
    pub(crate) fn effective(&self, strategy: &dyn Strategy, old: &Value) -> Self {
        let mut options = self.clone();
        let deleting = !metadata::text(old, "deletionTimestamp").is_empty();
        if strategy.graceful() && !deleting {
            let granted = strategy.grace_period(old, options.grace_period);
            options.grace_period = granted.or(options.grace_period);
        }
        // True for the kind Namespace, whose deletion applies to the UID that was found.
        if strategy.begin_delete(&mut Value::Null) {
            options.uid.get_or_insert_with(|| metadata::text(old, "uid").to_owned());
        }
        options
    }
}

/// Effect of a deletion on the object.
#[derive(Debug, PartialEq)]
pub(crate) enum DeletionPlan {
    /// None: the object is being deleted already, with a grace period that is not longer than this one.
    AlreadyDeleting,
    /// Removed without a change.
    Remove,
    /// Gets a deletionTimestamp, and stays until its finalizers are gone or its grace period is over.
    Mark(Value),
    /// Gets a deletionTimestamp, which watchers see, and is removed.
    MarkAndRemove(Value),
}

impl DeletionPlan {
    pub(crate) fn try_map<E>(self, map: impl FnOnce(Value) -> Result<Value, E>) -> Result<Self, E> {
        Ok(match self {
            DeletionPlan::Mark(object) => DeletionPlan::Mark(map(object)?),
            DeletionPlan::MarkAndRemove(object) => DeletionPlan::MarkAndRemove(map(object)?),
            plan => plan,
        })
    }
}

/// Stored bytes of an object.
#[derive(Debug)]
pub(crate) struct Stored {
    pub bytes: Bytes,
    pub revision: Revision,
}

/// Outcome of a deletion.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// Removed, or already being deleted; the last state, if it is not the one that was passed.
    Gone(Option<Stored>),
    /// Still stored.
    Kept(Stored),
}

/// Deletion of an object at a revision.
pub(crate) struct Deletion {
    pub storage: Arc<Storage>,
    pub key: Vec<u8>,
    pub revision: Revision,
    /// Whether the revision is known to be the latest; otherwise only a write can tell.
    pub fresh: bool,
    /// Allocation to release with the object.
    pub allocation: Option<Arc<dyn Allocation>>,
    /// Whether the request asks for a resourceVersion: a marked object that has changed since is not removed.
    pub exact: bool,
}

impl Deletion {
    /// Carries out a plan. `before` is the stored object.
    pub(crate) async fn carry_out(
        self,
        plan: DeletionPlan,
        before: Value,
        dry_run: bool,
    ) -> Result<Outcome, Failed> {
        let Deletion { storage, key, revision, fresh, allocation, exact } = self;
        match plan {
            _ if dry_run && !fresh => Err(Failed::Changed),
            DeletionPlan::AlreadyDeleting if !fresh => Err(Failed::Changed),
            DeletionPlan::AlreadyDeleting => Ok(Outcome::Gone(None)),
            DeletionPlan::Remove if dry_run => Ok(Outcome::Gone(None)),
            DeletionPlan::Remove => {
                let delete = async move { storage.engine.delete(&key, revision).await };
                allocation::delete(allocation, before, delete).await?;
                Ok(Outcome::Gone(None))
            }
            DeletionPlan::Mark(object) => {
                let bytes = storage.encode(&object);
                let unchanged = bytes == storage.encode(&before);
                let revision = match dry_run || unchanged {
                    true if !fresh => return Err(Failed::Changed),
                    true => revision,
                    false => {
                        let marked = storage.engine.update(&key, bytes.clone(), revision, None);
                        marked.await?
                    }
                };
                Ok(Outcome::Kept(Stored { bytes, revision }))
            }
            DeletionPlan::MarkAndRemove(object) => {
                let bytes = storage.encode(&object);
                if dry_run {
                    return Ok(Outcome::Gone(Some(Stored { bytes, revision })));
                }
                let last = bytes.clone();
                let delete = to_the_end(async move {
                    let revision = storage.engine.update(&key, last, revision, None).await?;
                    remove_marked(&*storage.engine, &key, revision, exact).await?;
                    Ok(revision)
                });
                let revision = allocation::delete(allocation, before, delete).await;
                let revision = revision?;
                Ok(Outcome::Gone(Some(Stored { bytes, revision })))
            }
        }
    }
}

/// Removes an object that was marked at a revision, also if it has changed since. Others who see the mark, such as the
/// pod garbage collector, may remove it first, which is no error (upstream: `ignoreNotFound`).
async fn remove_marked(
    engine: &dyn Engine,
    key: &[u8],
    marked: Revision,
    exact: bool,
) -> Result<(), Error> {
    let mut revision = marked;
    let mut left = MAX_CONFLICTS;
    loop {
        match engine.delete(key, revision).await {
            Err(Error::NotFound) => return Ok(()),
            // Another object has the name now.
            Err(Error::Conflict(now)) if now.create_revision > marked => return Ok(()),
            Err(Error::Conflict(now)) if !exact && left > 0 => revision = now.mod_revision,
            removed => return removed.map(drop),
        }
        left -= 1;
    }
}

/// Plans the deletion of an object by its strategy, grace period and finalizers (upstream: `BeforeDelete`, and
/// `deletionFinalizersForGarbageCollection`).
pub(crate) fn before_delete(
    strategy: &dyn Strategy,
    garbage_collection: bool,
    old: &Value,
    options: &DeleteOptions,
    now: Time,
) -> DeletionPlan {
    // Without a garbage collector its finalizers would never be removed.
    let finalize = |object: &mut Value| {
        if garbage_collection {
            update_finalizers(object, strategy.default_dependents(), options);
        }
    };
    let mut object = old.clone();
    let deleting = !metadata::text(old, "deletionTimestamp").is_empty();
    if deleting && strategy.held(old) {
        return DeletionPlan::AlreadyDeleting;
    }
    if !deleting && strategy.begin_delete(&mut object) {
        set_deletion(&mut object, now, None);
        if strategy.default_dependents() != Dependents::Ignored {
            finalize(&mut object);
        }
        return DeletionPlan::Mark(object);
    }
    let grace = match (strategy.graceful(), deleting) {
        (false, _) => None,
        (true, false) => {
            let grace = strategy.grace_period(old, options.grace_period);
            if let Some(seconds) = grace {
                set_deletion(&mut object, after(now, seconds), Some(seconds));
                next_generation(&mut object);
            }
            grace
        }
        (true, true) => {
            let granted = old.at(&["metadata", "deletionGracePeriodSeconds"]);
            match granted.and_then(Value::as_int).map_or(0, |s| if s < 0 { 1 } else { s }) {
                // The grace period is over: removed, whatever happened to the first request.
                0 => None,
                granted => match options.grace_period.filter(|asked| *asked < granted) {
                    None => return DeletionPlan::AlreadyDeleting,
                    Some(asked) => Some(shorten(&mut object, granted, asked, now)),
                },
            }
        }
    };
    finalize(&mut object);
    let pending = object.at(&["metadata", "finalizers"]).is_some_and(|f| !f.is_empty());
    match grace {
        None if !pending => DeletionPlan::Remove,
        None => {
            mark(&mut object, now);
            DeletionPlan::Mark(object)
        }
        Some(0) if !pending => DeletionPlan::MarkAndRemove(object),
        Some(_) => DeletionPlan::Mark(object),
    }
}

/// Shortens the grace period of an object that is being deleted, to zero at least.
fn shorten(object: &mut Value, granted: i64, asked: i64, now: Time) -> i64 {
    let set: Option<Time> = metadata::text(object, "deletionTimestamp").parse().ok();
    let at = set.map_or(now, |set| after(set, asked - granted));
    let (at, seconds) = if at < now { (now, asked.min(1)) } else { (at, asked) };
    set_deletion(object, at, Some(seconds));
    seconds
}

/// Marks an object that only its finalizers keep.
fn mark(object: &mut Value, now: Time) {
    let set: Option<Time> = metadata::text(object, "deletionTimestamp").parse().ok();
    if set.is_none() {
        next_generation(object);
    }
    set_deletion(object, set.filter(|at| *at <= now).unwrap_or(now), Some(0));
}

fn set_deletion(object: &mut Value, at: Time, grace: Option<i64>) {
    metadata::set(object, "deletionTimestamp", Some(at.to_string().as_str().into()));
    if let Some(seconds) = grace {
        metadata::set(object, "deletionGracePeriodSeconds", Some(Value::Int(seconds)));
    }
}

fn next_generation(object: &mut Value) {
    let generation = object.at(&["metadata", "generation"]).and_then(Value::as_int);
    if let Some(generation) = generation.filter(|generation| *generation > 0) {
        metadata::set(object, "generation", Some(Value::Int(generation.wrapping_add(1))));
    }
}

fn after(mut time: Time, seconds: i64) -> Time {
    time.seconds = time.seconds.saturating_add(seconds);
    time
}

/// Sets the garbage collector's finalizers: by the options, else by the object's finalizers, else by the kind's
/// default.
fn update_finalizers(object: &mut Value, usual: Dependents, options: &DeleteOptions) {
    let Some(metadata) = metadata::metadata_mut(object) else { return };
    let has = |name: &str| {
        let list = metadata.get("finalizers").and_then(Value::as_list).unwrap_or_default();
        list.iter().any(|finalizer| finalizer.as_str() == Some(name))
    };
    let said = match (options.orphan_dependents, options.propagation.as_deref()) {
        (Some(orphan), _) => Some(orphan.then_some(ORPHAN)),
        (None, Some("Orphan")) => Some(Some(ORPHAN)),
        (None, Some("Foreground")) => Some(Some(FOREGROUND)),
        (None, Some(_)) => Some(None),
        (None, None) => None,
    };
    let wanted = match (usual, said) {
        (Dependents::Ignored, _) => None,
        (_, Some(said)) => said,
        (_, None) if has(ORPHAN) => Some(ORPHAN),
        (_, None) if has(FOREGROUND) => Some(FOREGROUND),
        (Dependents::Orphaned, None) => Some(ORPHAN),
        (Dependents::Collected, None) => None,
    };
    if has(ORPHAN) == (wanted == Some(ORPHAN)) && has(FOREGROUND) == (wanted == Some(FOREGROUND)) {
        return;
    }
    let list = metadata.entry_or_insert_with("finalizers", || Value::List(Default::default()));
    let Some(list) = list.as_list_mut() else { return };
    list.retain(|finalizer| !matches!(finalizer.as_str(), Some(FOREGROUND | ORPHAN)));
    list.extend(wanted.map(Value::from));
}
#[cfg(test)]
mod tests;
