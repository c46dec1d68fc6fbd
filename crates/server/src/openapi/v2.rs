//! OpenAPI 2 (Swagger): the whole API in one document.

use std::collections::BTreeMap;

use kevel_api::value::{Map, Value};
use kevel_codec::{base64, json};
use kevel_openapi_text::Texts;

use super::component::{Components, PREFIX};
use super::operation::{Operation, Parameter, PathItem, shared};
use super::tree::{list, object, strings};
use super::v3::{self, common, reason};

/// Receiver of the pieces of a document.
pub(super) trait Sink {
    fn path(&mut self, path: &str, item: Value);
    fn definition(&mut self, name: &str, schema: Value);
    fn parameter(&mut self, name: &str, parameter: Value);
}

/// Sends the pieces of the document to a sink: all paths, then all definitions, then the referenced parameters.
pub(super) fn document(
    paths: &BTreeMap<String, PathItem<'_>>,
    texts: &Texts,
    without_enums: bool,
    sink: &mut impl Sink,
) {
    let mut components = Components::new(texts, None, without_enums);
    let mut parameters = Parameters::default();
    for (path, item) in paths {
        sink.path(path, path_item(item, &mut components, &mut parameters));
    }
    components.write(|name, schema| sink.definition(name, downgrade(schema)));
    for (name, parameter) in parameters.0 {
        sink.parameter(&name, parameter);
    }
}

/// The document as JSON.
#[derive(Debug, Default)]
pub(super) struct Json {
    out: Vec<u8>,
    definitions: bool,
    first: bool,
    parameters: Map,
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
        Json { out, definitions: false, first: true, parameters: Map::new() }
    }

    pub fn finish(mut self) -> Vec<u8> {
        if !self.definitions {
            self.out.extend_from_slice(br#"},"definitions":{"#);
        }
        self.out.extend_from_slice(br#"},"parameters":"#);
        json::encode_any(&Value::Map(self.parameters), &mut self.out);
        self.out.push(b'}');
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

    fn parameter(&mut self, name: &str, parameter: Value) {
        self.parameters.insert(name, parameter);
    }
}

/// Shared parameters, by name.
#[derive(Default)]
struct Parameters(BTreeMap<String, Value>);

/// Parameters that are not shared: names are described with their kind, and clients look for the others in operations.
const UNSHARED: [&str; 3] = ["dryRun", "fieldValidation", "name"];

impl Parameters {
    /// A parameter, or a reference to it if it is shared.
    fn shared(&mut self, parameter: Value) -> Value {
        let of_kind = match parameter.at(&["schema", "$ref"]).and_then(Value::as_str) {
            Some(schema) => !schema.starts_with("#/definitions/io.k8s.apimachinery"),
            None => false,
        };
        let name = parameter.str_at(&["name"]);
        if of_kind || UNSHARED.contains(&name) {
            return parameter;
        }
        let mut text = Vec::new();
        json::encode_any(&parameter, &mut text);
        let name = format!("{name}-{}", short_hash(&text));
        let reference = object([("$ref", format!("#/parameters/{name}").as_str().into())]);
        self.0.insert(name, parameter);
        reference
    }
}

/// First six bytes of a text's FNV-1 hash, which tell the few variants of a parameter apart.
fn short_hash(text: &[u8]) -> String {
    let step = |hash: u64, byte: &u8| hash.wrapping_mul(0x100_0000_01b3) ^ u64::from(*byte);
    let hash = text.iter().fold(0xcbf2_9ce4_8422_2325, step).to_be_bytes();
    base64::encode(&hash[..6]).replace('+', "-").replace('/', "_")
}

fn path_item<'r>(
    item: &PathItem<'r>,
    components: &mut Components<'r>,
    parameters: &mut Parameters,
) -> Value {
    let shared = shared(item);
    let mut out = Map::new();
    for (method, operation) in item {
        out.insert(*method, self::operation(operation, &shared, components, parameters));
    }
    if !shared.is_empty() {
        let shared = shared.iter().map(|shared| parameters.shared(parameter(shared)));
        out.insert("parameters", list(shared));
    }
    Value::Map(out)
}

fn operation<'r>(
    operation: &Operation<'r>,
    shared: &[Parameter],
    components: &mut Components<'r>,
    known: &mut Parameters,
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
        parameters.push(known.shared(Value::Map(body)));
    }
    let own = operation.parameters.iter().filter(|p| !shared.contains(p));
    parameters.extend(own.map(|own| known.shared(parameter(own))));
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

/// Converts an OpenAPI 3 schema to OpenAPI 2, without alternatives and defaults.
fn downgrade(schema: Value) -> Value {
    match schema {
        Value::Map(map) => {
            let mut out = Map::new();
            for (key, value) in map.into_entries() {
                match (key.as_str(), value) {
                    // Keys below `properties` are property names, not keywords.
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
