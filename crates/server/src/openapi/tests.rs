use std::collections::{BTreeMap, BTreeSet};

use kevel_api::gvk::GroupVersionKind;
use kevel_test_support::{facts, openapi};

use super::document::names;
use super::*;
use crate::discovery::tests::{parse, request, rows, widgets};
use kevel_registry::resource::Resource;

/// The parts of a document, each with its digest.
type Digests = BTreeMap<String, String>;

/// The documents that the reference publishes, by name.
fn published() -> BTreeMap<String, Digests> {
    let mut documents = BTreeMap::new();
    let mut name = String::new();
    for line in facts::lines("openapi.txt") {
        match line.split_last().unwrap() {
            (document, [word]) if word == "document" => name.clone_from(document),
            (digest, part) => {
                let parts: &mut Digests = documents.entry(name.clone()).or_default();
                parts.insert(part.join(" "), digest.clone());
            }
        }
    }
    documents
}

/// As the published documents have it: they are of no version.
fn about() -> About {
    let plain = |path, operation, media| PlainDocument { path, operation, media, description: "" };
    let configuration = "ServiceAccountIssuerOpenIDConfiguration";
    let plain = vec![
        plain("/.well-known/openid-configuration/", configuration, "application/json"),
        plain("/openid/v1/jwks/", "ServiceAccountIssuerOpenIDKeyset", "application/jwk-set+json"),
    ];
    About { version: "unversioned".to_owned(), plain, without_enums: false }
}

/// The parts in which two documents differ.
fn differing(a: &Digests, b: &Digests) -> BTreeSet<String> {
    let all = a.keys().chain(b.keys());
    all.filter(|part| a.get(*part) != b.get(*part)).cloned().collect()
}

#[tokio::test]
async fn documents_equal_the_published_ones() {
    let rows = rows(|_| true);
    let snapshot = Snapshot::new(vec![Arc::clone(&rows.current())]);
    let published = published();
    let names = names(&snapshot, &about());
    assert!(names.len() > 50, "{}", names.len());
    // A document whose name begins with a dot is not among the published files.
    for name in names.into_iter().filter(|name| !name.starts_with('.')) {
        let expected = published.get(&name).unwrap_or_else(|| panic!("{name} is not published"));
        let found = parse(&make(&snapshot, &about(), &[], &Document::V3(name.clone())));
        assert_eq!(differing(expected, &openapi::digests(&found)), BTreeSet::new(), "{name}");
    }
}

#[tokio::test]
async fn the_old_form_equals_the_published_one() {
    let rows = rows(|_| true);
    let snapshot = Snapshot::new(vec![Arc::clone(&rows.current())]);
    let found = openapi::digests(&parse(&make(&snapshot, &about(), &[], &Document::V2Json)));
    assert_eq!(
        differing(&published()["v2"], &found),
        [
            // A handler that is off.
            "path /logs/",
            "path /logs/{logpath}",
        ]
        .map(str::to_owned)
        .into()
    );
}

