use serde_json::json;

use kevel_test_support::Cluster;

const PODS: &str = "/api/v1/namespaces/default/pods";

async fn cluster() -> Cluster {
    let flags = ["--authorization-mode=Node,RBAC", "--enable-admission-plugins=NodeRestriction"];
    Cluster::start(&flags).await
}

fn pod(name: &str, node: &str) -> String {
    json!({"metadata": {"name": name}, "spec": {
        "nodeName": node,
        "serviceAccountName": "default",
        "containers": [{"name": "c", "image": "i", "envFrom": [{"secretRef": {"name": "s"}}]}],
    }})
    .to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_reads_what_its_pods_need() {
    let cluster = cluster().await;
    let secret = "GET /api/v1/namespaces/default/secrets/s";
    let none = r#"403 secrets "s" is forbidden: User "system:node:a" cannot get resource "secrets" in API group "" in the namespace "default": no relationship found between node 'a' and this object"#;
    cluster
        .ok("admin", "POST /api/v1/namespaces/default/secrets", r#"{"metadata":{"name":"s"}}"#)
        .await;
    assert_eq!(cluster.refused("node-a", secret, "").await, none);
    let account = r#"{"metadata":{"name":"default"}}"#;
    cluster.send("admin", "POST /api/v1/namespaces/default/serviceaccounts", account).await;
    cluster.ok("admin", &format!("POST {PODS}"), &pod("p", "a")).await;
    cluster.until_sent("node-a", secret, "", |answer| answer.0 == 200).await;
    assert!(cluster.refused("node-b", secret, "").await.starts_with("403"));
    cluster.ok("node-a", "GET /api/v1/pods?fieldSelector=spec.nodeName%3Da", "").await;
    let refused = cluster.refused("node-a", "GET /api/v1/pods", "").await;
    assert!(
        refused.ends_with(": can only list/watch pods with spec.nodeName field selector"),
        "{refused}"
    );
    // When the pod is gone, so is what it allowed.
    cluster.ok("admin", &format!("DELETE {PODS}/p?gracePeriodSeconds=0"), "").await;
    cluster.until_sent("node-a", secret, "", |answer| answer.0 == 403).await;
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_writes_only_itself() {
    let cluster = cluster().await;
    let nodes = "POST /api/v1/nodes";
    let node = |name: &str, label: &str| {
        json!({"metadata": {"name": name, "labels": {label: "x"}}}).to_string()
    };
    for (what, body, expected) in [
        (
            nodes,
            node("b", "kubernetes.io/os"),
            r#"403 nodes "b" is forbidden: node "a" is not allowed to modify node "b""#,
        ),
        (
            nodes,
            node("a", "node-restriction.kubernetes.io/x"),
            r#"403 nodes "a" is forbidden: node "a" is not allowed to set the following labels: node-restriction.kubernetes.io/x"#,
        ),
        (
            nodes,
            node("a", "foo.k8s.io/x"),
            r#"403 nodes "a" is forbidden: node "a" is not allowed to set the following labels: foo.k8s.io/x"#,
        ),
    ] {
        assert_eq!(cluster.refused("node-a", what, &body).await, expected);
    }
    cluster.ok("node-a", nodes, &node("a", "kubernetes.io/os")).await;
    let own = "PATCH /api/v1/nodes/a";
    cluster.ok("node-a", own, r#"{"metadata":{"labels":{"example.com/x":"y"}}}"#).await;
    cluster.ok("node-a", own, r#"{"metadata":{"labels":{"x.kubelet.kubernetes.io/a":"y"}}}"#).await;
    for (body, expected) in [
        (
            r#"{"spec":{"taints":[{"key":"k","effect":"NoSchedule"}]}}"#,
            r#"403 nodes "a" is forbidden: node "a" is not allowed to modify taints"#,
        ),
        (
            r#"{"metadata":{"labels":{"node-role.kubernetes.io/x":""}}}"#,
            r#"403 nodes "a" is forbidden: is not allowed to modify labels: node-role.kubernetes.io/x"#,
        ),
    ] {
        assert_eq!(cluster.refused("node-a", own, body).await, expected);
    }
    let leases = "POST /apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases";
    assert_eq!(
        cluster.refused("node-a", leases, r#"{"metadata":{"name":"b"}}"#).await,
        r#"403 leases.coordination.k8s.io "b" is forbidden: can only access node lease with the same name as the requesting node"#
    );
    cluster.ok("node-a", leases, r#"{"metadata":{"name":"a"}}"#).await;
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_makes_mirrors_only() {
    let cluster = cluster().await;
    let account = r#"{"metadata":{"name":"default"}}"#;
    cluster.send("admin", "POST /api/v1/namespaces/default/serviceaccounts", account).await;
    cluster.ok("admin", &format!("POST {PODS}"), &pod("theirs", "b")).await;
    cluster.ok("admin", &format!("POST {PODS}"), &pod("own", "a")).await;
    let made = cluster.ok("admin", "POST /api/v1/nodes", r#"{"metadata":{"name":"a"}}"#).await;
    let uid = made["metadata"]["uid"].as_str().unwrap();
    let forbidden = |name: &str, error: &str| format!(r#"403 pods "{name}" is forbidden: {error}"#);
    let mirror = |node: &str, owner: &str, spec: &str| {
        format!(
            r#"{{"metadata":{{"name":"m","annotations":{{"kubernetes.io/config.mirror":"x"}},"ownerReferences":[{owner}]}},"spec":{{"nodeName":"{node}","containers":[{{"name":"c","image":"i"}}]{spec}}}}}"#
        )
    };
    let owner = |controller: bool, uid: &str| {
        format!(
            r#"{{"apiVersion":"v1","kind":"Node","name":"a","uid":"{uid}","controller":{controller}}}"#
        )
    };
    for (body, error) in [
        (
            pod("m", "a"),
            r#"pod does not have "kubernetes.io/config.mirror" annotation, node "a" can only create mirror pods"#.to_owned(),
        ),
        (
            mirror("b", "", ""),
            r#"node "a" can only create pods with spec.nodeName set to itself"#.to_owned(),
        ),
        (
            mirror("a", "", ""),
            r#"node "a" can only create pods with an owner reference set to itself"#.to_owned(),
        ),
        (
            mirror("a", &owner(false, uid), ""),
            r#"node "a" can only create pods with a controller owner reference set to itself"#.to_owned(),
        ),
        (
            mirror("a", &owner(true, "x"), ""),
            format!("node a UID mismatch: expected x got {uid}"),
        ),
        (
            mirror("a", &owner(true, uid), r#","imagePullSecrets":[{"name":"s"}]"#),
            "a mirror pod may not reference secrets".to_owned(),
        ),
        (
            mirror("a", &owner(true, uid), r#","volumes":[{"name":"v","configMap":{"name":"c"}}]"#),
            r#"node "a" can not create pods that reference configmaps"#.to_owned(),
        ),
        (
            mirror("a", &owner(true, uid), r#","volumes":[{"name":"v","persistentVolumeClaim":{"claimName":"c"}}]"#),
            r#"node "a" can not create pods that reference persistentvolumeclaims"#.to_owned(),
        ),
    ] {
        let found = cluster.refused("node-a", &format!("POST {PODS}"), &body).await;
        assert_eq!(found, forbidden("m", &error));
    }
    cluster.ok("node-a", &format!("POST {PODS}"), &mirror("a", &owner(true, uid), "")).await;
    for (what, name, error) in [
        (
            format!("DELETE {PODS}/theirs"),
            "theirs",
            r#"node "a" can only delete pods with spec.nodeName set to itself"#,
        ),
        (
            format!("PATCH {PODS}/theirs/status"),
            "theirs",
            r#"node "a" can only update pod status for pods with spec.nodeName set to itself"#,
        ),
    ] {
        let body = if what.starts_with("PATCH") { r#"{"status":{"phase":"Failed"}}"# } else { "" };
        assert_eq!(cluster.refused("node-a", &what, body).await, forbidden(name, error));
    }
    cluster
        .ok("node-a", &format!("PATCH {PODS}/own/status"), r#"{"status":{"phase":"Running"}}"#)
        .await;
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn missing_objects_of_audiences_are_named_with_their_group() {
    let cluster = cluster().await;
    let account = r#"{"metadata":{"name":"default"}}"#;
    cluster.send("admin", "POST /api/v1/namespaces/default/serviceaccounts", account).await;
    for (name, volume, missing) in [
        (
            "by-driver",
            json!({"name": "v", "csi": {"driver": "csi.example.com"}}),
            r#"csidriver.storage.k8s.io "csi.example.com""#,
        ),
        (
            "by-claim",
            json!({"name": "v", "persistentVolumeClaim": {"claimName": "c"}}),
            r#"persistentvolumeclaim "c""#,
        ),
    ] {
        let pod = json!({"metadata": {"name": name}, "spec": {
            "nodeName": "a",
            "serviceAccountName": "default",
            "containers": [{"name": "c", "image": "i"}],
            "volumes": [volume],
        }});
        let pod = cluster.ok("admin", &format!("POST {PODS}"), &pod.to_string()).await;
        let request = json!({"spec": {"audiences": ["x"], "boundObjectRef": {"apiVersion": "v1",
            "kind": "Pod", "name": name, "uid": pod["metadata"]["uid"]}}});
        let token = "POST /api/v1/namespaces/default/serviceaccounts/default/token";
        let expected = format!(r#"error validating audience "x": {missing} not found"#);
        let refused = |answer: &(u16, String)| answer.1.contains(&expected.replace('"', "\\\""));
        cluster.until_sent("node-a", token, &request.to_string(), refused).await;
    }
    cluster.stop().await;
}
