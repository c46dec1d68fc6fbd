use std::collections::BTreeSet;
use std::path::Path;

use super::document::names;
use super::*;
use crate::discovery::tests::{parse, request, rows, widgets};

const PUBLISHED: &str = "/work/shared/kubernetes-1.36/openapi";

/// A published document; where there is none, the test says so and is done.
fn published(name: &str) -> Option<Value> {
    let file = Path::new(PUBLISHED).join(name);
    let text = std::fs::read(&file).ok();
    if text.is_none() {
        eprintln!("skipped: no {}", file.display());
    }
    Some(parse(&text?))
}

/// What is compared: descriptions are somebody else's words, a default server names the values of
/// enums and speaks no CBOR, and the order of parameters says nothing.
fn compared(value: &Value, of_properties: bool) -> Value {
    match value {
        Value::Map(map) => {
            let mut out = Map::new();
            for (key, value) in map.iter() {
                let masked = match value {
                    Value::String(_) => key == "description",
                    Value::List(_) => key == "enum",
                    _ => key.starts_with("application/") && key.contains("cbor"),
                };
                if !masked || of_properties {
                    out.insert(key, compared(value, key == "properties" && !of_properties));
                }
            }
            for key in ["parameters", "required"] {
                if let Some(Value::List(list)) = out.get_mut(key) {
                    list.sort_by_key(|item| format!("{item:?}"));
                }
            }
            // A reference that has nothing beside it needs no list of one.
            match out.get("allOf").and_then(Value::as_list) {
                Some([only]) if out.len() == 1 => only.clone(),
                _ => Value::Map(out),
            }
        }
        Value::List(list) => {
            let cbor = |item: &&Value| !item.as_str().is_some_and(|text| text.contains("cbor"));
            Value::List(list.iter().filter(cbor).map(|item| compared(item, false)).collect())
        }
        other => other.clone(),
    }
}

/// The names under which two maps differ.
fn differing(a: Option<&Value>, b: Option<&Value>) -> BTreeSet<String> {
    let keys = |value: Option<&Value>| -> Vec<String> {
        let map = value.and_then(Value::as_map);
        map.into_iter().flat_map(Map::iter).map(|(key, _)| key.to_owned()).collect()
    };
    let all = keys(a).into_iter().chain(keys(b));
    let get = |value: Option<&Value>, key: &str| value.and_then(|v| v.at(&[key])).cloned();
    all.filter(|key| get(a, key) != get(b, key)).collect()
}

fn none() -> BTreeSet<String> {
    BTreeSet::new()
}

#[tokio::test]
async fn documents_equal_the_published_ones() {
    let rows = rows(|_| true);
    let snapshot = Snapshot::new(vec![Arc::clone(&rows.current())]);
    for name in names(&snapshot) {
        let file = format!("v3/{}_openapi.json", name.replace('/', "__"));
        let Some(expected) = published(&file) else { return };
        let expected = compared(&expected, false);
        let found = parse(&make(&snapshot, &[], &Document::V3(name.clone())));
        let found = compared(&found, false);
        let at = |path: &[&str]| (expected.at(path).cloned(), found.at(path).cloned());
        let (a, b) = at(&["components", "schemas"]);
        assert_eq!(differing(a.as_ref(), b.as_ref()), none(), "schemas of {name}");
        let (a, b) = at(&["paths"]);
        assert_eq!(differing(a.as_ref(), b.as_ref()), none(), "paths of {name}");
        assert_eq!(at(&["info"]).0, at(&["info"]).1, "{name}");
    }
}

