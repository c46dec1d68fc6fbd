//! Encryption at rest, seen by clients of a server and by who looks into its store.

#![allow(clippy::unwrap_used)]

use std::path::Path;

use kevel_test_support::{Cluster, KmsPlugin, until};
use serde_json::{Value, json};
use tempfile::TempDir;

const SECRETS: &str = "/api/v1/namespaces/default/secrets";
/// Plaintext that must be found nowhere, as text and in base64.
const PLAIN: [&str; 2] = ["correct-horse-battery", "Y29ycmVjdC1ob3JzZS1iYXR0ZXJ5"];

const KEY_A: &str = "{name: a, secret: dGhpcyBpcyBwYXNzd29yZCB0aGlzIGlzIHBhc3N3b3I=}";
const KEY_B: &str = "{name: b, secret: MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=}";

/// Writes the configuration, and says which flag names it.
fn config(folder: &Path, providers: &str) -> String {
    let path = folder.join("encryption.yaml");
    let text = format!(
        "kind: EncryptionConfiguration\napiVersion: apiserver.config.k8s.io/v1\nresources:\n\
         - {{resources: [secrets, widgets.example.com], providers: [{providers}]}}\n"
    );
    std::fs::write(&path, text).unwrap();
    format!("--encryption-provider-config={}", path.display())
}

fn keys(provider: &str, keys: &[&str]) -> String {
    format!("{{{provider}: {{keys: [{}]}}}}", keys.join(", "))
}

fn secret(name: &str) -> Value {
    json!({"metadata": {"name": name}, "data": {"password": PLAIN[1]}})
}

async fn version(cluster: &Cluster, name: &str) -> String {
    let (code, found) = cluster.admin.get(&format!("{SECRETS}/{name}")).await;
    assert_eq!((code, &found["data"]["password"]), (200, &json!(PLAIN[1])), "{found}");
    found["metadata"]["resourceVersion"].as_str().unwrap().to_owned()
}

/// Replaces a Secret by itself; which version it has then.
async fn replace(cluster: &Cluster, name: &str) -> String {
    let path = format!("{SECRETS}/{name}");
    let (_, found) = cluster.admin.get(&path).await;
    let (code, written) = cluster.admin.send("PUT", &path, &[], &found.to_string()).await;
    assert_eq!(code, 200, "{written}");
    written["metadata"]["resourceVersion"].as_str().unwrap().to_owned()
}

/// Files in a folder that have a text in them, at any depth.
fn holding(folder: &Path, text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(holding(&path, text));
        } else if std::fs::read(&path).unwrap().windows(text.len()).any(|w| w == text.as_bytes()) {
            found.push(path.display().to_string());
        }
    }
    found
}

