//! Conversion of a tree to an object of a type, as the decoder would decode its text.

use compact_str::CompactString;
use kevel_api::schema::{Scalar, Schema, Type};
use kevel_api::value::{Map, Value};
use thin_vec::ThinVec;

use super::decode::is_zero;
use super::{Unknown, decode, encode_any};

/// Result of [`decode`] for the JSON text of a tree. `None` if that is left to the decoder, which alone reports errors:
/// for unknown fields, values of other types, and custom resources.
///
/// ```
/// use kevel_api::value::Value;
/// use kevel_codec::json::{Unknown, decode_any, structured};
/// let schema = kevel_api::builtin::schema("", "v1", "Pod").unwrap();
/// let text = br#"{"spec":{"hostNetwork":false,"priority":0},"status":null}"#;
/// let tree = decode_any(text, Unknown::Ignore)?.value;
/// let pod = structured(&tree, schema).unwrap();
/// assert_eq!(pod.at(&["spec", "hostNetwork"]), None);
/// assert_eq!(pod.at(&["spec", "priority"]), Some(&Value::Int(0)));
/// # Ok::<(), kevel_codec::json::Error>(())
/// ```
pub fn structured(tree: &Value, schema: Schema<'_>) -> Option<Value> {
    (!schema.is_custom()).then(|| build(tree, schema)).flatten()
}

fn build(tree: &Value, schema: Schema<'_>) -> Option<Value> {
    match (schema.ty(), tree) {
        (Type::Struct(_), Value::Map(map)) => structure(map, schema).map(Value::Map),
        (Type::List { item, .. }, Value::List(items)) => {
            let item = schema.other(*item);
            let items: Option<ThinVec<Value>> =
                items.iter().map(|tree| build(tree, item)).collect();
            items.map(Value::List)
        }
        (Type::Map { value, .. }, Value::Map(map)) => {
            let element = schema.other(*value);
            let entry = |(key, tree): (&str, &Value)| Some((key.into(), build(tree, element)?));
            let entries: Option<ThinVec<(CompactString, Value)>> = map.iter().map(entry).collect();
            entries.map(|entries| Value::Map(Map::from_sorted(entries)))
        }
        (Type::Scalar(Scalar::String), Value::String(_))
        | (Type::Scalar(Scalar::Bool), Value::Bool(_))
        | (Type::Scalar(Scalar::Int64), Value::Int(_)) => Some(tree.clone()),
        (Type::Scalar(Scalar::Int32), Value::Int(number)) if i32::try_from(*number).is_ok() => {
            Some(tree.clone())
        }
        (_, Value::Null) => None,
        _ => reread(tree, schema),
    }
}

fn structure(map: &Map, schema: Schema<'_>) -> Option<Map> {
    let structure = schema.as_struct()?;
    let mut fields = ThinVec::with_capacity(map.len());
    for (name, tree) in map.iter() {
        let field = structure.field(name)?;
        if tree.is_null() {
            continue;
        }
        let value = build(tree, field.schema())?;
        if field.pointer() || !is_zero(&value, field.schema()) {
            fields.push((field.key(), value));
        }
    }
    Some(Map::from_sorted(fields))
}

/// Decodes the text of a part of the tree, for types with their own decoder.
fn reread(tree: &Value, schema: Schema<'_>) -> Option<Value> {
    let mut text = Vec::new();
    encode_any(tree, &mut text);
    let read = decode(&text, schema, Unknown::Report).ok()?;
    read.strict.is_empty().then_some(read.value)
}

#[cfg(test)]
mod tests {
    use super::super::decode_any;
    use super::*;
    use kevel_api::builtin;

    /// Result of decoding the tree's text, if there are no errors.
    fn by_text(tree: &Value, schema: Schema<'_>) -> Option<Value> {
        let mut text = Vec::new();
        encode_any(tree, &mut text);
        decode(&text, schema, Unknown::Report).ok().filter(|r| r.strict.is_empty()).map(|r| r.value)
    }

    #[test]
    fn is_what_the_decoder_reads_of_the_text() {
        let texts: &[(&str, &str, &str, &str)] = &[
            (
                "",
                "v1",
                "Pod",
                r#"{"kind":"Pod","apiVersion":"v1","metadata":{"name":"a","labels":{"a":"","b":"2"},
                "creationTimestamp":"2024-01-01T00:00:00+01:00","managedFields":[{"manager":"m","fieldsV1":{"f:a":{}}}],
                "deletionGracePeriodSeconds":0,"generation":0},"spec":{"containers":[{"name":"c","image":"",
                "resources":{"limits":{"cpu":"1000m","memory":1024}},"ports":[{"containerPort":1,"hostPort":0}]}],
                "priority":0,"overhead":{},"securityContext":{},"nodeName":"","hostNetwork":false},"status":{}}"#,
            ),
            ("", "v1", "Pod", r#"{"metadata":null,"spec":null,"status":{"conditions":[]}}"#),
            (
                "",
                "v1",
                "Service",
                r#"{"spec":{"ports":[{"port":80,"targetPort":"http"},{"port":0,"targetPort":0}]}}"#,
            ),
            ("", "v1", "Secret", r#"{"data":{"a":"YQ==","b":""},"stringData":null}"#),
            (
                "coordination.k8s.io",
                "v1",
                "Lease",
                r#"{"spec":{"renewTime":"2024-01-01T00:00:00.5Z","leaseTransitions":0}}"#,
            ),
            (
                "apps",
                "v1",
                "ControllerRevision",
                r#"{"data":{"b":[1, {"a":2.50}],"a":null},"revision":1}"#,
            ),
            (
                "apiextensions.k8s.io",
                "v1",
                "CustomResourceDefinition",
                r#"{"spec":{"group":"a","versions":[{"name":"v1",
                "schema":{"openAPIV3Schema":{"type":"object","properties":{"a":{"default":{"b":[]},"additionalProperties":true,
                "items":{"type":"string"},"enum":[1,"a"],"minimum":0,"maximum":1.5}}}}}]}}"#,
            ),
            // Trees that the decoder refuses or reports.
            ("", "v1", "Pod", r#"{"spec":{"unknown":1}}"#),
            ("", "v1", "Pod", r#"{"spec":{"containers":{}}}"#),
            ("", "v1", "Pod", r#"{"spec":{"priority":3000000000}}"#),
            ("", "v1", "Pod", r#"{"spec":{"priority":1.5}}"#),
            ("", "v1", "Pod", r#"{"spec":{"overhead":{"cpu":"x"}}}"#),
            ("", "v1", "Pod", r#"{"metadata":{"labels":{"a":1}}}"#),
            ("", "v1", "Pod", r#"[]"#),
        ];
        for (group, version, kind, text) in texts {
            let schema = builtin::schema(group, version, kind).unwrap();
            let tree = decode_any(text.as_bytes(), Unknown::Ignore).unwrap().value;
            let expected = by_text(&tree, schema);
            assert_eq!(structured(&tree, schema), expected, "{text}");
            // A typed object is unchanged.
            if let Some(object) = expected {
                assert_eq!(structured(&object, schema).as_ref(), Some(&object), "{text}");
            }
        }
    }

    #[test]
    fn null_in_lists_and_maps_is_left_to_the_decoder() {
        let schema = builtin::schema("", "v1", "Pod").unwrap();
        for text in
            [r#"{"metadata":{"finalizers":[null]}}"#, r#"{"metadata":{"labels":{"a":null}}}"#]
        {
            let tree = decode_any(text.as_bytes(), Unknown::Ignore).unwrap().value;
            assert_eq!(structured(&tree, schema), None, "{text}");
        }
    }
}
