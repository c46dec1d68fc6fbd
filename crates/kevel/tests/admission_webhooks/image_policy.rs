//! `ImagePolicyWebhook`: a webhook of the configuration file that is asked about images.

use kevel_test_support::{Ca, Cluster};
use serde_json::{Value, json};

use crate::{Answer, HookServer, Hooked};

const PODS: &str = "/api/v1/namespaces/default/pods";

/// The answer of the webhook.
fn status(status: &Value) -> Answer {
    let review = json!({"apiVersion": "imagepolicy.k8s.io/v1alpha1", "kind": "ImageReview",
        "status": status});
    Answer::Raw(200, vec![], review.to_string().into_bytes())
}

/// A pod with these images; the second is that of an init container.
fn pod(name: &str, [image, init]: [&str; 2]) -> String {
    json!({"metadata": {"name": name, "annotations": {
            "a.image-policy.k8s.io/ticket": "1", "other": "2"}},
        "spec": {"containers": [{"name": "c", "image": image}],
            "initContainers": [{"name": "i", "image": init}]}})
    .to_string()
}

/// A server whose plug-in asks at `/images` of `hooks`, and what else its configuration says.
async fn start(hooks: HookServer, settings: &str) -> Hooked {
    let folder = tempfile::tempdir().unwrap();
    let config = configuration(&folder, &hooks, settings);
    let flags =
        ["--enable-admission-plugins=ImagePolicyWebhook".to_owned(), flag(&config)].to_vec();
    let cluster = Cluster::on(folder, flags).await;
    Hooked { cluster, hooks }
}

fn flag(config: &str) -> String {
    format!("--admission-control-config-file={config}")
}

