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
async fn everything_can_be_denied() {
    let cluster = super::cluster::Cluster::start(&[]).await;
    cluster.stop().await;
    let server = kevel::Server::builder().flag("--enable-admission-plugins=AlwaysDeny");
    let server = server.start().await.unwrap();
    let client = kube::Client::try_from(server.client_config().await.unwrap()).unwrap();
    let request =
        http::Request::post("/api/v1/namespaces").header("content-type", "application/json");
    let request = request.body(br#"{"metadata":{"name":"n"}}"#.to_vec()).unwrap();
    let error = client.request::<serde_json::Value>(request).await.unwrap_err();
    assert!(error.to_string().contains(
        r#"namespaces "n" is forbidden: admission control is denying all modifications"#
    ));
    server.stop().await.unwrap();
}
