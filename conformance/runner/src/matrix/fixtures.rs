//! Objects that requests ask for: in `a` and `b`, and cluster-scoped ones.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::Result;
use crate::client::{Client, Request};

/// Time limit for a new custom resource to be served.
const SERVED_LIMIT: Duration = Duration::from_secs(30);

/// Creates all objects, and waits until they are served.
pub async fn make(client: &Client) -> Result<()> {
    for (path, object) in objects() {
        if path.starts_with("/apis/x.io/") {
            let (collection, limit) = (Request::get(path), Instant::now() + SERVED_LIMIT);
            while client.send(collection.clone()).await?.code != 200 {
                if Instant::now() > limit {
                    return Err(format!("{path} is not served").into());
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
        client.json(Request::post(path, &object)).await?;
    }
    Ok(())
}

fn objects() -> Vec<(&'static str, Value)> {
    let named = |name: &str| json!({"metadata": {"name": name}});
    let custom = |kind: &str, name: &str| {
        json!({"apiVersion": "x.io/v1", "kind": kind, "metadata": {"name": name},
               "spec": {"replicas": 1}})
    };
    let mut all = vec![
        ("/api/v1/namespaces", named("a")),
        ("/api/v1/namespaces", named("b")),
        (DEFINITIONS, definition("things", "Thing", "Namespaced")),
        (DEFINITIONS, definition("wides", "Wide", "Cluster")),
        ("/api/v1/nodes", named("n1")),
        ("/api/v1/nodes", named("n2")),
        ("/api/v1/namespaces/a/serviceaccounts", named("default")),
        ("/apis/apiregistration.k8s.io/v1/apiservices", api_service()),
    ];
    for name in ["foo", "bar"] {
        for path in [
            "/api/v1/namespaces/a/configmaps",
            "/api/v1/namespaces/a/secrets",
            "/api/v1/namespaces/b/configmaps",
            "/api/v1/namespaces/b/secrets",
            "/apis/coordination.k8s.io/v1/namespaces/a/leases",
        ] {
            all.push((path, named(name)));
        }
        all.push(("/apis/apps/v1/namespaces/a/deployments", deployment(name)));
        all.push(("/apis/x.io/v1/namespaces/a/things", custom("Thing", name)));
        all.push(("/apis/x.io/v1/namespaces/b/things", custom("Thing", name)));
        all.push(("/apis/x.io/v1/wides", custom("Wide", name)));
    }
    all.push(("/api/v1/namespaces/a/pods", pod("p1", "n1", "foo")));
    all.push(("/api/v1/namespaces/a/pods", pod("p2", "n2", "bar")));
    all
}

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

fn definition(plural: &str, kind: &str, scope: &str) -> Value {
    json!({
        "metadata": {"name": format!("{plural}.x.io")},
        "spec": {
            "group": "x.io",
            "scope": scope,
            "names": {"plural": plural, "kind": kind},
            "versions": [{
                "name": "v1",
                "served": true,
                "storage": true,
                "subresources": {
                    "status": {},
                    "scale": {
                        "specReplicasPath": ".spec.replicas",
                        "statusReplicasPath": ".status.replicas",
                    },
                },
                "schema": {"openAPIV3Schema": {
                    "type": "object",
                    "x-kubernetes-preserve-unknown-fields": true,
                }},
            }],
        },
    })
}

/// APIService without a server: authorized requests get that error.
fn api_service() -> Value {
    json!({
        "metadata": {"name": "v1.far.io"},
        "spec": {
            "group": "far.io",
            "version": "v1",
            "service": {"namespace": "a", "name": "nobody"},
            "insecureSkipTLSVerify": true,
            "groupPriorityMinimum": 100,
            "versionPriority": 100,
        },
    })
}

fn deployment(name: &str) -> Value {
    let labels = json!({"app": name});
    json!({
        "metadata": {"name": name},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [{"name": "c", "image": "i"}]},
            },
        },
    })
}

/// Pod on a node that reads a secret.
fn pod(name: &str, node: &str, secret: &str) -> Value {
    json!({
        "metadata": {"name": name},
        "spec": {
            "nodeName": node,
            "automountServiceAccountToken": false,
            "containers": [{"name": "c", "image": "i"}],
            "volumes": [{"name": "v", "secret": {"secretName": secret}}],
        },
    })
}
