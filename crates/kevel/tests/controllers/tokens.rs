//! Tokens of service accounts in Secrets, and bootstrap tokens.

use std::time::Duration;

use kevel::{ManualClock, Server};
use kevel_codec::base64;
use kevel_test_support::{Client, Cluster, until};
use serde_json::{Value, json};

use super::certificates::{REQUESTS, ask_pending};
use super::{cluster, exists};

const ACCOUNTS: &str = "/api/v1/namespaces/default/serviceaccounts";
const SECRETS: &str = "/api/v1/namespaces/default/secrets";
const BOOTSTRAP: &str = "/api/v1/namespaces/kube-system/secrets";
const PUBLIC: &str = "/api/v1/namespaces/kube-public/configmaps";
pub const CLUSTER_INFO: &str = "/api/v1/namespaces/kube-public/configmaps/cluster-info";
const TRACKING: &str = "/api/v1/namespaces/kube-system/configmaps/kube-apiserver-legacy-service-account-token-tracking";
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// Creates an account with a Secret for its token.
pub async fn create_token(cluster: &Cluster, name: &str) {
    let account = json!({"metadata": {"name": name}, "secrets": [{"name": name}]});
    cluster.admin.create(ACCOUNTS, &account).await;
    let annotations = json!({"kubernetes.io/service-account.name": name});
    let secret = json!({
        "metadata": {"name": name, "annotations": annotations},
        "type": "kubernetes.io/service-account-token",
    });
    cluster.admin.create(SECRETS, &secret).await;
}

/// Creates a bootstrap token that signs, until a time.
pub async fn create_bootstrap_token(cluster: &Cluster, id: &str, expiration: &str) {
    let data = json!({
        "token-id": id, "token-secret": "0123456789abcdef", "expiration": expiration,
        "usage-bootstrap-signing": "true",
    });
    let secret = json!({
        "metadata": {"name": format!("bootstrap-token-{id}")},
        "type": "bootstrap.kubernetes.io/token",
        "stringData": data,
    });
    cluster.admin.create(BOOTSTRAP, &secret).await;
}

/// Creates the information about the cluster that tokens sign.
pub async fn create_cluster_info(cluster: &Cluster) {
    let namespace = "GET /api/v1/namespaces/kube-public";
    cluster.until(namespace, |(code, _)| *code == 200).await;
    let info = json!({"metadata": {"name": "cluster-info"}, "data": {"kubeconfig": "text"}});
    cluster.admin.create(PUBLIC, &info).await;
}

