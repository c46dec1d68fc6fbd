//! OpenAPI documents of aggregated servers.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use bytes::Bytes;
use compact_str::CompactString;
use kevel_api::value::{Map, Value};
use kevel_codec::json::{self, Unknown};

use super::v2::Sink;
use crate::handler::Response;
use crate::request::Request;
use kevel_component::future::Pending;

/// Source of the aggregated servers' documents.
pub trait Remote: Send + Sync + 'static {
    /// Current documents; the same `Arc` while nothing changes.
    fn current(&self) -> Arc<RemoteDocuments>;

    /// Requests a named document from its server.
    fn serve<'a>(&'a self, name: &str, request: Request) -> Pending<'a, Response>;
}

/// Documents of aggregated servers at one moment.
#[derive(Debug, Default)]
pub struct RemoteDocuments {
    /// Names below `/openapi/v3/`, with their URLs.
    pub v3: BTreeMap<String, String>,
    /// Parts of `/openapi/v2` by descending priority: paths and the definitions that they need, as JSON.
    pub v2: Vec<Bytes>,
    /// Changes when and only when the documents do.
    pub tag: String,
}

/// Suffix of a renamed definition, before a number.
const RENAMED: &str = "_v";
const DEFINITIONS: &str = "#/definitions/";

/// Adds the aggregated servers' parts to the OpenAPI 2 document. Existing entries stay: a path that exists is not
/// added, a definition that differs is renamed.
pub(super) struct Merged<'s, S> {
    sink: &'s mut S,
    parts: Vec<Part>,
    paths: BTreeSet<String>,
    parameters: BTreeSet<String>,
    has_paths: bool,
}

/// Definitions of a document that a remote part has, too.
#[derive(Default)]
pub(super) struct Known {
    wanted: BTreeSet<CompactString>,
    found: HashMap<CompactString, Value>,
    names: BTreeSet<CompactString>,
}

/// A part of an aggregated server's document. Parameters of one name are equal.
pub(super) struct Part {
    paths: Map,
    definitions: Map,
    parameters: Map,
}

/// Decodes the parts; invalid ones are left out.
pub(super) fn read(parts: &[Bytes]) -> Vec<Part> {
    let part = |text: &Bytes| {
        let mut part = json::decode_any(text, Unknown::Ignore).ok()?.value;
        let mut take = |key: &str| match part.as_map_mut()?.remove(key)? {
            Value::Map(map) => Some(map),
            _ => None,
        };
        let paths = take("paths")?;
        let (definitions, parameters) = (take("definitions"), take("parameters"));
        let (definitions, parameters) =
            (definitions.unwrap_or_default(), parameters.unwrap_or_default());
        Some(Part { paths, definitions, parameters })
    };
    parts.iter().filter_map(part).collect()
}

impl Known {
    pub fn new(parts: &[Part]) -> Self {
        let names = parts.iter().flat_map(|part| part.definitions.iter());
        Known { wanted: names.map(|(name, _)| name.into()).collect(), ..Known::default() }
    }
}

impl Sink for Known {
    fn path(&mut self, _path: &str, _item: Value) {}

    fn definition(&mut self, name: &str, schema: Value) {
        self.names.insert(name.into());
        if self.wanted.contains(name) {
            self.found.insert(name.into(), schema);
        }
    }

    fn parameter(&mut self, _name: &str, _parameter: Value) {}
}

impl<'s, S: Sink> Merged<'s, S> {
    /// Chooses names for the definitions of all parts.
    pub fn new(sink: &'s mut S, parts: Vec<Part>, mut known: Known) -> Self {
        let mut renamed = Vec::new();
        for Part { paths, definitions, parameters } in parts {
            let mut names: HashMap<CompactString, CompactString> = HashMap::new();
            for (name, schema) in definitions.iter() {
                let taken = known.names.contains(name);
                if taken && known.found.get(name) != Some(schema) {
                    names.insert(name.into(), free_name(name, &known.names));
                }
            }
            let rename = |map: Map| match with_names(Value::Map(map), &names) {
                Value::Map(map) => map,
                _ => Map::new(),
            };
            let mut added = Map::new();
            for (name, schema) in rename(definitions).into_entries() {
                let name = names.get(&name).cloned().unwrap_or(name);
                if known.names.insert(name.clone()) {
                    known.found.insert(name.clone(), schema.clone());
                    added.insert(name, schema);
                }
            }
            let (paths, parameters) = (rename(paths), rename(parameters));
            renamed.push(Part { paths, definitions: added, parameters });
        }
        let (paths, parameters) = Default::default();
        Merged { sink, parts: renamed, paths, parameters, has_paths: false }
    }

