use super::cluster;

const MAP: &str = r#"{"metadata":{"name":"m"}}"#;

#[tokio::test(flavor = "multi_thread")]
async fn a_namespace_is_made_with_the_first_object_in_it() {
    let cluster = cluster(&["--enable-admission-plugins=NamespaceAutoProvision"]).await;
    cluster.ok("admin", "POST /api/v1/namespaces/new/configmaps", MAP).await;
    let made = cluster.ok("admin", "GET /api/v1/namespaces/new", "").await;
    assert_eq!(made["status"]["phase"], "Active");
    // Whoever only asks what would happen changes nothing.
    let dry = "POST /api/v1/namespaces/other/configmaps?dryRun=All";
    assert_eq!(cluster.refused("admin", dry, MAP).await, r#"404 namespaces "other" not found"#);
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_written_in_a_namespace_that_is_not_there() {
    let flags = [
        "--enable-admission-plugins=NamespaceExists",
        "--disable-admission-plugins=NamespaceLifecycle",
    ];
    let cluster = cluster(&flags).await;
    assert_eq!(
        cluster.refused("admin", "POST /api/v1/namespaces/none/configmaps", MAP).await,
        r#"404 namespaces "none" not found"#
    );
    cluster.ok("admin", "POST /api/v1/namespaces/default/configmaps", MAP).await;
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_denies_everything_does_not_start() {
    let server = kevel::Server::builder()
        .flag("--enable-admission-plugins=AlwaysDeny")
        .flag("--authorization-mode=AlwaysAllow");
    let error = server.start().await.unwrap_err().to_string();
    assert!(
        error.ends_with("is forbidden: admission control is denying all modifications"),
        "{error}"
    );
}
