//! Users, their permissions, and the objects of the benchmark.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use kevel_conformance::Result;
use kevel_conformance::client::{Client, Request};
use serde_json::{Value, json};

use crate::Sizes;

/// The tokens of the two users.
pub const GREEDY: &str = "greedy";
pub const QUIET: &str = "quiet";
/// Object that the quiet client reads.
pub const QUIET_OBJECT: &str = "/api/v1/namespaces/bench/configmaps/quiet";
const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";
const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases";

/// The token of a kubelet.
pub fn kubelet(index: usize) -> String {
    format!("kubelet-{index}")
}

/// The path of its lease.
pub fn lease_path(index: usize) -> String {
    format!("{LEASES}/{}", kubelet(index))
}

fn lease(index: usize) -> Value {
    json!({
        "metadata": {"name": kubelet(index), "namespace": "kube-node-lease"},
        "spec": {"holderIdentity": kubelet(index), "leaseDurationSeconds": 40},
    })
}

/// Writes down who has which token; the flag that says so to a server.
pub fn users(folder: &Path, sizes: Sizes) -> Result<String> {
    let mut users = format!("{GREEDY},{GREEDY},1\n{QUIET},{QUIET},2\n");
    for index in 0..sizes.kubelets {
        let name = kubelet(index);
        writeln!(users, "{name},system:node:{name},n{index},\"system:nodes\"")?;
    }
    let file = folder.join("tokens.csv");
    fs::write(&file, users)?;
    Ok(format!("--token-auth-file={}", file.display()))
}

/// Makes what is read, and lets everybody do what they do.
pub async fn fill(client: &Client, sizes: Sizes) -> Result<()> {
    let namespaces = "/api/v1/namespaces";
    let make = async |path: &str, object: Value| client.json(Request::post(path, &object)).await;
    make(namespaces, json!({"metadata": {"name": "bench"}})).await?;
    // Either may be there already.
    for (path, name) in
        [(namespaces, "kube-node-lease"), ("/api/v1/namespaces/bench/serviceaccounts", "default")]
    {
        client.send(Request::post(path, &json!({"metadata": {"name": name}}))).await?;
    }
    make(
        "/api/v1/namespaces/bench/configmaps",
        json!({"metadata": {"name": "quiet"}, "data": {"text": "x".repeat(512)}}),
    )
    .await?;
    let read = json!(["get", "list", "watch"]);
    for (role, rule, kind, names) in [
        (
            "readers",
            json!({"apiGroups": [""], "resources": ["pods", "configmaps"], "verbs": read}),
            "User",
            &[GREEDY, QUIET][..],
        ),
        (
            "kubelets",
            json!({"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["*"]}),
            "Group",
            &["system:nodes"],
        ),
    ] {
        let object = json!({"metadata": {"name": role}, "rules": [rule]});
        make(&format!("{RBAC}/clusterroles"), object).await?;
        let group = "rbac.authorization.k8s.io";
        let subject = |name: &&str| json!({"apiGroup": group, "kind": kind, "name": name});
        let subjects: Vec<Value> = names.iter().map(subject).collect();
        let binding = json!({
            "metadata": {"name": role}, "subjects": subjects,
            "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": role},
        });
        make(&format!("{RBAC}/clusterrolebindings"), binding).await?;
    }
    let pods = (0..sizes.pods).map(|index| ("/api/v1/namespaces/bench/pods", pod(index)));
    let leases = (0..sizes.kubelets).map(|index| (LEASES, lease(index)));
    let all: Vec<(&str, Value)> = pods.chain(leases).collect();
    for (path, object) in &all {
        client.json(Request::post(*path, object)).await?;
    }
    Ok(())
}

/// A Pod of some 2 KB, as the server answers it.
fn pod(index: usize) -> Value {
    json!({
        "metadata": {"name": format!("pod-{index:06}"), "labels": {"app": format!("app-{}", index % 50)}},
        "spec": {
            "nodeName": format!("node-{}", index % 100),
            "containers": [{
                "name": "main", "image": "registry.example.com/team/app:1.2.3",
                "command": ["/app", "--port=8080"],
                "env": [{"name": "MODE", "value": "production"}],
                "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}},
                "readinessProbe": {"httpGet": {"path": "/ready", "port": 8080}},
            }],
        },
    })
}
