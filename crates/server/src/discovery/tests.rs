use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use http::{Method, header};
use kevel_api::builtin;
use kevel_api::gvk::GroupVersionKind;
use kevel_api::value::Value;
use kevel_codec::json::{self, Unknown};
use kevel_codec::{protobuf, yaml};
use kevel_store::cache::Caches;
use kevel_store::embedded::{Embedded, Options};
use kevel_test_support::facts;

use super::*;
use crate::request::{Connection, RequestBody};
use crate::version::API_LEVEL;
use kevel_registry::columns::NameAndCreation;
use kevel_registry::resource::{
    Conventions, FieldLabels, Published, Resource, Routing, Subresource, SubresourceKind,
};
use kevel_registry::storage::{Format, Storage, StorageConfig};
use kevel_registry::strategy::{Generic, Strategy};
use kevel_registry::type_ref::TypeRef;
use kevel_registry::verb::Verb;

/// Store and caches for the tests' resources.
struct Keep {
    engine: Arc<Embedded>,
    caches: Caches,
}

impl Keep {
    fn new() -> Self {
        let engine = Arc::new(Embedded::memory(Options::default()).unwrap());
        let caches = Caches::start(engine.clone(), "/registry/");
        Keep { engine, caches }
    }

    fn storage(&self, kind: GroupVersionKind, ty: TypeRef, plural: &str) -> Arc<Storage> {
        let config = StorageConfig {
            prefix: format!("/registry/{}/{}/{plural}/", kind.group, kind.version),
            kind,
            ty,
            format: Format::Json,
            keeps_empty: false,
            fields: Vec::new(),
            indexed: Vec::new(),
            time_to_live: None,
            form: None,
            conversion: None,
            registry: Default::default(),
        };
        Arc::new(Storage::new(config, self.engine.clone(), &self.caches))
    }
}

/// A kind whose deletion returns the object.
struct ReturnsDeleted;

impl Strategy for ReturnsDeleted {
    fn returns_deleted_object(&self) -> bool {
        true
    }
}

/// Resources whose deletion returns the object, by group.
const RETURNS_DELETED: [(&str, &[&str]); 3] = [
    (
        "",
        &[
            "persistentvolumeclaims",
            "persistentvolumes",
            "pods",
            "podtemplates",
            "resourcequotas",
            "serviceaccounts",
            "services",
        ],
    ),
    (
        "resource.k8s.io",
        &[
            "deviceclasses",
            "devicetaintrules",
            "resourceclaims",
            "resourceclaimtemplates",
            "resourcepoolstatusrequests",
            "resourceslices",
        ],
    ),
    (
        "storage.k8s.io",
        &[
            "csidrivers",
            "csinodes",
            "storageclasses",
            "volumeattachments",
            "volumeattributesclasses",
        ],
    ),
];

fn strategy(group: &str, plural: &str) -> Arc<dyn Strategy> {
    let all = RETURNS_DELETED.iter().filter(|(name, _)| *name == group);
    match all.flat_map(|(_, plurals)| plurals.iter()).any(|name| *name == plural) {
        true => Arc::new(ReturnsDeleted),
        false => Arc::new(Generic),
    }
}

/// Resources whose storage version is not the served one.
const STORED_AS: [(&str, &str, &str, &str); 4] = [
    ("events.k8s.io", "events", "", "v1"),
    ("autoscaling", "horizontalpodautoscalers", "autoscaling", "v2"),
    (
        "admissionregistration.k8s.io",
        "mutatingadmissionpolicies",
        "admissionregistration.k8s.io",
        "v1beta1",
    ),
    (
        "admissionregistration.k8s.io",
        "mutatingadmissionpolicybindings",
        "admissionregistration.k8s.io",
        "v1beta1",
    ),
];

