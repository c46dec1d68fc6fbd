use serde_json::{Value, json};

use super::{PODS, cluster, pod};

#[tokio::test(flavor = "multi_thread")]
async fn pods_stay_a_while_on_nodes_that_are_away() {
    let flags =
        ["--default-not-ready-toleration-seconds=7", "--default-unreachable-toleration-seconds=8"];
    let cluster = cluster(&flags).await;
    let dry = format!("POST {PODS}?dryRun=All");
    let toleration = |name: &str, seconds: i64| {
        json!({"effect": "NoExecute", "key": format!("node.kubernetes.io/{name}"),
            "operator": "Exists", "tolerationSeconds": seconds})
    };
    for (spec, tolerations) in [
        ("", json!([toleration("not-ready", 7), toleration("unreachable", 8)])),
        (r#""tolerations":[{"operator":"Exists"}]"#, json!([{"operator": "Exists"}])),
        (
            r#""tolerations":[{"key":"node.kubernetes.io/unreachable","operator":"Exists"}]"#,
            json!([{"key": "node.kubernetes.io/unreachable", "operator": "Exists"},
                toleration("not-ready", 7)]),
        ),
    ] {
        let made = cluster.ok("admin", &dry, &pod(spec)).await;
        assert_eq!(made["spec"]["tolerations"], tolerations);
    }
    let node = cluster.ok("admin", "POST /api/v1/nodes", r#"{"metadata":{"name":"n"}}"#).await;
    let taint = json!([{"effect": "NoSchedule", "key": "node.kubernetes.io/not-ready"}]);
    assert_eq!(node["spec"]["taints"], taint);
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn runtime_classes_say_what_they_add_and_where_they_are() {
    let cluster = cluster(&[]).await;
    let class = json!({"metadata": {"name": "r"}, "handler": "h",
        "overhead": {"podFixed": {"cpu": "100m"}},
        "scheduling": {"nodeSelector": {"kind": "special"},
            "tolerations": [{"key": "special", "operator": "Exists"}]}});
    let classes = "POST /apis/node.k8s.io/v1/runtimeclasses";
    cluster.ok("admin", classes, &class.to_string()).await;
    let dry = format!("POST {PODS}?dryRun=All");
    let made = cluster.ok("admin", &dry, &pod(r#""runtimeClassName":"r""#)).await;
    assert_eq!(made["spec"]["overhead"], json!({"cpu": "100m"}));
    assert_eq!(made["spec"]["nodeSelector"], json!({"kind": "special"}));
    let special = json!({"key": "special", "operator": "Exists"});
    assert!(made["spec"]["tolerations"].as_array().unwrap().contains(&special));
    for (spec, error) in [
        (r#""runtimeClassName":"none""#, r#"pod rejected: RuntimeClass "none" not found"#),
        (
            r#""overhead":{"cpu":"1"}"#,
            "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead",
        ),
        (
            r#""runtimeClassName":"r","overhead":{"cpu":"1"}"#,
            "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead",
        ),
        (
            r#""runtimeClassName":"r","nodeSelector":{"kind":"plain"}"#,
            "conflict: runtimeClass.scheduling.nodeSelector[kind] = special; pod.spec.nodeSelector[kind] = plain",
        ),
    ] {
        let refused = cluster.refused("admin", &dry, &pod(spec)).await;
        assert_eq!(refused, format!(r#"403 pods "p" is forbidden: {error}"#));
    }
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn plug_ins_that_are_asked_for_run() {
    let plugins = "--enable-admission-plugins=AlwaysPullImages,ExtendedResourceToleration,\
                   LimitPodHardAntiAffinityTopology,DenyServiceExternalIPs";
    let cluster = cluster(&[plugins]).await;
    let dry = format!("POST {PODS}?dryRun=All");
    let spec = r#""containers":[{"name":"c","image":"i:1","imagePullPolicy":"Never","resources":{"requests":{"example.com/gpu":"1"},"limits":{"example.com/gpu":"1"}}}]"#;
    let made = cluster.ok("admin", &dry, &pod(spec)).await;
    assert_eq!(made["spec"]["containers"][0]["imagePullPolicy"], "Always");
    let special = json!({"effect": "NoSchedule", "key": "example.com/gpu", "operator": "Exists"});
    assert!(made["spec"]["tolerations"].as_array().unwrap().contains(&special));
    let zone = r#""affinity":{"podAntiAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":[{"topologyKey":"zone"}]}}"#;
    assert_eq!(
        cluster.refused("admin", &dry, &pod(zone)).await,
        r#"403 pods "p" is forbidden: affinity.PodAntiAffinity.RequiredDuringScheduling has TopologyKey zone but only key kubernetes.io/hostname is allowed"#
    );
    let service =
        r#"{"metadata":{"name":"s"},"spec":{"ports":[{"port":80}],"externalIPs":["192.0.2.1"]}}"#;
    assert_eq!(
        cluster.refused("admin", "POST /api/v1/namespaces/default/services", service).await,
        r#"403 services "s" is forbidden: Use of external IPs is denied by admission control"#
    );
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn pods_get_topology_labels_and_resizes_fit_the_node() {
    let cluster = cluster(&[]).await;
    let node = json!({"metadata": {"name": "n", "labels": {"topology.kubernetes.io/zone": "z"}},
        "status": {"allocatable": {"cpu": "1", "memory": "1Gi"}}});
    cluster.ok("admin", "POST /api/v1/nodes", &node.to_string()).await;
    let status = json!({"status": {"allocatable": {"cpu": "1", "memory": "1Gi"}}});
    cluster.ok("admin", "PATCH /api/v1/nodes/n/status", &status.to_string()).await;
    let spec = r#""nodeName":"n","containers":[{"name":"c","image":"i","resources":{"requests":{"cpu":"500m"}}}]"#;
    let made = cluster.ok("admin", &format!("POST {PODS}"), &pod(spec)).await;
    assert_eq!(made["metadata"]["labels"]["topology.kubernetes.io/zone"], "z");
    let resize = |cpu: &str| {
        let mut pod: Value = made.clone();
        pod["metadata"]["resourceVersion"] = Value::Null;
        pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] = cpu.into();
        pod.to_string()
    };
    let what = format!("PUT {PODS}/p/resize");
    assert_eq!(
        cluster.refused("admin", &what, &resize("2")).await,
        r#"403 pods "p" is forbidden: node didn't have enough allocatable resources: cpu, requested: 2000, allocatable: 1000"#
    );
    cluster.ok("admin", &what, &resize("800m")).await;
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_ties_objects_to_others_needs_a_right_to_both() {
    let flags = [
        "--enable-admission-plugins=OwnerReferencesPermissionEnforcement",
        "--authorization-mode=RBAC",
    ];
    let cluster = cluster(&flags).await;
    let group = "/apis/rbac.authorization.k8s.io/v1";
    let role = json!({"metadata": {"name": "writer"}, "rules": [{"apiGroups": [""],
        "resources": ["configmaps"], "verbs": ["create", "update", "get", "patch"]}]});
    cluster.ok("admin", &format!("POST {group}/clusterroles"), &role.to_string()).await;
    let binding = json!({"metadata": {"name": "writer"},
        "subjects": [{"kind": "User", "name": "jane"}],
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "writer"}});
    cluster.ok("admin", &format!("POST {group}/clusterrolebindings"), &binding.to_string()).await;
    let maps = "/api/v1/namespaces/default/configmaps";
    cluster
        .until_sent("jane", &format!("POST {maps}"), r#"{"metadata":{"name":"a"}}"#, |answer| {
            answer.0 != 403
        })
        .await;
    let owned = |name: &str, blocks: bool| {
        json!({"metadata": {"name": name, "ownerReferences": [{"apiVersion": "apps/v1",
            "kind": "Deployment", "name": "d", "uid": "u", "blockOwnerDeletion": blocks}]}})
        .to_string()
    };
    cluster.ok("jane", &format!("POST {maps}"), &owned("b", false)).await;
    let refused = cluster.refused("jane", &format!("POST {maps}"), &owned("c", true)).await;
    assert!(
        refused.starts_with(r#"403 configmaps "c" is forbidden: cannot set blockOwnerDeletion if an ownerReference refers to a resource you can't set finalizers on: "#),
        "{refused}"
    );
    let refused = cluster.refused("jane", &format!("PATCH {maps}/a"), &owned("a", false)).await;
    assert!(
        refused.starts_with(r#"403 configmaps "a" is forbidden: cannot set an ownerRef on a resource you can't delete: "#),
        "{refused}"
    );
    cluster.stop().await;
}
