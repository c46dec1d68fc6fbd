use serde_json::{Value, json};

use super::{SERVICES, Services as _, plain, service, typed};

#[tokio::test(flavor = "multi_thread")]
async fn what_was_given_need_not_be_repeated() {
    let cluster = super::start().await;
    let made = cluster.service("a", typed("NodePort")).await;
    let path = format!("{SERVICES}/a");
    let (code, replaced) =
        cluster.request("PUT", &path, Some(service("a", typed("NodePort")))).await;
    assert_eq!(code, 200, "{replaced}");
    assert_eq!(replaced["spec"], made["spec"]);
    let mut more = typed("NodePort");
    more["ports"] = json!([{"port": 80, "name": "a"}, {"port": 81, "name": "b"}]);
    let (code, replaced) = cluster.request("PUT", &path, Some(service("a", more))).await;
    assert_eq!(code, 200, "{replaced}");
    assert_eq!(replaced["spec"]["clusterIP"], made["spec"]["clusterIP"]);
    cluster.stop().await;
}

/// A Service changes its type by a patch; `gone` are fields that it loses.
#[tokio::test(flavor = "multi_thread")]
async fn a_change_of_the_type_takes_and_gives_back() {
    let cluster = super::start().await;
    let external = json!({"type": "ExternalName", "externalName": "example.com"});
    let internal = json!({"type": "ClusterIP", "externalName": null});
    let changes: [(&str, Value, Value, &[&str]); 4] = [
        (
            "cluster-to-external",
            plain(),
            external.clone(),
            &["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"],
        ),
        ("external-to-cluster", external.clone(), internal, &["externalName"]),
        ("cluster-to-node", plain(), json!({"type": "NodePort"}), &[]),
        (
            "balancer-to-cluster",
            typed("LoadBalancer"),
            json!({"type": "ClusterIP"}),
            &["allocateLoadBalancerNodePorts", "externalTrafficPolicy"],
        ),
    ];
    for (name, spec, change, gone) in changes {
        if name == "external-to-cluster" {
            let mut with_ports = spec.clone();
            with_ports["ports"] = json!([{"port": 80}]);
            cluster.service(name, with_ports).await;
        } else {
            cluster.service(name, spec).await;
        }
        let (code, changed) = cluster.patch(name, json!({"spec": change})).await;
        assert_eq!(code, 200, "{name}: {changed}");
        let spec = &changed["spec"];
        for field in gone {
            assert_eq!(spec.get(field), None, "{name}: {field}");
        }
        let addresses = cluster.get("/apis/networking.k8s.io/v1/ipaddresses").await;
        let has = addresses["items"].as_array().unwrap().iter().any(|address| {
            address["spec"]["parentRef"]["name"] == name
                && address["metadata"]["name"] == spec["clusterIP"]
        });
        let any = addresses["items"]
            .as_array()
            .unwrap()
            .iter()
            .any(|address| address["spec"]["parentRef"]["name"] == name);
        assert_eq!(has, spec["type"] != "ExternalName", "{name}");
        assert_eq!(has, any, "{name}");
        let node_port = spec["ports"][0].get("nodePort").is_some();
        assert_eq!(node_port, spec["type"] == "NodePort", "{name}");
    }
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_address_cannot_be_changed() {
    let cluster = super::start().await;
    cluster.service("a", json!({"clusterIP": "10.0.0.10", "ports": [{"port": 80}]})).await;
    let (code, refused) = cluster.patch("a", json!({"spec": {"clusterIP": "10.0.0.11"}})).await;
    assert_eq!(code, 422);
    assert_eq!(
        refused["message"],
        "Service \"a\" is invalid: spec.clusterIPs[0]: Invalid value: [\"10.0.0.11\"]: may not \
         change once set"
    );
    let addresses = cluster.addresses().await;
    assert!(addresses.contains(&"10.0.0.10".into()) && !addresses.contains(&"10.0.0.11".into()));
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_that_finalizers_held_gives_back_when_it_goes() {
    let cluster = super::start().await;
    let mut held = service("a", plain());
    held["metadata"]["finalizers"] = json!(["example.com/hold"]);
    let (_, made) = cluster.request("POST", SERVICES, Some(held)).await;
    let ip: String = made["spec"]["clusterIP"].as_str().unwrap().into();
    cluster.admin.delete(&format!("{SERVICES}/a")).await;
    assert!(cluster.addresses().await.contains(&ip));
    let (code, gone) = cluster.patch("a", json!({"metadata": {"finalizers": null}})).await;
    assert_eq!(code, 200, "{gone}");
    assert!(!cluster.addresses().await.contains(&ip));
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn endpoints_go_with_their_service() {
    let cluster = super::start().await;
    cluster.service("a", plain()).await;
    let endpoints = json!({
        "metadata": {"name": "a"},
        "subsets": [{"addresses": [{"ip": "10.1.2.3"}], "ports": [{"port": 80}]}],
    });
    let path = "/api/v1/namespaces/test/endpoints";
    let (code, made) = cluster.request("POST", path, Some(endpoints)).await;
    assert_eq!(code, 201, "{made}");
    cluster.admin.delete(&format!("{SERVICES}/a")).await;
    assert_eq!(cluster.request("GET", &format!("{path}/a"), None).await.0, 404);
    cluster.stop().await;
}