/// Built-in resources that `wanted` accepts.
pub(crate) fn rows(wanted: impl Fn(&builtin::Resource) -> bool) -> Resources {
    let keep = Keep::new();
    // Kinds that are there for emulated versions alone are not published.
    let lasts = |r: &builtin::Resource| {
        r.removed.is_none_or(|removed| removed > (API_LEVEL.0, API_LEVEL.1))
    };
    let all: Vec<_> = builtin::resources().iter().filter(|r| lasts(r) && wanted(r)).collect();
    let parents = all.iter().filter(|r| !r.path.contains('/'));
    let rows = parents.map(|r| {
        let kind = GroupVersionKind::from_static(r.group, r.version, r.kind);
        let schema = |g, v, k| TypeRef::BuiltIn(builtin::schema(g, v, k).unwrap());
        let ty = schema(r.group, r.version, r.kind);
        let stored =
            STORED_AS.iter().find(|(group, plural, ..)| (*group, *plural) == (r.group, r.path));
        let (group, version) = stored.map_or((r.group, r.version), |(_, _, g, v)| (*g, *v));
        let stored = GroupVersionKind::from_static(group, version, r.kind);
        let subs = all.iter().filter(|sub| (sub.group, sub.version) == (r.group, r.version));
        let subs = subs.filter_map(|sub| {
            let (_, name) = sub.path.split_once('/').filter(|(of, _)| *of == r.path)?;
            let kind = GroupVersionKind::from_static(sub.kind_group, sub.kind_version, sub.kind);
            let ty = schema(sub.kind_group, sub.kind_version, sub.kind);
            Some((
                name.to_owned(),
                Subresource {
                    kind,
                    verbs: Verb::parse_all(sub.verbs).unwrap(),
                    ty,
                    role: SubresourceKind::NotServed,
                },
            ))
        });
        Resource {
            list_kind: format!("{}List", r.kind),
            kind,
            plural: r.path.to_owned(),
            singular: r.singular.to_owned(),
            short_names: r.short.iter().map(|s| s.to_string()).collect(),
            categories: r.categories.iter().map(|s| s.to_string()).collect(),
            namespaced: r.namespaced,
            verbs: Verb::parse_all(r.verbs).unwrap(),
            creater: None,
            lister: None,
            storage: r.verbs.contains(&"get").then(|| keep.storage(stored, ty.clone(), r.path)),
            ty,
            strategy: strategy(r.group, r.path),
            columns: Arc::new(NameAndCreation),
            allocation: None,
            subresources: subs.collect(),
            conventions: Conventions::typed(false),
        }
    });
    let resources = Resources::default();
    resources.install(rows.collect::<Vec<_>>());
    resources
}

/// A custom resource with all features.
pub(crate) fn widgets() -> Resource {
    let text = br#"{"type":"object","required":["spec"],"properties":{"spec":{"type":"object","properties":{
            "size":{"type":"integer","format":"int32","default":1},
            "ports":{"type":"array","x-kubernetes-list-type":"set","items":{"type":"string"}}}}}}"#;
    let schema = parse(text);
    let read = |text: &str| Some(parse(text.as_bytes()));
    let (table, id) = kevel_api::crd_schema::table(&schema, &read).unwrap();
    let ty = TypeRef::Custom(Arc::new(table), id);
    let kind = GroupVersionKind::from_static("example.com", "v1", "Widget");
    let scale = GroupVersionKind::from_static("autoscaling", "v1", "Scale");
    let sub = |kind: &GroupVersionKind, role| Subresource {
        kind: kind.clone(),
        verbs: vec![Verb::Get, Verb::Patch, Verb::Update],
        ty: ty.clone(),
        role,
    };
    let subresources = BTreeMap::from([
        ("status".to_owned(), sub(&kind, SubresourceKind::Status)),
        ("scale".to_owned(), sub(&scale, SubresourceKind::NotServed)),
    ]);
    Resource {
        creater: None,
        lister: None,
        storage: Some(Keep::new().storage(kind.clone(), ty.clone(), "widgets")),
        kind,
        list_kind: "WidgetList".into(),
        plural: "widgets".into(),
        singular: "widget".into(),
        short_names: vec!["wd".into()],
        categories: Vec::new(),
        namespaced: true,
        verbs: vec![
            Verb::Delete,
            Verb::DeleteCollection,
            Verb::Get,
            Verb::List,
            Verb::Patch,
            Verb::Create,
            Verb::Update,
            Verb::Watch,
        ],
        ty,
        strategy: Arc::new(Generic),
        columns: Arc::new(NameAndCreation),
        subresources,
        allocation: None,
        conventions: Conventions {
            routing: Routing::Verbs,
            protobuf: false,
            cbor: Cbor(false),
            strategic_merge_patch: false,
            field_labels: FieldLabels::Own,
            published: Published::Definition(text.as_slice().into()),
            converted_annotations: &[],
            storage_version_hash: true,
        },
    }
}

