//! Connections to webhooks: addresses, certificates and credentials.

use kevel_test_support::{Ca, Cluster};
use serde_json::json;

use crate::{CONFIG_MAPS, HookServer, Hooked, Kind, allow, base64, config_map};

#[tokio::test(flavor = "multi_thread")]
async fn connections_are_kept_and_shared() {
    let hooked = Hooked::start(&[]).await;
    hooked.hooks.on("/allow", |_| allow());
    let webhook = |name: &str| hooked.webhook("/allow", json!({"name": name}));
    hooked.configure(Kind::Mutating, "m", &[webhook("a.hook.test"), webhook("b.hook.test")]).await;
    hooked.configure(Kind::Validating, "v", &[webhook("a.hook.test")]).await;
    let before = hooked.hooks.connections();
    for name in ["a", "b", "c", "d"] {
        hooked.cluster.ok("admin", &format!("POST {CONFIG_MAPS}"), &config_map(name)).await;
    }
    let received = hooked.hooks.received("/allow");
    assert_eq!(received.len(), 12);
    assert!(received.iter().all(|received| received.version == http::Version::HTTP_2));
    // One for each of the plug-ins, which have users of their own.
    assert!(hooked.hooks.connections() - before <= 2, "{}", hooked.hooks.connections());
    hooked.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_is_called_where_it_is_by_its_name() {
    let hooks = HookServer::named("hook.ns.svc", None).await;
    let hooked = Hooked { cluster: Cluster::start(&[]).await, hooks };
    hooked.cluster.ok("admin", "POST /api/v1/namespaces", r#"{"metadata":{"name":"ns"}}"#).await;
    let port = hooked.hooks.address.port();
    let service = |path: &str| json!({"service": {"namespace": "ns", "name": "hook", "path": path, "port": port}, "caBundle": base64(&hooked.hooks.ca.pem)});
    let webhook = hooked
        .webhook("/service", json!({"clientConfig": service("/service"), "timeoutSeconds": 7}));
    hooked.hooks.on("/service", |_| allow());
    let post = format!("POST {CONFIG_MAPS}");
    let probe = hooked.webhook("/probe", json!({"clientConfig": service("/probe")}));
    drop(probe);
    // The Service does not exist yet.
    let object = json!({"metadata": {"name": "svc"}, "webhooks": [webhook]}).to_string();
    hooked
        .cluster
        .ok(
            "admin",
            "POST /apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations",
            &object,
        )
        .await;
    let missing = format!(
        "Internal error occurred: failed calling webhook \\\"service.hook.test\\\": failed to call webhook: Post \\\"https://hook.ns.svc:{port}/service?timeout=7s\\\": service \\\"hook\\\" not found"
    );
    hooked
        .cluster
        .until_sent("admin", &post, &config_map("o"), |answer| answer.1.contains(&missing))
        .await;
    let service = json!({"metadata": {"name": "hook"}, "spec": {"type": "ExternalName", "externalName": "localhost", "ports": [{"port": port}]}});
    hooked.cluster.ok("admin", "POST /api/v1/namespaces/ns/services", &service.to_string()).await;
    hooked.cluster.until_sent("admin", &post, &config_map("o"), |answer| answer.0 == 201).await;
    let received = &hooked.hooks.received("/service")[0];
    assert_eq!(received.version, http::Version::HTTP_11);
    assert_eq!(received.headers["host"], format!("hook.ns.svc:{port}"));
    assert_eq!(received.query, "timeout=7s");
    hooked.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_calls_is_in_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let clients = Ca::new("clients");
    let (certificate, key) = clients.client("the-apiserver");
    write("client.crt", &certificate);
    write("client.key", &key);
    let hooks = HookServer::named("localhost", Some(&clients)).await;
    let port = hooks.address.port();
    let kubeconfig = write(
        "kubeconfig",
        &format!(
            "apiVersion: v1\nkind: Config\nusers:\n- name: 'localhost:{port}'\n  user: {{client-certificate: client.crt, client-key: client.key}}\n- name: '*'\n  user: {{token: for-others}}\n"
        ),
    );
    let plugin = |name: &str| {
        format!(
            "- name: {name}\n  configuration: {{apiVersion: apiserver.config.k8s.io/v1, kind: WebhookAdmissionConfiguration, kubeConfigFile: {kubeconfig}}}\n"
        )
    };
    let config = write(
        "admission.yaml",
        &format!(
            "apiVersion: apiserver.config.k8s.io/v1\nkind: AdmissionConfiguration\nplugins:\n{}{}",
            plugin("MutatingAdmissionWebhook"),
            plugin("ValidatingAdmissionWebhook")
        ),
    );
    let cluster = Cluster::start(&[&format!("--admission-control-config-file={config}")]).await;
    let hooked = Hooked { cluster, hooks };
    hooked.hooks.on("/named", |_| allow());
    hooked.hooks.on("/other", |_| allow());
    let mut other = hooked.hooks.client_config("/other");
    other["url"] = other["url"].as_str().unwrap().replace("localhost", "LOCALHOST").into();
    let webhooks = [
        hooked.webhook("/named", json!({})),
        hooked.webhook("/other", json!({"clientConfig": other})),
    ];
    hooked.configure(Kind::Mutating, "m", &webhooks).await;
    hooked.cluster.ok("admin", &format!("POST {CONFIG_MAPS}"), &config_map("o")).await;
    let named = &hooked.hooks.received("/named")[0];
    assert!(named.client.as_ref().is_some_and(|certificate| certificate.contains("the-apiserver")));
    assert_eq!(named.headers.get("authorization"), None);
    let other = &hooked.hooks.received("/other")[0];
    assert_eq!(
        (other.client.as_deref(), &other.headers["authorization"]),
        (None, &http::HeaderValue::from_static("Bearer for-others"))
    );
    hooked.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_ca_bundle_fails_the_webhook_call() {
    let hooked = Hooked::start(&[]).await;
    let config = json!({"url": "https://localhost:1/", "caBundle": base64("no certificate")});
    for (policy, refused) in [("Fail", true), ("Ignore", false)] {
        let fields = json!({"clientConfig": config, "failurePolicy": policy});
        hooked.configure(Kind::Mutating, "bundle", &[hooked.webhook("/bundle", fields)]).await;
        let (code, text) = hooked
            .cluster
            .send("admin", &format!("POST {CONFIG_MAPS}?dryRun=All"), &config_map("o"))
            .await;
        assert_eq!(code == 500, refused, "{text}");
        let why = "failed calling webhook \\\"bundle.hook.test\\\": could not get REST client: unable to load root certificates: unable to parse bytes as PEM block";
        assert_eq!(text.contains(why), refused, "{text}");
        hooked.unconfigure(Kind::Mutating, "bundle").await;
    }
    hooked.stop().await;
}
