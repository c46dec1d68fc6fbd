//! Values of the variables `request`, `namespaceObject`, `object` and `oldObject`.

use kevel_api::gvk::GroupVersionKind;
use kevel_api::schema::Schema;
use kevel_api::value::{Map, Value};
use kevel_patch::unstructured;
use kevel_registry::admission::Attributes;
use kevel_registry::resource::{Resource, api_version};

/// Value of `request`: the requested kind and resource (`requestKind`, ...) and, with `matchPolicy: Equivalent`, the
/// kind and resource of the rule that matched (`kind`, ...), taken from `matched`.
pub fn admission_request(
    attributes: &Attributes<'_>,
    matched: &Resource,
    options: Option<&Value>,
) -> Value {
    let asked = attributes.resource;
    let subresource = attributes.subresource;
    let mut request = Map::new();
    request.insert("uid", "".into());
    request.insert("kind", kind(matched.kind_of(subresource)));
    request.insert("resource", resource(matched));
    request.insert("requestKind", kind(attributes.kind()));
    request.insert("requestResource", resource(asked));
    let texts = [
        ("subResource", subresource),
        ("requestSubResource", subresource),
        ("name", attributes.name),
        ("namespace", attributes.namespace),
    ];
    for (field, text) in texts.into_iter().filter(|(_, text)| !text.is_empty()) {
        request.insert(field, text.into());
    }
    request.insert("operation", attributes.operation.name().into());
    request.insert("userInfo", user_info(attributes));
    request.insert("object", Value::Null);
    request.insert("oldObject", Value::Null);
    request.insert("dryRun", attributes.dry_run.into());
    request.insert("options", options.cloned().unwrap_or(Value::Null));
    request.into()
}

fn kind(kind: &GroupVersionKind) -> Value {
    let fields = [("group", &*kind.group), ("version", &kind.version), ("kind", &kind.kind)];
    Map::from_iter(fields.map(|(field, text)| (field, Value::from(text)))).into()
}

fn resource(row: &Resource) -> Value {
    let kind = &row.kind;
    let fields = [("group", &*kind.group), ("version", &kind.version), ("resource", &row.plural)];
    Map::from_iter(fields.map(|(field, text)| (field, Value::from(text)))).into()
}

fn user_info(attributes: &Attributes<'_>) -> Value {
    let user = attributes.user;
    let mut info = Map::new();
    for (field, text) in [("username", &user.name), ("uid", &user.uid)] {
        if !text.is_empty() {
            info.insert(field, text.as_str().into());
        }
    }
    let list = |texts: &[String]| {
        Value::List(texts.iter().map(|text| Value::from(text.as_str())).collect())
    };
    if !user.groups.is_empty() {
        info.insert("groups", list(&user.groups));
    }
    if !user.extra.is_empty() {
        let entries = user.extra.iter().map(|(key, values)| (key.as_str(), list(values)));
        info.insert("extra", Value::Map(Map::from_iter(entries)));
    }
    info.into()
}

/// Value of `namespaceObject`: the fields of a Namespace that expressions may read.
pub fn namespace_object(namespace: &Value) -> Value {
    const METADATA: [&str; 12] = [
        "annotations",
        "creationTimestamp",
        "deletionGracePeriodSeconds",
        "deletionTimestamp",
        "finalizers",
        "generateName",
        "generation",
        "labels",
        "name",
        "namespace",
        "resourceVersion",
        "uid",
    ];
    let part = |field: &str| namespace.at(&[field]).cloned().unwrap_or_else(|| Map::new().into());
    let mut metadata = part("metadata");
    if let Some(metadata) = metadata.as_map_mut() {
        metadata.retain(|field, _| METADATA.contains(&field));
    }
    let parts = [("metadata", metadata), ("spec", part("spec")), ("status", part("status"))];
    Map::from_iter(parts).into()
}

/// Object as expressions see it: as clients see it, with its kind and with the zero values that JSON output includes.
pub fn versioned_object(object: &Value, schema: Schema<'_>, kind: &GroupVersionKind) -> Value {
    let mut object = unstructured(object, schema);
    if let Some(map) = object.as_map_mut() {
        map.insert("apiVersion", api_version(&kind.group, &kind.version).as_str().into());
        map.insert("kind", kind.kind.as_str().into());
    }
    object
}