#[tokio::test]
async fn the_old_form_equals_the_published_one() {
    let Some(expected) = published("swagger.json") else { return };
    let rows = rows(|_| true);
    let snapshot = Snapshot::new(vec![Arc::clone(&rows.current())]);
    let found = parse(&make(&snapshot, &[], &Document::V2Json));
    let inlined = inline(&expected, expected.at(&["parameters"]).unwrap_or(&Value::Null));
    let (expected, found) = (compared(&inlined, false), compared(&found, false));
    // Versions that are gone are not spoken here, which options under all versions tell.
    let definitions = ["DeleteOptions", "WatchEvent"];
    let definitions =
        definitions.map(|name| format!("io.k8s.apimachinery.pkg.apis.meta.v1.{name}"));
    assert_eq!(
        differing(expected.at(&["definitions"]), found.at(&["definitions"])),
        BTreeSet::from(definitions)
    );
    // Paths of whoever issues tokens, and of a handler that is off.
    let paths =
        ["/.well-known/openid-configuration/", "/logs/", "/logs/{logpath}", "/openid/v1/jwks/"];
    assert_eq!(
        differing(expected.at(&["paths"]), found.at(&["paths"])),
        paths.map(str::to_owned).into()
    );
}

/// References to shared parameters, resolved.
fn inline(value: &Value, parameters: &Value) -> Value {
    match value {
        Value::Map(map) => {
            let reference = map.get("$ref").and_then(Value::as_str);
            match reference.and_then(|reference| reference.strip_prefix("#/parameters/")) {
                Some(name) => parameters.at(&[name]).cloned().unwrap_or_default(),
                None => {
                    let entries =
                        map.iter().map(|(key, v)| (key.to_owned(), inline(v, parameters)));
                    Value::Map(entries.collect())
                }
            }
        }
        Value::List(list) => Value::List(list.iter().map(|v| inline(v, parameters)).collect()),
        other => other.clone(),
    }
}

fn small() -> OpenApi {
    let rows = rows(|r| r.group.is_empty() && ["configmaps", "secrets"].contains(&r.path));
    OpenApi::new(vec![Arc::new(rows)])
}

async fn get(api: &OpenApi, path: &str, headers: &[(header::HeaderName, &str)]) -> Response {
    api.answer(&request(path, headers)).await.expect(path)
}

fn text(response: &Response, name: header::HeaderName) -> &str {
    response.headers().get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
}

fn document(response: &Response) -> Value {
    parse(&response.body().bytes().unwrap())
}

#[tokio::test]
async fn the_root_tells_where_documents_are() {
    let api = small();
    let root = get(&api, "/openapi/v3", &[]).await;
    let paths = document(&root).at(&["paths"]).unwrap().clone();
    let names: Vec<&str> = paths.as_map().unwrap().iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["api", "api/v1", "apis", "version"]);
    let url = paths.str_at(&["api/v1", "serverRelativeURL"]);
    let response = get(&api, url, &[]).await;
    assert_eq!(response.status(), 200);
    assert_eq!(text(&response, header::CACHE_CONTROL), "public, immutable");
    let hash = url.split_once("?hash=").unwrap().1;
    assert_eq!(text(&response, header::ETAG), format!("\"{hash}\""));
    let secret = document(&response);
    let secret = secret.at(&["components", "schemas", "io.k8s.api.core.v1.Secret"]).unwrap();
    assert!(!secret.str_at(&["properties", "stringData", "description"]).is_empty());
    let stale = get(&api, "/openapi/v3/api/v1?hash=0", &[]).await;
    assert_eq!((stale.status().as_u16(), text(&stale, header::LOCATION)), (301, url));
    assert_eq!(get(&api, "/openapi/v3/apis/none/v1", &[]).await.status(), 404);
    assert!(api.answer(&request("/openapi/v4", &[])).await.is_none());
}

#[tokio::test]
async fn documents_are_packed_and_kept() {
    let api = small();
    let plain = get(&api, "/openapi/v3/api/v1", &[]).await;
    let packed = get(&api, "/openapi/v3/api/v1", &[(header::ACCEPT_ENCODING, "gzip")]).await;
    assert_eq!(text(&packed, header::CONTENT_ENCODING), "gzip");
    let bytes = |response: &Response| response.body().bytes().unwrap();
    assert_eq!(unpack(&bytes(&packed)), bytes(&plain));
    assert_eq!(api.kept.lock().unwrap().len(), 1);
    let tag = text(&plain, header::ETAG);
    let again = get(&api, "/openapi/v3/api/v1", &[(header::IF_NONE_MATCH, tag)]).await;
    assert_eq!((again.status().as_u16(), bytes(&again).len()), (304, 0));
}

