//! Checks of the objects that a conversion webhook answers with.

use std::fmt;

use kevel_api::field_error::{FieldErrors, Path, aggregate};
use kevel_api::gvk::{GroupVersion, GroupVersionKind};
use kevel_api::value::{Map, Value};
use kevel_registry::metadata::{check_annotations, check_labels};

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

#[cfg(test)]
mod tests {
    use kevel_codec::json::{Unknown, decode_any, encode_any};

    use super::*;

    fn json(text: &str) -> Value {
        decode_any(text.as_bytes(), Unknown::Ignore).expect(text).value
    }

    fn object(metadata: &str) -> Value {
        json(&format!(r#"{{"apiVersion":"e.com/v1","kind":"Widget","metadata":{metadata}}}"#))
    }

    /// Message about a webhook's answer to one object; empty if it is accepted.
    fn refusal(original: &Value, answer: &str) -> String {
        let to = "e.com/v2".parse().unwrap();
        let refused = accept(original, &mut json(answer), &to);
        refused.map_or_else(|refusal| refusal.at(None), |()| String::new())
    }

    #[test]
    fn answers_are_the_requested_version_of_the_same_object() {
        let original = object(r#"{"name":"a","namespace":"n","uid":"u"}"#);
        let metadata = r#""metadata":{"name":"a","namespace":"n","uid":"u"}"#;
        let of = |api_version: &str, kind: &str| {
            format!(r#"{{"apiVersion":"{api_version}","kind":"{kind}",{metadata}}}"#)
        };
        let at =
            |metadata: &str| format!(r#"{{"apiVersion":"e.com/v2","kind":"Widget"{metadata}}}"#);
        let version = |received: &str| {
            format!(
                "object at index 0: invalid groupVersion (expected e.com/v2, received {received})"
            )
        };
        let kind = |received: &str| {
            format!("object at index 0: invalid kind (expected Widget, received {received})")
        };
        for (answer, expected) in [
            (of("e.com/v2", "Widget"), String::new()),
            (of("e.com/v1", "Widget"), version("e.com/v1")),
            (of("other.com/v2", "Widget"), version("other.com/v2")),
            (of("v2", "Widget"), version("v2")),
            (of("e.com/v2", "Gadget"), kind("Gadget")),
            (of("e.com/v2", ""), kind("")),
            (
                at(r#","metadata":{"name":"b","namespace":"n","uid":"u"}"#),
                "object: must have the same name: a != b".to_owned(),
            ),
            (
                at(r#","metadata":{"name":"a","namespace":"m","uid":"u"}"#),
                "object: must have the same namespace: n != m".to_owned(),
            ),
            (
                at(r#","metadata":{"name":"a","namespace":"n","uid":"v"}"#),
                "object: must have the same UID: u != v".to_owned(),
            ),
            (
                at(r#","metadata":{"name":"a","namespace":"n"}"#),
                "object: must have the same UID: u != ".to_owned(),
            ),
            (at(""), "object: must have the same name: a != ".to_owned()),
        ] {
            assert_eq!(refusal(&original, &answer), expected, "{answer}");
        }
    }

    #[test]
    fn conversions_change_labels_and_annotations_alone() {
        let original = object(
            r#"{"name":"a","labels":{"old":"1"},"annotations":{"kept":"1"},"generation":3,
                "finalizers":["f"],"ownerReferences":[{"uid":"o"}]}"#,
        );
        for (labels, annotations, left) in [
            ("", "", ""),
            (r#""labels":{"new":"2"},"#, "", r#""labels":{"new":"2"},"#),
            (r#""labels":null,"#, r#""annotations":{"b":"2"},"#, r#""annotations":{"b":"2"},"#),
        ] {
            let said = format!(
                r#"{{"apiVersion":"e.com/v2","kind":"Widget","metadata":{{{labels}{annotations}
                    "name":"a","generation":9,"deletionTimestamp":"2026-01-01T00:00:00Z",
                    "resourceVersion":"7","finalizers":[]}},"spec":{{"x":1}}}}"#
            );
            let mut converted = json(&said);
            accept(&original, &mut converted, &"e.com/v2".parse().unwrap()).unwrap();
            let expected = json(&format!(
                r#"{{{left}"finalizers":["f"],"generation":3,"name":"a","ownerReferences":[{{"uid":"o"}}]}}"#
            ));
            let text = |value: &Value| {
                let mut text = Vec::new();
                encode_any(value, &mut text);
                String::from_utf8(text).unwrap()
            };
            assert_eq!(text(converted.at(&["metadata"]).unwrap()), text(&expected), "{said}");
            assert_eq!(converted.at(&["spec", "x"]), Some(&Value::Int(1)));
        }
    }

    /// Only labels and annotations that a conversion changes are judged: stored ones stay as they are.
    #[test]
    fn changed_labels_and_annotations_are_valid() {
        let original = object(r#"{"name":"a","labels":{"-old-":"1"},"annotations":{"-old-":"1"}}"#);
        let long = format!(r#"{{"a":"{}"}}"#, "x".repeat(256 << 10));
        let too_long = "metadata: metadata.annotation: Too long: may not be more than 262144 bytes";
        for (labels, annotations, expected) in [
            (r#"{"-old-":"1"}"#, r#"{"-old-":"1"}"#, ""),
            ("null", "null", ""),
            (r#"{"a":"b"}"#, r#"{"a":"b"}"#, ""),
            (r#"{"-new-":"1"}"#, "null", "metadata: metadata.labels: Invalid value: \"-new-\": "),
            (r#"{"a":"-"}"#, "null", "metadata: metadata.labels: Invalid value: \"-\": "),
            (
                "null",
                r#"{"-new-":"1"}"#,
                "metadata: metadata.annotation: Invalid value: \"-new-\": ",
            ),
            ("null", &*long, too_long),
            (
                r#"{"a":1}"#,
                "null",
                "metadata: metadata.labels[a] must be a string, but is int64 in converted object",
            ),
            (
                "null",
                "[]",
                "metadata: invalid metadata.annotations of type []interface {} in converted object",
            ),
        ] {
            let answer = format!(
                r#"{{"apiVersion":"e.com/v2","kind":"Widget","metadata":{{"name":"a","labels":{labels},"annotations":{annotations}}}}}"#
            );
            let found = refusal(&original, &answer);
            assert!(found.starts_with(expected), "{found}");
            assert_eq!(found.is_empty(), expected.is_empty(), "{found}");
        }
        for (metadata, expected) in [
            ("null", "metadata: invalid metadata of type <nil> in converted object"),
            ("true", "metadata: invalid metadata of type bool in converted object"),
        ] {
            let unnamed = object("{}");
            let answer =
                format!(r#"{{"apiVersion":"e.com/v2","kind":"Widget","metadata":{metadata}}}"#);
            assert_eq!(refusal(&unnamed, &answer), expected);
        }
    }
}
