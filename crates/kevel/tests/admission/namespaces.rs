use kevel_api::builtin;

use super::cluster;

const MAP: &str = r#"{"metadata":{"name":"m"}}"#;

#[tokio::test(flavor = "multi_thread")]
async fn a_namespace_is_made_with_the_first_object_in_it() {
    let cluster = cluster(&["--enable-admission-plugins=NamespaceAutoProvision"]).await;
    cluster.ok("admin", "POST /api/v1/namespaces/new/configmaps", MAP).await;
    let made = cluster.ok("admin", "GET /api/v1/namespaces/new", "").await;
    assert_eq!(made["status"]["phase"], "Active");
    // A dry run changes nothing.
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

/// All that is created in namespaces: paths below one, and bodies that can be decoded. Of a subresource, there is a parent.
fn creations() -> impl Iterator<Item = (&'static builtin::Resource, String)> {
    let created = builtin::resources().iter().filter(|resource| {
        resource.on && resource.namespaced && resource.verbs.contains(&"create")
    });
    created.map(|resource| {
        let base = match resource.group {
            "" => format!("/api/{}", resource.version),
            group => format!("/apis/{group}/{}", resource.version),
        };
        let path = resource.path.replace('/', "/it/");
        (resource, format!("POST {base}/namespaces/gone/{path}"))
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn terminating_namespace_gets_neither_objects_nor_subresources() {
    let cluster = cluster(&["--disable-admission-plugins=ServiceAccount"]).await;
    cluster.ok("admin", "POST /api/v1/namespaces", r#"{"metadata":{"name":"gone"}}"#).await;
    let pod = r#"{"metadata":{"name":"it"},"spec":{"containers":[{"name":"c","image":"i"}]}}"#;
    for (plural, object) in
        [("configmaps", MAP), ("pods", pod), ("serviceaccounts", r#"{"metadata":{"name":"it"}}"#)]
    {
        cluster.ok("admin", &format!("POST /api/v1/namespaces/gone/{plural}"), object).await;
    }
    cluster.ok("admin", "DELETE /api/v1/namespaces/gone", "").await;
    let (mut refused, mut subresources) = (0, Vec::new());
    for (resource, request) in creations() {
        let (code, answer) = cluster.send("admin", &request, r#"{"metadata":{"name":"it"}}"#).await;
        let why = "unable to create new content in namespace gone because it is being terminated";
        let terminated = code == 403 && answer.contains(why);
        // A connection creates nothing, and a review must not tell what there is.
        let creates =
            !resource.kind.ends_with("Options") && resource.group != "authorization.k8s.io";
        assert_eq!(terminated, creates, "{request}: {code} {answer}");
        refused += usize::from(terminated);
        if terminated && let Some((_, subresource)) = resource.path.split_once('/') {
            let cause = r#""causes":[{"reason":"NamespaceTerminating","message":"namespace gone is being terminated","field":"metadata.namespace"}]"#;
            assert!(answer.contains(cause), "{answer}");
            subresources.push(subresource);
        }
    }
    subresources.sort_unstable();
    assert_eq!(subresources, ["binding", "eviction", "token"]);
    assert!(refused > 30, "{refused}");
    // What is there may be changed and deleted.
    let path = "/api/v1/namespaces/gone/configmaps/m";
    cluster.ok("admin", &format!("PATCH {path}"), r#"{"data":{"a":"b"}}"#).await;
    cluster.ok("admin", &format!("DELETE {path}"), "").await;
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn object_without_its_namespace_is_deleted_but_not_updated() {
    let cluster = cluster(&[]).await;
    cluster.ok("admin", "POST /api/v1/namespaces", r#"{"metadata":{"name":"gone"}}"#).await;
    cluster.ok("admin", "POST /api/v1/namespaces/gone/configmaps", MAP).await;
    let mut namespace = cluster.ok("admin", "DELETE /api/v1/namespaces/gone", "").await;
    namespace["spec"] = serde_json::json!({});
    namespace["metadata"]["resourceVersion"] = "".into();
    let finalize = "PUT /api/v1/namespaces/gone/finalize";
    cluster.ok("admin", finalize, &namespace.to_string()).await;
    let path = "/api/v1/namespaces/gone/configmaps/m";
    assert_eq!(
        cluster.refused("admin", &format!("PATCH {path}"), r#"{"data":{"a":"b"}}"#).await,
        r#"404 namespaces "gone" not found"#
    );
    cluster.ok("admin", &format!("DELETE {path}"), "").await;
    cluster.stop().await;
}
