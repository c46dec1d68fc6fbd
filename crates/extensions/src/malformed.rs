//! Removal of malformed metadata fields in custom objects.

use kevel_api::schema::{Schema, StructFlags, Type};
use kevel_api::value::{Map, Value};
use kevel_codec::json::{self, Unknown, decode};

/// Drops the metadata fields of an object that do not decode, each as a whole. Does the same in embedded resources, and
/// drops their `apiVersion` or `kind` if it is not a string (upstream: DropMalformedFields, DropInvalidFields).
/// Metadata that is not an object is kept at the root, and dropped in embedded resources, where the reference keeps it.
pub(crate) fn drop_malformed(object: &mut Value, schema: Schema<'_>) {
    if let Some(map) = object.as_map_mut() {
        drop_in_metadata(map, schema);
    }
    drop_below(object, schema);
}

fn drop_below(value: &mut Value, schema: Schema<'_>) {
    match (value, schema.ty()) {
        (Value::Map(map), Type::Struct(ty)) => {
            let is_resource = ty.flags.has(StructFlags::EMBEDDED);
            for (name, value) in map.iter_mut() {
                match schema.field(name) {
                    Some(_) if is_resource && name == "metadata" => {}
                    Some(field) => drop_in(value, field.schema()),
                    None => {}
                }
            }
        }
        (Value::Map(map), Type::Map { value: of, .. }) => {
            map.iter_mut().for_each(|(_, value)| drop_in(value, schema.other(*of)));
        }
        (Value::List(list), Type::List { item, .. }) => {
            list.iter_mut().for_each(|value| drop_in(value, schema.other(*item)));
        }
        _ => {}
    }
}

/// Drops malformed fields in a value that may be an embedded resource.
fn drop_in(value: &mut Value, schema: Schema<'_>) {
    let is_resource =
        schema.as_struct().is_some_and(|structure| structure.flags().has(StructFlags::EMBEDDED));
    if let Some(map) = value.as_map_mut().filter(|_| is_resource) {
        for field in ["apiVersion", "kind"] {
            if map.get(field).is_some_and(|value| value.as_str().is_none()) {
                map.remove(field);
            }
        }
        drop_in_metadata(map, schema);
        if map.get("metadata").is_some_and(|metadata| metadata.as_map().is_none()) {
            map.remove("metadata");
        }
    }
    drop_below(value, schema);
}

fn drop_in_metadata(resource: &mut Map, schema: Schema<'_>) {
    let metadata = resource.get_mut("metadata").and_then(Value::as_map_mut);
    let (Some(metadata), Some(field)) = (metadata, schema.field("metadata")) else { return };
    metadata.retain(|name, value| {
        let mut text = Vec::new();
        json::encode_any(&Map::from_iter([(name, value.clone())]).into(), &mut text);
        decode(&text, field.schema(), Unknown::Ignore).is_ok()
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn malformed_fields_of_metadata_go_whole_at_every_place() {
        let schema = br#"{"type":"object","properties":{
            "list":{"type":"array","items":{"type":"object","x-kubernetes-embedded-resource":true,
                "x-kubernetes-preserve-unknown-fields":true}},
            "map":{"type":"object","additionalProperties":{"type":"object","x-kubernetes-embedded-resource":true,
                "properties":{"inner":{"type":"object","x-kubernetes-embedded-resource":true,
                    "x-kubernetes-preserve-unknown-fields":true}}}},
            "plain":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}}"#;
        let tree = |text: &[u8]| json::decode_any(text, Unknown::Ignore).unwrap().value;
        let (table, id) = kevel_api::crd_schema::table(&tree(schema), &|_| None).unwrap();
        let wrong =
            r#"{"metadata":{"name":"a","labels":{"b":"c","d":1}},"apiVersion":1,"kind":"K"}"#;
        let right = r#"{"metadata":{"name":"a"},"kind":"K"}"#;
        let object = |embedded: &str, root: &str| {
            tree(
                format!(
                    r#"{{"metadata":{root},"list":[{embedded}],"map":{{"k":{{"inner":{embedded}}}}},"plain":{wrong}}}"#
                )
                .as_bytes(),
            )
        };
        let mut value = object(wrong, r#"{"name":"a","generation":"b","finalizers":{}}"#);
        drop_malformed(&mut value, Schema::new(&table, id));
        assert_eq!(value, object(right, r#"{"name":"a"}"#));
    }
}
