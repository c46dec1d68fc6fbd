//! Documents in the form of OpenAPI 3: one for each group and version.

use std::collections::BTreeMap;

use kevel_api::value::{Map, Value};
use kevel_codec::json;
use kevel_openapi_text::Texts;

use super::component::Components;
use super::descriptions;
use super::operation::{Content, Operation, Parameter, PathItem, shared};
use super::tree::{list, object, strings};

/// Title of a document.
#[derive(Clone, Copy, Debug)]
pub(super) enum Info<'v> {
    /// A document of custom resources.
    Defined,
    /// A document of a server of this version.
    Served(&'v str),
}

/// A document with these paths and every schema that they need; `home` is its group and version.
pub(super) fn document(
    paths: &BTreeMap<String, PathItem<'_>>,
    home: Option<(&str, &str)>,
    info: Info<'_>,
    texts: &Texts,
    without_enums: bool,
) -> Vec<u8> {
    let mut components = Components::new(texts, home, without_enums);
    let mut out = br#"{"openapi":"3.0.0","info":"#.to_vec();
    let (title, version) = match info {
        Info::Defined => ("Kubernetes CRD Swagger", "v0.1.0"),
        Info::Served(version) => ("Kubernetes", version),
    };
    let about = object([("title", title.into()), ("version", version.into())]);
    json::encode_any(&about, &mut out);
    out.extend_from_slice(br#","paths":{"#);
    for (index, (path, item)) in paths.iter().enumerate() {
        entry(&mut out, index == 0, path, &path_item(item, &mut components));
    }
    out.extend_from_slice(br#"},"components":{"#);
    let mut first = true;
    components.write(|name, schema| {
        if first {
            out.extend_from_slice(br#""schemas":{"#);
        }
        entry(&mut out, first, name, &schema);
        first = false;
    });
    let schemas = !first;
    if schemas {
        out.push(b'}');
    }
    if matches!(info, Info::Served(_)) {
        if schemas {
            out.push(b',');
        }
        out.extend_from_slice(
            br#""securitySchemes":{"BearerToken":{"type":"apiKey","name":"authorization","in":"header"}}"#,
        );
    }
    out.extend_from_slice(b"}}");
    out
}

/// `"key":value`
pub(super) fn entry(out: &mut Vec<u8>, first: bool, key: &str, value: &Value) {
    if !first {
        out.push(b',');
    }
    json::encode_any(&key.into(), out);
    out.push(b':');
    json::encode_any(value, out);
}

fn path_item<'r>(item: &PathItem<'r>, components: &mut Components<'r>) -> Value {
    let shared = shared(item);
    let mut out = Map::new();
    for (method, operation) in item {
        out.insert(*method, self::operation(operation, &shared, components));
    }
    if !shared.is_empty() {
        out.insert("parameters", list(shared.iter().map(parameter)));
    }
    Value::Map(out)
}

fn operation<'r>(
    operation: &Operation<'r>,
    shared: &[Parameter],
    components: &mut Components<'r>,
) -> Value {
    let mut out = common(operation);
    let own: Vec<_> = operation.parameters.iter().filter(|p| !shared.contains(p)).collect();
    if !own.is_empty() {
        out.insert("parameters", list(own.into_iter().map(parameter)));
    }
    if let Some(body) = operation.body {
        let schema = content(body, components);
        let forms =
            operation.consumes.iter().map(|media| (*media, object([("schema", schema.clone())])));
        let mut body = Map::from_iter([("content", Value::Map(forms.collect()))]);
        if operation.body_required {
            body.insert("required", true.into());
        }
        out.insert("requestBody", Value::Map(body));
    }
    let mut responses = Map::new();
    for (code, answer) in &operation.answers {
        let schema = content(*answer, components);
        let forms =
            operation.produces.iter().map(|media| (*media, object([("schema", schema.clone())])));
        let response = object([
            ("description", reason(*code).into()),
            ("content", Value::Map(forms.collect())),
        ]);
        responses.insert(code.to_string(), response);
    }
    responses.insert("401", object([("description", reason(401).into())]));
    out.insert("responses", Value::Map(responses));
    Value::Map(out)
}

/// Fields of an operation common to OpenAPI 2 and 3.
pub(super) fn common(operation: &Operation<'_>) -> Map {
    let mut out = Map::from_iter([
        ("description", descriptions::operation(operation).as_str().into()),
        ("operationId", operation.id.as_str().into()),
        ("tags", strings([&operation.tag])),
    ]);
    if !operation.action.is_empty() {
        out.insert("x-kubernetes-action", operation.action.into());
    }
    if let Some(kind) = operation.kind {
        let kind = object([
            ("group", kind.group.as_str().into()),
            ("version", kind.version.as_str().into()),
            ("kind", kind.kind.as_str().into()),
        ]);
        out.insert("x-kubernetes-group-version-kind", kind);
    }
    out
}

pub(super) fn content<'r>(content: Content<'r>, components: &mut Components<'r>) -> Value {
    match content {
        Content::Of(component) => components.reference(component),
        Content::Text => object([("type", "string".into())]),
    }
}

fn parameter(parameter: &Parameter) -> Value {
    let schema = object([("type", parameter.ty.into()), ("uniqueItems", true.into())]);
    let mut out = Map::from_iter([
        ("name", parameter.name.as_str().into()),
        ("in", if parameter.in_path { "path".into() } else { "query".into() }),
        ("schema", schema),
    ]);
    if parameter.in_path {
        out.insert("required", true.into());
    }
    describe(parameter, &mut out);
    Value::Map(out)
}

/// Sets a parameter's description.
pub(super) fn describe(parameter: &Parameter, out: &mut Map) {
    if let Some(about) = descriptions::parameter(parameter) {
        out.insert("description", about.into());
    }
}

pub(super) fn reason(code: u16) -> &'static str {
    let code = http::StatusCode::from_u16(code).ok();
    code.and_then(|code| code.canonical_reason()).unwrap_or_default()
}
