//! API services of what this server has itself.

use serde_json::{Value, json};

use super::{API_SERVICES, start, until};

const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

#[tokio::test(flavor = "multi_thread")]
async fn every_group_and_version_has_its_api_service() {
    let cluster = start(&[]).await;
    let (code, _) = cluster.admin.get("/readyz/autoregister-completion").await;
    assert_eq!(code, 200);
    let (_, list) = cluster.admin.get(API_SERVICES).await;
    let services = list["items"].as_array().unwrap();
    let expected = "v1. v1.admissionregistration.k8s.io v1.apiextensions.k8s.io v1.apps \
        v1.authentication.k8s.io v1.authorization.k8s.io v1.autoscaling v1.batch \
        v1.certificates.k8s.io v1.coordination.k8s.io v1.discovery.k8s.io v1.events.k8s.io \
        v1.flowcontrol.apiserver.k8s.io v1.networking.k8s.io v1.node.k8s.io v1.policy \
        v1.rbac.authorization.k8s.io v1.resource.k8s.io v1.scheduling.k8s.io v1.storage.k8s.io \
        v2.autoscaling";
    let names: Vec<_> =
        services.iter().map(|one| one["metadata"]["name"].as_str().unwrap()).collect();
    assert_eq!(names.join(" "), expected);
    for service in services {
        let condition = &service["status"]["conditions"][0];
        assert_eq!(condition["message"], "Local APIServices are always available", "{service}");
        assert_eq!(condition["reason"], "Local");
        let labels = &service["metadata"]["labels"];
        assert_eq!(labels, &json!({"kube-aggregator.kubernetes.io/automanaged": "onstart"}));
    }
    let spec = |name: &str| {
        services.iter().find(|one| one["metadata"]["name"] == name).unwrap()["spec"].clone()
    };
    assert_eq!(
        spec("v1."),
        json!({"version": "v1", "groupPriorityMinimum": 18000, "versionPriority": 1})
    );
    assert_eq!(
        spec("v2.autoscaling"),
        json!({"group": "autoscaling", "version": "v2", "groupPriorityMinimum": 17500, "versionPriority": 30}),
    );
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn on_start_services_are_restored_at_the_next_start() {
    let folder = tempfile::tempdir().unwrap();
    let start = async || {
        let server = kevel::Server::builder().data_dir(folder.path()).start().await.unwrap();
        let client = kube::Client::try_from(server.client_config().await.unwrap()).unwrap();
        (server, client)
    };
    let send = async |client: &kube::Client, method: &str, path: &str, body: Value| {
        let request = http::Request::builder().method(method).uri(path);
        let media =
            if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
        let request = request.header("content-type", media);
        client.request::<Value>(request.body(body.to_string().into_bytes()).unwrap()).await
    };
    let path = |name: &str| format!("{API_SERVICES}/{name}");
    let (server, client) = start().await;
    let unmanaged =
        json!({"metadata": {"labels": {"kube-aggregator.kubernetes.io/automanaged": null}}});
    let lower = json!({"spec": {"versionPriority": 7}});
    for (name, patch) in [("v1.apps", &lower), ("v1.batch", &lower), ("v1.batch", &unmanaged)] {
        send(&client, "PATCH", &path(name), patch.clone()).await.unwrap();
    }
    send(&client, "DELETE", &path("v1.policy"), json!({})).await.unwrap();
    // What was kept by an older server for what this one does not have.
    let mut old = send(&client, "GET", &path("v1.apps"), json!({})).await.unwrap();
    old["metadata"] = json!({"name": "v9.apps", "labels": old["metadata"]["labels"]});
    old["spec"]["version"] = "v9".into();
    let request = http::Request::post(API_SERVICES).header("content-type", "application/json");
    let request = request.body(old.to_string().into_bytes()).unwrap();
    client.request::<Value>(request).await.unwrap();
    for (name, expected) in [("v1.apps", Some(7)), ("v9.apps", Some(7)), ("v1.policy", None)] {
        let found = send(&client, "GET", &path(name), json!({})).await.ok();
        let found = found.map(|one| one["spec"]["versionPriority"].as_i64().unwrap());
        assert_eq!(found, expected, "{name} before");
    }
    server.stop().await.unwrap();
    let (server, client) = start().await;
    for (name, expected) in
        [("v1.apps", Some(15)), ("v1.batch", Some(7)), ("v1.policy", Some(15)), ("v9.apps", None)]
    {
        until(async || {
            let found = send(&client, "GET", &path(name), json!({})).await.ok();
            found.map(|one| one["spec"]["versionPriority"].as_i64().unwrap()) == expected
        })
        .await;
    }
    server.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn custom_kinds_have_api_services_while_they_are_served() {
    let cluster = start(&[]).await;
    let version = |name: &str, served: bool, storage: bool| {
        json!({
            "name": name, "served": served, "storage": storage,
            "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
        })
    };
    let crd = |plural: &str, kind: &str, versions: Value| {
        json!({
            "metadata": {"name": format!("{plural}.zoo.io")},
            "spec": {
                "group": "zoo.io", "scope": "Cluster", "versions": versions,
                "names": {"plural": plural, "kind": kind, "singular": kind.to_lowercase()},
            },
        })
    };
    cluster
        .admin
        .create(
            CRDS,
            &crd("cats", "Cat", json!([version("v1", true, true), version("v2", false, false)])),
        )
        .await;
    cluster
        .admin
        .create(
            CRDS,
            &crd("dogs", "Dog", json!([version("v1", true, true), version("v3", true, false)])),
        )
        .await;
    let registered = async |name: &str| cluster.admin.get(&format!("{API_SERVICES}/{name}")).await;
    until(async || {
        registered("v1.zoo.io").await.0 == 200 && registered("v3.zoo.io").await.0 == 200
    })
    .await;
    assert_eq!(registered("v2.zoo.io").await.0, 404);
    let (_, service) = registered("v1.zoo.io").await;
    assert_eq!(service["metadata"]["labels"]["kube-aggregator.kubernetes.io/automanaged"], "true");
    assert_eq!(
        service["spec"],
        json!({"group": "zoo.io", "version": "v1", "groupPriorityMinimum": 1000, "versionPriority": 100}),
    );
    // Managed automatically: a deleted APIService comes back.
    let uid = service["metadata"]["uid"].clone();
    cluster.admin.delete(&format!("{API_SERVICES}/v1.zoo.io")).await;
    until(async || {
        let (code, again) = registered("v1.zoo.io").await;
        code == 200 && again["metadata"]["uid"] != uid
    })
    .await;
    let (_, groups) = cluster.admin.get("/apis").await;
    let group = groups["groups"].as_array().unwrap().last().unwrap().clone();
    assert_eq!(
        (&group["name"], &group["preferredVersion"]["version"]),
        (&json!("zoo.io"), &json!("v3"))
    );
    cluster.admin.delete(&format!("{CRDS}/dogs.zoo.io")).await;
    until(async || registered("v3.zoo.io").await.0 == 404).await;
    assert_eq!(registered("v1.zoo.io").await.0, 200);
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_api_service_is_refused() {
    let cluster = start(&[]).await;
    let wrong = json!({
        "metadata": {"name": "v1.b.io"},
        "spec": {"group": "a.io", "version": "v1", "groupPriorityMinimum": 0, "versionPriority": 1},
    });
    let headers = [("content-type", "application/json")];
    let (code, status) =
        cluster.admin.send("POST", API_SERVICES, &headers, &wrong.to_string()).await;
    assert_eq!(
        (code, status["message"].as_str().unwrap()),
        (
            422,
            "APIService.apiregistration.k8s.io \"v1.b.io\" is invalid: [metadata.name: Invalid \
             value: \"v1.b.io\": must be `spec.version+\".\"+spec.group`: \"v1.a.io\", \
             spec.groupPriorityMinimum: Invalid value: 0: must be positive and less than 20000]"
        ),
    );
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn crds_leave_api_services_of_built_in_versions_unchanged() {
    let cluster = start(&[]).await;
    let define = async |group: &str| {
        let schema = json!({"openAPIV3Schema": {"type": "object"}});
        let version = |name: &str, storage: bool| json!({"name": name, "served": true, "storage": storage, "schema": schema});
        let crd = json!({
            "metadata": {
                "name": format!("cats.{group}"),
                "annotations": {"api-approved.kubernetes.io": "unapproved, a test"},
            },
            "spec": {
                "group": group, "scope": "Cluster",
                "versions": [version("v1", true), version("v9", false)],
                "names": {"plural": "cats", "kind": "Cat", "singular": "cat"},
            },
        });
        cluster.admin.create(CRDS, &crd).await;
    };
    let registered = async |name: &str| cluster.admin.get(&format!("{API_SERVICES}/{name}")).await;
    let (_, before) = registered("v1.scheduling.k8s.io").await;
    define("scheduling.k8s.io").await;
    define("example.com").await;
    // Another version in a built-in group is registered, as on the reference.
    for name in ["v9.scheduling.k8s.io", "v9.example.com"] {
        until(async || registered(name).await.0 == 200).await;
    }
    let (code, during) = registered("v1.scheduling.k8s.io").await;
    assert_eq!((code, &during["spec"]), (200, &before["spec"]));
    cluster.admin.send("DELETE", &format!("{CRDS}/cats.scheduling.k8s.io"), &[], "").await;
    cluster.admin.send("DELETE", &format!("{CRDS}/cats.example.com"), &[], "").await;
    for name in ["v9.scheduling.k8s.io", "v9.example.com"] {
        until(async || registered(name).await.0 == 404).await;
    }
    let (code, after) = registered("v1.scheduling.k8s.io").await;
    assert_eq!((code, &after["spec"]), (200, &before["spec"]));
    cluster.stop().await;
}
