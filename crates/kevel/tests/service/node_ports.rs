use std::collections::HashSet;

use serde_json::json;

use super::{SERVICES, Services as _, typed};

#[tokio::test(flavor = "multi_thread")]
async fn ports_are_given_out_and_given_back() {
    let cluster = super::start().await;
    let made = cluster.service("a", typed("NodePort")).await;
    let port = made["spec"]["ports"][0]["nodePort"].as_i64().unwrap();
    assert!((30086..=32767).contains(&port), "{port}");
    let ask = |port: i64| json!({"type": "NodePort", "ports": [{"port": 80, "nodePort": port}]});
    let refused = |message: &str, port: i64| {
        format!(
            "Service \"b\" is invalid: spec.ports[0].nodePort: Invalid value: {port}: {message}"
        )
    };
    for (port, message) in [
        (port, "provided port is already allocated"),
        (1, "provided port is not in the valid range. The range of valid ports is 30000-32767"),
    ] {
        let (code, answer) = cluster.create("b", ask(port)).await;
        assert_eq!(code, 422);
        assert_eq!(answer["message"], refused(message, port));
    }
    cluster.admin.delete(&format!("{SERVICES}/a")).await;
    let made = cluster.service("b", ask(port)).await;
    assert_eq!(made["spec"]["ports"][0]["nodePort"], port);
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn ports_of_one_number_share_theirs() {
    let cluster = super::start().await;
    let spec = json!({"type": "LoadBalancer", "ports": [
        {"name": "tcp", "port": 53, "protocol": "TCP"},
        {"name": "udp", "port": 53, "protocol": "UDP"},
        {"name": "web", "port": 80, "nodePort": 30080},
    ]});
    let made = cluster.service("dns", spec).await;
    let ports = &made["spec"]["ports"];
    assert_eq!(ports[0]["nodePort"], ports[1]["nodePort"]);
    assert_eq!(ports[2]["nodePort"], 30080);
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn load_balancers_are_asked_for_their_health_at_a_port() {
    let cluster = super::start().await;
    let mut spec = typed("LoadBalancer");
    spec["externalTrafficPolicy"] = "Local".into();
    let made = cluster.service("a", spec.clone()).await;
    let health = made["spec"]["healthCheckNodePort"].as_i64().unwrap();
    assert!(health >= 30000);
    // It is taken like any other.
    spec["healthCheckNodePort"] = health.into();
    let (code, refused) = cluster.create("b", spec).await;
    assert_eq!(code, 500, "{refused}");
    assert_eq!(
        refused["message"],
        format!(
            "Internal error occurred: failed to allocate requested HealthCheck NodePort {health}: \
             provided port is already allocated"
        )
    );
    let (code, changed) =
        cluster.patch("a", json!({"spec": {"externalTrafficPolicy": "Cluster"}})).await;
    assert_eq!(code, 200, "{changed}");
    assert_eq!(changed["spec"].get("healthCheckNodePort"), None);
    let ask = json!({"type": "NodePort", "ports": [{"port": 80, "nodePort": health}]});
    cluster.service("c", ask).await;
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn services_made_at_the_same_time_get_a_port_each() {
    let cluster = super::start().await;
    let names: Vec<String> = (0..100).map(|number| format!("s{number}")).collect();
    let made = names.iter().map(|name| cluster.service(name, typed("NodePort")));
    let made = futures_util::future::join_all(made).await;
    let ports: HashSet<i64> =
        made.iter().map(|made| made["spec"]["ports"][0]["nodePort"].as_i64().unwrap()).collect();
    assert_eq!(ports.len(), 100);
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_range_of_ports_can_be_exhausted() {
    let builder = kevel::Server::builder().flag("--service-node-port-range=30000-30001");
    let cluster = super::with(builder).await;
    for name in ["a", "b"] {
        cluster.service(name, typed("NodePort")).await;
    }
    let before = cluster.addresses().await;
    let (code, refused) = cluster.create("c", typed("NodePort")).await;
    assert_eq!(
        (code, refused["message"].as_str().unwrap()),
        (500, "Internal error occurred: failed to allocate a nodePort: range is full")
    );
    // Nor does it keep the address that it got first.
    assert_eq!(cluster.addresses().await, before);
    cluster.stop().await;
}
