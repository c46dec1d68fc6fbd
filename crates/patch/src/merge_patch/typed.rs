//! Merge patches of objects of built-in types, which most patches are, without building the object's JSON tree: only
//! the fields that the patch names are decoded again.

use kevel_api::schema::{Scalar, Schema, StructSchema, Type};
use kevel_api::value::{Map, Value};
use kevel_codec::json::{Unknown, decode, encode_any};

use super::prune_nulls;

/// Applies a patch to an object of a built-in type, with the same result as decoding the patched tree. `None` if that
/// is needed after all: for unknown fields and values of wrong types, whose errors only the decoder reports, and for
/// documents inside the object.
///
/// ```
/// use kevel_codec::json::{Unknown, decode};
/// use kevel_patch::merge_patch;
/// let schema = kevel_api::builtin::schema("", "v1", "ConfigMap").unwrap();
/// let object = decode(br#"{"data":{"a":"1","b":"2"}}"#, schema, Unknown::Ignore)?.value;
/// let (patch, _) = merge_patch::decode(br#"{"data":{"a":null,"c":"3"}}"#, Unknown::Ignore)?;
/// let patched = merge_patch::apply_typed(&object, &patch, schema);
/// let expected = decode(br#"{"data":{"b":"2","c":"3"}}"#, schema, Unknown::Ignore)?.value;
/// assert_eq!(patched, Some(expected));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn apply_typed(object: &Value, patch: &Value, schema: Schema<'_>) -> Option<Value> {
    if schema.is_custom() {
        return None;
    }
    let (structure, patch) = (schema.as_struct()?, patch.as_map()?);
    let mut object = object.clone();
    patch_struct(object.as_map_mut()?, patch, schema, structure)?;
    Some(object)
}

fn patch_struct(
    map: &mut Map,
    patch: &Map,
    schema: Schema<'_>,
    structure: StructSchema<'_>,
) -> Option<()> {
    for (name, change) in patch.iter() {
        let field = structure.field(name)?;
        match (field.schema().ty(), change) {
            (_, Value::Null) => {
                map.remove(name);
            }
            (Type::Struct(_) | Type::Map { .. }, Value::Map(_)) => {
                let inner = map.entry_or_insert_with(name, || Value::Map(Map::new()));
                patch_inside(inner, change, field.schema())?;
            }
            (Type::Scalar(Scalar::String), Value::String(text)) if !text.is_empty() => {
                map.insert(field.key(), change.clone());
            }
            (Type::Scalar(Scalar::Raw | Scalar::Json | Scalar::FieldsV1), _)
            | (Type::Union { .. } | Type::Any, _) => return None,
            _ => {
                // Only the decoder of its struct knows whether a zero field is kept.
                let alone = Value::Map(Map::from_iter([(field.key(), change.clone())]));
                let mut read = reread(alone, schema)?;
                match read.as_map_mut()?.remove(name) {
                    Some(value) => map.insert(field.key(), value),
                    None => map.remove(name),
                };
            }
        }
    }
    Some(())
}

fn patch_inside(value: &mut Value, patch: &Value, schema: Schema<'_>) -> Option<()> {
    let (map, patch) = (value.as_map_mut()?, patch.as_map()?);
    if let Some(structure) = schema.as_struct() {
        return patch_struct(map, patch, schema, structure);
    }
    let element = schema.value()?;
    for (name, change) in patch.iter() {
        match (element.ty(), change) {
            (_, Value::Null) => {
                map.remove(name);
            }
            (Type::Struct(_) | Type::Map { .. }, Value::Map(_)) => {
                let inner = map.entry_or_insert_with(name, || Value::Map(Map::new()));
                patch_inside(inner, change, element)?;
            }
            (Type::Scalar(Scalar::String), Value::String(_)) => {
                map.insert(name, change.clone());
            }
            (Type::Scalar(Scalar::Raw | Scalar::Json | Scalar::FieldsV1), _)
            | (Type::Union { .. } | Type::Any, _) => return None,
            _ => {
                map.insert(name, reread(change.clone(), element)?);
            }
        }
    }
    Some(())
}

