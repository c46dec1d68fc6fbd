//! Traffic that reaches what the metrics count: each verb, admission, CEL, custom resources, services, tokens.

use std::fs;
use std::path::Path;

use http::Method;
use serde_json::{Value, json};

use crate::Result;
use crate::client::{Client, Request};

const NAMESPACE: &str = "/api/v1/namespaces/metrics";

/// Flags that switch on what traffic alone does not reach: audit and controllers.
pub fn flags(folder: &Path) -> Result<Vec<String>> {
    let audit = folder.join("audit.yaml");
    let policy = "{apiVersion: audit.k8s.io/v1, kind: Policy, rules: [{level: Metadata}]}";
    fs::write(&audit, policy)?;
    Ok(vec![
        // Work queues are those of controllers.
        "--controllers=*".to_owned(),
        format!("--audit-policy-file={}", audit.display()),
        format!("--audit-log-path={}", folder.join("audit.log").display()),
    ])
}

/// Sends all of it; fails where an answer is not the expected one.
pub async fn send(client: &Client) -> Result<()> {
    let namespace = json!({"metadata": {
        "name": "metrics",
        "labels": {"pod-security.kubernetes.io/enforce": "baseline"},
    }});
    client.json(Request::post("/api/v1/namespaces", &namespace)).await?;
    objects(client).await?;
    lists(client).await?;
    watches(client).await?;
    policies(client).await?;
    pods(client).await?;
    services(client).await?;
    tokens(client).await?;
    custom_resources(client).await?;
    for path in ["/apis", "/openapi/v3", "/version", "/api/v1/componentstatuses"] {
        client.json(Request::get(path)).await?;
    }
    let aggregated = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
    client.json(Request::get("/apis").with_header("accept", aggregated)).await?;
    Ok(())
}

/// Each verb on a ConfigMap.
async fn objects(client: &Client) -> Result<()> {
    let maps = format!("{NAMESPACE}/configmaps");
    for number in 0..4 {
        let map = json!({"metadata": {"name": format!("m-{number}"), "labels": {"a": "b"}}});
        let validated = format!("{maps}?fieldValidation=Strict");
        client.json(Request::post(validated, &map)).await?;
    }
    let path = format!("{maps}/m-0");
    let mut map = client.json(Request::get(&path)).await?;
    map["data"] = json!({"a": "b"});
    client.json(Request::put(&path, &map)).await?;
    client
        .json(Request::put(format!("{path}?dryRun=All"), &map))
        .await
        .map(drop)
        .or_else(conflict)?;
    client.json(Request::patch(&path, "merge-patch+json", &json!({"data": {"c": "d"}}))).await?;
    let applied = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m-0"}, "data": {"e": "f"},
    });
    let apply = format!("{path}?fieldManager=metrics");
    client.json(Request::patch(&apply, "apply-patch+yaml", &applied)).await?;
    client.json(Request::patch(&apply, "apply-patch+yaml", &applied)).await?;
    client.json(Request::delete(format!("{maps}/m-3"))).await?;
    // Nothing is there: 404 is counted as well.
    client.send(Request::get(format!("{maps}/missing"))).await?;
    Ok(())
}

fn conflict(error: crate::Error) -> Result<()> {
    match error.to_string().contains(": 409 ") {
        true => Ok(()),
        false => Err(error),
    }
}

async fn lists(client: &Client) -> Result<()> {
    let maps = format!("{NAMESPACE}/configmaps");
    for query in [
        "",
        "?resourceVersion=0",
        "?limit=1",
        "?labelSelector=a%3Db",
        "?fieldSelector=metadata.name%3Dm-1",
    ] {
        client.json(Request::get(format!("{maps}{query}"))).await?;
    }
    let page = client.json(Request::get(format!("{maps}?limit=1"))).await?;
    let next = page["metadata"]["continue"].as_str().unwrap_or_default();
    client.json(Request::get(format!("{maps}?limit=1&continue={next}"))).await?;
    client.json(Request::get("/api/v1/pods?fieldSelector=spec.nodeName%3Dnone")).await?;
    // Deprecated since 1.33.
    client.json(Request::get(format!("{NAMESPACE}/endpoints"))).await?;
    Ok(())
}

/// A watch that sees an event, and one that begins with the state.
async fn watches(client: &Client) -> Result<()> {
    let maps = format!("{NAMESPACE}/configmaps");
    let streamed =
        "&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";
    for query in ["", streamed] {
        let watch = format!("{maps}?watch=true&timeoutSeconds=2{query}");
        let mut lines = client.watch(Request::get(watch)).await?;
        let touch = json!({"data": {"watched": query}});
        client.json(Request::patch(format!("{maps}/m-1"), "merge-patch+json", &touch)).await?;
        while lines.next().await?.is_some() {}
    }
    Ok(())
}

