use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};

use super::outside::serve;
use super::{Ca, refusal, start};

pub fn kubeconfig(url: &str, ca: &str) -> String {
    let config = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{
            "name": "c",
            "cluster": {
                "server": format!("{url}/review"),
                "certificate-authority-data": kevel_codec::base64::encode(ca.as_bytes()).to_string(),
            },
        }],
        "users": [{"name": "u", "user": {"token": "of-the-server"}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    });
    config.to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn another_server_knows_tokens() {
    for version in ["v1", "v1beta1"] {
        let asked = Arc::new(AtomicUsize::new(0));
        let counting = asked.clone();
        let outside = serve(move |asked| {
            assert_eq!((asked.path, asked.authorization), ("/review", "Bearer of-the-server"));
            counting.fetch_add(1, Ordering::Relaxed);
            let review: Value = serde_json::from_slice(asked.body).unwrap();
            assert_eq!(review["apiVersion"], format!("authentication.k8s.io/{version}"));
            let audience = review["spec"]["audiences"][0].clone();
            let status = match review["spec"]["token"].as_str().unwrap() {
                "good" => json!({
                    "authenticated": true,
                    "audiences": [audience],
                    "user": {
                        "username": "jane", "uid": "7", "groups": ["devs"],
                        "extra": {"scopes": ["a", "b"]},
                    },
                }),
                "elsewhere" => json!({"authenticated": true, "audiences": ["elsewhere"], "user": {"username": "joe"}}),
                "error" => json!({"authenticated": false, "error": "no"}),
                "broken" => return (503, "busy".to_owned()),
                _ => json!({"authenticated": false}),
            };
            let review = json!({
                "apiVersion": review["apiVersion"], "kind": review["kind"], "status": status,
            });
            (200, review.to_string())
        })
        .await;
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("webhook.kubeconfig");
        std::fs::write(&file, kubeconfig(&outside.url, &outside.ca)).unwrap();
        let cluster = start(&[
            format!("--authentication-token-webhook-config-file={}", file.display()),
            format!("--authentication-token-webhook-version={version}"),
        ])
        .await;
        let expected = json!({
            "username": "jane",
            "uid": "7",
            "groups": ["devs", "system:authenticated"],
            "extra": {"scopes": ["a", "b"]},
        });
        for _ in 0..3 {
            assert_eq!(cluster.bearer("good").whoami(&[]).await.unwrap(), expected);
        }
        assert_eq!(asked.load(Ordering::Relaxed), 1);
        for (token, error) in [
            ("unknown", "invalid bearer token"),
            ("elsewhere", "invalid bearer token"),
            ("error", "no"),
            ("broken", "the server answered 503 Service Unavailable: busy"),
        ] {
            assert_eq!(cluster.bearer(token).username().await, None, "{token}");
            assert_eq!(refusal(&cluster, token, &[]).await, error);
        }
        cluster.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_webhook_needs_a_trusted_certificate() {
    let outside = serve(|asked| {
        let mut review: Value = serde_json::from_slice(asked.body).unwrap();
        review["status"] = json!({"authenticated": true, "user": {"username": "jane"}});
        (200, review.to_string())
    })
    .await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("webhook.kubeconfig");
    std::fs::write(&file, kubeconfig(&outside.url, &Ca::new("other").pem)).unwrap();
    let flag = format!("--authentication-token-webhook-config-file={}", file.display());
    let cluster = start(&[flag]).await;
    assert_eq!(cluster.bearer("good").username().await, None);
    cluster.stop().await;
}
