//! The audit log of a running server.

#![allow(clippy::unwrap_used)]

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpListener;
use std::path::Path;
use std::sync::mpsc::{Receiver, channel};

use kevel::{Builder, Server};
use kevel_test_support::{Cluster, until};
use serde_json::{Value, json};

const POLICY: &str = "
apiVersion: audit.k8s.io/v1
kind: Policy
omitManagedFields: true
rules:
- {level: None, userGroups: ['system:nodes']}
- {level: None, users: ['system:apiserver']}
- {level: Metadata, resources: [{resources: [secrets]}]}
- {level: RequestResponse, namespaces: [audited], omitStages: [RequestReceived]}
- {level: Request, resources: [{resources: [namespaces]}], verbs: [create], omitStages: [RequestReceived]}
- {level: Metadata, nonResourceURLs: [/version]}
";

struct Audited {
    cluster: Cluster,
    folder: tempfile::TempDir,
}

impl Audited {
    async fn start(flags: impl FnOnce(Builder, &Path) -> Builder) -> Self {
        Audited::with(POLICY, flags).await
    }

    async fn with(policy: &str, flags: impl FnOnce(Builder, &Path) -> Builder) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let text = policy;
        let policy = folder.path().join("policy.yaml");
        std::fs::write(&policy, text).unwrap();
        let builder = Server::builder()
            // Only the test's requests are in the log.
            .flag("--controllers=")
            .flag(format!("--audit-policy-file={}", policy.display()))
            .flag(format!("--audit-log-path={}", folder.path().join("log/audit.log").display()));
        let cluster = Cluster::with(flags(builder, folder.path())).await;
        Audited { cluster, folder }
    }

    /// Waits until the server says that all its hooks are through.
    async fn healthy(&self) {
        until(async || self.ask("GET /healthz", &[], "").await == 200).await;
    }

    /// `POST /path`, headers, a body; the code of the answer.
    async fn ask(&self, line: &str, headers: &[(&str, &str)], body: impl AsRef<str>) -> u16 {
        self.cluster.send_with("admin", line, headers, body.as_ref()).await.0
    }

    async fn create(&self, path: &str, object: Value) {
        let json = [("content-type", "application/json")];
        assert_eq!(self.ask(&format!("POST {path}"), &json, object.to_string()).await, 201);
    }

    /// The lines of the log after the server's end.
    async fn stop(self) -> Vec<String> {
        self.cluster.stop().await;
        let text = std::fs::read_to_string(self.folder.path().join("log/audit.log")).unwrap();
        text.lines().map(str::to_owned).collect()
    }
}

fn config_map(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"a": "b"}})
}