#[tokio::test]
async fn the_form_is_negotiated() {
    let api = small();
    let protobuf = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf";
    for (path, accept, status, media) in [
        ("/openapi/v2", "", 200, JSON),
        ("/openapi/v2", "application/json;q=0.5,application/*;q=0.1", 200, JSON),
        ("/openapi/v2", protobuf, 200, V2_PROTOBUF),
        ("/openapi/v2", "text/html", 406, ""),
        ("/openapi/v3/api/v1", "text/html, */*", 200, JSON),
        ("/openapi/v3/api/v1", protobuf, 406, ""),
    ] {
        let response = get(&api, path, &[(header::ACCEPT, accept)]).await;
        let found = (response.status().as_u16(), text(&response, header::CONTENT_TYPE));
        assert_eq!(found, (status, media), "{path} {accept}");
    }
    // Field 1 of a document is the version of its form.
    let response = get(&api, "/openapi/v2", &[(header::ACCEPT, protobuf)]).await;
    assert!(response.body().bytes().unwrap().starts_with(b"\x0a\x032.0"));
}

#[tokio::test]
async fn only_what_changes_has_a_new_hash() {
    let api = small();
    let hashes = |api: &OpenApi| -> Vec<(String, String)> {
        api.current().hashes.all().map(|(n, h)| (n.to_owned(), h.to_owned())).collect()
    };
    let before = hashes(&api);
    api.tables[0].install([widgets()]);
    let after = hashes(&api);
    let new: Vec<_> = after.iter().filter(|entry| !before.contains(entry)).collect();
    let new: Vec<&str> = new.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(new, ["apis/example.com/v1"]);
    let document = document(&get(&api, "/openapi/v3/apis/example.com/v1", &[]).await);
    let paths = document.at(&["paths"]).and_then(Value::as_map).unwrap();
    let paths: Vec<&str> = paths.iter().map(|(path, _)| path).collect();
    assert_eq!(
        paths,
        [
            "/apis/example.com/v1/namespaces/{namespace}/widgets",
            "/apis/example.com/v1/namespaces/{namespace}/widgets/{name}",
            "/apis/example.com/v1/namespaces/{namespace}/widgets/{name}/scale",
            "/apis/example.com/v1/namespaces/{namespace}/widgets/{name}/status",
            "/apis/example.com/v1/widgets",
        ]
    );
    let schemas = document.at(&["components", "schemas"]).unwrap();
    let expected = parse(
        br##"{"type":"object","required":["spec"],
            "x-kubernetes-group-version-kind":[{"group":"example.com","kind":"Widget","version":"v1"}],
            "properties":{
                "apiVersion":{"type":"string"},
                "kind":{"type":"string"},
                "metadata":{"allOf":[{"$ref":
                    "#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"}]},
                "spec":{"type":"object","properties":{
                    "size":{"type":"integer","format":"int32","default":1},
                    "ports":{"type":"array","items":{"type":"string"},"x-kubernetes-list-type":"set"}}}}}"##,
    );
    let mut widget = schemas.at(&["com.example.v1.Widget"]).unwrap().clone();
    for field in ["apiVersion", "kind", "metadata"] {
        // What every object has is described as it always is.
        let field = widget.at_mut(&["properties", field]).and_then(Value::as_map_mut).unwrap();
        assert!(field.remove("description").is_some_and(|text| !text.is_empty()));
    }
    assert_eq!(widget, expected);
    assert!(schemas.at(&["com.example.v1.WidgetList"]).is_some());
    api.tables[0].remove("example.com", "widgets", None);
    assert_eq!(hashes(&api), before);
}