fn configuration(folder: &tempfile::TempDir, hooks: &HookServer, settings: &str) -> String {
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let ca = write("hooks-ca.crt", &hooks.ca.pem);
    let url = hooks.url("/images");
    let kubeconfig = write(
        "images.kubeconfig",
        &format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: c\nclusters:\n- name: images\n  cluster: {{server: '{url}', certificate-authority: {ca}}}\nusers:\n- name: me\n  user: {{token: secret}}\ncontexts:\n- name: c\n  context: {{cluster: images, user: me}}\n"
        ),
    );
    let plugin =
        format!("imagePolicy: {{kubeConfigFile: {kubeconfig}, retryBackoff: 1, {settings}}}");
    write(
        "admission.yaml",
        &format!(
            "apiVersion: apiserver.config.k8s.io/v1\nkind: AdmissionConfiguration\nplugins:\n- name: ImagePolicyWebhook\n  configuration: {{{plugin}}}\n"
        ),
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn images_are_reviewed_and_answers_remembered() {
    let hooks = HookServer::start().await;
    hooks.on("/images", |review| {
        let images = review["spec"]["containers"].to_string();
        status(&match (images.contains("bad"), images.contains("silent")) {
            (true, _) => json!({"allowed": false, "reason": "is bad"}),
            (_, true) => json!({"allowed": false}),
            _ => json!({"allowed": true, "auditAnnotations": {"seen": "yes"}}),
        })
    });
    let hooked = start(hooks, "allowTTL: 30, denyTTL: 30").await;
    let post = format!("POST {PODS}");
    hooked.cluster.ok("admin", &post, &pod("a", ["good:1", "init:1"])).await;
    let received = hooked.hooks.received("/images");
    assert_eq!(
        received[0].review,
        json!({"kind": "ImageReview", "apiVersion": "imagepolicy.k8s.io/v1alpha1", "metadata": {},
            "spec": {"containers": [{"image": "good:1"}, {"image": "init:1"}],
                "annotations": {"a.image-policy.k8s.io/ticket": "1"}, "namespace": "default"},
            "status": {"allowed": false}})
    );
    assert_eq!(received[0].headers["authorization"], "Bearer secret");
    // The same question is not asked again.
    hooked.cluster.ok("admin", &post, &pod("b", ["good:1", "init:1"])).await;
    for _ in 0..2 {
        let refused = hooked.cluster.refused("admin", &post, &pod("c", ["bad:1", "init:1"])).await;
        assert_eq!(
            refused,
            "403 pods \"c\" is forbidden: image policy webhook backend denied one or more images: is bad"
        );
    }
    let refused = hooked.cluster.refused("admin", &post, &pod("c", ["silent:1", "i"])).await;
    assert_eq!(
        refused,
        "403 pods \"c\" is forbidden: one or more images rejected by webhook backend"
    );
    assert_eq!(hooked.hooks.received("/images").len(), 3);
    assert!(!hooked.stored(&format!("{PODS}/c")).await);

    // What is not about images is not asked about; new images are, and those of ephemeral containers.
    let patch = r#"{"status":{"message":"m"}}"#;
    hooked.cluster.ok("admin", &format!("PATCH {PODS}/a/status"), patch).await;
    let patch = r#"[{"op":"replace","path":"/spec/containers/0/image","value":"bad:2"}]"#;
    let json_patch = [("content-type", "application/json-patch+json")];
    let what = format!("PATCH {PODS}/a");
    let (code, text) = hooked.cluster.send_with("admin", &what, &json_patch, patch).await;
    assert!(code == 403 && text.contains("is bad"), "{code} {text}");
    let patch = r#"{"spec":{"ephemeralContainers":[{"name":"e","image":"bad:3"}]}}"#;
    let what = format!("PATCH {PODS}/a/ephemeralcontainers");
    let refused = hooked.cluster.refused("admin", &what, patch).await;
    assert!(refused.ends_with("is bad"), "{refused}");
    let received = hooked.hooks.received("/images");
    assert_eq!(received.len(), 5);
    assert_eq!(received[4].review["spec"]["containers"], json!([{"image": "bad:3"}]));
    hooked.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_webhook_that_fails_refuses_unless_told_otherwise() {
    let wrong_kind = br#"{"apiVersion":"v1","kind":"Status","status":{"allowed":true}}"#;
    let failures = [
        ("code", Answer::Raw(503, vec![], b"busy".to_vec()), "the server answered 503"),
        ("kind", Answer::Raw(200, vec![], wrong_kind.to_vec()), "no kind \\\"Status"),
        ("text", Answer::Raw(200, vec![], b"yes".to_vec()), ""),
        ("half", Answer::Half, ""),
    ];
    for open in [false, true] {
        let hooked =
            start(HookServer::start().await, &format!("defaultAllow: {open}, denyTTL: -1")).await;
        for (name, answer, why) in failures.clone() {
            hooked.hooks.on("/images", move |_| answer.clone());
            let (code, text) = hooked
                .cluster
                .send("admin", &format!("POST {PODS}"), &pod(name, [name, "i"]))
                .await;
            assert_eq!(code, if open { 201 } else { 403 }, "{name}: {text}");
            assert!(open || text.contains(why), "{name}: {text}");
        }
        hooked.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_certificate_is_nobodys_consent() {
    let mut hooks = HookServer::start().await;
    hooks.on("/images", |_| status(&json!({"allowed": true})));
    hooks.ca = Ca::new("other authority");
    let hooked = start(hooks, "defaultAllow: false").await;
    hooked.cluster.refused("admin", &format!("POST {PODS}"), &pod("a", ["x", "i"])).await;
    assert!(!hooked.stored(&format!("{PODS}/a")).await);
    hooked.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_configuration_that_is_wrong_ends_the_start() {
    let hooks = HookServer::start().await;
    for (settings, why) in [
        ("allowTTL: 1801", "valid value is between 1s and 30m0s, got 30m1s"),
        ("denyTTL: -2", "valid value is between 1s and 30m0s, got -2s"),
        ("denyTTL: 1.5", "denyTTL must be a whole number"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let config = configuration(&folder, &hooks, settings);
        let server = kevel::Server::builder()
            .flag("--enable-admission-plugins=ImagePolicyWebhook")
            .flag(flag(&config));
        let error = server.start().await.err().unwrap().to_string();
        assert!(error.contains(why), "{error}");
    }
    let server = kevel::Server::builder().flag("--enable-admission-plugins=ImagePolicyWebhook");
    let error = server.start().await.err().unwrap().to_string();
    assert!(error.contains("ImagePolicyWebhook: no config specified"), "{error}");
}