/// A policy in CEL, and a write that it decides about.
async fn policies(client: &Client) -> Result<()> {
    let group = "/apis/admissionregistration.k8s.io/v1";
    let policy = json!({"metadata": {"name": "metrics"}, "spec": {
        "matchConstraints": {"resourceRules": [{
            "apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"], "resources": ["configmaps"],
        }]},
        "validations": [{"expression": "object.metadata.name != 'forbidden'"}],
    }});
    client.json(Request::post(format!("{group}/validatingadmissionpolicies"), &policy)).await?;
    let binding = json!({"metadata": {"name": "metrics"}, "spec": {
        "policyName": "metrics", "validationActions": ["Deny"],
    }});
    client
        .json(Request::post(format!("{group}/validatingadmissionpolicybindings"), &binding))
        .await?;
    let map = json!({"metadata": {"name": "forbidden"}});
    let path = format!("{NAMESPACE}/configmaps?dryRun=All");
    // A binding is in effect a moment after it is written.
    for _ in 0..100 {
        if client.send(Request::post(&path, &map)).await?.code == 422 {
            return Ok(());
        }
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    Err("a policy does not refuse what it should".into())
}

/// Pods that Pod Security lets in and refuses. Nothing runs them, so they are only asked for.
async fn pods(client: &Client) -> Result<()> {
    let account = json!({"metadata": {"name": "default"}});
    client.send(Request::post(format!("{NAMESPACE}/serviceaccounts"), &account)).await?;
    for (name, host_network, code) in [("good", false, 201), ("bad", true, 403)] {
        let pod = json!({"metadata": {"name": name}, "spec": {
            "hostNetwork": host_network,
            "containers": [{"name": "c", "image": "i"}],
        }});
        let answer = client.send(Request::post(format!("{NAMESPACE}/pods"), &pod)).await?;
        if answer.code != code {
            return Err(format!("pod {name}: {} instead of {code}", answer.code).into());
        }
    }
    Ok(())
}

async fn services(client: &Client) -> Result<()> {
    for kind in ["ClusterIP", "NodePort"] {
        let name = kind.to_lowercase();
        let service =
            json!({"metadata": {"name": name}, "spec": {"type": kind, "ports": [{"port": 80}]}});
        client.json(Request::post(format!("{NAMESPACE}/services"), &service)).await?;
    }
    client.json(Request::delete(format!("{NAMESPACE}/services/nodeport"))).await?;
    Ok(())
}

/// A token, and a request with it.
async fn tokens(client: &Client) -> Result<()> {
    let path = format!("{NAMESPACE}/serviceaccounts/default/token");
    let request = json!({"spec": {"expirationSeconds": 3600}});
    let made = client.json(Request::post(path, &request)).await?;
    let token = made["status"]["token"].as_str().unwrap_or_default();
    let review = json!({"spec": {"token": token}});
    let reviews = "/apis/authentication.k8s.io/v1/tokenreviews";
    let reviewed = client.json(Request::post(reviews, &review)).await?;
    match reviewed["status"]["authenticated"].as_bool() {
        Some(true) => Ok(()),
        _ => Err(format!("a new token is not known: {reviewed}").into()),
    }
}

/// A custom resource with a rule, and an update for which validation is ratcheted.
async fn custom_resources(client: &Client) -> Result<()> {
    let definition: Value = json!({"metadata": {"name": "meters.metrics.example.com"}, "spec": {
        "group": "metrics.example.com",
        "scope": "Namespaced",
        "names": {"plural": "meters", "kind": "Meter"},
        "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
            "type": "object",
            "properties": {"spec": {"type": "object", "properties": {"size": {"type": "integer"}},
                "x-kubernetes-validations": [{"rule": "self.size < 10"}]}},
        }}}],
    }});
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    client.json(Request::post(definitions, &definition)).await?;
    let meters = "/apis/metrics.example.com/v1/namespaces/metrics/meters";
    let meter = json!({
        "apiVersion": "metrics.example.com/v1", "kind": "Meter", "metadata": {"name": "m"}, "spec": {"size": 1},
    });
    // It is served a moment after it is written.
    for _ in 0..100 {
        if client.send(Request::post(meters, &meter)).await?.code == 201 {
            let path = format!("{meters}/m");
            let patch = json!({"spec": {"size": 2}});
            client.json(Request::patch(&path, "merge-patch+json", &patch)).await?;
            client.json(Request::get(meters)).await?;
            client.json(Request::new(Method::DELETE, path)).await?;
            return Ok(());
        }
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    Err("a custom resource is not served".into())
}
