//! Default rules of CustomResourceDefinitions.

use super::{has_elements, set_missing, string, struct_in};
use crate::value::{Map, Value};

pub(super) fn custom_resource_definition(definition: &mut Map, field: &str) {
    let Some(spec) = struct_in(definition, field) else { return };
    let strategy = Map::from_iter([("strategy", Value::from("None"))]);
    set_missing(spec, "conversion", strategy);
    let stored = storage_version(spec);
    if let Some(Value::Map(names)) = spec.get_mut("names") {
        let kind = string(names, "kind").to_owned();
        if !kind.is_empty() {
            set_missing(names, "singular", kind.to_lowercase().as_str());
            set_missing(names, "listKind", format!("{kind}List").as_str());
        }
    }
    if let Some(name) = stored
        && let Some(status) = struct_in(definition, "status")
        && !has_elements(status.get("storedVersions"))
    {
        status.insert("storedVersions", Value::List([name].into_iter().collect()));
    }
}

/// Name of the storage version.
fn storage_version(spec: &Map) -> Option<Value> {
    let mut versions = spec.get("versions")?.as_list()?.iter();
    let stored = versions.find(|v| v.at(&["storage"]) == Some(&Value::Bool(true)))?;
    Some(stored.at(&["name"]).cloned().unwrap_or_else(|| "".into()))
}
