//! A request for a resource that this server does not serve, and another one of the cluster does.

use kevel_store::Engine as _;
use kevel_store::etcd::{self, Etcd};
use kevel_test_support::{Ca, Client, Cluster, Relay, Replica, Replicas, soon, until, write_pair};
use kube::config::AuthInfo;
use serde_json::{Value, json};

const JOBS: &str = "/apis/batch/v1/namespaces/default/jobs";
const REVIEWS: &str = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases";
const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

/// Two servers, of which one does not serve some groups.
struct Pair {
    replicas: Replicas,
    /// Serves everything, and is reached by its peer through the relay.
    whole: Replica,
    relay: Relay,
    /// Serves neither jobs nor reviews.
    lacks: Replica,
}

impl Pair {
    async fn start() -> Option<Self> {
        let replicas = Replicas::new().await?;
        let folder = replicas.folder.path();
        let front = Ca::new("front-proxies");
        write_pair(folder, "front", &front.client("front"));
        std::fs::write(folder.join("front-ca.crt"), &front.pem).unwrap();
        std::fs::write(folder.join("tokens"), "jane,jane,7,\"dev,ops\"\n").unwrap();
        let file = |name: &str| folder.join(name).display().to_string();
        let flags = [
            format!("--requestheader-client-ca-file={}", file("front-ca.crt")),
            "--requestheader-allowed-names=front".to_owned(),
            "--requestheader-username-headers=X-Remote-User".to_owned(),
            "--requestheader-uid-headers=X-Remote-Uid".to_owned(),
            "--requestheader-group-headers=X-Remote-Group".to_owned(),
            "--requestheader-extra-headers-prefix=X-Remote-Extra-".to_owned(),
            format!("--proxy-client-cert-file={}", file("front.crt")),
            format!("--proxy-client-key-file={}", file("front.key")),
            format!("--peer-ca-file={}", file("pki/ca.crt")),
            format!("--token-auth-file={}", file("tokens")),
        ];
        let mut whole_flags: Vec<&str> = flags.iter().map(String::as_str).collect();
        let mut lacking_flags = whole_flags.clone();
        let relay = Relay::start().await;
        let port = format!("--peer-advertise-port={}", relay.port);
        whole_flags.extend(["--peer-advertise-ip=127.0.0.1", &port]);
        let off = "--runtime-config=batch/v1=false,authentication.k8s.io/v1=false";
        lacking_flags.push(off);
        let whole = replicas.start("whole", &whole_flags).await;
        relay.lead_to(vec![whole.server.address]);
        let lacks = replicas.start("lacks", &lacking_flags).await;
        until(async || lacks.admin.get(JOBS).await.0 == 200).await;
        Some(Pair { replicas, whole, relay, lacks })
    }

    async fn stop(self) {
        self.lacks.stop().await;
        self.whole.stop().await;
    }

    /// Jane, who may do what everybody may.
    fn jane(&self) -> Client {
        let mut config = self.lacks.config.clone();
        config.auth_info =
            AuthInfo { token: Some("jane".to_owned().into()), ..AuthInfo::default() };
        Client(kube::Client::try_from(config).unwrap())
    }

