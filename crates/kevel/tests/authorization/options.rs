use kevel_test_support::Cluster;

#[tokio::test(flavor = "multi_thread")]
async fn a_policy_file_decides() {
    let folder = tempfile::tempdir().unwrap();
    let policy = folder.path().join("policy.jsonl");
    let text = r#"{"apiVersion":"abac.authorization.kubernetes.io/v1beta1","kind":"Policy","spec":{"user":"jane","namespace":"default","resource":"configmaps","readonly":true}}"#;
    std::fs::write(&policy, text).unwrap();
    let file = format!("--authorization-policy-file={}", policy.display());
    let cluster = Cluster::start(&["--authorization-mode=ABAC", &file]).await;
    cluster.ok("jane", "GET /api/v1/namespaces/default/configmaps", "").await;
    assert_eq!(
        cluster.refused("jane", "DELETE /api/v1/namespaces/default/configmaps/x", "").await,
        r#"403 configmaps "x" is forbidden: User "jane" cannot delete resource "configmaps" in API group "" in the namespace "default": No policy matched."#
    );
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_configuration_file_decides() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("config.yaml");
    let write = |authorizers: &str| {
        let head = "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthorizationConfiguration";
        std::fs::write(&file, format!("{head}\nauthorizers: {authorizers}\n")).unwrap();
    };
    write("[{type: AlwaysDeny, name: alwaysdeny}]");
    let flag = format!("--authorization-config={}", file.display());
    let cluster = Cluster::start(&[&flag]).await;
    let what = "GET /api/v1/namespaces/default/configmaps";
    let refused = cluster.refused("jane", what, "").await;
    assert!(refused.ends_with(": Everything is forbidden."), "{refused}");
    write("[{type: AlwaysAllow, name: alwaysallow}, {type: AlwaysDeny, name: alwaysdeny}]");
    cluster.until_sent("jane", what, "", |answer| answer.0 == 200).await;
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_authorization_configuration_stops_the_start() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("config.yaml");
    std::fs::write(
        &file,
        "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthorizationConfiguration\nauthorizers: []",
    )
    .unwrap();
    let flag = format!("--authorization-config={}", file.display());
    for (flags, expected) in [
        (
            vec![flag.as_str()],
            "authorizers: Required value: at least one authorization mode must be defined",
        ),
        (
            vec![flag.as_str(), "--authorization-mode=RBAC"],
            "--authorization-config can not be specified when --authorization-mode or --authorization-webhook-* flags are defined",
        ),
        (vec!["--authorization-config=/nowhere"], "open /nowhere: no such file or directory"),
        (
            vec!["--authorization-mode=ABAC"],
            "authorization-mode ABAC's authorization policy file not passed",
        ),
    ] {
        let mut builder = kevel::Server::builder();
        for flag in &flags {
            builder = builder.flag(*flag);
        }
        let error = builder.start().await.unwrap_err().to_string();
        assert!(error.contains(expected), "{flags:?}: {error}");
    }
}
