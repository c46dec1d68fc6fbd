//! Webhooks in files of the server (`staticManifestsDir`).

use std::path::Path;

use kevel_test_support::{Cluster, until};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{
    CONFIG_MAPS, CONFIGURATIONS, HookServer, Hooked, Kind, allow, config_map, deny, patch,
};

const GATE: &str = "--feature-gates=ManifestBasedAdmissionControlConfig=true";

/// Folders of manifests, and the file that names them.
struct Files(TempDir);

impl Files {
    fn new() -> Self {
        let files = Files(tempfile::tempdir().unwrap());
        let mut text =
            "apiVersion: apiserver.config.k8s.io/v1\nkind: AdmissionConfiguration\nplugins:\n"
                .to_owned();
        for kind in Kind::ALL {
            let folder = files.folder(kind);
            std::fs::create_dir(&folder).unwrap();
            text += &format!(
                "- name: {kind:?}AdmissionWebhook\n  configuration: {{apiVersion: apiserver.config.k8s.io/v1, kind: WebhookAdmissionConfiguration, staticManifestsDir: {}}}\n",
                folder.display()
            );
        }
        std::fs::write(files.configuration(), text).unwrap();
        files
    }

    fn folder(&self, kind: Kind) -> std::path::PathBuf {
        self.0.path().join(format!("{kind:?}"))
    }

    fn configuration(&self) -> std::path::PathBuf {
        self.0.path().join("admission.yaml")
    }

    /// Writes a configuration with these webhooks, which is named after the file.
    fn write(&self, kind: Kind, name: &str, webhooks: &[Value]) {
        let object = configuration(kind, name, webhooks);
        replace(&self.folder(kind).join(format!("{name}.json")), &object.to_string());
    }

    fn remove(&self, kind: Kind, name: &str) {
        std::fs::remove_file(self.folder(kind).join(format!("{name}.json"))).unwrap();
    }

    async fn start(&self, hooks: HookServer) -> Hooked {
        let file = format!("--admission-control-config-file={}", self.configuration().display());
        Hooked { cluster: Cluster::start(&[GATE, &file]).await, hooks }
    }
}

fn configuration(kind: Kind, name: &str, webhooks: &[Value]) -> Value {
    json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": format!("{kind:?}WebhookConfiguration"),
        "metadata": {"name": format!("{name}.static.k8s.io")},
        "webhooks": webhooks,
    })
}

/// Replaces a file whole.
fn replace(file: &Path, text: &str) {
    let new = file.with_extension("new");
    std::fs::write(&new, text).unwrap();
    std::fs::rename(new, file).unwrap();
}

/// A webhook about creations of a resource.
fn webhook(hooks: &HookServer, path: &str, group: &str, plural: &str) -> Value {
    json!({
        "name": format!("{}.{plural}.hook.test", path.trim_matches('/')),
        "clientConfig": hooks.client_config(path),
        "rules": [{"operations": ["CREATE"], "apiGroups": [group], "apiVersions": ["v1"], "resources": [plural]}],
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
    })
}

/// A metric of reloads of a plug-in.
async fn metric(hooked: &Hooked, name: &str, labels: &[&str]) -> Option<String> {
    let metrics = hooked.cluster.metrics().await;
    let name = format!("apiserver_manifest_admission_config_controller_{name}{{");
    let mut lines = metrics.lines().filter(|line| line.starts_with(&name));
    lines.find(|line| labels.iter().all(|label| line.contains(label))).map(str::to_owned)
}

