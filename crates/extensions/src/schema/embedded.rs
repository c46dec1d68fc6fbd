//! Embedded resources (`x-kubernetes-embedded-resource`): checks of their type and metadata.

use kevel_api::builtin;
use kevel_api::field_error::{FieldError, Path};
use kevel_api::name;
use kevel_api::value::{Map, Value};
use kevel_codec::json::{Unknown, decode};
use kevel_registry::metadata::check_metadata;

use super::bad_value::{bad_value, json};
use super::is_full;
use super::node::Node;

/// Adds the errors of embedded resources inside a value.
pub(crate) fn check(node: &Node, value: &Value, path: &Path<'_>, errors: &mut Vec<FieldError>) {
    if !node.inside.embedded || is_full(errors) {
        return;
    }
    match value {
        Value::Map(map) => {
            if node.embedded {
                errors.extend(check_resource(map, path));
            }
            for (key, value) in map.iter() {
                if let Some(property) = node.property(key) {
                    check(property, value, &path.child(key), errors);
                } else if let Some(schema) = node.additional_schema() {
                    check(schema, value, &path.key(key), errors);
                }
            }
        }
        Value::List(list) => {
            let Some(items) = &node.items else { return };
            for (index, item) in list.iter().enumerate() {
                check(items, item, &path.index(index), errors);
            }
        }
        _ => {}
    }
}

/// Errors in the type and metadata of one embedded resource.
pub(crate) fn check_resource(object: &Map, path: &Path<'_>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for field in ["apiVersion", "kind"] {
        let path = path.child(field);
        match object.get(field) {
            None => errors.push(FieldError::required(&path, "")),
            Some(Value::String(text)) if text.is_empty() => {
                errors.push(FieldError::invalid(&path, "", "must not be empty"));
            }
            Some(Value::String(text)) => {
                let problem = if field == "kind" { kind(text) } else { api_version(text) };
                let error = problem.map(|problem| FieldError::invalid(&path, &**text, problem));
                errors.extend(error);
            }
            Some(other) => {
                errors.push(FieldError::invalid(&path, bad_value(other), "must be a string"))
            }
        }
    }
    if let Some(metadata) = object.get("metadata") {
        let path = path.child("metadata");
        match read_metadata(metadata) {
            Err(why) => errors.push(FieldError::invalid(&path, bad_value(metadata), why)),
            Ok(metadata) => errors.extend(check_meta(&metadata, &path)),
        }
    }
    errors
}

/// Decodes metadata as ObjectMeta; unknown fields are dropped.
pub(crate) fn read_metadata(metadata: &Value) -> Result<Value, String> {
    let pod = builtin::schema("", "v1", "Pod").and_then(|pod| pod.field("metadata"));
    let schema = pod.ok_or_else(|| "metadata has no type".to_owned())?.schema();
    decode(json(metadata).as_bytes(), schema, Unknown::Ignore)
        .map(|decoded| decoded.value)
        .map_err(|error| error.to_string())
}

fn check_meta(metadata: &Value, path: &Path<'_>) -> Vec<FieldError> {
    let mut metadata = metadata.clone();
    let namespaced = !metadata.str_at(&["namespace"]).is_empty();
    // A name is not required here.
    if metadata.str_at(&["name"]).is_empty()
        && let Some(map) = metadata.as_map_mut()
    {
        map.insert("name", "fakename".into());
    }
    check_metadata(&metadata, path, namespaced, &name::is_path_segment_name).into_told()
}

fn kind(text: &str) -> Option<String> {
    let problems = name::is_dns1035_label(&text.to_lowercase());
    let why = "may have mixed case, but should otherwise match";
    (!problems.is_empty()).then(|| format!("{why}: {}", problems.join(",")))
}

fn api_version(text: &str) -> Option<String> {
    let slashes = text.bytes().filter(|b| *b == b'/').count();
    (slashes > 1).then(|| format!("unexpected GroupVersion string: {text}"))
}
