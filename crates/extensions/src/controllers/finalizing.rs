//! Deletes the objects of definitions that are being deleted, and lets go of those.

use std::collections::BTreeSet;
use std::time::Duration;

use kevel_server::resource::Resource;
use kevel_store::cache::At;

use super::Context;
use crate::definition::{
    CLEANUP_FINALIZER, Condition, Definition, condition, remove_finalizer, set_condition,
};

/// How long objects have to go, and how often that is looked at.
const PATIENCE: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_secs(5);
/// The first looks come sooner: most objects go at once.
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
    set_condition(&mut value, &IN_PROGRESS);
    let Some(mut value) = context.update_status(&value).await? else { return Ok(()) };
    if context.options.overlaps_built_in(Definition(&value)) {
        set_condition(&mut value, &OVERLAPPING);
    } else if Definition(&value).is(condition::ESTABLISHED) {
        if let Err((reason, why)) = delete_objects(context, Definition(&value)).await {
            let failed = Condition::new(condition::TERMINATING, "True", reason, "");
            set_condition(&mut value, &Condition { message: why.clone().into(), ..failed });
            context.update_status(&value).await?;
            return Err(why);
        }
        set_condition(&mut value, &COMPLETED);
    } else {
        set_condition(&mut value, &NEVER_ESTABLISHED);
    }
    remove_finalizer(&mut value, CLEANUP_FINALIZER);
    context.update_status(&value).await.map(drop)
}

/// Deletes all objects of a kind and waits until they are gone. The error has a reason.
async fn delete_objects(
    context: &Context,
    definition: Definition<'_>,
) -> Result<(), (&'static str, String)> {
    let (group, plural) = (definition.group(), definition.accepted_names().plural());
    let row = {
        let rows = context.custom.current();
        let mut rows = rows.all();
        rows.find(|row| row.kind.group == group && row.plural == plural).cloned()
    };
    // Nobody can see objects of which no version is served.
    let Some(row) = row else { return Ok(()) };
    let failed =
        |why: String| ("InstanceDeletionFailed", format!("could not list instances: {why}"));
    let mut errors = Vec::new();
    for namespace in namespaces(&row).await.map_err(failed)? {
        let version = &row.kind.version;
        let path = match namespace.as_str() {
            "" => format!("/apis/{group}/{version}/{plural}"),
            namespace => format!("/apis/{group}/{version}/namespaces/{namespace}/{plural}"),
        };
        if let Err(error) = context.client.delete(&path).await {
            errors.push(error.to_string());
        }
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
        while !namespaces(&row).await?.is_empty() {
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

/// The namespaces that have objects of a kind.
async fn namespaces(row: &Resource) -> Result<BTreeSet<String>, String> {
    let storage = row.storage.as_ref().ok_or("objects are not stored")?;
    let snapshot = storage.cache.snapshot(At::Consistent).await.map_err(|e| e.to_string())?;
    let keys = snapshot.range("", None).map(|object| object.key().to_owned());
    let namespace = |key: String| key.split_once('/').map_or("", |(ns, _)| ns).to_owned();
    Ok(keys.map(namespace).collect())
}