fn discovery(tables: Vec<Resources>) -> Discovery {
    let addresses = Addresses { default: "127.0.0.1:26443".into(), rules: Vec::new() };
    let paths = ["/healthz", "/healthz/ping", "/version"].map(str::to_owned);
    Discovery::new(tables.into_iter().map(Arc::new).collect(), addresses, paths)
}

pub(crate) fn request(path: &str, headers: &[(header::HeaderName, &str)]) -> Request {
    let mut request = http::Request::builder().uri(path);
    for (name, value) in headers {
        request = request.header(name, *value);
    }
    let (parts, ()) = request.body(()).unwrap().into_parts();
    Request::new(parts, RequestBody::Bytes(Bytes::new()), Arc::new(Connection::default())).unwrap()
}

fn get(discovery: &Discovery, path: &str, accept: &str) -> Option<Response> {
    discovery.serve(&request(path, &[(header::ACCEPT, accept)]))
}

fn body(response: &Response) -> Bytes {
    response.body().bytes().unwrap()
}

pub(crate) fn parse(text: &[u8]) -> Value {
    json::decode_any(text, Unknown::Ignore).unwrap().value
}

const V2: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

#[tokio::test]
async fn documents_equal_the_reference_s() {
    let expected = facts::json("discovery.json");
    let discovery = discovery(vec![rows(|r| r.on)]);
    let documents = expected.as_map().unwrap();
    assert!(documents.len() > 20, "{}", documents.len());
    for (path, expected) in documents.iter().filter(|(path, _)| *path != "/") {
        let response = get(&discovery, path, "application/json").expect(path);
        let found = parse(&body(&response));
        assert_eq!(&found, expected, "{path}");
    }
    let index = parse(&body(&get(&discovery, "/", "").unwrap()));
    let paths = |value: &Value| -> Vec<String> {
        let all = value.at(&["paths"]).unwrap().as_list().unwrap().iter();
        let all = all.map(|path| path.as_str().unwrap().to_owned());
        all.filter(|path| path.starts_with("/api")).collect()
    };
    assert_eq!(paths(&index), paths(expected.at(&["/"]).unwrap()));
}

#[tokio::test]
async fn the_aggregated_document_equals_the_reference_s() {
    let expected = facts::json("aggregated-discovery.json");
    let discovery = discovery(vec![rows(|r| r.on)]);
    let documents = expected.as_map().unwrap();
    assert_eq!(documents.len(), 2);
    for (path, expected) in documents.iter() {
        let response = get(&discovery, path, V2).expect(path);
        assert_eq!(response.headers()[header::CONTENT_TYPE], V2);
        assert_eq!(&parse(&body(&response)), expected, "{path}");
    }
}

fn small(r: &builtin::Resource) -> bool {
    (r.group == "apps" && r.path.starts_with("deployments"))
        || (r.group == "autoscaling" && r.path.starts_with("horizontal"))
        || (r.group.is_empty() && (r.path == "configmaps" || r.path == "bindings"))
}

