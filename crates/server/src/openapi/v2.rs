//! The whole API as one document in the form of OpenAPI 2 (Swagger).

use std::collections::BTreeMap;

use kevel_api::value::{Map, Value};
use kevel_codec::json;
use kevel_openapi_text::Texts;

use super::component::{Components, PREFIX};
use super::operation::{Operation, Parameter, PathItem, shared};
use super::tree::{list, object, strings};
use super::v3::{self, common, reason};

/// What takes the pieces of a document as they are made.
pub(super) trait Sink {
    fn path(&mut self, path: &str, item: Value);
    fn definition(&mut self, name: &str, schema: Value);
}

/// Hands the pieces of the document to a sink: all paths, then all definitions.
pub(super) fn document(
    paths: &BTreeMap<String, PathItem<'_>>,
    texts: &Texts,
    sink: &mut impl Sink,
) {
    let mut components = Components::new(texts, None);
    for (path, item) in paths {
        sink.path(path, path_item(item, &mut components));
    }
    components.write(|name, schema| sink.definition(name, downgrade(schema)));
}

/// The document as JSON.
#[derive(Debug, Default)]
pub(super) struct Json {
    out: Vec<u8>,
    definitions: bool,
    first: bool,
}

impl Json {
    pub fn new(version: &str) -> Self {
        let mut out = br#"{"swagger":"2.0","info":{"title":"Kubernetes","version":"#.to_vec();
        json::encode_any(&version.into(), &mut out);
        out.extend_from_slice(b"},");
        out.extend_from_slice(
            br#""security":[{"BearerToken":[]}],"securityDefinitions":{"BearerToken":"#,
        );
        out.extend_from_slice(
            br#"{"type":"apiKey","name":"authorization","in":"header"}},"paths":{"#,
        );
        Json { out, definitions: false, first: true }
    }

    pub fn finish(mut self) -> Vec<u8> {
        if !self.definitions {
            self.out.extend_from_slice(br#"},"definitions":{"#);
        }
        self.out.extend_from_slice(b"}}");
        self.out
    }

    fn entry(&mut self, key: &str, value: &Value) {
        v3::entry(&mut self.out, std::mem::take(&mut self.first), key, value);
    }
}

impl Sink for Json {
    fn path(&mut self, path: &str, item: Value) {
        self.entry(path, &item);
    }

    fn definition(&mut self, name: &str, schema: Value) {
        if !std::mem::replace(&mut self.definitions, true) {
            self.out.extend_from_slice(br#"},"definitions":{"#);
            self.first = true;
        }
        self.entry(name, &schema);
    }
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
    let mut parameters = Vec::new();
    if let Some(body) = operation.body {
        let mut body = Map::from_iter([
            ("name", "body".into()),
            ("in", "body".into()),
            ("schema", downgrade(v3::content(body, components))),
        ]);
        if operation.body_required {
            body.insert("required", true.into());
        }
        parameters.push(Value::Map(body));
    }
    parameters.extend(operation.parameters.iter().filter(|p| !shared.contains(p)).map(parameter));
    if !parameters.is_empty() {
        out.insert("parameters", list(parameters));
    }
    let mut responses = Map::new();
    for (code, answer) in &operation.answers {
        let schema = downgrade(v3::content(*answer, components));
        let response = object([("description", reason(*code).into()), ("schema", schema)]);
        responses.insert(code.to_string(), response);
    }
    responses.insert("401", object([("description", reason(401).into())]));
    out.insert("responses", Value::Map(responses));
    out.insert("schemes", strings(["https"]));
    for (key, media) in [("consumes", &operation.consumes), ("produces", &operation.produces)] {
        if !media.is_empty() {
            out.insert(key, strings(media));
        }
    }
    Value::Map(out)
}

fn parameter(parameter: &Parameter) -> Value {
    let mut out = Map::from_iter([
        ("name", parameter.name.as_str().into()),
        ("in", if parameter.in_path { "path".into() } else { "query".into() }),
        ("type", parameter.ty.into()),
        ("uniqueItems", true.into()),
    ]);
    if parameter.in_path {
        out.insert("required", true.into());
    }
    v3::describe(parameter, &mut out);
    Value::Map(out)
}

/// A schema of OpenAPI 3 in the words of OpenAPI 2, which has no alternatives, and whose clients
/// know no defaults.
fn downgrade(schema: Value) -> Value {
    match schema {
        Value::Map(map) => {
            let mut out = Map::new();
            for (key, value) in map.into_entries() {
                match (key.as_str(), value) {
                    // A property may have any name: what is below `properties` are schemas.
                    ("properties", Value::Map(properties)) => {
                        let properties = properties.into_entries().into_iter();
                        let properties = properties.map(|(name, schema)| (name, downgrade(schema)));
                        out.insert(key, Value::Map(properties.collect()));
                    }
                    ("default" | "nullable", _) => {}
                    ("oneOf", _) => {
                        out.insert("type", "string".into());
                    }
                    ("allOf", Value::List(mut of)) if of.len() == 1 => {
                        let reference = downgrade(of.pop().unwrap_or_default());
                        if let Value::Map(reference) = reference {
                            for (key, value) in reference.into_entries() {
                                out.insert(key, value);
                            }
                        }
                    }
                    ("$ref", Value::String(reference)) => {
                        let name = reference.strip_prefix(PREFIX).unwrap_or(&reference);
                        out.insert(key, format!("#/definitions/{name}").as_str().into());
                    }
                    ("items" | "additionalProperties", value) => {
                        out.insert(key, downgrade(value));
                    }
                    (_, value) => {
                        out.insert(key, value);
                    }
                }
            }
            Value::Map(out)
        }
        other => other,
    }
}
