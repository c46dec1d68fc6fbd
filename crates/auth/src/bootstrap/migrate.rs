//! Migration of roles and bindings with old names: copied before the default policy is reconciled, so that their
//! owners' changes are kept.

use kevel_api::status::{StatusError, reason};
use kevel_api::value::{Map, Value};
use kevel_controller_runtime::Client;

use super::collection;
use super::policy::{Gates, policy};

/// Cluster roles that gather rules today, and where the rules went that they had themselves.
const AGGREGATED: [(&str, &str); 3] = [
    ("admin", "system:aggregate-to-admin"),
    ("edit", "system:aggregate-to-edit"),
    ("view", "system:aggregate-to-view"),
];
/// A cluster role binding, and one that has become of a part of it.
const SPLIT: (&str, &str) = ("system:discovery", "system:public-info-viewer");

pub(super) async fn migrate(client: &Client) -> Result<(), StatusError> {
    for (old, new) in AGGREGATED {
        let Some(role) = old_without_new(client, "clusterroles", old, new).await? else { continue };
        if role.at(&["aggregationRule"]).is_some_and(|rule| !rule.is_null()) {
            // It gathers rules already, so it never had any of its own to keep.
            break;
        }
        create(client, "clusterroles", renamed(role, new)).await?;
    }
    let (old, new) = SPLIT;
    if let Some(binding) = old_without_new(client, "clusterrolebindings", old, new).await? {
        create(client, "clusterrolebindings", split(&binding, new)).await?;
    }
    Ok(())
}

/// The old object, where there is one and the new one is not there.
async fn old_without_new(
    client: &Client,
    plural: &str,
    old: &str,
    new: &str,
) -> Result<Option<Value>, StatusError> {
    match find(client, plural, new).await? {
        Some(_) => Ok(None),
        None => find(client, plural, old).await,
    }
}

async fn find(client: &Client, plural: &str, name: &str) -> Result<Option<Value>, StatusError> {
    match client.get(&format!("{}/{name}", collection(plural, ""))).await {
        Err(error) if error.reason() == reason::NOT_FOUND => Ok(None),
        found => found.map(Some),
    }
}

async fn create(client: &Client, plural: &str, object: Value) -> Result<(), StatusError> {
    match client.create(&collection(plural, ""), &object).await {
        Err(error) if error.reason() != reason::ALREADY_EXISTS => Err(error),
        _ => Ok(()),
    }
}

fn renamed(mut object: Value, name: &str) -> Value {
    if let Some(metadata) = object.at_mut(&["metadata"]).and_then(Value::as_map_mut) {
        metadata.insert("name", name.into());
        metadata.remove("resourceVersion");
    }
    object
}

/// New binding for the subjects of the old one, with its labels and annotations.
fn split(old: &Value, name: &str) -> Value {
    let named = |object: &Value| object.str_at(&["metadata", "name"]) == name;
    let mut all =
        policy(&Gates::new()).into_iter().filter(|desired| desired.plural == "clusterrolebindings");
    let mut object =
        all.find(|desired| named(&desired.object)).map(|d| d.object).unwrap_or_default();
    let copy = |to: Option<&mut Map>, from: Option<&Value>, field: &str| {
        if let Some(to) = to {
            to.remove(field);
            from.map(|value| to.insert(field, value.clone()));
        }
    };
    copy(object.as_map_mut(), old.at(&["subjects"]), "subjects");
    for field in ["labels", "annotations"] {
        let metadata = object.at_mut(&["metadata"]).and_then(Value::as_map_mut);
        copy(metadata, old.at(&["metadata", field]), field);
    }
    object
}