#[tokio::test(flavor = "multi_thread")]
async fn webhooks_of_files_come_before_those_of_the_api() {
    let (files, hooks) = (Files::new(), HookServer::start().await);
    hooks.on("/first", |_| patch(json!([{"op": "add", "path": "/data/order", "value": "file"}])));
    hooks.on("/second", |review| {
        let order = review["request"]["object"]["data"]["order"].as_str().unwrap_or("none");
        let order = format!("{order}, api");
        patch(json!([{"op": "add", "path": "/data/order", "value": order}]))
    });
    let mut first = webhook(&hooks, "/first", "", "configmaps");
    first["objectSelector"] = json!({"matchLabels": {"case": "order"}});
    files.write(Kind::Mutating, "zz", &[first]);
    let hooked = files.start(hooks).await;
    let mut second = hooked.webhook("/second", json!({}));
    second["objectSelector"] = json!({"matchLabels": {"case": "order"}});
    hooked.configure(Kind::Mutating, "aa", &[second]).await;
    let map = json!({"metadata": {"name": "o", "labels": {"case": "order"}}, "data": {"a": "1"}});
    let made = hooked.cluster.ok("admin", &format!("POST {CONFIG_MAPS}"), &map.to_string()).await;
    assert_eq!(made["data"]["order"], "file, api");
    hooked.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn files_are_in_force_at_once_and_followed() {
    let (files, hooks) = (Files::new(), HookServer::start().await);
    hooks.on("/deny", |_| deny(json!({"message": "by a file"})));
    hooks.on("/label", |_| {
        patch(json!([{"op": "add", "path": "/metadata/labels", "value": {"file": "yes"}}]))
    });
    hooks.on("/allow", |_| allow());
    let configurations =
        webhook(&hooks, "/deny", "admissionregistration.k8s.io", "validatingwebhookconfigurations");
    let secrets = webhook(&hooks, "/deny", "", "secrets");
    files.write(Kind::Validating, "deny", &[configurations, secrets]);
    let hooked = files.start(hooks).await;
    let cluster = &hooked.cluster;
    let secret = json!({"metadata": {"name": "s"}}).to_string();
    let secrets = "POST /api/v1/namespaces/default/secrets?dryRun=All";
    let refusal = cluster.refused("admin", secrets, &secret).await;
    assert!(refusal.contains("denied the request: by a file"), "{refusal}");
    // Configurations of the API are protected by files alone.
    let of_api = json!({"metadata": {"name": "of-api"}, "webhooks": [
        webhook(&hooked.hooks, "/deny", "admissionregistration.k8s.io", "validatingadmissionpolicies")]});
    let post = format!("POST {CONFIGURATIONS}/validatingwebhookconfigurations");
    let refusal = cluster.refused("admin", &post, &of_api.to_string()).await;
    assert!(refusal.contains("denied the request: by a file"), "{refusal}");
    let mutating = format!("POST {CONFIGURATIONS}/mutatingwebhookconfigurations");
    cluster.ok("admin", &mutating, &of_api.to_string()).await;

    // A list in YAML, later.
    let label = configuration(
        Kind::Mutating,
        "label",
        &[webhook(&hooked.hooks, "/label", "", "configmaps")],
    );
    let list = format!("---\napiVersion: v1\nkind: List\nitems:\n- {label}\n");
    replace(&files.folder(Kind::Mutating).join("list.yaml"), &list);
    let dry = format!("POST {CONFIG_MAPS}?dryRun=All");
    let labelled = |answer: &(u16, String)| answer.1.contains("\"file\":\"yes\"");
    cluster.until_sent("admin", &dry, &config_map("o"), labelled).await;

    // An error changes nothing, and is counted.
    let broken = files.folder(Kind::Mutating).join("broken.yaml");
    replace(&broken, "kind: Nothing");
    let failure = ["plugin=\"MutatingAdmissionWebhook\"", "status=\"failure\""];
    until(async || metric(&hooked, "automatic_reloads_total", &failure).await.is_some()).await;
    cluster.until_sent("admin", &dry, &config_map("o"), labelled).await;
    std::fs::remove_file(broken).unwrap();

    // What is taken away is not asked.
    files.remove(Kind::Validating, "deny");
    cluster.until_sent("admin", secrets, &secret, |answer| answer.0 == 201).await;
    let empty = ["plugin=\"ValidatingAdmissionWebhook\"", ",hash=\"\"", "sha256:"];
    until(async || metric(&hooked, "last_config_info", &empty).await.is_some()).await;
    let success = ["plugin=\"ValidatingAdmissionWebhook\"", "status=\"success\""];
    let total = metric(&hooked, "automatic_reloads_total", &success).await.unwrap();
    assert!(total.ends_with(" 2"), "{total}");
    let name = "automatic_reload_last_timestamp_seconds";
    assert!(metric(&hooked, name, &success).await.is_some());
    hooked.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn reserved_names_are_warned_of_or_refused() {
    let why = "names ending with \".static.k8s.io\" are reserved for static manifest-based configurations and cannot be managed via the API";
    let post = format!("POST {CONFIGURATIONS}/validatingwebhookconfigurations");
    let object = |n: u32| json!({"metadata": {"name": format!("a{n}.static.k8s.io")}}).to_string();
    let cluster = Cluster::start(&[]).await;
    let (warnings, _) = cluster.warned("admin", &post, &object(1)).await;
    assert!(warnings.iter().any(|warning| warning.contains("metadata.name: names ending")));
    cluster.stop().await;
    let cluster = Cluster::start(&[GATE]).await;
    for plural in ["validatingwebhookconfigurations", "mutatingwebhookconfigurations"] {
        let post = format!("POST {CONFIGURATIONS}/{plural}");
        let (code, refusal) = cluster.send("admin", &post, &object(2)).await;
        let refusal: Value = serde_json::from_str(&refusal).unwrap();
        assert_eq!((code, &refusal["reason"]), (422, &json!("Invalid")));
        let cause = &refusal["details"]["causes"][0];
        assert_eq!(cause["field"], "metadata.name");
        assert!(cause["message"].as_str().unwrap().ends_with(why), "{cause}");
    }
    cluster.stop().await;
}