#[tokio::test]
async fn every_path_has_its_document() {
    let discovery = discovery(vec![rows(small)]);
    for (path, expected) in [
        (
            "/api",
            r#"{"kind":"APIVersions","versions":["v1"],"serverAddressByClientCIDRs":[{"clientCIDR":"0.0.0.0/0","serverAddress":"127.0.0.1:26443"}]}"#,
        ),
        (
            "/api/v1",
            r#"{"kind":"APIResourceList","groupVersion":"v1","resources":[{"name":"bindings","singularName":"binding","namespaced":true,"kind":"Binding","verbs":["create"]},{"name":"configmaps","singularName":"configmap","namespaced":true,"kind":"ConfigMap","verbs":["create","delete","deletecollection","get","list","patch","update","watch"],"shortNames":["cm"],"storageVersionHash":"qFsyl6wFWjQ="}]}"#,
        ),
        (
            "/apis",
            r#"{"kind":"APIGroupList","apiVersion":"v1","groups":[{"name":"apps","versions":[{"groupVersion":"apps/v1","version":"v1"}],"preferredVersion":{"groupVersion":"apps/v1","version":"v1"}},{"name":"autoscaling","versions":[{"groupVersion":"autoscaling/v2","version":"v2"},{"groupVersion":"autoscaling/v1","version":"v1"}],"preferredVersion":{"groupVersion":"autoscaling/v2","version":"v2"}}]}"#,
        ),
        (
            "/apis/apps/",
            r#"{"kind":"APIGroup","apiVersion":"v1","name":"apps","versions":[{"groupVersion":"apps/v1","version":"v1"}],"preferredVersion":{"groupVersion":"apps/v1","version":"v1"}}"#,
        ),
        (
            "/apis/apps/v1",
            r#"{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"apps/v1","resources":[{"name":"deployments","singularName":"deployment","namespaced":true,"kind":"Deployment","verbs":["create","delete","deletecollection","get","list","patch","update","watch"],"shortNames":["deploy"],"categories":["all"],"storageVersionHash":"8aSe+NMegvE="},{"name":"deployments/scale","singularName":"","namespaced":true,"group":"autoscaling","version":"v1","kind":"Scale","verbs":["get","patch","update"]},{"name":"deployments/status","singularName":"","namespaced":true,"kind":"Deployment","verbs":["get","patch","update"]}]}"#,
        ),
    ] {
        let response = get(&discovery, path, "").expect(path);
        assert_eq!(
            std::str::from_utf8(&body(&response)).unwrap(),
            format!("{expected}\n"),
            "{path}"
        );
    }
    let index = get(&discovery, "/", "").unwrap();
    let expected = r#"{
  "paths": [
    "/api",
    "/api/v1",
    "/apis",
    "/apis/",
    "/apis/apps",
    "/apis/apps/v1",
    "/apis/autoscaling",
    "/apis/autoscaling/v1",
    "/apis/autoscaling/v2",
    "/healthz",
    "/healthz/ping",
    "/version"
  ]
}"#;
    assert_eq!(std::str::from_utf8(&body(&index)).unwrap(), expected);
}

#[tokio::test]
async fn what_is_not_a_document_is_passed_on() {
    let discovery = discovery(vec![rows(small)]);
    for path in [
        "/api/v2",
        "/apis/batch",
        "/apis/apps/v2",
        "/apis/apps/v1/deployments",
        "/version",
        "/apis//",
        "//",
    ] {
        assert!(get(&discovery, path, "").is_none(), "{path}");
    }
    let mut post = request("/api/v1", &[]);
    post.parts.method = Method::POST;
    assert_eq!(discovery.serve(&post).unwrap().status(), 405);
    assert_eq!(get(&discovery, "/apis/apps/v1", "text/html").unwrap().status(), 406);
}

#[tokio::test]
async fn every_form_says_the_same() {
    let discovery = discovery(vec![rows(small)]);
    for path in ["/api", "/api/v1", "/apis", "/apis/apps", "/apis/apps/v1"] {
        let expected = parse(&body(&get(&discovery, path, "").unwrap()));
        let yaml = body(&get(&discovery, path, "application/yaml").unwrap());
        assert_eq!(yaml::decode_any(&yaml, Unknown::Ignore).unwrap().value, expected, "{path}");
        let response = get(&discovery, path, "application/vnd.kubernetes.protobuf").unwrap();
        let bytes = body(&response);
        let envelope = protobuf::decode_object(&bytes).unwrap();
        let kind = expected.str_at(&["kind"]);
        let schema = documents::schema("", "v1", kind);
        let mut text = Vec::new();
        json::encode(&envelope.decode(schema).unwrap(), schema, &mut text);
        assert_eq!(parse(&text), expected, "{path}");
    }
}