#[tokio::test]
async fn schemas_name_the_values_of_enums() {
    let rows = rows(|_| true);
    let snapshot = Snapshot::new(vec![Arc::clone(&rows.current())]);
    let document = parse(&make(&snapshot, &about(), &[], &Document::V3("api/v1".to_owned())));
    let schemas = document.at(&["components", "schemas"]).unwrap();
    let field = |ty: &str, field: &str| {
        let ty = format!("io.k8s.api.core.v1.{ty}");
        schemas.at(&[&ty, "properties", field]).unwrap().clone()
    };
    let text = |value: &Value| {
        let mut text = Vec::new();
        kevel_codec::json::encode_any(value, &mut text);
        String::from_utf8(text).unwrap()
    };
    let modes = field("PersistentVolumeSpec", "accessModes");
    let expected = r#"["ReadOnlyMany","ReadWriteMany","ReadWriteOnce","ReadWriteOncePod"]"#;
    assert_eq!(text(modes.at(&["items", "enum"]).unwrap()), expected);
    let families = field("ServiceSpec", "ipFamilies");
    assert_eq!(text(families.at(&["items", "enum"]).unwrap()), r#"["","IPv4","IPv6"]"#);
    let policy = field("PodSpec", "restartPolicy");
    let values = "\n\nPossible enum values:\n - `\"Always\"`\n - `\"Never\"`\n - `\"OnFailure\"`";
    assert!(policy.str_at(&["description"]).ends_with(values), "{policy:?}");
    assert!(!modes.str_at(&["description"]).contains("Possible enum values"), "{modes:?}");
    // A reference stands alone, or in a list beside other keywords.
    let limits = field("ResourceRequirements", "limits");
    let quantity =
        r##"{"$ref":"#/components/schemas/io.k8s.apimachinery.pkg.api.resource.Quantity"}"##;
    assert_eq!(text(limits.at(&["additionalProperties"]).unwrap()), quantity);
    assert!(field("Pod", "metadata").at(&["allOf"]).is_some());
    let proxy = "/api/v1/nodes/{name}/proxy/{path}";
    let parameters = document.at(&["paths", proxy]).unwrap().list_at(&["parameters"]);
    let places: Vec<_> =
        parameters.iter().map(|p| (p.str_at(&["name"]), p.str_at(&["in"]))).collect();
    assert_eq!(places, [("name", "path"), ("path", "path"), ("path", "query")]);
    let keys = parse(&make(&snapshot, &about(), &[], &Document::V3("openid/v1/jwks".to_owned())));
    let components = keys.at(&["components"]).and_then(Value::as_map).unwrap();
    assert!(components.get("schemas").is_none(), "{components:?}");
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
    // Options are spoken in all versions that clients know.
    let options = schemas.at(&["io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions"]).unwrap();
    let kinds = options.list_at(&["x-kubernetes-group-version-kind"]);
    let groups: Vec<&str> = kinds.iter().map(|kind| kind.str_at(&["group"])).collect();
    assert!(kinds.len() == 53 && groups.contains(&"extensions"), "{groups:?}");
    assert!(!groups.contains(&"apiextensions.k8s.io"), "{groups:?}");
    api.tables[0].remove("example.com", "widgets", None);
    assert_eq!(hashes(&api), before);
}

#[tokio::test]
async fn custom_kinds_replace_nothing_built_in() {
    let widget = |group: &'static str, kind: &'static str| {
        let list_kind = format!("{kind}List");
        Resource { kind: GroupVersionKind::from_static(group, "v1", kind), list_kind, ..widgets() }
    };
    let built_in = rows(|r| r.group.is_empty() && r.path == "secrets");
    let alone = Snapshot::new(vec![Arc::clone(&built_in.current())]);
    let v2 = |snapshot: &Snapshot| parse(&make(snapshot, &about(), &[], &Document::V2Json));
    let before = v2(&alone);
    let custom = Resources::default();
    // Its definitions have the names of built-in ones; those of the core group have the path of a built-in version.
    custom.install([widget("core.api.k8s.io", "Secret"), widget("", "Widget")]);
    let both = Snapshot::new(vec![Arc::clone(&built_in.current()), Arc::clone(&custom.current())]);
    let after = v2(&both);
    for part in ["paths", "definitions"] {
        for (name, expected) in before.at(&[part]).and_then(Value::as_map).unwrap().iter() {
            assert_eq!(after.at(&[part, name]), Some(expected), "{name}");
        }
    }
    let definitions = after.at(&["definitions"]).unwrap();
    for renamed in ["Secret_v2", "SecretList_v2"] {
        let name = format!("io.k8s.api.core.v1.{renamed}");
        let kinds = definitions.at(&[&name]).unwrap().list_at(&["x-kubernetes-group-version-kind"]);
        assert_eq!(kinds[0].str_at(&["group"]), "core.api.k8s.io", "{renamed}");
    }
    assert!(after.at(&["paths", "/api/v1/widgets"]).is_none());
}

#[tokio::test]
async fn extensions_in_protobuf_are_yaml_in_block_style() {
    let rows = rows(|r| r.group.is_empty() && r.path == "secrets");
    let snapshot = Snapshot::new(vec![Arc::clone(&rows.current())]);
    let document = make(&snapshot, &about(), &[], &Document::V2Protobuf);
    let expected = b"- group: \"\"\n  kind: Secret\n  version: v1\n";
    let found = document.windows(expected.len()).any(|bytes| bytes == expected);
    assert!(found, "{}", String::from_utf8_lossy(&document));
}
