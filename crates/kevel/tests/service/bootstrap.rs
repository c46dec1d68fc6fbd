use kevel::Server;
use kevel_test_support::until;
use serde_json::{Value, json};

use super::Services as _;

const KUBERNETES: &str = "/api/v1/namespaces/default/services/kubernetes";
const ENDPOINTS: &str = "/api/v1/namespaces/default/endpoints/kubernetes";
const SLICE: &str = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/kubernetes";

#[tokio::test(flavor = "multi_thread")]
async fn pods_find_the_server_by_a_service() {
    let cluster = super::with(Server::builder().flag("--advertise-address=192.0.2.7")).await;
    until(async || cluster.request("GET", SLICE, None).await.0 == 200).await;
    let port = cluster.server.address().port();
    let service = cluster.get(KUBERNETES).await;
    assert_eq!(
        service["metadata"]["labels"],
        json!({"component": "apiserver", "provider": "kubernetes"})
    );
    assert_eq!(
        service["spec"],
        json!({
            "ports": [{"name": "https", "protocol": "TCP", "port": 443, "targetPort": port}],
            "clusterIP": "10.0.0.1", "clusterIPs": ["10.0.0.1"], "type": "ClusterIP",
            "sessionAffinity": "None", "ipFamilies": ["IPv4"], "ipFamilyPolicy": "SingleStack",
            "internalTrafficPolicy": "Cluster",
        })
    );
    let network = cluster.get("/apis/networking.k8s.io/v1/servicecidrs/kubernetes").await;
    assert_eq!(network["spec"], json!({"cidrs": ["10.0.0.0/24"]}));
    let condition = &network["status"]["conditions"][0];
    assert_eq!(
        (&condition["type"], &condition["status"], &condition["message"]),
        (&json!("Ready"), &json!("True"), &json!("Kubernetes default Service CIDR is ready"))
    );
    let endpoints = cluster.get(ENDPOINTS).await;
    let ports = json!([{"name": "https", "port": port, "protocol": "TCP"}]);
    assert_eq!(endpoints["subsets"], json!([{"addresses": [{"ip": "192.0.2.7"}], "ports": ports}]));
    assert_eq!(
        endpoints["metadata"]["labels"],
        json!({"endpointslice.kubernetes.io/skip-mirror": "true"})
    );
    let slice = cluster.get(SLICE).await;
    assert_eq!(slice["addressType"], "IPv4");
    assert_eq!(
        slice["endpoints"],
        json!([{"addresses": ["192.0.2.7"], "conditions": {"ready": true}}])
    );
    assert_eq!(slice["ports"], ports);
    assert_eq!(slice["metadata"]["labels"], json!({"kubernetes.io/service-name": "kubernetes"}));
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn name_and_address_of_the_kubernetes_service_are_reserved() {
    for _ in 0..5 {
        let cluster = super::with(Server::builder()).await;
        until(async || cluster.request("GET", "/readyz", None).await.0 == 200).await;
        assert_eq!(cluster.request("GET", KUBERNETES, None).await.0, 200);
        cluster.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_stops_takes_itself_off() {
    let directory = tempfile::tempdir().unwrap();
    let start = |flag: &str| {
        let builder = Server::builder().data_dir(directory.path());
        super::with(builder.flag(flag.to_owned()))
    };
    let cluster = start("--advertise-address=192.0.2.7").await;
    until(async || cluster.request("GET", SLICE, None).await.0 == 200).await;
    cluster.stop().await;
    // The next one keeps no endpoints, and so shows what the first one has left.
    let cluster = start("--endpoint-reconciler-type=none").await;
    assert_eq!(cluster.get(ENDPOINTS).await.get("subsets"), None);
    assert_eq!(cluster.get(SLICE).await["endpoints"], Value::Null);
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_service_can_have_a_node_port_and_no_endpoints() {
    let builder = Server::builder()
        .flag("--kubernetes-service-node-port=30443")
        .flag("--endpoint-reconciler-type=none");
    let cluster = super::with(builder).await;
    until(async || cluster.request("GET", KUBERNETES, None).await.0 == 200).await;
    let service = cluster.get(KUBERNETES).await;
    assert_eq!(service["spec"]["type"], "NodePort");
    assert_eq!(service["spec"]["ports"][0]["nodePort"], 30443);
    assert_eq!(cluster.request("GET", ENDPOINTS, None).await.0, 404);
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_server_is_not_ready_before_its_services_are() {
    let cluster = super::start().await;
    let request = http::Request::get("/readyz?verbose").body(Vec::new()).unwrap();
    let text = cluster.admin.0.request_text(request).await.unwrap();
    for hook in [
        "bootstrap-controller",
        "start-kubernetes-service-cidr-controller",
        "start-service-ip-repair-controllers",
    ] {
        assert!(text.contains(&format!("[+]poststarthook/{hook} ok")), "{text}");
    }
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_table_of_services_shows_where_they_are() {
    let cluster = super::start().await;
    let spec = json!({"type": "NodePort", "clusterIP": "10.0.0.9",
        "ports": [{"port": 80, "nodePort": 30080}]});
    cluster.service("web", spec).await;
    let request = http::Request::get("/api/v1/namespaces/test/services")
        .header("accept", "application/json;as=Table;v=v1;g=meta.k8s.io")
        .body(Vec::new())
        .unwrap();
    let table: Value = cluster.admin.0.request(request).await.unwrap();
    let cells = table["rows"][0]["cells"].as_array().unwrap();
    assert_eq!(
        cells[..5],
        [
            json!("web"),
            json!("NodePort"),
            json!("10.0.0.9"),
            json!("<none>"),
            json!("80:30080/TCP")
        ]
    );
    cluster.stop().await;
}
