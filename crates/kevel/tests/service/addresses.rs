use std::collections::HashSet;

use kevel::Server;
use kevel_test_support::{Cluster, until};
use serde_json::json;

use super::{SERVICES, Services as _, plain, service};

#[tokio::test(flavor = "multi_thread")]
async fn a_service_gets_an_address_and_gives_it_back() {
    let cluster = super::start().await;
    let made = cluster.service("a", plain()).await;
    let spec = &made["spec"];
    let ip = spec["clusterIP"].as_str().unwrap().to_owned();
    assert!(ip.starts_with("10.0.0."), "{ip}");
    // The lowest addresses are reserved for explicit requests.
    assert!(ip.rsplit('.').next().unwrap().parse::<u8>().unwrap() > 16, "{ip}");
    assert_eq!(
        *spec,
        json!({
            "selector": {"app": "web"},
            "ports": [{"port": 80, "protocol": "TCP", "targetPort": 80}],
            "clusterIP": ip, "clusterIPs": [ip], "ipFamilies": ["IPv4"],
            "ipFamilyPolicy": "SingleStack", "internalTrafficPolicy": "Cluster",
            "sessionAffinity": "None", "type": "ClusterIP",
        })
    );
    // Fields that the server adds have no owner.
    let owned = made["metadata"]["managedFields"][0]["fieldsV1"]["f:spec"].as_object().unwrap();
    assert!(!owned.contains_key("f:clusterIP"), "{owned:?}");
    let address = cluster.get(&format!("/apis/networking.k8s.io/v1/ipaddresses/{ip}")).await;
    assert_eq!(
        address["spec"],
        json!({"parentRef": {"name": "a", "namespace": "test", "resource": "services"}})
    );
    assert_eq!(
        address["metadata"]["labels"],
        json!({
            "ipaddress.kubernetes.io/ip-family": "IPv4",
            "ipaddress.kubernetes.io/managed-by": "ipallocator.k8s.io",
        })
    );
    cluster.admin.delete(&format!("{SERVICES}/a")).await;
    assert!(!cluster.addresses().await.contains(&ip));
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn services_made_at_the_same_time_get_an_address_each() {
    let builder = Server::builder().flag("--service-cluster-ip-range=10.96.0.0/16");
    let cluster = super::with(builder).await;
    let names: Vec<String> = (0..500).map(|number| format!("s{number}")).collect();
    let made = names.iter().map(|name| cluster.service(name, plain()));
    let made = futures_util::future::join_all(made).await;
    let ips: HashSet<&str> =
        made.iter().map(|service| service["spec"]["clusterIP"].as_str().unwrap()).collect();
    assert_eq!(ips.len(), 500);
    let taken = cluster.addresses().await;
    assert!(ips.iter().all(|ip| taken.iter().any(|taken| taken == ip)));
    // Those that were tried and lost are not kept.
    assert!(taken.len() <= 501, "{}", taken.len());
    cluster.stop().await;
}

/// A cluster that has given all its addresses away.
async fn full() -> Cluster {
    let builder = Server::builder()
        .flag("--service-cluster-ip-range=10.0.0.0/29")
        .flag("--endpoint-reconciler-type=none");
    let cluster = super::with(builder).await;
    until(async || cluster.addresses().await == ["10.0.0.1"]).await;
    for number in 0..5 {
        cluster.service(&format!("s{number}"), plain()).await;
    }
    cluster
}

#[tokio::test(flavor = "multi_thread")]
async fn a_range_can_be_exhausted() {
    let cluster = full().await;
    let (code, refused) = cluster.create("late", plain()).await;
    assert_eq!(
        (code, refused["message"].as_str().unwrap()),
        (
            500,
            "Internal error occurred: failed to allocate a serviceIP for Service \"late\": range \
             is full"
        )
    );
    assert_eq!(refused["reason"], "InternalError");
    cluster.admin.delete(&format!("{SERVICES}/s3")).await;
    until(async || cluster.create("late", plain()).await.0 == 201).await;
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn addresses_can_be_asked_for() {
    let cluster = super::start().await;
    let ask = |ip: &str| json!({"clusterIP": ip, "ports": [{"port": 80}]});
    let made = cluster.service("a", ask("10.0.0.10")).await;
    assert_eq!(made["spec"]["clusterIPs"], json!(["10.0.0.10"]));
    for (ip, message) in [
        ("10.0.0.10", "failed to allocate IP 10.0.0.10: provided IP is already allocated"),
        (
            "1.2.3.4",
            "failed to allocate IP 1.2.3.4: the provided network does not match the current range",
        ),
        (
            "10.0.0.255",
            "failed to allocate IP 10.0.0.255: the provided network does not match the current \
             range",
        ),
    ] {
        let (code, refused) = cluster.create("b", ask(ip)).await;
        let expected = format!(
            "Service \"b\" is invalid: spec.clusterIPs: Invalid value: [\"{ip}\"]: {message}"
        );
        assert_eq!((code, refused["message"].as_str().unwrap()), (422, expected.as_str()));
    }
    // A refused Service leaves nothing behind.
    let before = cluster.addresses().await;
    let (code, _) = cluster.create("a", ask("10.0.0.11")).await;
    assert_eq!((code, cluster.addresses().await), (409, before));
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dry_run_takes_nothing() {
    let cluster = super::start().await;
    // The server's own Service has its address first.
    let mut before = cluster.addresses().await;
    for _ in 0..1000 {
        if !before.is_empty() {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        before = cluster.addresses().await;
    }
    let path = format!("{SERVICES}?dryRun=All");
    let node_port = json!({"type": "NodePort", "ports": [{"port": 80}, {"port": 81, "name": "b"}]});
    let mut node_port = node_port;
    node_port["ports"][0]["name"] = "a".into();
    let (code, made) = cluster.request("POST", &path, Some(service("a", node_port))).await;
    assert_eq!(code, 201, "{made}");
    assert_eq!(made["spec"]["clusterIP"], "10.0.0.0");
    assert_eq!(made["spec"]["ports"][0]["nodePort"], 32769);
    assert_eq!(made["spec"]["ports"][1]["nodePort"], 32770);
    assert_eq!(cluster.addresses().await, before);
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn services_without_an_address_get_none() {
    let cluster = super::start().await;
    let before = cluster.addresses().await;
    for (name, spec, expected) in [
        (
            "headless",
            json!({"clusterIP": "None", "selector": {"a": "b"}}),
            json!({"clusterIP": "None", "clusterIPs": ["None"], "ipFamilies": ["IPv4"],
                "ipFamilyPolicy": "SingleStack"}),
        ),
        (
            "anybody",
            json!({"clusterIP": "None"}),
            json!({"clusterIP": "None", "clusterIPs": ["None"], "ipFamilies": ["IPv4", "IPv6"],
                "ipFamilyPolicy": "RequireDualStack"}),
        ),
        (
            "elsewhere",
            json!({"type": "ExternalName", "externalName": "example.com"}),
            json!({"clusterIP": null, "clusterIPs": null, "ipFamilies": null,
                "ipFamilyPolicy": null}),
        ),
    ] {
        let made = cluster.service(name, spec).await;
        for (field, value) in expected.as_object().unwrap() {
            assert_eq!(made["spec"].get(field).unwrap_or(&json!(null)), value, "{name} {field}");
        }
    }
    assert_eq!(cluster.addresses().await, before);
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn services_can_have_two_families() {
    let builder = Server::builder().flag("--service-cluster-ip-range=10.0.0.0/24,fd00:10::/108");
    let cluster = super::with(builder).await;
    let policy = |policy: &str| json!({"ipFamilyPolicy": policy, "ports": [{"port": 80}]});
    let made = cluster.service("two", policy("RequireDualStack")).await;
    assert_eq!(made["spec"]["ipFamilies"], json!(["IPv4", "IPv6"]));
    let ips = made["spec"]["clusterIPs"].as_array().unwrap();
    let taken = cluster.addresses().await;
    assert!(ips.iter().all(|ip| taken.iter().any(|taken| taken == ip)), "{ips:?} {taken:?}");

    // One family more, and less again.
    let one = cluster.service("one", plain()).await;
    assert_eq!(one["spec"]["clusterIPs"].as_array().unwrap().len(), 1);
    let (code, more) =
        cluster.patch("one", json!({"spec": {"ipFamilyPolicy": "PreferDualStack"}})).await;
    assert_eq!(code, 200, "{more}");
    let second = more["spec"]["clusterIPs"][1].as_str().unwrap().to_owned();
    assert_eq!(more["spec"]["clusterIPs"][0], one["spec"]["clusterIP"]);
    assert!(cluster.addresses().await.contains(&second));
    let (code, less) =
        cluster.patch("one", json!({"spec": {"ipFamilyPolicy": "SingleStack"}})).await;
    assert_eq!(code, 200, "{less}");
    assert_eq!(less["spec"]["clusterIPs"], one["spec"]["clusterIPs"]);
    assert!(!cluster.addresses().await.contains(&second));
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_network_gives_more_addresses() {
    let cluster = full().await;
    let network = json!({"metadata": {"name": "more"}, "spec": {"cidrs": ["192.168.7.0/24"]}});
    let (code, made) =
        cluster.request("POST", "/apis/networking.k8s.io/v1/servicecidrs", Some(network)).await;
    assert_eq!(code, 201, "{made}");
    let made = cluster.service("more", plain()).await;
    let ip = made["spec"]["clusterIP"].as_str().unwrap();
    assert!(ip.starts_with("192.168.7."), "{ip}");
    cluster.stop().await;
}
