//! Repair of allocations that a stopped server left behind.

use kevel::Server;
use kevel_store::Engine as _;
use kevel_store::embedded::{Embedded, Options};
use kevel_test_support::until;
use serde_json::json;

use super::{SERVICES, Services as _, plain, typed};

const ADDRESSES: &str = "/apis/networking.k8s.io/v1/ipaddresses";

#[tokio::test(flavor = "multi_thread")]
async fn an_address_that_is_missing_is_made_again() {
    let cluster = super::start().await;
    let made = cluster.service("a", plain()).await;
    let ip: String = made["spec"]["clusterIP"].as_str().unwrap().into();
    let before = cluster.get(&format!("{ADDRESSES}/{ip}")).await;
    cluster.admin.delete(&format!("{ADDRESSES}/{ip}")).await;
    // Nothing tells the repair about it but the next change of the Service.
    let (code, _) = cluster.patch("a", json!({"metadata": {"labels": {"a": "b"}}})).await;
    assert_eq!(code, 200);
    until(async || cluster.addresses().await.contains(&ip)).await;
    let after = cluster.get(&format!("{ADDRESSES}/{ip}")).await;
    assert_eq!(after["spec"], before["spec"]);
    assert_ne!(after["metadata"]["uid"], before["metadata"]["uid"]);
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_address_that_a_service_does_not_have_goes() {
    let cluster = super::start().await;
    let labels = json!({
        "ipaddress.kubernetes.io/ip-family": "IPv4",
        "ipaddress.kubernetes.io/managed-by": "ipallocator.k8s.io",
    });
    // Values of the allocator, and other clients' changes of them.
    let strange = json!({
        "metadata": {"name": "10.0.0.77", "labels": labels},
        "spec": {"parentRef": {"group": "example.com", "resource": "gateways", "name": "g"}},
    });
    let (code, made) = cluster.request("POST", ADDRESSES, Some(strange)).await;
    assert_eq!(code, 201, "{made}");
    until(async || !cluster.addresses().await.contains(&"10.0.0.77".into())).await;
    cluster.stop().await;
}

/// A late release by one server must not take an address that another has repaired and assigned since.
#[tokio::test(flavor = "multi_thread")]
async fn an_address_that_is_another_services_is_not_given_back() {
    let cluster = super::start().await;
    let made = cluster.service("a", plain()).await;
    let path = format!("{ADDRESSES}/{}", made["spec"]["clusterIP"].as_str().unwrap());
    let mut address = cluster.get(&path).await;
    cluster.admin.delete(&path).await;
    address["metadata"] =
        json!({"name": address["metadata"]["name"], "labels": address["metadata"]["labels"]});
    address["spec"]["parentRef"]["name"] = "b".into();
    let taken = cluster.admin.create(ADDRESSES, &address).await;
    cluster.admin.delete(&format!("{SERVICES}/a")).await;
    assert_eq!(cluster.get(&path).await["metadata"]["uid"], taken["metadata"]["uid"]);
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn addresses_and_ports_survive_a_restart() {
    let directory = tempfile::tempdir().unwrap();
    let start = || super::with(Server::builder().data_dir(directory.path()));
    let cluster = start().await;
    let made = cluster.service("a", typed("NodePort")).await;
    let ip: String = made["spec"]["clusterIP"].as_str().unwrap().into();
    let port = made["spec"]["ports"][0]["nodePort"].clone();
    cluster.stop().await;
    let cluster = start().await;
    assert!(cluster.addresses().await.contains(&ip));
    let ask = json!({"type": "NodePort", "ports": [{"port": 80, "nodePort": port}]});
    let (code, refused) = cluster.create("b", ask).await;
    assert_eq!(code, 422, "{refused}");
    cluster.stop().await;
}

/// A server that is killed between taking an address and writing its Service leaves one without the
/// other; so does one that is killed between deleting a Service and giving its address back.
#[tokio::test(flavor = "multi_thread")]
async fn next_start_repairs_allocations_of_a_killed_server() {
    let directory = tempfile::tempdir().unwrap();
    let start = || super::with(Server::builder().data_dir(directory.path()));
    let cluster = start().await;
    let made = cluster.service("a", plain()).await;
    let ip: String = made["spec"]["clusterIP"].as_str().unwrap().into();
    let mut orphan = cluster.get(&format!("{ADDRESSES}/{ip}")).await;
    cluster.stop().await;

    let store = Embedded::open(&directory.path().join("db"), Options::default()).unwrap();
    let key = |ip: &str| format!("/registry/ipaddresses/{ip}").into_bytes();
    let entry = store.get(&key(&ip), None).await.unwrap().entry.unwrap();
    store.delete(&key(&ip), entry.mod_revision).await.unwrap();
    orphan["metadata"]["name"] = "10.0.0.99".into();
    orphan["metadata"]["creationTimestamp"] = "2020-01-01T00:00:00Z".into();
    orphan["metadata"].as_object_mut().unwrap().remove("resourceVersion");
    orphan["spec"]["parentRef"]["name"] = "never-written".into();
    store.create(&key("10.0.0.99"), orphan.to_string().into(), None).await.unwrap();
    store.close().await;
    drop(store);

    let cluster = start().await;
    // The server is not ready before.
    let addresses = cluster.addresses().await;
    assert!(addresses.contains(&ip), "{addresses:?}");
    assert!(!addresses.contains(&"10.0.0.99".into()), "{addresses:?}");
    cluster.stop().await;
}

/// A wider range keeps the ports that are taken.
#[tokio::test(flavor = "multi_thread")]
async fn the_range_of_ports_can_change() {
    let directory = tempfile::tempdir().unwrap();
    let start = |range: &str| {
        let builder = Server::builder().data_dir(directory.path());
        super::with(builder.flag(format!("--service-node-port-range={range}")))
    };
    let cluster = start("30000-30010").await;
    let made = cluster.service("a", typed("NodePort")).await;
    let port = made["spec"]["ports"][0]["nodePort"].clone();
    cluster.stop().await;
    let cluster = start("29000-31000").await;
    let ask = |port: &serde_json::Value| json!({"type": "NodePort", "ports": [{"port": 80, "nodePort": port}]});
    let (code, refused) = cluster.create("b", ask(&port)).await;
    assert_eq!(code, 422, "{refused}");
    cluster.service("c", ask(&29000.into())).await;
    cluster.stop().await;
}
