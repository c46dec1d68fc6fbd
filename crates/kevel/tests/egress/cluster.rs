//! Kubelets, pods and services behind a proxy.

use kevel_streaming::channel::STDIN;
use kevel_test_support::{soon, until};
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::extension_server::{ExtensionServer, GROUP, PATH};
use super::hook_server::{Answer, HookServer, base64};
use super::proxy::Way;
use super::{Behind, PODS, backend, start};

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// Metric labels of a proxy protocol and transport.
fn labels(way: Way) -> &'static str {
    match way {
        Way::Tcp | Way::Tls => r#"protocol="http_connect",transport="tcp""#,
        Way::Uds => r#"protocol="http_connect",transport="uds""#,
        Way::Grpc => r#"protocol="grpc",transport="uds""#,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn everything_goes_over_tcp() {
    everything(Way::Tcp).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn everything_goes_over_tls() {
    everything(Way::Tls).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn everything_goes_over_a_unix_socket() {
    everything(Way::Uds).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn everything_goes_over_grpc() {
    everything(Way::Grpc).await;
}

async fn everything(way: Way) {
    let behind = start(way).await;
    kubelets(&behind).await;
    pods(&behind).await;
    aggregated(&behind).await;
    webhooks(&behind).await;
    conversions(&behind).await;
    let series = |name: &str| format!("apiserver_egress_dialer_{name}{{{}}}", labels(way));
    let started = behind.metric(&series("dial_start_total")).await;
    let took = behind.metric(&series("dial_duration_seconds_count")).await;
    assert!(started >= 5.0 && took >= 5.0, "{started} {took}");
    behind.cluster.stop().await;
    until(async || behind.proxy.connections() == 0).await;
}

async fn kubelets(behind: &Behind) {
    let address = behind.kubelet_address();
    assert_eq!(behind.log().await, (200, "/containerLogs/default/p/c\n".to_owned()));
    assert_eq!(behind.exec("command=echo&command=hello", b"").await, b"hello\n");
    // As much as fills every buffer on the way, several times.
    let sent: Vec<u8> = (0..2_000_000_u32).map(|number| number as u8).collect();
    let heard = behind.exec("command=cat", &sent).await;
    assert!(heard == sent, "{} bytes of {}", heard.len(), sent.len());
    assert!(behind.proxy.asked(&address) >= 3);
}

async fn pods(behind: &Behind) {
    let address = backend::start([127, 0, 0, 1].into()).await;
    let (ip, port) = ("192.0.2.3", address.port());
    behind.proxy.route(&format!("{ip}:{port}"), address);
    let status = json!({"status": {"podIP": ip, "podIPs": [{"ip": ip}]}}).to_string();
    behind.cluster.ok("admin", &format!("PATCH {PODS}/p/status"), &status).await;
    let path = format!("{PODS}/p:{port}/proxy");
    let answer = soon(behind.cluster.admin.raw("GET", &format!("{path}/x"), &[], "")).await;
    assert_eq!(answer.status(), 203, "{}", answer.body());
    // One that goes on in another protocol.
    let mut client = behind.cluster.connect().await;
    let upgrade = "connection: upgrade\r\nupgrade: next\r\n";
    let request = format!("GET {path}/talk HTTP/1.1\r\nhost: k\r\n{upgrade}\r\n");
    client.write_all(request.as_bytes()).await.unwrap();
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(soon(client.read_u8()).await.unwrap());
    }
    assert!(head.starts_with(b"HTTP/1.1 101 "), "{}", String::from_utf8_lossy(&head));
    client.write_all(b"a").await.unwrap();
    assert_eq!(soon(client.read_u8()).await.unwrap(), b'b');
    assert!(behind.proxy.asked(&format!("{ip}:{port}")) >= 2);
}

async fn aggregated(behind: &Behind) {
    let front_proxy = behind.cluster.folder.path().join("front-proxy.crt");
    let front_proxy = std::fs::read_to_string(front_proxy).unwrap();
    let extension = ExtensionServer::start("wardle", &front_proxy, true, 0).await;
    let (ip, port) = ("192.0.2.1", extension.address.port());
    behind.proxy.route(&format!("{ip}:{port}"), extension.address);
    behind.create_service("wardle", ip, port).await;
    let service = json!({
        "metadata": {"name": format!("v1alpha1.{GROUP}")},
        "spec": {
            "group": GROUP, "version": "v1alpha1", "groupPriorityMinimum": 2000, "versionPriority": 200,
            "service": {"namespace": "default", "name": "wardle"}, "caBundle": base64(&extension.ca),
        },
    });
    behind.cluster.admin.create("/apis/apiregistration.k8s.io/v1/apiservices", &service).await;
    let path = format!("GET {PATH}/namespaces/default/flunders");
    let (_, list) = behind.cluster.until_sent("admin", &path, "", |(code, _)| *code == 200).await;
    assert!(list.contains("FlunderList"), "{list}");
    let mut client = behind.cluster.connect().await;
    let upgrade = "connection: upgrade\r\nupgrade: next\r\n";
    let request = format!("GET {PATH}/talk HTTP/1.1\r\nhost: k\r\n{upgrade}\r\n");
    client.write_all(request.as_bytes()).await.unwrap();
    let mut heard = Vec::new();
    while !heard.ends_with(b"\n") || !String::from_utf8_lossy(&heard).contains("hello ") {
        heard.push(soon(client.read_u8()).await.unwrap());
    }
    assert!(behind.proxy.asked(&format!("{ip}:{port}")) >= 2);
}

async fn webhooks(behind: &Behind) {
    let hooks = HookServer::named("hook.default.svc", None).await;
    hooks.on("/deny", |_| Answer::Response(json!({"allowed": false, "status": {"message": "no"}})));
    let (ip, port) = ("192.0.2.2", hooks.address.port());
    behind.proxy.route(&format!("{ip}:{port}"), hooks.address);
    behind.create_service("hook", ip, port).await;
    let service = json!({"namespace": "default", "name": "hook", "path": "/deny"});
    let configuration = json!({
        "metadata": {"name": "hook"},
        "webhooks": [{
            "name": "deny.hook.test", "sideEffects": "None", "admissionReviewVersions": ["v1"],
            "clientConfig": {"service": service, "caBundle": base64(&hooks.ca.pem)},
            "rules": [{"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"],
                "resources": ["configmaps"]}],
        }],
    });
    let path = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";
    behind.cluster.admin.create(path, &configuration).await;
    let post = format!("POST {CONFIG_MAPS}?dryRun=All");
    let denied = |(_, text): &(u16, String)| text.contains("denied the request: no");
    behind.cluster.until_sent("admin", &post, r#"{"metadata":{"name":"o"}}"#, denied).await;
    assert!(behind.proxy.asked(&format!("{ip}:{port}")) >= 1);
}

async fn conversions(behind: &Behind) {
    let hooks = HookServer::named("convert.default.svc", None).await;
    hooks.on("/convert", |review| {
        let mut objects = review["request"]["objects"].clone();
        for object in objects.as_array_mut().unwrap() {
            object["apiVersion"] = review["request"]["desiredAPIVersion"].clone();
        }
        let result = json!({"status": "Success"});
        Answer::Response(json!({"result": result, "convertedObjects": objects}))
    });
    let (ip, port) = ("192.0.2.4", hooks.address.port());
    behind.proxy.route(&format!("{ip}:{port}"), hooks.address);
    behind.create_service("convert", ip, port).await;
    let version = |name: &str, storage: bool| {
        let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
        json!({"name": name, "served": true, "storage": storage, "schema": {"openAPIV3Schema": schema}})
    };
    let service = json!({"namespace": "default", "name": "convert", "path": "/convert"});
    let client_config = json!({"service": service, "caBundle": base64(&hooks.ca.pem)});
    let definition = json!({
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com", "scope": "Cluster",
            "names": {"plural": "widgets", "singular": "widget", "kind": "Widget"},
            "versions": [version("v1", true), version("v2", false)],
            "conversion": {"strategy": "Webhook", "webhook": {
                "clientConfig": client_config, "conversionReviewVersions": ["v1"],
            }},
        },
    });
    let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    behind.cluster.admin.create(path, &definition).await;
    let widget = r#"{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"w"}}"#;
    let post = "POST /apis/example.com/v1/widgets";
    behind.cluster.until_sent("admin", post, widget, |(code, _)| *code == 201).await;
    let read = behind.cluster.ok("admin", "GET /apis/example.com/v2/widgets/w", "").await;
    assert_eq!(read["apiVersion"], "example.com/v2");
    assert!(behind.proxy.asked(&format!("{ip}:{port}")) >= 1);
}

/// A connection that breaks on either side leaves nothing behind.
#[tokio::test(flavor = "multi_thread")]
async fn nothing_stays_of_who_goes_in_the_middle() {
    for way in [Way::Tls, Way::Grpc] {
        let behind = start(way).await;
        let mut running = Vec::new();
        for _ in 0..5 {
            let mut command = behind.begin_exec("command=cat").await;
            command.say(STDIN, b"x").await.unwrap();
            soon(command.converse(b"", |heard| !heard[1].is_empty())).await.unwrap();
            running.push(command);
        }
        until(async || behind.kubelet.connections() == 5).await;
        drop(running);
        until(async || behind.kubelet.connections() == 0).await;
        until(async || behind.proxy.connections() == 0).await;
        // The kubelet goes.
        let mut command = behind.begin_exec("command=cat").await;
        command.say(STDIN, b"x").await.unwrap();
        soon(command.converse(b"", |heard| !heard[1].is_empty())).await.unwrap();
        behind.kubelet.disconnect();
        soon(command.converse(b"", |_| false)).await.unwrap();
        until(async || behind.proxy.connections() == 0).await;
        behind.cluster.stop().await;
    }
}

/// A proxy server would let everybody behind the same agent wait for who does not read.
#[tokio::test(flavor = "multi_thread")]
async fn who_does_not_read_from_a_tunnel_is_left() {
    let behind = start(Way::Grpc).await;
    let endless = behind.begin_exec("command=yes&command=1000000000").await;
    until(async || behind.kubelet.connections() == 1).await;
    until(async || behind.kubelet.connections() == 0).await;
    until(async || behind.proxy.connections() == 0).await;
    drop(endless);
    assert_eq!(behind.log().await.0, 200);
    behind.cluster.stop().await;
}