/// Decodes a part of a patch.
fn reread(mut tree: Value, schema: Schema<'_>) -> Option<Value> {
    prune_nulls(&mut tree);
    let mut text = Vec::new();
    encode_any(&tree, &mut text);
    let read = decode(&text, schema, Unknown::Report).ok()?;
    read.strict.is_empty().then_some(read.value)
}

#[cfg(test)]
mod tests {
    use super::super::apply;
    use super::*;
    use crate::unstructured_but_fields;
    use kevel_api::builtin;
    use kevel_codec::json::decode_any;

    const POD: &str = r#"{"kind":"Pod","apiVersion":"v1","metadata":{"name":"a","labels":{"a":"1","b":"2"},
        "creationTimestamp":"2024-01-01T00:00:00Z","managedFields":[{"manager":"m","fieldsV1":{"f:a":{}}}]},
        "spec":{"containers":[{"name":"c","image":"i","resources":{"limits":{"cpu":"1"}}}],"priority":0,
        "nodeSelector":{"x":"y"},"overhead":{"cpu":"1"},"securityContext":{"runAsUser":0}},"status":{}}"#;

    /// Result of decoding the patched tree.
    fn by_tree(object: &Value, patch: &Value, schema: Schema<'_>) -> Option<Value> {
        let mut text = Vec::new();
        let tree = apply(unstructured_but_fields(object, schema), patch.clone());
        encode_any(&tree, &mut text);
        decode(&text, schema, Unknown::Report).ok().filter(|r| r.strict.is_empty()).map(|r| r.value)
    }

    #[test]
    fn is_what_the_decoder_reads_of_the_patched_tree() {
        let schema = builtin::schema("", "v1", "Pod").unwrap();
        let object = decode(POD.as_bytes(), schema, Unknown::Ignore).unwrap().value;
        let patches = [
            "{}",
            r#"{"metadata":{"labels":{"c":"3"}}}"#,
            r#"{"metadata":{"labels":{"a":null,"b":"","z":null}}}"#,
            r#"{"metadata":{"labels":null,"annotations":{"a":null},"generateName":""}}"#,
            r#"{"metadata":null}"#,
            r#"{"metadata":{"finalizers":["a",null],"ownerReferences":[{"name":"o","uid":null,"kind":""}]}}"#,
            r#"{"metadata":{"deletionGracePeriodSeconds":0,"creationTimestamp":"2025-01-01T00:00:00+01:00"}}"#,
            r#"{"metadata":{"managedFields":[{}]}}"#,
            r#"{"metadata":{"managedFields":[{"manager":"x","fieldsV1":{"f:b":{ }}}]}}"#,
            r#"{"spec":{"containers":[{"name":"d","ports":[{"containerPort":1,"hostPort":0}]}],"priority":null}}"#,
            r#"{"spec":{"containers":null,"overhead":{"cpu":"1000m","memory":1024},"hostNetwork":false}}"#,
            r#"{"spec":{"securityContext":{"runAsUser":null,"seLinuxOptions":{}},"affinity":{"nodeAffinity":{}}}}"#,
            r#"{"spec":{"nodeName":"","terminationGracePeriodSeconds":0,"enableServiceLinks":false}}"#,
            r#"{"status":{"phase":"Running","conditions":[]},"kind":"Other"}"#,
            // Patches that the decoder refuses or reports.
            r#"{"spec":{"unknown":1}}"#,
            r#"{"spec":{"containers":[{"unknown":1}]}}"#,
            r#"{"spec":{"containers":{}}}"#,
            r#"{"metadata":{"labels":{"a":1}}}"#,
            r#"{"metadata":"a"}"#,
            r#"{"spec":{"overhead":{"cpu":"x"}}}"#,
        ];
        for patch in patches {
            let patch = decode_any(patch.as_bytes(), Unknown::Ignore).unwrap().value;
            let patched = apply_typed(&object, &patch, schema);
            assert_eq!(patched, by_tree(&object, &patch, schema), "{patch:?}");
        }
    }

    #[test]
    fn documents_inside_are_left_to_the_tree() {
        let schema = builtin::schema("apps", "v1", "ControllerRevision").unwrap();
        let patch = decode_any(br#"{"data":{"a":1}}"#, Unknown::Ignore).unwrap().value;
        assert_eq!(apply_typed(&Value::Map(Map::new()), &patch, schema), None);
    }
}
