//! Discovery of an extension server's resources beside the local ones.

use std::sync::atomic::Ordering;

use serde_json::{Value, json};

use super::extension_server::{GROUP, PATH};
use super::{API_SERVICES, Aggregation as _, Ca, Cluster, base64, start, until};

const AGGREGATED: [(&str, &str); 1] =
    [("accept", "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList")];

/// The group in the list of everything.
async fn aggregated(cluster: &Cluster) -> Value {
    let (_, all) = cluster.admin.send("GET", "/apis", &AGGREGATED, "").await;
    let groups = all["items"].as_array().unwrap();
    groups.iter().find(|group| group["metadata"]["name"] == GROUP).cloned().unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread")]
async fn remote_groups_are_listed_by_their_priority() {
    let cluster = start(&[]).await;
    let extension = cluster.extension_server(true).await;
    cluster.aggregate(&extension).await;
    let (_, groups) = cluster.admin.get("/apis").await;
    let groups = groups["groups"].as_array().unwrap();
    let names: Vec<_> = groups.iter().map(|group| group["name"].as_str().unwrap()).collect();
    assert_eq!((names[0], *names.last().unwrap()), ("apiregistration.k8s.io", GROUP));
    let version = json!({"groupVersion": format!("{GROUP}/v1alpha1"), "version": "v1alpha1"});
    assert_eq!(
        cluster.admin.get(&format!("/apis/{GROUP}")).await,
        (
            200,
            json!({
                "kind": "APIGroup", "apiVersion": "v1", "name": GROUP,
                "versions": [version], "preferredVersion": version,
            })
        ),
    );
    let (_, resources) = cluster.admin.get(PATH).await;
    assert_eq!(resources["resources"][0]["name"], "flunders");
    let (_, index) = cluster.admin.get("/").await;
    assert!(index["paths"].as_array().unwrap().contains(&json!(PATH)));
    until(async || aggregated(&cluster).await["versions"][0]["freshness"] == "Current").await;
    let group = aggregated(&cluster).await;
    assert_eq!(group["versions"][0]["resources"][0]["resource"], "flunders");
    cluster.admin.delete(&format!("{API_SERVICES}/v1alpha1.{GROUP}")).await;
    until(async || aggregated(&cluster).await.is_null()).await;
    assert_eq!(cluster.admin.get(PATH).await.0, 404);
    assert_eq!(cluster.admin.get(&format!("/apis/{GROUP}")).await.0, 404);
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_older_server_describes_one_version_at_a_time() {
    let cluster = start(&[]).await;
    let extension = cluster.extension_server(false).await;
    extension.state.aggregated.store(false, Ordering::Relaxed);
    cluster.aggregate(&extension).await;
    until(async || aggregated(&cluster).await["versions"][0]["freshness"] == "Current").await;
    let resources = aggregated(&cluster).await["versions"][0]["resources"].clone();
    assert_eq!(resources[0]["responseKind"]["kind"], "Flunder", "{resources}");
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_cannot_be_asked_is_stale() {
    let cluster = start(&[]).await;
    let ca = Ca::new("other authority");
    cluster.create_api_service(json!({"caBundle": base64(&ca.pem)})).await;
    until(async || aggregated(&cluster).await["versions"][0]["freshness"] == "Stale").await;
    let group = aggregated(&cluster).await;
    assert_eq!(group["versions"], json!([{"version": "v1alpha1", "freshness": "Stale"}]));
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn remote_openapi_documents_are_beside_the_others() {
    let cluster = start(&[]).await;
    let before = cluster.admin.raw("GET", "/openapi/v3", &[], "").await.headers()["etag"].clone();
    let extension = cluster.extension_server(true).await;
    cluster.aggregate(&extension).await;
    let name = format!("apis/{GROUP}/v1alpha1");
    until(async || cluster.admin.get("/openapi/v3").await.1["paths"].get(&name).is_some()).await;
    let root = cluster.admin.raw("GET", "/openapi/v3", &[], "").await;
    assert_ne!(root.headers()["etag"], before);
    let paths = serde_json::from_str::<Value>(root.body()).unwrap()["paths"].clone();
    assert!(paths.get("apis/apps/v1").is_some());
    let url = paths[&name]["serverRelativeURL"].as_str().unwrap().to_owned();
    // Its own server describes it to every client.
    let (code, document) = cluster.admin.get(&url).await;
    assert_eq!((code, &document["user"]), (200, &json!("kubernetes-admin")));
    let flunders = format!("{PATH}/namespaces/{{namespace}}/flunders");
    until(async || cluster.admin.get("/openapi/v2").await.1["paths"].get(&flunders).is_some())
        .await;
    let (_, whole) = cluster.admin.get("/openapi/v2").await;
    let definition = |name: &str| whole["definitions"].get(name).cloned();
    assert_eq!(definition("com.example.wardle.v1alpha1.Flunder").unwrap()["description"], "mine");
    assert_eq!(definition("com.example.wardle.v1alpha1.Unused"), None);
    assert_eq!(whole["paths"].get("/apis/other.example.com/v1/x"), None);
    assert!(definition("io.k8s.api.core.v1.Pod").is_some());
    cluster.admin.delete(&format!("{API_SERVICES}/v1alpha1.{GROUP}")).await;
    until(async || cluster.admin.get("/openapi/v3").await.1["paths"].get(&name).is_none()).await;
    until(async || cluster.admin.get("/openapi/v2").await.1["paths"].get(&flunders).is_none())
        .await;
    cluster.stop().await;
}