fn decoded(secret: &Value, key: &str) -> String {
    let mut bytes = Vec::new();
    base64::decode_into(secret["data"][key].as_str().unwrap(), &mut bytes).unwrap();
    String::from_utf8(bytes).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn token_secret_is_filled_and_deleted_with_its_account() {
    let cluster = cluster().await;
    create_token(&cluster, "robot").await;
    let path = format!("{SECRETS}/robot");
    let filled = |secret: &Value| secret["data"]["token"].is_string();
    let secret = cluster.until_ok(&format!("GET {path}"), "", filled).await;
    assert_eq!(decoded(&secret, "namespace"), "default");
    assert!(decoded(&secret, "ca.crt").starts_with("-----BEGIN CERTIFICATE-----"));
    let (_, account) = cluster.admin.get(&format!("{ACCOUNTS}/robot")).await;
    let uid = &secret["metadata"]["annotations"]["kubernetes.io/service-account.uid"];
    assert_eq!(uid, &account["metadata"]["uid"]);
    let user = cluster.bearer(&decoded(&secret, "token")).username().await;
    assert_eq!(user.as_deref(), Some("system:serviceaccount:default:robot"));

    cluster.admin.delete(&format!("{ACCOUNTS}/robot")).await;
    until(async || !exists(&cluster, &path).await).await;
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn deleted_token_secret_is_taken_from_its_account() {
    let cluster = cluster().await;
    create_token(&cluster, "robot").await;
    let filled = |secret: &Value| secret["data"]["token"].is_string();
    cluster.until_ok(&format!("GET {SECRETS}/robot"), "", filled).await;
    cluster.admin.delete(&format!("{SECRETS}/robot")).await;
    let without = |account: &Value| account["secrets"] == Value::Null;
    cluster.until_ok(&format!("GET {ACCOUNTS}/robot"), "", without).await;
    cluster.stop().await;
}

/// A server with a token and these controllers, and a clock that the test moves.
struct Aging {
    cluster: Cluster,
    clock: ManualClock,
    /// Administrator whose token does not expire, as certificates do.
    root: Client,
}

impl Aging {
    async fn start(controllers: &str) -> Self {
        let clock = ManualClock::at_present();
        let folder = tempfile::tempdir().unwrap();
        let tokens = folder.path().join("tokens.csv");
        std::fs::write(&tokens, "root,root,1,\"system:masters\"\n").unwrap();
        let builder = Server::builder()
            .flag("--storage=memory")
            .flag(format!("--controllers={controllers}"))
            .flag(format!("--token-auth-file={}", tokens.display()))
            .clock(&clock);
        let cluster = Cluster::with(builder).await;
        create_token(&cluster, "robot").await;
        let filled = |secret: &Value| secret["data"]["token"].is_string();
        cluster.until_ok(&format!("GET {SECRETS}/robot"), "", filled).await;
        cluster.until(&format!("GET {TRACKING}"), |(code, _)| *code == 200).await;
        let root = cluster.bearer("root");
        Aging { cluster, clock, root }
    }

    /// Lets a year pass, then day after day, until the Secret is as wanted.
    async fn until_token(&self, wanted: impl Fn(&(u16, Value)) -> bool) {
        self.clock.advance(DAY * 366);
        until(async || {
            self.clock.advance(DAY);
            wanted(&self.root.get(&format!("{SECRETS}/robot")).await)
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn without_their_cleaner_unused_tokens_stay() {
    let aging = Aging::start("-legacy-serviceaccount-token-cleaner-controller,*").await;
    ask_pending(&aging.cluster, "pending").await;
    aging.clock.advance(DAY * 367);
    // Another controller has worked after that time.
    until(async || aging.root.get(&format!("{REQUESTS}/pending")).await.0 == 404).await;
    let (_, secret) = aging.root.get(&format!("{SECRETS}/robot")).await;
    assert_eq!(
        (&secret["metadata"]["name"], &secret["metadata"]["labels"]),
        (&json!("robot"), &Value::Null)
    );
    aging.cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn unused_automatic_tokens_are_invalidated_then_deleted() {
    let aging = Aging::start("*").await;
    let label = "kubernetes.io/legacy-token-invalid-since";
    aging.until_token(|(_, secret)| secret["metadata"]["labels"][label].is_string()).await;
    aging.until_token(|(code, _)| *code == 404).await;
    aging.cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn cluster_info_is_signed_by_bootstrap_tokens() {
    let cluster = cluster().await;
    create_cluster_info(&cluster).await;
    create_bootstrap_token(&cluster, "abcdef", "2999-01-01T00:00:00Z").await;
    let signature = |info: &Value| info["data"]["jws-kubeconfig-abcdef"].is_string();
    let read = format!("GET {CLUSTER_INFO}");
    let info = cluster.until_ok(&read, "", signature).await;
    // HMAC-SHA256 of the header and the text with the token's secret, made by another implementation.
    let expected = "eyJhbGciOiJIUzI1NiIsImtpZCI6ImFiY2RlZiJ9..\
                    v28Ea_KqmHOtFWksJ_4tbV6AFRNzMkrRUG_jsuLJz-4";
    assert_eq!(info["data"]["jws-kubeconfig-abcdef"], expected);
    cluster.admin.delete(&format!("{BOOTSTRAP}/bootstrap-token-abcdef")).await;
    cluster.until_ok(&read, "", |info| !signature(info)).await;
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn expired_bootstrap_tokens_are_deleted() {
    let cluster = cluster().await;
    create_bootstrap_token(&cluster, "newnew", "2999-01-01T00:00:00Z").await;
    create_bootstrap_token(&cluster, "oldold", "2020-01-01T00:00:00Z").await;
    let old = format!("{BOOTSTRAP}/bootstrap-token-oldold");
    until(async || !exists(&cluster, &old).await).await;
    assert!(exists(&cluster, &format!("{BOOTSTRAP}/bootstrap-token-newnew")).await);
    cluster.stop().await;
}
