use serde_json::json;

use super::{Ca, start, until};

#[tokio::test(flavor = "multi_thread")]
async fn only_a_front_proxy_names_users() {
    let folder = tempfile::tempdir().unwrap();
    let (ca, stranger) = (Ca::new("front-proxy"), Ca::new("front-proxy"));
    let file = folder.path().join("front-proxy.crt");
    std::fs::write(&file, &ca.pem).unwrap();
    let cluster = start(&[
        format!("--requestheader-client-ca-file={}", file.display()),
        "--requestheader-allowed-names=front".to_owned(),
        "--requestheader-username-headers=X-Remote-User".to_owned(),
        "--requestheader-uid-headers=X-Remote-Uid".to_owned(),
        "--requestheader-group-headers=X-Remote-Group".to_owned(),
        "--requestheader-extra-headers-prefix=X-Remote-Extra-".to_owned(),
    ])
    .await;
    let headers = [
        ("x-remote-user", "jane"),
        ("x-remote-uid", "7"),
        ("x-remote-group", "a"),
        ("x-remote-group", "b"),
        ("x-remote-extra-acme.com%2Fproject", "p"),
    ];
    let proxy = cluster.certified(&ca.client("front"));
    let expected = json!({
        "username": "jane",
        "uid": "7",
        "groups": ["a", "b", "system:authenticated"],
        "extra": {"acme.com/project": ["p"]},
    });
    assert_eq!(proxy.whoami(&headers).await.unwrap(), expected);
    // A request without user headers is anonymous: the proxy's own certificate does not authenticate a user.
    assert_eq!(proxy.whoami(&[]).await, None);
    for other in [ca.client("other"), stranger.client("front")] {
        assert_eq!(cluster.certified(&other).whoami(&headers).await, None);
    }
    let masters = [("x-remote-user", "jane"), ("x-remote-group", "system:masters")];
    assert_eq!(cluster.admin.whoami(&masters).await.unwrap()["username"], "kubernetes-admin");
    let unnamed = cluster.client_of(kube::config::AuthInfo::default());
    let (code, refused) = unnamed.send("GET", "/api/v1/nodes", &masters, "").await;
    assert!(code == 403 && refused["message"].as_str().unwrap().contains("system:anonymous"));
    let path = "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication";
    until(async || cluster.admin.get(path).await.0 == 200).await;
    let (_, told) = cluster.admin.get(path).await;
    for (key, expected) in [
        ("requestheader-allowed-names", "[\"front\"]"),
        ("requestheader-username-headers", "[\"X-Remote-User\"]"),
        ("requestheader-uid-headers", "[\"X-Remote-Uid\"]"),
        ("requestheader-group-headers", "[\"X-Remote-Group\"]"),
        ("requestheader-extra-headers-prefix", "[\"X-Remote-Extra-\"]"),
    ] {
        assert_eq!(told["data"][key], expected, "{key}");
    }
    let stripped = |pem: &str| pem.replace("\r\n", "\n");
    assert_eq!(told["data"]["requestheader-client-ca-file"], stripped(&ca.pem));
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn config_map_follows_ca_files_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let (old, new) = (Ca::new("old"), Ca::new("new"));
    let file = folder.path().join("front-proxy.crt");
    std::fs::write(&file, &old.pem).unwrap();
    let flags = [
        format!("--requestheader-client-ca-file={}", file.display()),
        "--requestheader-username-headers=X-Remote-User".to_owned(),
    ];
    let cluster = start(&flags).await;
    let path = "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication";
    let told = async || {
        let (_, told) = cluster.admin.get(path).await;
        told["data"]["requestheader-client-ca-file"].as_str().unwrap_or_default().to_owned()
    };
    let stripped = |pem: &str| pem.replace("\r\n", "\n");
    until(async || told().await == stripped(&old.pem)).await;
    // Nothing else happens: no handshake, no write of the config map.
    std::fs::write(&file, &new.pem).unwrap();
    until(async || told().await == stripped(&old.pem) + &stripped(&new.pem)).await;
    cluster.stop().await;
}
