//! An extension server's part of the OpenAPI v2 document: the paths of one version, and the definitions they need.

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use kevel_api::value::{Map, Value};
use kevel_codec::json::{self, Unknown};

use super::downloads::Fetched;
use crate::api_service::ApiService;

const DEFINITIONS: &str = "#/definitions/";
const PARAMETERS: &str = "#/parameters/";

/// Paths and definitions, as JSON.
#[derive(Debug, PartialEq)]
pub(crate) struct V2Part {
    pub text: Bytes,
    tag: Option<HeaderValue>,
}

/// `/openapi/v2`
#[derive(Debug)]
pub(crate) struct V2;

impl Fetched for V2 {
    type Document = V2Part;
    const NAME: &'static str = "open_api_aggregation_controller";
    const PATH: &'static str = "/openapi/v2";

    fn headers(kept: Option<&V2Part>) -> HeaderMap {
        let accept = (header::ACCEPT, HeaderValue::from_static("application/json"));
        let tag = kept.and_then(|kept| kept.tag.clone());
        HeaderMap::from_iter(
            [accept].into_iter().chain(tag.map(|tag| (header::IF_NONE_MATCH, tag))),
        )
    }

    fn read(
        service: &ApiService,
        answer: &Response<Bytes>,
        kept: Option<&Arc<V2Part>>,
    ) -> Result<Option<Arc<V2Part>>, String> {
        match answer.status() {
            StatusCode::OK => {}
            StatusCode::NOT_MODIFIED => return Ok(kept.cloned()),
            StatusCode::NOT_FOUND => return Ok(None),
            code => {
                let code = code.as_u16();
                return Err(format!("failed to retrieve openAPI spec, http error: {code}"));
            }
        }
        let whole = json::decode_any(answer.body(), Unknown::Ignore);
        let part = part(&whole.map_err(|error| error.to_string())?.value, &service.path());
        let mut text = Vec::new();
        json::encode_any(&part, &mut text);
        let tag = answer.headers().get(header::ETAG).cloned();
        Ok(Some(Arc::new(V2Part { text: text.into(), tag })))
    }
}

/// The paths below a prefix, and the parameters and definitions that they refer to.
fn part(whole: &Value, path: &str) -> Value {
    let prefix = format!("{path}/");
    let empty = Map::new();
    let map = |key: &str| whole.at(&[key]).and_then(Value::as_map).unwrap_or(&empty);
    let paths = map("paths").iter().filter(|(path, _)| path.starts_with(&prefix));
    let paths: Map = paths.map(|(path, item)| (path, item.clone())).collect();
    let (all, mut next, mut named) = (map("definitions"), Vec::new(), Vec::new());
    paths.iter().for_each(|(_, item)| {
        references(item, DEFINITIONS, &mut next);
        references(item, PARAMETERS, &mut named);
    });
    let named: BTreeSet<String> = named.into_iter().collect();
    let parameters = map("parameters").iter().filter(|(name, _)| named.contains(*name));
    let parameters: Map = parameters.map(|(name, value)| (name, value.clone())).collect();
    parameters.iter().for_each(|(_, value)| references(value, DEFINITIONS, &mut next));
    let mut needed: BTreeSet<String> = BTreeSet::new();
    while let Some(name) = next.pop() {
        if let Some(definition) = all.get(&name)
            && needed.insert(name)
        {
            references(definition, DEFINITIONS, &mut next);
        }
    }
    let definitions = all.iter().filter(|(name, _)| needed.contains(*name));
    let definitions: Map = definitions.map(|(name, value)| (name, value.clone())).collect();
    let maps = [("paths", paths), ("definitions", definitions), ("parameters", parameters)];
    Value::Map(maps.into_iter().map(|(key, map)| (key, Value::Map(map))).collect())
}

/// Collects references below a prefix in a tree.
fn references(value: &Value, prefix: &str, to: &mut Vec<String>) {
    match value {
        Value::Map(map) => map.iter().for_each(|(key, value)| match (key, value) {
            ("$ref", Value::String(name)) => {
                to.extend(name.strip_prefix(prefix).map(str::to_owned));
            }
            (_, value) => references(value, prefix, to),
        }),
        Value::List(list) => list.iter().for_each(|value| references(value, prefix, to)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_has_what_it_needs_and_nothing_else() {
        let whole = r##"{"swagger":"2.0","paths":{
            "/apis/a.io/v1/x":{"get":{"parameters":[{"$ref":"#/parameters/p"}],"schema":{"$ref":"#/definitions/A"}}},
            "/apis/a.io/v1":{"get":{"schema":{"$ref":"#/definitions/D"}}},
            "/apis/b.io/v1/x":{"get":{"schema":{"$ref":"#/definitions/D"}}}},
            "definitions":{
            "A":{"properties":{"b":{"type":"array","items":{"$ref":"#/definitions/B"}}}},
            "B":{"properties":{"a":{"$ref":"#/definitions/A"},"x":{"$ref":"#/definitions/Missing"}}},
            "C":{"type":"object"},"D":{"type":"object"}},
            "parameters":{"p":{"schema":{"$ref":"#/definitions/C"}},"q":{}}}"##;
        let whole = json::decode_any(whole.as_bytes(), Unknown::Ignore).unwrap().value;
        let part = part(&whole, "/apis/a.io/v1");
        let names = |key: &str| -> Vec<String> {
            let map = part.at(&[key]).unwrap().as_map().unwrap();
            map.iter().map(|(name, _)| name.to_owned()).collect()
        };
        assert_eq!(names("paths"), ["/apis/a.io/v1/x"]);
        assert_eq!(names("definitions"), ["A", "B", "C"]);
        assert_eq!(names("parameters"), ["p"]);
    }
}