/// Events without what differs from run to run.
fn events(lines: &[String]) -> Vec<Value> {
    let event = |line: &String| {
        let mut event: Value = serde_json::from_str(line).unwrap();
        for field in ["auditID", "requestReceivedTimestamp", "stageTimestamp"] {
            assert!(event[field].as_str().is_some_and(|text| !text.is_empty()), "{line}");
            event.as_object_mut().unwrap().remove(field);
        }
        event
    };
    lines.iter().map(event).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_are_kept_as_the_policy_says() {
    let audited = Audited::start(|builder, _| builder).await;
    let namespace =
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "audited"}});
    audited.create("/api/v1/namespaces", namespace).await;
    audited.create("/api/v1/namespaces/audited/configmaps", config_map("a")).await;
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"},
        "stringData": {"password": "hunter2"}});
    audited.create("/api/v1/namespaces/audited/secrets", secret).await;
    let apply = [("content-type", "application/apply-patch+yaml")];
    let uri = "/api/v1/namespaces/audited/configmaps/a";
    let patch = "{apiVersion: v1, kind: ConfigMap, metadata: {name: a}, data: {c: d}}";
    assert_eq!(audited.ask(&format!("PATCH {uri}?fieldManager=me"), &apply, patch).await, 200);
    assert_eq!(audited.ask("GET /api/v1/namespaces/audited/configmaps", &[], "").await, 200);
    assert_eq!(audited.ask("GET /api/v1/namespaces/audited/pods/none", &[], "").await, 404);
    let version = [
        ("audit-id", "mine"),
        ("user-agent", "test"),
        ("x-forwarded-for", "10.1.1.1"),
        ("impersonate-user", "jane"),
        ("impersonate-group", "system:authenticated"),
    ];
    assert_eq!(audited.ask("GET /version", &version, "").await, 200);
    audited.healthy().await;
    let lines = audited.stop().await;
    assert!(lines.iter().all(|line| !line.contains("hunter2") && !line.contains("managedFields")));
    let events = events(&lines);
    let told: Vec<String> = events
        .iter()
        .map(|event| {
            let text = |field: &str| event[field].as_str().unwrap_or_default();
            let reference = &event["objectRef"];
            format!(
                "{} {} {} {}/{} {}",
                text("level"),
                text("stage"),
                text("verb"),
                reference["resource"].as_str().unwrap_or(text("requestURI")),
                reference["name"].as_str().unwrap_or_default(),
                event["responseStatus"]["code"]
            )
        })
        .collect();
    assert_eq!(
        told,
        [
            "Request ResponseComplete create namespaces/audited 201",
            "RequestResponse ResponseComplete create configmaps/a 201",
            "Metadata RequestReceived create secrets/ null",
            "Metadata ResponseComplete create secrets/s 201",
            "RequestResponse ResponseComplete patch configmaps/a 200",
            "RequestResponse ResponseComplete list configmaps/ 200",
            "RequestResponse ResponseComplete get pods/none 404",
            "Metadata RequestReceived get /version/ null",
            "Metadata ResponseComplete get /version/ 200",
        ]
    );
    let find = |what: &dyn Fn(&Value) -> bool| events.iter().find(|event| what(event)).unwrap();
    let created = find(&|event| event["objectRef"]["name"] == "a" && event["verb"] == "create");
    assert_eq!(created["requestObject"], config_map("a"));
    let answer = &created["responseObject"];
    assert_eq!(answer["metadata"]["namespace"], "audited");
    assert!(answer["metadata"]["uid"].is_string());
    assert_eq!(created["annotations"]["authorization.k8s.io/decision"], "allow");
    assert_eq!(created["user"]["groups"], json!(["system:masters", "system:authenticated"]));
    let patched = find(&|event| event["verb"] == "patch");
    let patch = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"},
        "data": {"c": "d"}});
    assert_eq!(patched["requestObject"], patch);
    let listed = find(&|event| event["verb"] == "list");
    assert_eq!(listed["responseObject"]["kind"], "ConfigMapList");
    let items = listed["responseObject"]["items"].as_array().unwrap();
    assert!(items.iter().any(|item| item["metadata"]["name"] == "a"));
    let missing = find(&|event| event["objectRef"]["resource"] == "pods");
    let status = json!({"metadata": {}, "status": "Failure", "message": "pods \"none\" not found",
        "reason": "NotFound", "details": {"name": "none", "kind": "pods"}, "code": 404});
    assert_eq!(missing["responseStatus"], status);
    let secret = find(&|event| event["objectRef"]["name"] == "s");
    assert!(secret["requestObject"].is_null() && secret["responseObject"].is_null());
    let version =
        find(&|event| event["requestURI"] == "/version" && event["stage"] == "ResponseComplete");
    assert_eq!(version["impersonatedUser"]["username"], "jane");
    assert_eq!(version["userAgent"], "test");
    assert_eq!(version["sourceIPs"], json!(["10.1.1.1", "127.0.0.1"]));
    assert!(lines.iter().any(|line| line.contains(r#""auditID":"mine""#)));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_server_does_itself_is_kept_too() {
    let policy = "
apiVersion: audit.k8s.io/v1
kind: Policy
omitManagedFields: true
omitStages: [RequestReceived]
rules:
- {level: None, verbs: [get]}
- {level: RequestResponse, users: ['system:apiserver'], resources: [{resources: [namespaces]}]}
- {level: Metadata, userGroups: ['system:masters'], users: ['system:apiserver']}
";
    let audited = Audited::with(policy, |builder, _| builder).await;
    let ready = async || audited.ask("GET /api/v1/namespaces/kube-system", &[], "").await == 200;
    until(ready).await;
    let lines = audited.stop().await;
    let events = events(&lines);
    let find = |resource: &str, name: &str| {
        let is = |event: &&Value| {
            let object = &event["objectRef"];
            // Two may want to make it: one of them comes too late.
            (&object["resource"], &object["name"]) == (&json!(resource), &json!(name))
                && event["responseStatus"]["code"] == 201
        };
        events.iter().find(is).unwrap().clone()
    };
    let created = find("namespaces", "kube-system");
    assert_eq!(created["responseObject"]["status"]["phase"], "Active");
    assert_eq!(created["requestObject"]["kind"], "Namespace");
    let mut role = find("clusterroles", "cluster-admin");
    let uid = role["user"]["uid"].take();
    assert!(uid.as_str().is_some_and(|uid| uid.len() == 36), "{uid}");
    let agent = role["userAgent"].take();
    assert!(
        agent.as_str().is_some_and(|agent| agent.starts_with("kube-apiserver/v1.36.3")),
        "{agent}"
    );
    let expected = json!({
        "kind": "Event", "apiVersion": "audit.k8s.io/v1", "level": "Metadata",
        "stage": "ResponseComplete", "verb": "create",
        "requestURI": "/apis/rbac.authorization.k8s.io/v1/clusterroles",
        "user": {
            "username": "system:apiserver", "uid": null,
            "groups": ["system:authenticated", "system:masters"],
        },
        "sourceIPs": ["::1"],
        "userAgent": null,
        "objectRef": {
            "resource": "clusterroles", "name": "cluster-admin",
            "apiGroup": "rbac.authorization.k8s.io", "apiVersion": "v1",
        },
        "responseStatus": {"metadata": {}, "code": 201},
        "annotations": {"authorization.k8s.io/decision": "allow", "authorization.k8s.io/reason": ""},
    });
    assert_eq!(role, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_takes_long_is_told_by_its_phases() {
    // A webhook that takes its time to say who the bearer of a token is.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let server = format!("http://{}/", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut seen = Vec::new();
        // The end of a review.
        while !seen.ends_with(b"}}}") {
            let mut read = [0; 1024];
            let count = stream.read(&mut read).unwrap();
            seen.extend_from_slice(&read[..count]);
        }
        std::thread::sleep(std::time::Duration::from_millis(600));
        let review = json!({
            "apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview",
            "status": {"authenticated": true, "user": {"username": "jane", "groups": ["system:masters"]}},
        });
        let review = review.to_string();
        let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n";
        write!(stream, "{head}content-length: {}\r\n\r\n{review}", review.len()).unwrap();
    });
    let audited = Audited::start(|builder, folder| {
        let kubeconfig = folder.join("webhook.yaml");
        std::fs::write(&kubeconfig, kubeconfig_of(&server)).unwrap();
        builder
            .flag(format!("--authentication-token-webhook-config-file={}", kubeconfig.display()))
            .flag("--authentication-token-webhook-version=v1")
    })
    .await;
    assert_eq!(audited.cluster.bearer("slow").get("/version").await.0, 200);
    let lines = audited.stop().await;
    let events = events(&lines);
    let mut told = events.iter().filter(|event| event["user"]["username"] == "jane");
    let received = told.next().unwrap();
    assert!(received["annotations"].is_null(), "{received}");
    let annotations = &told.next().unwrap()["annotations"];
    for (phase, least) in [("total", 600.0), ("authentication", 600.0), ("authorization", 0.0)] {
        let time = annotations[format!("apiserver.latency.k8s.io/{phase}")].as_str().unwrap();
        let millis = match time.split_once("ms") {
            Some((millis, "")) => millis.parse().unwrap(),
            _ if time.ends_with("µs") => 0.0,
            _ => time.trim_end_matches('s').parse::<f64>().unwrap() * 1000.0,
        };
        assert!(millis >= least, "{phase}: {time}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batched_log_is_flushed_and_may_be_text() {
    let audited = Audited::start(|builder, _| {
        builder
            .flag("--audit-log-mode=batch")
            .flag("--audit-log-format=legacy")
            .flag("--audit-log-batch-max-size=100")
            .flag("--audit-log-batch-max-wait=1h")
    })
    .await;
    for _ in 0..10 {
        audited.ask("GET /version", &[("audit-id", "1")], "").await;
    }
    let lines = audited.stop().await;
    assert_eq!(lines.iter().filter(|line| line.contains("uri=\"/version\"")).count(), 20);
    let complete = |line: &&String| {
        line.contains("stage=\"ResponseComplete\"") && line.contains("uri=\"/version\"")
    };
    let line = lines.iter().find(complete).unwrap();
    let (_, line) = line.split_once(' ').unwrap();
    let start = r#"AUDIT: id="1" stage="ResponseComplete" ip="127.0.0.1" method="get" user=""#;
    assert!(line.starts_with(start), "{line}");
    assert!(line.ends_with(r#"namespace="<none>" uri="/version" response="200""#), "{line}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_log_is_moved_aside() {
    let audited = Audited::start(|builder, _| builder.flag("--audit-log-maxsize=1")).await;
    let agent = "x".repeat(1000);
    for _ in 0..500 {
        audited.ask("GET /version", &[("user-agent", &agent)], "").await;
    }
    audited.cluster.stop().await;
    let files = std::fs::read_dir(audited.folder.path().join("log")).unwrap();
    let mut names: Vec<String> =
        files.map(|file| file.unwrap().file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    let [old, current] = &names[..] else { panic!("{names:?}") };
    assert_eq!(current, "audit.log");
    assert!(old.starts_with("audit-20") && old.ends_with(".log"), "{old}");
}

fn kubeconfig_of(server: &str) -> String {
    format!(
        "{{clusters: [{{name: a, cluster: {{server: '{server}'}}}}], users: [], \
         contexts: [{{name: a, context: {{cluster: a}}}}], current-context: a}}"
    )
}

/// Takes one request after the other on one connection, and hands out their bodies.
fn receive(listener: TcpListener) -> Receiver<String> {
    let (sender, bodies) = channel();
    std::thread::spawn(move || {
        let (stream, _) = listener.accept().unwrap();
        let mut reader = BufReader::new(stream.try_clone().unwrap());
        loop {
            let mut length = 0;
            let mut line = String::new();
            while reader.read_line(&mut line).unwrap() > 0 && line != "\r\n" {
                if let Some(value) = line.strip_prefix("content-length: ") {
                    length = value.trim().parse().unwrap();
                }
                line.clear();
            }
            let mut body = vec![0; length];
            if line.is_empty() || reader.read_exact(&mut body).is_err() {
                return;
            }
            sender.send(String::from_utf8(body).unwrap()).unwrap();
            (&stream).write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").unwrap();
        }
    });
    bodies
}

#[tokio::test(flavor = "multi_thread")]
async fn events_go_to_a_webhook_too_in_lists() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let server = format!("http://{}/audit", listener.local_addr().unwrap());
    let bodies = receive(listener);
    let audited = Audited::start(|builder, folder| {
        let kubeconfig = folder.join("webhook.yaml");
        std::fs::write(&kubeconfig, kubeconfig_of(&server)).unwrap();
        builder
            .flag(format!("--audit-webhook-config-file={}", kubeconfig.display()))
            .flag("--audit-webhook-batch-max-wait=1h")
            .flag("--audit-webhook-batch-max-size=1000")
    })
    .await;
    for _ in 0..10 {
        audited.ask("GET /version", &[], "").await;
    }
    let logged = audited.stop().await;
    // What did not fill a batch is sent before the server is gone.
    let list: Value = serde_json::from_str(&bodies.try_recv().unwrap()).unwrap();
    assert_eq!(
        (&list["kind"], &list["apiVersion"]),
        (&json!("EventList"), &json!("audit.k8s.io/v1"))
    );
    assert_eq!(list["items"].as_array().unwrap().len(), logged.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_policy_keeps_the_server_from_starting() {
    let folder = tempfile::tempdir().unwrap();
    let policy = folder.path().join("policy.yaml");
    std::fs::write(&policy, "{apiVersion: audit.k8s.io/v1, kind: Policy}").unwrap();
    let flag = format!("--audit-policy-file={}", policy.display());
    let error = Server::builder().flag(flag).start().await.unwrap_err().to_string();
    let expected = "loading audit policy file: loaded illegal policy with 0 rules: from file ";
    assert_eq!(error, format!("{expected}{}", policy.display()));
}
