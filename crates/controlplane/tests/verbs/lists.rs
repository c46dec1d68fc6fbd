//! Lists in every form, made at once or in pieces: the same bytes.

use http_body_util::BodyExt as _;
use kevel_api::builtin;
use kevel_codec::{json, protobuf, yaml};
use kevel_controller_runtime::Client;
use kevel_registry::storage::Format;
use kevel_test_support::InMemory;

const MAPS: &str = "/api/v1/namespaces/ns/configmaps";
/// A list is made at once up to 128 KiB: objects of which about 130 make that much.
const SIZE: usize = 700;
const COUNTS: [usize; 7] = [0, 1, 2, 100, 130, 160, 300];

async fn list(server: &InMemory, query: &str, accept: &str) -> Vec<u8> {
    let response = server.accept(&format!("GET {MAPS}{query}"), accept).await;
    assert_eq!(response.status(), 200, "{query} {accept}");
    response.into_body().collect().await.unwrap().to_bytes().to_vec()
}

#[tokio::test]
async fn all_forms_are_made_of_the_same_objects() {
    let server = InMemory::start(Format::Json).await;
    let value = "é\\n\\\"".repeat(SIZE / 6);
    for number in 0..COUNTS[COUNTS.len() - 1] {
        let map = format!(
            r#"{{"metadata":{{"name":"m{number:03}"}},"data":{{"a":"{value}","b":"- x: y"}}}}"#
        );
        server.ok(&format!("POST {MAPS}"), &map, 201).await;
    }
    let schema = builtin::schema("", "v1", "ConfigMapList").unwrap();
    for count in COUNTS {
        let select = match count {
            0 => "?labelSelector=none".to_owned(),
            // The last page of a list says no more than it has to.
            count => format!("?limit={count}"),
        };
        let plain = list(&server, &select, "application/json").await;
        let value = json::decode(&plain, schema, json::Unknown::Report).unwrap();
        assert_eq!((value.strict.len(), value.value.list_at(&["items"]).len()), (0, count));
        let message = list(&server, &select, "application/vnd.kubernetes.protobuf").await;
        assert!(message == protobuf::encode_object(&value.value, schema), "{count} in protobuf");
        let mut expected = Vec::new();
        yaml::from_json(&plain, &mut expected).unwrap();
        assert!(list(&server, &select, "application/yaml").await == expected, "{count} in YAML");
        let mut expected = Vec::new();
        json::indent(plain.trim_ascii_end(), &mut expected);
        let pretty = list(&server, &format!("{select}&pretty=1"), "application/json").await;
        assert!(pretty == expected, "{count} for people");
        let kind = "as=PartialObjectMetadataList;v=v1;g=meta.k8s.io";
        let schema = builtin::schema("meta.k8s.io", "v1", "PartialObjectMetadataList").unwrap();
        let metadata = list(&server, &select, &format!("application/json;{kind}")).await;
        let value = json::decode(&metadata, schema, json::Unknown::Report).unwrap();
        assert_eq!((value.strict.len(), value.value.list_at(&["items"]).len()), (0, count));
        let accept = format!("application/vnd.kubernetes.protobuf;{kind}");
        let message = list(&server, &select, &accept).await;
        assert!(message == protobuf::encode_object(&value.value, schema), "{count} of metadata");
        let accept = "application/json;as=Table;v=v1;g=meta.k8s.io";
        let table = list(&server, &format!("{select}&includeObject=Object"), accept).await;
        let schema = builtin::schema("meta.k8s.io", "v1", "Table").unwrap();
        let table = json::decode(&table, schema, json::Unknown::Report).unwrap();
        assert_eq!((table.strict.len(), table.value.list_at(&["rows"]).len()), (0, count));
    }
}

#[tokio::test]
async fn list_in_another_version_converts_its_items() {
    let server = InMemory::start(Format::Protobuf).await;
    let path = "/apis/autoscaling/v1/namespaces/ns/horizontalpodautoscalers";
    for number in 0..200 {
        let body = format!(
            r#"{{"metadata":{{"name":"a{number:03}","annotations":{{"x":"{}"}}}},"spec":{{"maxReplicas":3,"targetCPUUtilizationPercentage":50,"scaleTargetRef":{{"apiVersion":"apps/v1","kind":"Deployment","name":"d"}}}}}}"#,
            "x".repeat(SIZE)
        );
        server.ok(&format!("POST {path}"), &body, 201).await;
    }
    let text = server.ok(&format!("GET {path}"), "", 200).await;
    let list = json::decode_any(text.as_bytes(), json::Unknown::Ignore).unwrap().value;
    let items = list.list_at(&["items"]);
    assert_eq!(items.len(), 200);
    for item in items {
        let name = item.str_at(&["metadata", "name"]);
        let one = server.ok(&format!("GET {path}/{name}"), "", 200).await;
        let one = json::decode_any(one.as_bytes(), json::Unknown::Ignore).unwrap().value;
        assert!(item.at(&["spec", "targetCPUUtilizationPercentage"]).is_some());
        assert_eq!(
            (item.at(&["spec"]), item.at(&["metadata"])),
            (one.at(&["spec"]), one.at(&["metadata"]))
        );
    }
}

#[tokio::test]
async fn what_was_deleted_together_is_listed() {
    let server = InMemory::start(Format::Json).await;
    for number in 0..200 {
        let map = format!(
            r#"{{"metadata":{{"name":"m{number:03}"}},"data":{{"a":"{}"}}}}"#,
            "x".repeat(SIZE)
        );
        server.ok(&format!("POST {MAPS}"), &map, 201).await;
    }
    let deleted = server.ok(&format!("DELETE {MAPS}"), "", 200).await;
    assert!(deleted.starts_with(r#"{"kind":"ConfigMapList","apiVersion":"v1","metadata":{"#));
    assert_eq!(deleted.matches(r#""name":"m"#).count(), 200);
    assert_eq!(server.ok(&format!("GET {MAPS}"), "", 200).await.matches(r#""name":"m"#).count(), 0);
}

/// Lists for the server's own clients are complete, whatever form they have.
#[tokio::test]
async fn the_servers_own_client_reads_lists() {
    let server = InMemory::start(Format::Json).await;
    let client = Client::new(server.delegate.clone());
    for count in 0..3 {
        let list = client.get(MAPS).await.unwrap();
        assert_eq!(list.list_at(&["items"]).len(), count);
        let map = format!(r#"{{"metadata":{{"name":"m{count}"}}}}"#);
        server.ok(&format!("POST {MAPS}"), &map, 201).await;
    }
}