    /// Store of both servers.
    async fn store(&self) -> Etcd {
        let endpoints = vec![self.replicas.etcd.endpoint.clone()];
        let options = etcd::Options { endpoints, compaction_interval: None, ..Default::default() };
        Etcd::connect(options).await.unwrap()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_peer_answers_for_what_is_not_served_here() {
    let Some(pair) = Pair::start().await else { return };
    let template =
        json!({"spec": {"restartPolicy": "Never", "containers": [{"name": "a", "image": "a"}]}});
    let job = json!({"metadata": {"name": "a"}, "spec": {"template": template}});
    let made = pair.lacks.admin.create(JOBS, &job).await;
    let found = pair.whole.admin.get(&format!("{JOBS}/a")).await.1;
    assert_eq!(found["metadata"]["uid"], made["metadata"]["uid"]);
    // A watch goes on for as long as it is asked to.
    let path = format!("{JOBS}?watch=1&timeoutSeconds=1&resourceVersion=0");
    let events = soon(pair.lacks.admin.raw("GET", &path, &[], "")).await.into_body();
    assert!(events.contains(r#""type":"ADDED""#), "{events}");
    // A resource without any server is not found, and a peer's refusal is passed on.
    assert_eq!(pair.lacks.admin.get("/apis/batch/v9/jobs").await.0, 404);
    let (code, refused) = pair.lacks.admin.post(JOBS, &json!({"metadata": {"name": "a"}})).await;
    assert_eq!(code, 422, "{refused}");
    let metrics = pair.lacks.admin.raw("GET", "/metrics", &[], "").await.into_body();
    let rerouted = r#"apiserver_rerouted_request_total{code="201",group="batch",resource="jobs",version="v1"} 1"#;
    assert!(metrics.contains(rerouted), "{}", lines(&metrics, "rerouted"));
    let asked = r#"apiserver_rerouted_request_total{code="200",group="",resource="",version=""}"#;
    assert!(metrics.contains(asked), "{}", lines(&metrics, "rerouted"));
    pair.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_request_is_passed_on_as_who_asked_and_once() {
    let Some(pair) = Pair::start().await else { return };
    let jane = pair.jane();
    let who = jane.whoami(&[]).await.unwrap();
    let expected = json!({
        "username": "jane", "uid": "7", "groups": ["dev", "ops", "system:authenticated"],
    });
    assert_eq!(without_extra(&who), expected);
    let forged = [
        ("x-remote-user", "admin"),
        ("x-remote-uid", "0"),
        ("x-remote-group", "system:masters"),
        ("x-remote-extra-a", "b"),
        ("x-kubernetes-peer-proxied", "false"),
    ];
    assert_eq!(jane.whoami(&forged).await.unwrap(), who);
    let impersonated = pair.lacks.admin.whoami(&[("impersonate-user", "joe")]).await.unwrap();
    assert_eq!(impersonated["username"], "joe");
    assert_eq!(impersonated["groups"], json!(["system:authenticated"]));
    // What was passed on is answered where it arrives.
    let passed_on = [("x-kubernetes-peer-proxied", "true")];
    let (code, answer) = pair.lacks.admin.send("POST", REVIEWS, &passed_on, "{}").await;
    assert_eq!((code, answer.as_str().unwrap_or_default()), (404, "404 page not found\n"));
    // Who may not do it is not passed on.
    let (code, refused) = jane.get(JOBS).await;
    assert_eq!(code, 403, "{refused}");
    pair.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn discovery_tells_of_what_peers_serve() {
    let Some(pair) = Pair::start().await else { return };
    let serves_jobs = async |accept: &str| {
        let headers = [("accept", accept)];
        let (code, list) = pair.lacks.admin.send("GET", "/apis", &headers, "").await;
        assert_eq!(code, 200, "{list}");
        let groups = list["items"].as_array().unwrap();
        groups.iter().any(|group| group["metadata"]["name"] == "batch")
    };
    assert!(serves_jobs(AGGREGATED).await);
    assert!(!serves_jobs(&format!("{AGGREGATED};profile=nopeer")).await);
    let metrics = pair.lacks.admin.raw("GET", "/metrics", &[], "").await.into_body();
    assert!(metrics.contains("aggregator_discovery_nopeer_requests_total 1"));
    assert!(metrics.contains("aggregator_discovery_peer_aggregated_cache_misses_total"));
    // Both servers answer the same.
    let of = async |server: &Replica| {
        let headers = [("accept", AGGREGATED)];
        server.admin.send("GET", "/apis", &headers, "").await.1
    };
    until(async || of(&pair.lacks).await == of(&pair.whole).await).await;
    // A server that stops says so, and is not asked any more.
    let Pair { whole, lacks, relay: _relay, replicas: _replicas } = pair;
    whole.stop().await;
    until(async || lacks.admin.get(JOBS).await.0 == 404).await;
    lacks.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_peer_that_cannot_be_reached_is_unavailable() {
    let Some(mut pair) = Pair::start().await else { return };
    let (code, lease) = pair
        .whole
        .admin
        .get(&format!("{LEASES}?labelSelector=kubernetes.io/hostname%3Dwhole"))
        .await;
    assert_eq!(code, 200, "{lease}");
    let address = format!("127.0.0.1:{}", pair.relay.port);
    let annotations = &lease["items"][0]["metadata"]["annotations"];
    assert_eq!(annotations["kubernetes.io/peer-advertise-address"], address);
    let id = lease["items"][0]["metadata"]["name"].as_str().unwrap();
    let key = format!("/registry/peerserverleases/{id}").into_bytes();
    let store = pair.store().await;
    let entry = store.get(&key, None).await.unwrap().entry.unwrap();
    let text = String::from_utf8_lossy(&entry.value).into_owned();
    assert!(text.contains("apiserverIdentity") && text.contains(id), "{text}");

    pair.relay = Relay::start().await;
    let expected =
        format!("error trying to reach service: dial tcp {address}: connect: connection refused\n");
    // A connection that was kept may be found broken first.
    until(async || {
        let answer = pair.lacks.admin.raw("GET", JOBS, &[], "").await;
        assert_eq!(answer.status(), 503, "{}", answer.body());
        *answer.body() == expected
    })
    .await;
    // One that has not said where it is for a while.
    until(async || {
        let entry = store.get(&key, None).await.unwrap().entry;
        if let Some(entry) = entry {
            let _ = store.delete(&key, entry.mod_revision).await;
        }
        let (code, status) = pair.lacks.admin.get(JOBS).await;
        assert_eq!(code, 503, "{status}");
        let why = "Error getting ip and port info of the remote server while proxying";
        status["message"] == why && status["reason"] == "ServiceUnavailable"
    })
    .await;
    let metrics = pair.lacks.admin.raw("GET", "/metrics", &[], "").await.into_body();
    let failed = r#"apiserver_peer_proxy_errors_total{group="batch",resource="jobs",type="endpoint_resolution",version="v1"}"#;
    assert!(metrics.contains(failed), "{}", lines(&metrics, "peer_proxy"));
    pair.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_the_gate_servers_have_no_peers() {
    for (gate, expected) in [(true, 1), (false, 0)] {
        let gate = format!("--feature-gates=UnknownVersionInteroperabilityProxy={gate}");
        let cluster = Cluster::start(&[&gate]).await;
        let ready = cluster.admin.raw("GET", "/readyz?verbose", &[], "").await.into_body();
        let hook = "[+]poststarthook/peer-endpoint-reconciler-controller ok";
        assert_eq!(ready.matches(hook).count(), expected, "{ready}");
        let counted = "# TYPE aggregator_discovery_nopeer_requests_total";
        assert_eq!(cluster.metrics().await.matches(counted).count(), expected);
        cluster.stop().await;
    }
}

fn without_extra(user: &Value) -> Value {
    let mut user = user.clone();
    user.as_object_mut().unwrap().remove("extra");
    user
}

fn lines(metrics: &str, word: &str) -> String {
    metrics.lines().filter(|line| line.contains(word)).collect::<Vec<_>>().join("\n")
}