async fn define_widgets(cluster: &Cluster) {
    let version = json!({"name": "v1", "served": true, "storage": true, "schema":
        {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}});
    let definition = json!({
        "metadata": {"name": "widgets.example.com"},
        "spec": {"group": "example.com", "scope": "Cluster", "versions": [version],
                 "names": {"plural": "widgets", "kind": "Widget", "singular": "widget"}},
    });
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    cluster.admin.create(definitions, &definition).await;
    let widget = json!({"apiVersion": "example.com/v1", "kind": "Widget",
                        "metadata": {"name": "w"}, "note": PLAIN[0]});
    let widgets = "/apis/example.com/v1/widgets";
    until(async || cluster.admin.post(widgets, &widget).await.0 == 201).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_in_clear_in_the_embedded_store() {
    let folder = tempfile::tempdir().unwrap();
    let db = folder.path().join("db");
    let file = config(folder.path(), &keys("aesgcm", &[KEY_A]));
    let cluster = Cluster::on(folder, vec!["--storage=embedded".to_owned(), file]).await;
    cluster.admin.create(SECRETS, &secret("token")).await;
    define_widgets(&cluster).await;
    let written = version(&cluster, "token").await;
    assert_eq!(replace(&cluster, "token").await, written, "nothing changed, and it is not stale");
    for text in PLAIN {
        assert_eq!(holding(&db, text), [""; 0], "while the server runs: the log as well");
    }
    assert_ne!(holding(&db, "k8s:enc:aesgcm:v1:a:"), [""; 0]);

    // Another key is first: existing values are read, and encrypted again by a write without change.
    config(cluster.folder.path(), &keys("aesgcm", &[KEY_B, KEY_A]));
    let cluster = cluster.restart().await;
    assert_eq!(version(&cluster, "token").await, written);
    let (_, widget) = cluster.admin.get("/apis/example.com/v1/widgets/w").await;
    assert_eq!(widget["note"], PLAIN[0]);
    let again = replace(&cluster, "token").await;
    assert_ne!(again, written);
    assert_eq!(replace(&cluster, "token").await, again, "once");
    let patch = [("content-type", "application/merge-patch+json")];
    let widget = "/apis/example.com/v1/widgets/w";
    let (_, patched) = cluster.admin.send("PATCH", widget, &patch, "{}").await;
    let (_, twice) = cluster.admin.send("PATCH", widget, &patch, "{}").await;
    assert_eq!(patched["metadata"]["resourceVersion"], twice["metadata"]["resourceVersion"]);
    // So the first key is no longer needed for what was written.
    config(cluster.folder.path(), &keys("aesgcm", &[KEY_B]));
    let cluster = cluster.restart().await;
    assert_eq!(version(&cluster, "token").await, again);
    let (code, _) = cluster.admin.get(widget).await;
    assert_eq!(code, 200);
    for text in PLAIN {
        assert_eq!(holding(&db, text), [""; 0]);
    }

    // Without any of the keys it cannot be read. Who asks for it is told, and so is who looks after it.
    config(cluster.folder.path(), &keys("aesgcm", &[KEY_A]));
    let cluster = cluster.restart().await;
    let (code, status) = cluster.admin.get(&format!("{SECRETS}/token")).await;
    let said = "no matching key was found for the provided AES transformer";
    assert_eq!(status["message"], format!("Internal error occurred: {said}"));
    assert_eq!((code, &status["reason"]), (500, &json!("InternalError")));
    // A list without it would say that it is gone.
    let (code, status) = cluster.admin.get(SECRETS).await;
    let key = r#""/registry/secrets/default/token""#;
    let message = format!("Internal error occurred: unable to transform key {key}: {said}");
    assert_eq!((code, &status["message"]), (500, &json!(message)));
    let (code, status) = cluster.admin.get(&format!("{SECRETS}?watch=true&timeoutSeconds=1")).await;
    assert_eq!((code, &status["message"]), (500, &json!(message)), "nor does a watch begin so");
    let (code, _) = cluster.admin.get("/api/v1/namespaces/kube-system/secrets").await;
    assert_eq!(code, 200, "others' lists do not need it");
    let (code, _) = cluster.admin.get("/healthz/storage-records").await;
    assert_eq!(code, 500);
    let (code, _) = cluster.admin.get("/readyz").await;
    assert_eq!(code, 200);
    cluster.stop().await;
}

fn kms(socket: &Path) -> String {
    let at = socket.display();
    format!("{{kms: {{apiVersion: v2, name: vault, endpoint: 'unix://{at}', timeout: 1s}}}}")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plugin_holds_the_key() {
    let folder: TempDir = tempfile::tempdir().unwrap();
    let socket = folder.path().join("kms.sock");
    let mut plugin = KmsPlugin::start(&socket, "key-1");
    let file = config(folder.path(), &kms(&socket));
    let cluster = Cluster::on(folder, vec!["--storage=embedded".to_owned(), file]).await;
    cluster.admin.create(SECRETS, &secret("token")).await;
    let (code, _) = cluster.admin.get("/readyz/kms-providers").await;
    assert_eq!(code, 200);
    let (code, _) = cluster.admin.get("/livez/kms-providers").await;
    assert_eq!(code, 404, "a new start makes no plug-in well");

    // The server starts again with another key of the plug-in: what is there is read, and is stale.
    plugin.rotate("key-2");
    let cluster = cluster.restart().await;
    let written = version(&cluster, "token").await;
    let again = replace(&cluster, "token").await;
    assert_ne!(again, written);
    assert_eq!(replace(&cluster, "token").await, again);
    let metrics = cluster.metrics().await;
    for name in [
        "apiserver_storage_transformation_duration_seconds_count{",
        "apiserver_envelope_encryption_key_id_hash_total{",
        "apiserver_envelope_encryption_kms_operations_latency_seconds_count{",
        "apiserver_encryption_config_controller_last_config_info{",
    ] {
        assert!(metrics.contains(name), "{name}");
    }

    // Without the plug-in: it is said, and everything goes on.
    plugin.stop();
    cluster.until("GET /readyz/kms-providers", |(code, _)| *code == 500).await;
    assert_eq!(version(&cluster, "token").await, again);
    cluster.admin.create(SECRETS, &secret("another")).await;

    // A server that starts without it knows no Secrets, and does not say that there are none.
    let restarted = async {
        let Cluster { server, folder, .. } = cluster;
        server.stop().await.unwrap();
        let file =
            format!("--encryption-provider-config={}/encryption.yaml", folder.path().display());
        // It waits for them, but not for ever.
        let wait = "--storage-initialization-timeout=1s".to_owned();
        Cluster::on(folder, vec!["--storage=embedded".to_owned(), file, wait]).await
    };
    let cluster = restarted.await;
    let (code, _) = cluster.admin.get("/readyz/poststarthook/storage-readiness").await;
    assert_eq!(code, 200);
    let (code, _) = cluster.admin.get("/readyz/informer-sync").await;
    assert_eq!(code, 500, "the server itself follows Secrets");
    let (code, said) = cluster.admin.get(SECRETS).await;
    assert!((400..600).contains(&code), "{said}");
    let (code, _) = cluster.admin.get("/api/v1/namespaces/default/configmaps").await;
    assert_eq!(code, 200, "others do not wait for it");
    plugin.resume();
    cluster.until(&format!("GET {SECRETS}"), |(code, _)| *code == 200).await;
    cluster.until("GET /readyz/informer-sync", |(code, _)| *code == 200).await;
    version(&cluster, "another").await;
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plugin_of_v1_is_asked_behind_its_gate() {
    let folder: TempDir = tempfile::tempdir().unwrap();
    let socket = folder.path().join("kms.sock");
    let plugin = KmsPlugin::start(&socket, "unused");
    let endpoint = socket.display();
    let kms = format!("{{kms: {{name: vault, endpoint: 'unix://{endpoint}', cachesize: 10}}}}");
    let file = config(folder.path(), &kms);
    let gate = "--feature-gates=KMSv1=true".to_owned();
    let cluster = Cluster::on(folder, vec!["--storage=embedded".to_owned(), file, gate]).await;
    cluster.admin.create(SECRETS, &secret("token")).await;
    // With a plug-in of v1, each has a check of its own.
    for (check, expected) in [("kms-provider-0", 200), ("kms-providers", 404)] {
        let (code, said) = cluster.admin.get(&format!("/readyz/{check}")).await;
        assert_eq!(code, expected, "{check}: {said}");
    }
    let cluster = cluster.restart().await;
    version(&cluster, "token").await;
    assert!(plugin.calls("Encrypt") >= 1 && plugin.calls("Decrypt") >= 1);
    cluster.stop().await;
}
