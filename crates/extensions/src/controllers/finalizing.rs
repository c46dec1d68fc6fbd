//! Deletion of the objects of definitions that are being deleted, then of the cleanup finalizer (upstream:
//! CRDFinalizer).

use std::sync::Arc;
use std::time::Duration;

use kevel_api::status::{StatusError, reason};
use kevel_compute::Metered;
use kevel_registry::deletion::DeleteOptions;
use kevel_registry::resource::Resource;
use kevel_store::cache::At;
use tokio::task::JoinSet;

use super::Context;
use crate::definition::{
    CLEANUP_FINALIZER, Condition, Definition, condition, remove_finalizer, set_condition,
};
use crate::rows::stored_row;

/// Longest wait for the objects to be gone, and the interval of checks.
const PATIENCE: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_secs(5);
/// Number of concurrent deletions, so that the store can batch their writes.
const TOGETHER: usize = 64;
/// Interval of the first checks: most objects are gone at once.
const FIRST_POLL: Duration = Duration::from_millis(20);

const IN_PROGRESS: Condition<'static> = Condition::new(
    condition::TERMINATING,
    "True",
    "InstanceDeletionInProgress",
    "CustomResource deletion is in progress",
);
const COMPLETED: Condition<'static> = Condition::new(
    condition::TERMINATING,
    "False",
    "InstanceDeletionCompleted",
    "removed all instances",
);
const NEVER_ESTABLISHED: Condition<'static> = Condition::new(
    condition::TERMINATING,
    "False",
    "NeverEstablished",
    "resource was never established",
);
const OVERLAPPING: Condition<'static> = Condition::new(
    condition::TERMINATING,
    "False",
    "OverlappingBuiltInResource",
    "instances overlap with built-in resources in storage",
);

pub(super) async fn reconcile(context: &Context, name: &str) -> Result<(), String> {
    let Some(mut value) = context.find(name) else { return Ok(()) };
    let definition = Definition(&value);
    if !definition.is_being_deleted() || !definition.has_finalizer(CLEANUP_FINALIZER) {
        return Ok(());
    }
    set_condition(&mut value, &IN_PROGRESS, context.now());
    let Some(mut value) = context.update_status(&value).await? else { return Ok(()) };
    if context.options.overlaps_built_in(Definition(&value)) {
        set_condition(&mut value, &OVERLAPPING, context.now());
    } else if Definition(&value).is(condition::ESTABLISHED) {
        if let Err((reason, why)) = delete_objects(context, Definition(&value)).await {
            let failed = Condition::new(condition::TERMINATING, "True", reason, "");
            set_condition(
                &mut value,
                &Condition { message: why.clone().into(), ..failed },
                context.now(),
            );
            context.update_status(&value).await?;
            return Err(why);
        }
        set_condition(&mut value, &COMPLETED, context.now());
    } else {
        set_condition(&mut value, &NEVER_ESTABLISHED, context.now());
    }
    remove_finalizer(&mut value, CLEANUP_FINALIZER);
    context.update_status(&value).await.map(drop)
}

/// Deletes all objects of a definition and waits until they are gone. The error has the reason and message of the
/// condition.
async fn delete_objects(
    context: &Context,
    definition: Definition<'_>,
) -> Result<(), (&'static str, String)> {
    let (group, plural) = (definition.group(), definition.accepted_names().plural());
    let served = {
        let rows = context.custom.current();
        let mut rows = rows.all();
        rows.find(|row| row.kind.group == group && row.plural == plural).cloned()
    };
    if let Some(row) = served {
        return delete_objects_of(&row).await;
    }
    // Objects exist even if no version is served: another definition would make them visible.
    let row = stored_row(definition, &context.options).map_err(failed)?;
    let Some(row) = row.map(Arc::new) else { return Ok(()) };
    let deleted = delete_objects_of(&row).await;
    let prefix = row.storage.as_ref().map(|storage| storage.prefix.as_str());
    context.options.caches.remove(prefix.unwrap_or_default());
    deleted
}

fn failed(why: String) -> (&'static str, String) {
    ("InstanceDeletionFailed", format!("could not list instances: {why}"))
}

async fn delete_objects_of(row: &Arc<Resource>) -> Result<(), (&'static str, String)> {
    let mut errors = Vec::new();
    for keys in keys(row).await.map_err(failed)?.chunks(TOGETHER) {
        errors.extend(delete_together(row, keys).await);
    }
    if let Some(why) = kevel_api::field_error::aggregate(errors) {
        return Err(("InstanceDeletionFailed", format!("could not issue all deletes: {why}")));
    }
    let unsure = |why: String| {
        let why = format!("could not confirm zero CustomResources remaining: {why}");
        ("InstanceDeletionCheck", why)
    };
    let gone = async {
        let mut wait = FIRST_POLL;
        while !keys(row).await?.is_empty() {
            tokio::time::sleep(wait).await;
            wait = (wait * 4).min(POLL);
        }
        Ok(())
    };
    match tokio::time::timeout(PATIENCE, gone).await {
        Ok(result) => result.map_err(unsure),
        Err(_) => Err(unsure("context deadline exceeded".to_owned())),
    }
}

/// Deletes objects directly in the storage, as in the reference: admission webhooks cannot keep a definition, and no
/// path is involved that another definition might serve.
pub(super) async fn delete_together(row: &Arc<Resource>, keys: &[String]) -> Vec<StatusError> {
    let mut running = JoinSet::new();
    for key in keys {
        let (row, key) = (row.clone(), key.clone());
        let remove = async move {
            let (namespace, name) = key.split_once('/').unwrap_or(("", &key));
            row.remove(namespace, name, &DeleteOptions::default()).await
        };
        running.spawn(Metered::task(Box::pin(remove), "crd_finalizer"));
    }
    let deleted = running.join_all().await;
    let errors = deleted.into_iter().filter_map(Result::err);
    errors.filter(|error| error.reason() != reason::NOT_FOUND).collect()
}

/// Keys of a definition's objects.
async fn keys(row: &Resource) -> Result<Vec<String>, String> {
    let storage = row.storage.as_ref().ok_or("objects are not stored")?;
    let snapshot = storage.cache.snapshot(At::Consistent).await.map_err(|e| e.to_string())?;
    Ok(snapshot.range("", None).map(|object| object.key().to_owned()).collect())
}
