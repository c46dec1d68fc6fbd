//! Checks of the objects that a conversion webhook answers with.

use std::fmt;

use kevel_api::field_error::{FieldErrors, Path, aggregate};
use kevel_api::gvk::{GroupVersion, GroupVersionKind};
use kevel_api::value::{Map, Value};
use kevel_server::metadata::{check_annotations, check_labels};

/// Reason to refuse a converted object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// Its version or kind is not the requested one.
    Kind(String),
    /// Its name, namespace or UID is not that of the object sent.
    Identity(String),
    /// Its labels or annotations are invalid.
    Metadata(String),
}

impl Refusal {
    /// Message for one of several objects, or for an object that was sent alone, which the reference words differently.
    pub fn at(self, index: Option<usize>) -> String {
        match (self, index) {
            (Refusal::Kind(why), None) => format!("object at index 0: {why}"),
            (Refusal::Identity(why), None) => format!("object: {why}"),
            (Refusal::Metadata(why), None) => format!("metadata: {why}"),
            (Refusal::Kind(why) | Refusal::Identity(why), Some(index)) => {
                format!("converted object at index {index}: {why}")
            }
            (Refusal::Metadata(why), Some(index)) => {
                format!("metadata in object at index {index}: {why}")
            }
        }
    }
}

/// Checks that a converted object is still the original. Takes all metadata from the original except labels and
/// annotations, which must be valid where they changed.
pub(super) fn accept(
    original: &Value,
    converted: &mut Value,
    to: &GroupVersion,
) -> Result<(), Refusal> {
    let said = GroupVersionKind::from_api_version_and_kind(
        converted.str_at(&["apiVersion"]),
        converted.str_at(&["kind"]),
    );
    if said.group_version() != *to {
        let received = said.group_version();
        let why = format!("invalid groupVersion (expected {to}, received {received})");
        return Err(Refusal::Kind(why));
    }
    let kind = original.str_at(&["kind"]);
    if said.kind != kind {
        let why = format!("invalid kind (expected {kind}, received {})", said.kind);
        return Err(Refusal::Kind(why));
    }
    for (field, called) in [("name", "name"), ("namespace", "namespace"), ("uid", "UID")] {
        let path = ["metadata", field];
        let (expected, found) = (original.str_at(&path), converted.str_at(&path));
        if expected != found {
            let why = format!("must have the same {called}: {expected} != {found}");
            return Err(Refusal::Identity(why));
        }
    }
    restore_metadata(original, converted).map_err(Refusal::Metadata)
}

fn restore_metadata(original: &Value, converted: &mut Value) -> Result<(), String> {
    let said = match converted.as_map_mut().and_then(|map| map.remove("metadata")) {
        None => return Err("missing metadata in converted object".to_owned()),
        Some(Value::Map(said)) => said,
        Some(other) => {
            return Err(format!("invalid metadata of type {} in converted object", GoType(&other)));
        }
    };
    let empty = Map::new();
    let mut metadata = original.at(&["metadata"]).and_then(Value::as_map).unwrap_or(&empty).clone();
    for field in ["labels", "annotations"] {
        match said.get(field).filter(|said| !said.is_null()) {
            None => {
                metadata.remove(field);
            }
            Some(Value::Map(map)) => {
                check_strings(field, map)?;
                metadata.insert(field, map.clone().into());
            }
            Some(other) => {
                let ty = GoType(other);
                return Err(format!("invalid metadata.{field} of type {ty} in converted object"));
            }
        }
    }
    let metadata = Value::from(metadata);
    check_changed(original.at(&["metadata"]), &metadata)?;
    converted.make_map(&[]).insert("metadata", metadata);
    Ok(())
}

fn check_strings(field: &str, map: &Map) -> Result<(), String> {
    match map.iter().find(|(_, value)| value.as_str().is_none()) {
        None => Ok(()),
        Some((key, value)) => Err(format!(
            "metadata.{field}[{key}] must be a string, but is {} in converted object",
            GoType(value)
        )),
    }
}

/// Errors about labels and annotations that differ from the original's: labels first.
fn check_changed(original: Option<&Value>, metadata: &Value) -> Result<(), String> {
    type Check = fn(&Value, &Path<'_>, &mut FieldErrors);
    let checks: [(&str, &str, Check); 2] = [
        ("labels", "metadata.labels", check_labels),
        ("annotations", "metadata.annotation", check_annotations),
    ];
    for (field, path, check) in checks {
        let before = original.and_then(|original| original.at(&[field]));
        if before == metadata.at(&[field]) {
            continue;
        }
        let mut errors = FieldErrors::new();
        check(metadata, &Path::new(path), &mut errors);
        if let Some(why) = aggregate(errors.into_told()) {
            return Err(why);
        }
    }
    Ok(())
}

/// Go name of the type of a decoded value.
struct GoType<'v>(&'v Value);

impl fmt::Display for GoType<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            Value::Null => "<nil>",
            Value::Bool(_) => "bool",
            Value::Int(_) => "int64",
            Value::Float(_) => "float64",
            Value::List(_) => "[]interface {}",
            Value::Map(_) => "map[string]interface {}",
            _ => "string",
        })
    }
}
