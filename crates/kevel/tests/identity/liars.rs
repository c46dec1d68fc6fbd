//! Peers that decide on requests, and lie: webhooks and issuers that answer with too much, with something
//! else, or with names that no header can have.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};

use super::issuer::{TokenIssuer, new_key};
use super::outside::{Outside, Reply, serve};
use super::webhook::kubeconfig;
use super::{refusal, start, until};

/// More than is read of any answer.
const HUGE: usize = 100 << 20;

async fn webhook(reply: impl Fn(&str, Value) -> Reply + Send + Sync + 'static) -> Outside {
    serve(move |asked| {
        let review: Value = serde_json::from_slice(asked.body).unwrap();
        let token = review["spec"]["token"].as_str().unwrap_or_default().to_owned();
        reply(&token, review)
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn authentication_webhooks_that_lie_let_no_token_in() {
    let outside = webhook(|token, mut review| {
        let status = json!({"authenticated": true, "user": {"username": "jane"}});
        match token {
            "huge" => {
                review["status"] = status;
                review["status"]["user"]["uid"] = "x".repeat(HUGE).into();
            }
            "kind" => {
                review["kind"] = "SubjectAccessReview".into();
                review["status"] = status;
            }
            "version" => {
                review["apiVersion"] = "authentication.k8s.io/v2".into();
                review["status"] = status;
            }
            "moved" => return (302, "/elsewhere".to_owned()),
            "garbage" => return (200, "\u{0}\u{1}{".repeat(1000)),
            "deep" => return (200, "[".repeat(1 << 20)),
            "text" => {
                review["status"] = json!({"authenticated": "true", "user": {"username": "jane"}})
            }
            "created" => return (201, "{}".to_owned()),
            _ => {
                review["status"] =
                    json!({"authenticated": true, "user": {"username": "a\nb\r\u{0}"}})
            }
        }
        (200, review.to_string())
    })
    .await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("webhook.kubeconfig");
    std::fs::write(&file, kubeconfig(&outside.url, &outside.ca)).unwrap();
    let flag = format!("--authentication-token-webhook-config-file={}", file.display());
    let cluster = start(&[flag]).await;
    for token in ["huge", "kind", "version", "moved", "garbage", "deep", "text", "created"] {
        assert_eq!(cluster.bearer(token).username().await, None, "{token}");
        let said = refusal(&cluster, token, &[]).await;
        assert!(!said.is_empty() && said.len() < 4096, "{token}: {said}");
    }
    // The reference accepts such a name, and so do RBAC rules: it is no other user's.
    let user = cluster.bearer("control").whoami(&[]).await.unwrap();
    assert_eq!(user["username"], "a\nb\r\u{0}");
    assert_eq!(cluster.bearer("control").get("/api/v1/secrets").await.0, 403);
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn authorization_webhooks_that_lie_allow_nothing() {
    let asked = Arc::new(AtomicUsize::new(0));
    let counting = asked.clone();
    let outside = webhook(move |_, mut review| {
        counting.fetch_add(1, Ordering::Relaxed);
        let allowed = json!({"allowed": true});
        match review["spec"]["resourceAttributes"]["name"].as_str().unwrap_or_default() {
            "huge" => review["status"] = json!({"allowed": true, "reason": "x".repeat(HUGE)}),
            "kind" => {
                review["kind"] = "TokenReview".into();
                review["status"] = allowed;
            }
            "version" => {
                review["apiVersion"] = "authorization.k8s.io/v2".into();
                review["status"] = allowed;
            }
            "moved" => return (307, "/elsewhere".to_owned()),
            "garbage" => return (200, "{{".to_owned()),
            "text" => review["status"] = json!({"allowed": "true"}),
            "both" => review["status"] = json!({"allowed": true, "denied": true}),
            "good" => review["status"] = allowed,
            _ => review["status"] = json!({"allowed": false}),
        }
        (200, review.to_string())
    })
    .await;
    let folder = tempfile::tempdir().unwrap();
    let (file, users) = (folder.path().join("webhook.kubeconfig"), folder.path().join("users.csv"));
    std::fs::write(&file, kubeconfig(&outside.url, &outside.ca)).unwrap();
    std::fs::write(&users, "jane,jane,1\n").unwrap();
    let cluster = start(&[
        "--authorization-mode=RBAC,Webhook".to_owned(),
        format!("--authorization-webhook-config-file={}", file.display()),
        format!("--token-auth-file={}", users.display()),
    ])
    .await;
    let get = async |name: &str| {
        let path = format!("/api/v1/namespaces/default/configmaps/{name}");
        cluster.bearer("jane").get(&path).await.0
    };
    assert_eq!(get("good").await, 404, "a webhook that does not lie is believed");
    for name in ["huge", "kind", "version", "moved", "garbage", "text", "both"] {
        // 500 where the answer is an error, as in the reference: allowed is neither.
        let code = get(name).await;
        assert!(matches!(code, 403 | 500), "{name}: {code}");
    }
    assert!(asked.load(Ordering::Relaxed) >= 8);
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_set_of_an_issuer_is_read_within_limits() {
    let issuer = TokenIssuer::with(new_key(), |asked| {
        (asked.path == "/keys").then(|| (200, format!(r#"{{"keys":["{}"]}}"#, "x".repeat(HUGE))))
    })
    .await;
    let ca = issuer.file("ca.crt", &issuer.outside.ca);
    let cluster = start(&[
        format!("--oidc-issuer-url={}", issuer.outside.url),
        format!("--oidc-ca-file={}", ca.display()),
        "--oidc-client-id=kubernetes".to_owned(),
        "--oidc-signing-algs=ES256".to_owned(),
    ])
    .await;
    let token = issuer.token(json!({}));
    let starting = "oidc: authenticator not initialized";
    until(async || refusal(&cluster, &token, &[]).await != starting).await;
    let said = refusal(&cluster, &token, &[]).await;
    assert!(said.contains("the answer is larger than 8388608 bytes"), "{said}");
    cluster.stop().await;
}
