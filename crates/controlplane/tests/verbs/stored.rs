//! Objects that are stored and read are what was sent: storage loses nothing, in either format.

use std::collections::BTreeMap;
use std::path::PathBuf;

use http_body_util::BodyExt as _;
use kevel_api::schema::Schema;
use kevel_api::value::{Map, Value};
use kevel_clock::Clock;
use kevel_codec::{json, yaml};
use kevel_registry::resource::Resource;
use kevel_registry::storage::{Format, Storage, drop_empty};
use kevel_server::endpoints::settle_changed;
use kevel_store::Revision;
use kevel_test_support::{InMemory, facts};

use super::absent::{filled, tree};

const FORMATS: [Format; 2] = [Format::Json, Format::Protobuf];

/// Depth to which made-up objects are filled: as deep as a container of a template has fields.
const DEPTH: usize = 9;
/// The same of definitions, whose schemas contain themselves a dozen times.
const DEFINITION_DEPTH: usize = 5;

/// The reference's golden objects, by group and kind, of whichever versions there are.
struct Golden(BTreeMap<String, Vec<String>>);

impl Golden {
    fn read() -> Self {
        let mut found: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for (_, object) in facts::json("golden.json.gz").as_map().unwrap().iter() {
            let text = object.str_at(&["json"]).to_owned();
            let said = json::type_meta(text.as_bytes()).unwrap();
            let group = said.api_version.split_once('/').map_or("", |(group, _)| group);
            found.entry(format!("{group}/{}", said.kind)).or_default().push(text);
        }
        Golden(found)
    }

    fn of(&self, row: &Resource) -> &[String] {
        let found = self.0.get(&format!("{}/{}", row.kind.group, row.kind.kind));
        found.map_or(&[], Vec::as_slice)
    }
}

/// An object of a row's kind as a write hands it to the storage.
async fn sent(row: &Resource, storage: &Storage, mut object: Value) -> Value {
    let fields = object.make_map(&[]);
    fields.insert("apiVersion", row.kind.group_version().to_string().as_str().into());
    fields.insert("kind", row.kind.kind.as_str().into());
    object.make_map(&["metadata"]).remove("resourceVersion");
    object.make_map(&["metadata"]).remove("selfLink");
    let object = settle_changed(object, &row.kind, &row.ty, &Clock::system()).unwrap();
    let to = storage.kind.group_version();
    let mut object = storage.convert(object, &row.kind, &to).await.unwrap();
    if !storage.keeps_empty {
        drop_empty(&mut object, storage.ty.schema());
    }
    object
}

/// An object as clients see it, and as rules compare it: in its own text.
fn shown(object: &Value, schema: Schema<'_>) -> String {
    let mut text = Vec::new();
    json::encode(object, schema, &mut text);
    String::from_utf8(text).unwrap()
}

#[tokio::test]
async fn stored_object_of_each_kind_reads_as_sent() {
    let golden = Golden::read();
    for format in FORMATS {
        let server = InMemory::start(format).await;
        let rows = server.delegate.resources.current().clone();
        let (mut kinds, mut golden_kinds, mut different) = (0, 0, Vec::new());
        for row in rows.all() {
            let Some(storage) = &row.storage else { continue };
            let schema = row.ty.schema();
            let depth = match row.plural == "customresourcedefinitions" {
                true => DEFINITION_DEPTH,
                false => DEPTH,
            };
            let made_up = [Value::Map(Map::new()), filled(schema, depth)];
            let golden = golden.of(row);
            kinds += 1;
            golden_kinds += usize::from(!golden.is_empty());
            for object in made_up.into_iter().chain(golden.iter().map(|text| tree(text, schema))) {
                let sent = sent(row, storage, object).await;
                let stored = storage.encode(&sent);
                let wire = storage.wire(&stored, Revision(7)).unwrap();
                let mut read = storage.read(&wire.bytes).unwrap();
                read.make_map(&["metadata"]).remove("resourceVersion");
                let schema = storage.ty.schema();
                let (sent, read) = (shown(&sent, schema), shown(&read, schema));
                if sent != read {
                    different.push(format!("{format:?} {}:\n{sent}\n{read}", row.kind));
                }
            }
        }
        assert!(different.is_empty(), "{} differ:\n{}", different.len(), different.join("\n"));
        assert!(
            kinds > 60 && golden_kinds > 40,
            "{kinds} kinds, {golden_kinds} with golden objects"
        );
    }
}

/// Objects of all kinds, of `conformance/objects.yaml`, and one whose stored form lacks what rules compare.
fn objects() -> Vec<Value> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../conformance/objects.yaml");
    let text = std::fs::read(PathBuf::from(path)).unwrap();
    let read = yaml::decode_any(&text, json::Unknown::Report).unwrap().value;
    let mut objects: Vec<Value> = read.as_list().unwrap().to_vec();
    let claims = json::decode_any(CLAIM_TEMPLATES.as_bytes(), json::Unknown::Report);
    objects.push(claims.unwrap().value);
    objects
}

const CLAIM_TEMPLATES: &str = r#"{"apiVersion":"apps/v1","kind":"StatefulSet","metadata":{"name":"claims","namespace":"swap"},"spec":{"serviceName":"web","selector":{"matchLabels":{"app":"st"}},"template":{"metadata":{"labels":{"app":"st"}},"spec":{"containers":[{"name":"c","image":"i"}]}},"volumeClaimTemplates":[{"metadata":{"name":"data"},"spec":{"accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":"1Gi"}}}}]}}"#;

#[tokio::test]
async fn update_with_stored_object_of_each_kind_changes_nothing() {
    for format in FORMATS {
        let server = InMemory::start(format).await;
        let rows = server.delegate.resources.current().clone();
        let mut written = 0;
        for object in objects() {
            let said = |field| object.str_at(&[field]);
            let kind_is = |row: &&std::sync::Arc<Resource>| {
                row.kind.kind == said("kind")
                    && row.kind.group_version().to_string() == said("apiVersion")
            };
            let Some(row) = rows.all().find(kind_is) else { continue };
            let path = collection(row, object.str_at(&["metadata", "namespace"]));
            let made = server.ok(&format!("POST {path}"), &text(&object), 201).await;
            let name = object.str_at(&["metadata", "name"]);
            let found = server.ok(&format!("GET {path}/{name}?resourceVersion="), "", 200).await;
            assert_eq!(found, made, "{format:?}");
            let put = format!("PUT {path}/{name}");
            let response = server.send(&put, &found, "application/json").await;
            let code = response.status();
            let answer = response.into_body().collect().await.unwrap().to_bytes();
            assert_eq!(String::from_utf8_lossy(&answer), found, "{format:?} {code}");
            written += 1;
        }
        assert!(written > 50, "{written} objects");
    }
}

fn text(object: &Value) -> String {
    let mut text = Vec::new();
    json::encode_any(object, &mut text);
    String::from_utf8(text).unwrap()
}

fn collection(row: &Resource, namespace: &str) -> String {
    let base = match row.kind.group.is_empty() {
        true => format!("/api/{}", row.kind.version),
        false => format!("/apis/{}/{}", row.kind.group, row.kind.version),
    };
    match row.namespaced {
        true => format!("{base}/namespaces/{namespace}/{}", row.plural),
        false => format!("{base}/{}", row.plural),
    }
}
