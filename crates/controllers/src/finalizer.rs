//! Finalizers that keep objects while they are used.

use kevel_api::status::StatusError;
use kevel_api::value::Value;
use kevel_controller_runtime::Client;

use crate::object::is_deleted;

/// Step of a finalizer's life (upstream: `IsDeletionCandidate`, `NeedToAddFinalizer`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FinalizerNeed {
    /// The object lives without it.
    Add,
    /// The object is being deleted, and waits for it.
    Remove,
}

/// Step that is due to a finalizer of an object.
pub(crate) fn need(object: &Value, finalizer: &str) -> Option<FinalizerNeed> {
    let finalizers = object.list_at(&["metadata", "finalizers"]);
    let has = finalizers.iter().any(|known| known.as_str() == Some(finalizer));
    match (is_deleted(object), has) {
        (true, true) => Some(FinalizerNeed::Remove),
        (false, false) => Some(FinalizerNeed::Add),
        _ => None,
    }
}

/// Adds or removes a finalizer.
pub(crate) async fn write(
    client: &Client,
    path: &str,
    mut object: Value,
    finalizer: &str,
    need: FinalizerNeed,
) -> Result<(), StatusError> {
    let finalizers = object.make_list(&["metadata"], "finalizers");
    match need {
        FinalizerNeed::Add => finalizers.push(finalizer.into()),
        FinalizerNeed::Remove => finalizers.retain(|known| known.as_str() != Some(finalizer)),
    }
    client.update(path, &object).await.map(drop)
}
