//! Lists in every form, made at once or in pieces: the same bytes.

use http_body_util::BodyExt as _;
use kevel_api::builtin;
use kevel_codec::{json, protobuf, yaml};
use kevel_controller_runtime::Client;
use kevel_registry::storage::Format;
use kevel_store::cache::INDEXED_OBJECTS;
use kevel_test_support::InMemory;

use super::field;

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

/// The pages of a selection, each as it is answered.
async fn pages(server: &InMemory, query: &str) -> Vec<String> {
    let (mut pages, mut next) = (Vec::new(), format!("GET {MAPS}?{query}"));
    loop {
        let page = server.ok(&next, "", 200).await;
        let token = page.contains(r#""continue":"#).then(|| field(&page, "continue").to_owned());
        pages.push(page);
        let Some(token) = token else { return pages };
        next = format!("GET {MAPS}?{query}&continue={token}");
    }
}

/// Lists that are asked for again get an index, which no answer shows.
#[tokio::test]
async fn pages_are_the_same_with_and_without_an_index() {
    let server = InMemory::start(Format::Json).await;
    for i in 0..INDEXED_OBJECTS + 40 {
        let body = format!(
            r#"{{"metadata":{{"name":"c{i:04}","labels":{{"of":"v{}","few":"{}"}}}}}}"#,
            i % 10,
            i % 200 == 7
        );
        server.ok(&format!("POST {MAPS}"), &body, 201).await;
    }
    let queries = [
        "limit=100",
        "labelSelector=of%3Dv3&limit=10",
        "labelSelector=of%20in%20(v3,v4)&limit=7",
        // The last page is full, and objects follow that are not selected.
        "labelSelector=few%3Dtrue&limit=3",
        "labelSelector=few%3Dtrue,of%3Dv7",
    ];
    let mut first = Vec::new();
    for query in queries {
        first.push(pages(&server, query).await);
    }
    for _ in 0..20 {
        for (query, first) in queries.iter().zip(&first) {
            assert_eq!(&pages(&server, query).await, first, "{query}");
        }
    }
    let counts: Vec<usize> = first.iter().map(Vec::len).collect();
    assert_eq!(counts, [6, 6, 16, 2, 1]);
    let remaining = |page: &String| page.contains("remainingItemCount");
    assert!(first[0][..5].iter().all(remaining) && !first[1..].iter().flatten().any(remaining));
    assert!(first[0][0].contains(r#""remainingItemCount":440"#));

    server.ok(&format!("DELETE {MAPS}?labelSelector=of%3Dv3"), "", 200).await;
    let left = server.ok(&format!("GET {MAPS}?labelSelector=of%20in%20(v3,v4)"), "", 200).await;
    assert!(left.contains("c0004") && !left.contains("c0003"), "{left}");
}
