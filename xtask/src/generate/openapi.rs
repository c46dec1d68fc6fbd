//! Facts about fields in OpenAPI: required, list and map semantics, merging, defaults.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use kevel_definition::{FieldDef, Module};
use serde_json::Value;

use super::{Error, field_mut, protobuf};

/// Every schema of the v3 documents, by the name of its type: `core.v1.Pod`.
pub fn schemas(dir: &Path) -> Result<BTreeMap<String, Value>, Error> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(dir).map_err(|error| format!("{}: {error}", dir.display()))? {
        let mut document: Value = serde_json::from_slice(&fs::read(entry?.path())?)?;
        let Some(Value::Object(schemas)) = document.pointer_mut("/components/schemas") else {
            continue;
        };
        for (name, schema) in std::mem::take(schemas) {
            let message = name.replacen("io.k8s.", "k8s.io.", 1).replace('-', "_");
            if let Some(name) = protobuf::qualified(&message) {
                found.insert(name, schema);
            }
        }
    }
    Ok(found)
}

/// Adds the schemas' facts to the types and fields of the same name.
///
/// OpenAPI knows an inlined type only by its fields in the types that inline it.
pub fn add_facts(modules: &mut BTreeMap<String, Module>, schemas: &BTreeMap<String, Value>) {
    for (stem, module) in modules {
        for index in 0..module.types.len() {
            let ty = &mut module.types[index];
            let Some(schema) = schemas.get(&format!("{stem}.{}", ty.name)) else { continue };
            if schema.get("x-kubernetes-map-type").and_then(Value::as_str) == Some("atomic") {
                ty.facts.set("atomic", None);
            }
            let required = schema.get("required").and_then(Value::as_array);
            let properties = schema.get("properties").and_then(Value::as_object);
            for (name, property) in properties.into_iter().flatten() {
                let Some(field) = field_mut(module, index, name) else { continue };
                field_facts(field, property);
                if required.is_some_and(|names| names.iter().any(|n| n == name)) {
                    field.facts.set("required", None);
                }
            }
        }
    }
}

fn field_facts(field: &mut FieldDef, property: &Value) {
    let text = |key: &str| property.get(key).and_then(Value::as_str);
    let keys = property.get("x-kubernetes-list-map-keys").and_then(Value::as_array);
    match (text("x-kubernetes-list-type"), keys) {
        (Some("map"), Some(keys)) => {
            let keys: Vec<&str> = keys.iter().filter_map(Value::as_str).collect();
            field.facts.set("list", Some(&format!("map:{}", keys.join(","))));
        }
        (Some("set"), _) => field.facts.set("list", Some("set")),
        _ => {}
    }
    match text("x-kubernetes-map-type") {
        Some("atomic") => field.facts.set("map", Some("atomic")),
        // Maps are without saying so.
        Some("granular") if text("$ref").is_some() => field.facts.set("map", Some("granular")),
        _ => {}
    }
    if let Some(strategy) = text("x-kubernetes-patch-strategy") {
        let key = text("x-kubernetes-patch-merge-key");
        let key = key.map(|key| format!(":{key}")).unwrap_or_default();
        field.facts.set("patch", Some(&format!("{strategy}{key}")));
    }
    // A zero here only says that the field is not a pointer.
    let default = property.get("default").filter(|value| match value {
        Value::String(s) => !s.is_empty(),
        Value::Number(n) => n.as_f64() != Some(0.0),
        Value::Bool(b) => *b,
        Value::Object(o) => !o.is_empty(),
        _ => true,
    });
    if let Some(default) = default {
        field.facts.set("default", Some(&default.to_string()));
    }
    let description = text("description").unwrap_or_default();
    if description.starts_with("Deprecated") || description.contains("Deprecated:") {
        field.facts.set("deprecated", None);
    }
}
