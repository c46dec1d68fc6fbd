//! Webhooks of the control plane, issuers, and etcd behind proxies of their own.

use std::path::Path;

use kevel_store::Engine as _;
use kevel_store::etcd::{self, Etcd};
use kevel_test_support::{Cluster, EtcdServer, free_port, soon, until};
use kube_apiserver::options::ServerRunOptions;
use kube_apiserver::server::{self, RunningServer};
use serde_json::json;

use super::configure;
use super::proxy::{Proxy, Way};

/// A kubeconfig of a webhook that only a proxy knows the place of.
fn kubeconfig(host: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: c\nclusters: [{{name: c, cluster: {{server: \
         'https://{host}.invalid/x'}}}}]\ncontexts: [{{name: c, context: {{cluster: c, user: u}}}}]\nusers: \
         [{{name: u, user: {{}}}}]\n"
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn webhooks_and_issuers_use_the_controlplane_egress() {
    let folder = tempfile::tempdir().unwrap();
    let (proxy, connection) = Proxy::start(Way::Uds, folder.path()).await;
    let write = |name: &str, text: &str| {
        let file = folder.path().join(name);
        std::fs::write(&file, text).unwrap();
        file.display().to_string()
    };
    let policy = "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules:\n- level: Metadata\n";
    let issuer =
        "{url: 'https://issuer.invalid', audiences: [a], egressSelectorType: controlplane}";
    let authentication = format!(
        "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthenticationConfiguration\njwt:\n- issuer: \
         {issuer}\n  claimMappings: {{username: {{claim: sub, prefix: ''}}}}\n"
    );
    let flags = vec![
        // What it was called once.
        configure(folder.path(), &[("master", &connection)]),
        format!("--authentication-config={}", write("authentication", &authentication)),
        format!(
            "--authentication-token-webhook-config-file={}",
            write("authn", &kubeconfig("authn"))
        ),
        format!("--authorization-webhook-config-file={}", write("authz", &kubeconfig("authz"))),
        "--authorization-mode=RBAC,Webhook".to_owned(),
        format!("--audit-policy-file={}", write("policy", policy)),
        format!("--audit-webhook-config-file={}", write("audit", &kubeconfig("audit"))),
        "--audit-webhook-batch-max-wait=1ms".to_owned(),
        "--audit-webhook-initial-backoff=1ms".to_owned(),
        format!("--token-auth-file={}", write("tokens", "joe,joe,1\n")),
    ];
    let cluster = Cluster::on(folder, flags).await;
    // An unknown user, and one without permissions.
    cluster.bearer("unknown").get("/version").await;
    cluster.bearer("joe").get("/api/v1/pods").await;
    let webhook = json!({
        "metadata": {"name": "by-url"},
        "webhooks": [{
            "name": "url.hook.test", "sideEffects": "None", "admissionReviewVersions": ["v1"],
            "clientConfig": {"url": "https://hook.invalid:8443/x"},
            "failurePolicy": "Ignore",
            "rules": [{"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"],
                "resources": ["configmaps"]}],
        }],
    });
    let path = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";
    cluster.admin.create(path, &webhook).await;
    let post = "POST /api/v1/namespaces/default/configmaps?dryRun=All";
    for address in [
        "authn.invalid:443",
        "authz.invalid:443",
        "audit.invalid:443",
        "issuer.invalid:443",
        "hook.invalid:8443",
    ] {
        until(async || {
            cluster.send("admin", post, r#"{"metadata":{"name":"o"}}"#).await;
            proxy.asked(address) > 0
        })
        .await;
    }
    cluster.stop().await;
}

/// An issuer that asks for a way that there is none of is refused: it would be reached by another.
#[tokio::test(flavor = "multi_thread")]
async fn an_issuer_has_the_way_that_it_asks_for() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("authentication");
    let issuer = "{url: 'https://issuer.invalid', audiences: [a], egressSelectorType: cluster}";
    let text = format!(
        "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthenticationConfiguration\njwt:\n- issuer: \
         {issuer}\n  claimMappings: {{username: {{claim: sub, prefix: ''}}}}\n"
    );
    std::fs::write(&file, text).unwrap();
    let authentication = format!("--authentication-config={}", file.display());
    let started = kevel::Server::builder().flag(&authentication).start().await;
    let message = started.err().unwrap().to_string();
    let expected = "oidc: egress lookup required with egress selector type \"cluster\"";
    assert!(message.contains(expected), "{message}");
    let egress = configure(folder.path(), &[("etcd", "{proxyProtocol: Direct}")]);
    let started = kevel::Server::builder().flag(authentication).flag(egress).start().await;
    let message = started.err().unwrap().to_string();
    assert!(message.contains("oidc: egress lookup for \"cluster\" is not configured"), "{message}");
}

/// Starts a server on etcd with keys that one has made before.
async fn start_on_etcd(folder: &Path, egress: String, prefix: &str) -> RunningServer {
    let first = kevel::Server::builder().data_dir(folder).flag("--storage=memory");
    first.start().await.unwrap().stop().await.unwrap();
    let file = |name: &str| folder.join("pki").join(name).display().to_string();
    let mut options = ServerRunOptions::default();
    options
        .parse(vec![
            egress,
            "--etcd-servers=http://etcd.invalid:2379".to_owned(),
            format!("--etcd-prefix={prefix}"),
            "--bind-address=127.0.0.1".to_owned(),
            format!("--secure-port={}", free_port()),
            format!("--client-ca-file={}", file("ca.crt")),
            format!("--tls-cert-file={}", file("apiserver.crt")),
            format!("--tls-private-key-file={}", file("apiserver.key")),
            format!("--service-account-key-file={}", file("sa.pub")),
            format!("--service-account-signing-key-file={}", file("sa.key")),
            "--service-account-issuer=https://kubernetes.default.svc".to_owned(),
            "--authorization-mode=RBAC".to_owned(),
        ])
        .unwrap();
    let options = options.complete().unwrap();
    assert_eq!(options.validate(), Vec::<String>::new());
    server::prepare(options).await.unwrap().start().await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn etcd_is_reached_through_its_proxy() {
    let folder = tempfile::tempdir().unwrap();
    let Some(etcd) = EtcdServer::start(folder.path()) else { return };
    let endpoints = vec![etcd.endpoint.clone()];
    let options = etcd::Options { endpoints, compaction_interval: None, ..Default::default() };
    let direct = Etcd::connect(options).await.unwrap();
    for way in [Way::Tls, Way::Grpc] {
        let folder = tempfile::tempdir().unwrap();
        let (proxy, connection) = Proxy::start(way, folder.path()).await;
        let address = etcd.endpoint.strip_prefix("http://").unwrap();
        proxy.route("etcd.invalid:2379", address.parse().unwrap());
        let egress = configure(folder.path(), &[("etcd", &connection)]);
        let prefix = format!("/{way:?}");
        let running = soon(start_on_etcd(folder.path(), egress, &prefix)).await;
        // What a server begins with has come to where it should.
        let key = format!("{prefix}/namespaces/default");
        until(async || {
            direct.get(key.as_bytes(), None).await.is_ok_and(|found| found.entry.is_some())
        })
        .await;
        assert!(proxy.asked("etcd.invalid:2379") >= 1);
        running.stop().await.unwrap();
        until(async || proxy.connections() == 0).await;
    }
}
