//! Namespaces: held until they are empty, and in one of two phases.

use kevel_api::value::{Map, Value};

use crate::rules::Rules;

/// The rules of namespaces.
pub const RULES: Rules =
    Rules { prepare_create, prepare_update, begin_delete, held, ..Rules::NONE };

/// Held until everything in the namespace is gone.
const FINALIZER: &str = "kubernetes";

fn prepare_create(object: &mut Value) {
    let Some(object) = object.as_map_mut() else { return };
    let status = Map::from_iter([("phase", Value::from("Active"))]);
    object.insert("status", status.into());
    let spec = object.entry_or_insert_with("spec", || Map::new().into());
    let Some(spec) = spec.as_map_mut() else { return };
    let finalizers = spec.entry_or_insert_with("finalizers", || Value::List(Default::default()));
    let Some(list) = finalizers.as_list_mut() else { return };
    if !list.iter().any(|finalizer| finalizer.as_str() == Some(FINALIZER)) {
        list.push(FINALIZER.into());
    }
}

/// What holds a namespace is let go by way of `finalize` only.
fn prepare_update(object: &mut Value, old: &Value) {
    let Some(object) = object.as_map_mut() else { return };
    match old.at(&["spec"]) {
        Some(spec) => object.insert("spec", spec.clone()),
        None => object.remove("spec"),
    };
}

fn begin_delete(object: &mut Value) -> bool {
    let Some(object) = object.as_map_mut() else { return true };
    let status = object.entry_or_insert_with("status", || Map::new().into());
    if let Some(status) = status.as_map_mut() {
        status.insert("phase", "Terminating".into());
    }
    true
}

fn held(object: &Value) -> bool {
    object.at(&["spec", "finalizers"]).is_some_and(|list| !list.is_empty())
}
