use serde_json::json;

use super::{start, until};

#[tokio::test(flavor = "multi_thread")]
async fn a_bootstrap_token_is_good_where_they_are_enabled() {
    let encode = |text: &str| kevel_codec::base64::encode(text.as_bytes()).to_string();
    let secret = json!({
        "metadata": {"name": "bootstrap-token-abcdef"},
        "type": "bootstrap.kubernetes.io/token",
        "data": {
            "token-id": encode("abcdef"),
            "token-secret": encode("0123456789abcdef"),
            "usage-bootstrap-authentication": encode("true"),
            "auth-extra-groups": encode("system:bootstrappers:workers"),
        },
    });
    let secrets = "/api/v1/namespaces/kube-system/secrets";
    for enabled in [true, false] {
        let cluster = start(&[format!("--enable-bootstrap-token-auth={enabled}")]).await;
        cluster.admin.create(secrets, &secret).await;
        let bearer = cluster.bearer("abcdef.0123456789abcdef");
        if enabled {
            until(async || bearer.whoami(&[]).await.is_some()).await;
            let user = bearer.whoami(&[]).await.unwrap();
            assert_eq!(user["username"], "system:bootstrap:abcdef");
            let groups =
                ["system:bootstrappers", "system:bootstrappers:workers", "system:authenticated"];
            assert_eq!(user["groups"], json!(groups));
        } else {
            assert_eq!(bearer.whoami(&[]).await, None);
        }
        assert_eq!(cluster.bearer("abcdef.0123456789abcdee").whoami(&[]).await, None);
        // Refused after its secret is deleted, once the token cache has expired.
        cluster.admin.delete(&format!("{secrets}/bootstrap-token-abcdef")).await;
        until(async || bearer.whoami(&[]).await.is_none()).await;
        cluster.stop().await;
    }
}