    /// Adds the remaining paths, definitions and parameters.
    pub fn finish(mut self) {
        self.add_paths();
        for Part { definitions, parameters, .. } in self.parts {
            for (name, schema) in definitions.into_entries() {
                self.sink.definition(&name, schema);
            }
            for (name, parameter) in parameters.into_entries() {
                if self.parameters.insert(name.to_string()) {
                    self.sink.parameter(&name, parameter);
                }
            }
        }
    }

    fn add_paths(&mut self) {
        if std::mem::replace(&mut self.has_paths, true) {
            return;
        }
        for part in &mut self.parts {
            for (path, item) in std::mem::take(&mut part.paths).into_entries() {
                if self.paths.insert(path.to_string()) {
                    self.sink.path(&path, item);
                }
            }
        }
    }
}

impl<S: Sink> Sink for Merged<'_, S> {
    fn path(&mut self, path: &str, item: Value) {
        self.paths.insert(path.to_owned());
        self.sink.path(path, item);
    }

    fn definition(&mut self, name: &str, schema: Value) {
        self.add_paths();
        self.sink.definition(name, schema);
    }

    fn parameter(&mut self, name: &str, parameter: Value) {
        self.parameters.insert(name.to_owned());
        self.sink.parameter(name, parameter);
    }
}

/// The first free name of this form.
fn free_name(name: &str, taken: &BTreeSet<CompactString>) -> CompactString {
    let names = (2..).map(|number: u32| CompactString::from(format!("{name}{RENAMED}{number}")));
    names.into_iter().find(|name| !taken.contains(name)).unwrap_or_default()
}

/// A tree with its references renamed.
fn with_names(value: Value, names: &HashMap<CompactString, CompactString>) -> Value {
    if names.is_empty() {
        return value;
    }
    match value {
        Value::Map(map) => {
            let entries = map.into_entries().into_iter().map(|(key, value)| {
                let value = match (key.as_str(), &value) {
                    ("$ref", Value::String(to)) => {
                        let name = to.strip_prefix(DEFINITIONS).and_then(|name| names.get(name));
                        match name {
                            Some(name) => format!("{DEFINITIONS}{name}").as_str().into(),
                            None => value,
                        }
                    }
                    _ => with_names(value, names),
                };
                (key, value)
            });
            Value::Map(entries.collect())
        }
        Value::List(list) => {
            Value::List(list.into_iter().map(|item| with_names(item, names)).collect())
        }
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Default)]
    struct Lines(Vec<String>);

    impl Sink for Lines {
        fn path(&mut self, path: &str, item: Value) {
            self.0.push(format!("{path} {}", text(&item)));
        }

        fn definition(&mut self, name: &str, schema: Value) {
            self.0.push(format!("{name} {}", text(&schema)));
        }

        fn parameter(&mut self, name: &str, parameter: Value) {
            self.0.push(format!("{name} {}", text(&parameter)));
        }
    }

    fn text(value: &Value) -> String {
        let mut text = Vec::new();
        json::encode_any(value, &mut text);
        String::from_utf8(text).unwrap()
    }

    #[test]
    fn what_is_there_stays_and_what_differs_gets_another_name() {
        let schema = |text: &str| json::decode_any(text.as_bytes(), Unknown::Ignore).unwrap().value;
        let own = |sink: &mut dyn FnMut(bool, &str, Value)| {
            sink(true, "/a", schema("1"));
            sink(false, "Same", schema(r#"{"type":"string"}"#));
            sink(false, "Other", schema(r#"{"type":"string"}"#));
        };
        let parts = [
            r##"{"paths":{"/a":2,"/b":{"$ref":"#/definitions/Other"}},"definitions":{"Same":{"type":"string"},"Other":{"type":"number"},"Mine":{"$ref":"#/definitions/Other"}}}"##,
            r##"{"paths":{"/b":3,"/c":{"$ref":"#/definitions/Mine"}},"definitions":{"Mine":{"type":"object"}}}"##,
            "no JSON",
        ];
        let parts = read(&parts.map(Bytes::from));
        let mut known = Known::new(&parts);
        own(&mut |is_path, name, value| match is_path {
            true => known.path(name, value),
            false => known.definition(name, value),
        });
        let mut lines = Lines::default();
        let mut merged = Merged::new(&mut lines, parts, known);
        own(&mut |is_path, name, value| match is_path {
            true => merged.path(name, value),
            false => merged.definition(name, value),
        });
        merged.finish();
        assert_eq!(
            lines.0,
            [
                "/a 1",
                r##"/b {"$ref":"#/definitions/Other_v2"}"##,
                r##"/c {"$ref":"#/definitions/Mine_v2"}"##,
                r#"Same {"type":"string"}"#,
                r#"Other {"type":"string"}"#,
                r##"Mine {"$ref":"#/definitions/Other_v2"}"##,
                r#"Other_v2 {"type":"number"}"#,
                r#"Mine_v2 {"type":"object"}"#,
            ]
        );
    }
}