#[tokio::test]
async fn clients_keep_what_has_not_changed() {
    let discovery = discovery(vec![rows(small)]);
    let first = get(&discovery, "/apis", V2).unwrap();
    let tag = first.headers()[header::ETAG].to_str().unwrap().to_owned();
    assert_eq!((first.status().as_u16(), tag.len()), (200, 130));
    assert_eq!(first.headers()[header::VARY], "Accept");
    let again = |discovery: &Discovery| {
        let headers = [(header::ACCEPT, V2), (header::IF_NONE_MATCH, tag.as_str())];
        discovery.serve(&request("/apis", &headers)).unwrap()
    };
    let second = again(&discovery);
    assert_eq!((second.status().as_u16(), body(&second).len()), (304, 0));
    assert_eq!(second.headers()[header::ETAG], tag.as_str());
    discovery.tables[0].install([widgets()]);
    assert_eq!(again(&discovery).status(), 200);
    discovery.tables[0].remove("example.com", "widgets", None);
    assert_eq!(again(&discovery).status(), 304);
}

#[tokio::test]
async fn rows_come_and_go_and_may_be_another_server_s() {
    let other = Resources::default();
    let discovery = discovery(vec![rows(small), other]);
    assert!(get(&discovery, "/apis/example.com", "").is_none());
    discovery.tables[1].install([widgets()]);
    let resources = r#"[{"name":"widgets","singularName":"widget","namespaced":true,"kind":"Widget","verbs":["delete","deletecollection","get","list","patch","create","update","watch"],"shortNames":["wd"],"storageVersionHash":"gIwvi5rymmg="},{"name":"widgets/status","singularName":"","namespaced":true,"kind":"Widget","verbs":["get","patch","update"]},{"name":"widgets/scale","singularName":"","namespaced":true,"group":"autoscaling","version":"v1","kind":"Scale","verbs":["get","patch","update"]}]"#;
    let found = parse(&body(&get(&discovery, "/apis/example.com/v1", "").unwrap()));
    assert_eq!(found.at(&["resources"]), Some(&parse(resources.as_bytes())));
    let groups = parse(&body(&get(&discovery, "/apis", V2).unwrap()));
    let last = groups.at(&["items"]).unwrap().as_list().unwrap().last().unwrap().clone();
    assert_eq!(last.str_at(&["metadata", "name"]), "example.com");
    let kind = last.at(&["versions"]).unwrap().as_list().unwrap()[0].at(&["resources"]).unwrap();
    let kind = kind.as_list().unwrap()[0].at(&["responseKind"]).unwrap();
    assert_eq!((kind.str_at(&["group"]), kind.str_at(&["version"])), ("example.com", "v1"));
    discovery.tables[1].remove("example.com", "widgets", None);
    assert!(get(&discovery, "/apis/example.com", "").is_none());
}

#[tokio::test]
async fn custom_kinds_are_not_listed_in_built_in_versions() {
    let widgets = |group: &'static str, version: &'static str| {
        let kind = GroupVersionKind::from_static(group, version, "Widget");
        Resource { kind, ..widgets() }
    };
    let custom = Resources::default();
    custom.install([widgets("apps", "v1"), widgets("apps", "v9")]);
    let discovery = discovery(vec![rows(small), custom]);
    let names = |version: &str| -> Vec<String> {
        let path = format!("/apis/apps/{version}");
        let found = parse(&body(&get(&discovery, &path, "").unwrap()));
        found.list_at(&["resources"]).iter().map(|r| r.str_at(&["name"]).to_owned()).collect()
    };
    assert_eq!(names("v1"), ["deployments", "deployments/scale", "deployments/status"]);
    // Requests to other versions of the group are not passed on; the aggregated document has them.
    assert!(get(&discovery, "/apis/apps/v9", "").is_none());
    let all = parse(&body(&get(&discovery, "/apis", V2).unwrap()));
    let apps = all.list_at(&["items"]).iter().find(|g| g.str_at(&["metadata", "name"]) == "apps");
    let versions = apps.unwrap().list_at(&["versions"]).iter().map(|version| {
        let names = version.list_at(&["resources"]).iter().map(|r| r.str_at(&["resource"]));
        (version.str_at(&["version"]), names.collect::<Vec<_>>())
    });
    let versions: Vec<_> = versions.collect();
    assert_eq!(versions, [("v9", vec!["widgets"]), ("v1", vec!["deployments"])]);
}
