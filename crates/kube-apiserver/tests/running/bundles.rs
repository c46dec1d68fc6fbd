//! CA bundles with certificates that cannot sign: the log names them when they are loaded, once for each change.

use std::fs;

use http::{Method, StatusCode};
use kevel_test_support::trust::rows;
use kevel_test_support::until;
use serde_json::{Value, json};

use crate::Server;
use crate::client::{Client, Version, read, request};

const MESSAGE: &str = "A certificate of the bundle cannot sign others";
/// Rows with an anchor that has expired and one that may not sign, and the names of these.
const EXPIRED: (&str, &str) = ("anchor-expired", "old");
const NO_CERT_SIGN: (&str, &str) = ("anchor-no-cert-sign", "encipher");

fn bundle((name, _): (&str, &str)) -> String {
    rows().into_iter().find(|row| row.name == name).unwrap().roots
}

/// Number of lines about an anchor in the bundle of a file or object.
fn said(server: &Server, source: &str, (_, subject): (&str, &str)) -> usize {
    let log = server.log();
    let lines = log.lines().filter(|line| line.contains(MESSAGE) && line.contains(source));
    lines.filter(|line| line.contains(&format!("subject=\"{subject}\""))).count()
}

async fn send(client: &mut Client, method: Method, path: &str, object: &Value) {
    let patch = method == Method::PATCH;
    let mut request = request(method, path, object.to_string());
    if patch {
        let merge = "application/merge-patch+json".parse().unwrap();
        request.headers_mut().insert("content-type", merge);
    }
    let answer = client.send(request).await.unwrap();
    let code = answer.status();
    let text = read(answer).await.unwrap();
    assert!(code.is_success(), "{path}: {code} {}", String::from_utf8_lossy(&text));
}

/// Object with a bundle: its place, its name in the log, and itself with another bundle.
struct Holder {
    collection: &'static str,
    source: String,
    name: &'static str,
    object: Value,
    with: fn(&str) -> Value,
}

fn webhook(bundle: &str) -> Value {
    json!({"webhooks": [{
        "name": "a.bundle.test",
        "clientConfig": {"url": "https://localhost:1/", "caBundle": bundle},
        "rules": [{"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"],
            "resources": ["events"]}],
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "failurePolicy": "Ignore",
    }]})
}

fn api_service(bundle: &str) -> Value {
    json!({"spec": {"group": "bundle.test", "version": "v1", "groupPriorityMinimum": 1,
        "versionPriority": 1, "caBundle": bundle,
        "service": {"namespace": "default", "name": "nowhere"}}})
}

fn definition(bundle: &str) -> Value {
    let version = |name: &str, storage: bool| {
        json!({"name": name, "served": true, "storage": storage,
            "schema": {"openAPIV3Schema": {"type": "object"}}})
    };
    json!({"spec": {
        "group": "example.com", "scope": "Namespaced",
        "names": {"plural": "widgets", "kind": "Widget"},
        "versions": [version("v1", true), version("v2", false)],
        "conversion": {"strategy": "Webhook", "webhook": {
            "conversionReviewVersions": ["v1"],
            "clientConfig": {"url": "https://localhost:1/", "caBundle": bundle},
        }},
    }})
}

fn holders(bundle: &str) -> Vec<Holder> {
    type Make = fn(&str) -> Value;
    let all: [(_, _, _, Make); 4] = [
        (
            "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations",
            "MutatingWebhookConfiguration",
            "mutates",
            webhook,
        ),
        (
            "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations",
            "ValidatingWebhookConfiguration",
            "validates",
            webhook,
        ),
        (
            "/apis/apiregistration.k8s.io/v1/apiservices",
            "APIService",
            "v1.bundle.test",
            api_service,
        ),
        (
            "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
            "CustomResourceDefinition",
            "widgets.example.com",
            definition,
        ),
    ];
    let holder = |(collection, kind, name, with): (_, &str, &'static str, fn(&str) -> Value)| {
        let mut object = with(bundle);
        object["metadata"] = json!({"name": name});
        Holder { collection, source: format!("{kind} {name}"), name, object, with }
    };
    all.map(holder).into()
}

#[tokio::test]
async fn bundles_of_objects_are_said_once_for_each_change() {
    let server = Server::start(&["--storage=memory"]).await;
    let mut client = Client::connect(server.port, &server.tls, Version::Http1).await.unwrap();
    let encoded = |row| kevel_codec::base64::encode(bundle(row).as_bytes()).to_string();
    for holder in holders(&encoded(EXPIRED)) {
        let Holder { collection, source, name, object, with } = holder;
        send(&mut client, Method::POST, collection, &object).await;
        until(async || said(&server, &source, EXPIRED) == 1).await;
        // Changes of something else say nothing, and neither do requests.
        let path = format!("{collection}/{name}");
        let label = json!({"metadata": {"labels": {"a": "b"}}});
        send(&mut client, Method::PATCH, &path, &label).await;
        let event = json!({"metadata": {"generateName": "e"}, "involvedObject":
            {"namespace": "default"}});
        send(&mut client, Method::POST, "/api/v1/namespaces/default/events", &event).await;
        send(&mut client, Method::PATCH, &path, &with(&encoded(NO_CERT_SIGN))).await;
        until(async || said(&server, &source, NO_CERT_SIGN) == 1).await;
        assert_eq!(said(&server, &source, EXPIRED), 1, "{source}\n{}", server.log());
    }
}

#[tokio::test]
async fn bundles_of_files_are_said_when_loaded_again() {
    let folder = Server::start(&["--storage=memory"]).await.kill().await;
    let own = fs::read_to_string(folder.path().join("data/pki/ca.crt")).unwrap();
    let files = ["clients.crt", "proxies.crt"].map(|name| folder.path().join(name));
    let write = |more: &str| {
        files.iter().for_each(|file| fs::write(file, format!("{own}{more}")).unwrap());
    };
    write("");
    let flags = [
        "--storage=memory",
        &format!("--client-ca-file={}", files[0].display()),
        &format!("--requestheader-client-ca-file={}", files[1].display()),
        "--requestheader-allowed-names=proxy",
    ];
    let server = Server::start_on(folder, &flags).await;
    assert!(!server.log().contains(MESSAGE), "{}", server.log());
    let ask = async || {
        // A new connection each time: bundles are looked at when clients show certificates.
        let mut client = Client::connect(server.port, &server.tls, Version::Http1).await.unwrap();
        let code = client.get("/api/v1/namespaces").await.unwrap().status();
        assert_eq!(code, StatusCode::OK);
    };
    for row in [EXPIRED, NO_CERT_SIGN] {
        write(&bundle(row));
        for name in ["clients.crt", "proxies.crt"] {
            until(async || {
                ask().await;
                said(&server, name, row) == 1
            })
            .await;
        }
    }
    for name in ["clients.crt", "proxies.crt"] {
        assert_eq!(said(&server, name, EXPIRED), 1, "{}", server.log());
    }
}
