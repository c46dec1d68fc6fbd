//! Forbidden objects are not served under another name.

use kevel_test_support::Cluster;

#[tokio::test(flavor = "multi_thread")]
async fn no_form_of_a_path_leads_past_permission() {
    let cluster = Cluster::start(&[]).await;
    let rbac = "/apis/rbac.authorization.k8s.io/v1/namespaces/default";
    let secret = r#"{"metadata":{"name":"s"},"stringData":{"k":"v"},"data":{"k":"aGlkZGVu"}}"#;
    cluster.ok("admin", "POST /api/v1/namespaces/default/secrets", secret).await;
    cluster.ok("admin", "POST /api/v1/namespaces/kube-public/secrets", secret).await;
    // Jane reads the config maps of one namespace, and lists one secret, which is another.
    let role = r#"{"metadata":{"name":"r"},"rules":[{"verbs":["get","list"],"apiGroups":[""],"resources":["configmaps"]},{"verbs":["list"],"apiGroups":[""],"resources":["secrets"],"resourceNames":["other"]}]}"#;
    let binding = r#"{"metadata":{"name":"r"},"subjects":[{"kind":"User","name":"jane"}],"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"Role","name":"r"}}"#;
    cluster.ok("admin", &format!("POST {rbac}/roles"), role).await;
    cluster.ok("admin", &format!("POST {rbac}/rolebindings"), binding).await;
    cluster
        .until_sent("jane", "GET /api/v1/namespaces/default/configmaps", "", |answer| {
            answer.0 == 200
        })
        .await;
    for path in [
        "/api/v1/secrets",
        "/api/v1/namespaces/default/secrets",
        "/api/v1/namespaces/default/secrets/s",
        "/api/v1/namespaces/default/secrets/",
        "/api/v1/namespaces/default/secrets/s/",
        "/api/v1/namespaces/default/configmaps/../secrets/s",
        "/api/v1/namespaces/default/configmaps/%2e%2e/secrets/s",
        "/api/v1/namespaces/default/configmaps/..%2fsecrets%2fs",
        "/api/v1/namespaces/default/./secrets/s",
        "/api/v1/namespaces/default/%2e/secrets/s",
        "/api/v1//namespaces/default/secrets/s",
        "//api/v1/namespaces/default/secrets/s",
        "/api//v1/namespaces/default/secrets/s",
        "/api/v1/namespaces//default/secrets/s",
        "/api/v1/namespaces/default//secrets/s",
        "/api/v1/namespaces/default/secrets//s",
        "/API/v1/namespaces/default/secrets/s",
        "/api/V1/namespaces/default/secrets/s",
        "/api/v1/Namespaces/default/secrets/s",
        "/api/v1/namespaces/default/Secrets/s",
        "/api/v1/namespaces/default/%73ecrets/s",
        "/api/v1/namespaces/default/secrets/%73",
        "/api/v1/namespaces/default/configmaps/%2e%2e%2f%2e%2e%2fdefault/secrets/s",
        "/api/v1/namespaces/default%2fsecrets/s",
        "/api/v1/namespaces/default/../kube-public/secrets/s",
        "/api/v1/namespaces/default/configmaps;/secrets/s",
        "/api/v1/namespaces/default/configmaps/x/secrets/s",
        "/api/v1/watch/secrets",
        "/api/v1/watch/namespaces/default/secrets",
        "/api/v1/watch/namespaces/default/secrets/s",
        "/api/v1/proxy/namespaces/default/secrets/s",
        "/apis//v1/namespaces/default/secrets/s",
        "/apis/core/v1/namespaces/default/secrets/s",
        "/apis/%2e%2e/api/v1/namespaces/default/secrets/s",
        "/healthz/../api/v1/namespaces/default/secrets/s",
        "/version/../api/v1/namespaces/default/secrets/s",
        "/openapi/v2/../../api/v1/namespaces/default/secrets/s",
        // Verbs and names in the query.
        "/api/v1/namespaces/default/secrets?watch=true",
        "/api/v1/namespaces/default/secrets?watch=1&timeoutSeconds=1",
        "/api/v1/namespaces/default/secrets?verb=get&resource=configmaps",
        "/api/v1/namespaces/default/secrets?fieldSelector=metadata.name%3Ds",
        "/api/v1/namespaces/default/secrets?fieldSelector=metadata.name!%3Dother",
        "/api/v1/secrets?fieldSelector=metadata.name%3Dother&fieldSelector=metadata.name%3Ds",
        "/api/v1/namespaces/kube-public/secrets?fieldSelector=metadata.name%3Dother",
        "/api/v1/namespaces/default/secrets?fieldSelector=metadata.name%3Dother&watch=true&timeoutSeconds=1",
    ] {
        let what = format!("GET {path}");
        let (code, text) = cluster.send("jane", &what, "").await;
        assert!(!text.contains("aGlkZGVu") && !text.contains("\"k\":"), "{what}: {code} {text}");
        assert!(code != 200, "{what}: {code} {text}");
    }
    // Where several names are asked for, what is served is what was judged.
    for path in [
        "/api/v1/namespaces/default/secrets?fieldSelector=metadata.name%3Dother",
        "/api/v1/namespaces/default/secrets?fieldSelector=metadata.name%3Dother,metadata.name%3Ds",
        "/api/v1/namespaces/default/secrets?fieldSelector=metadata.name%3Dother&fieldSelector=metadata.name%3Ds",
        "/api/v1/namespaces/default/secrets?fieldSelector=metadata.name%3Dother&watch=false&watch=true&timeoutSeconds=1",
    ] {
        let (_, text) = cluster.send("jane", &format!("GET {path}"), "").await;
        assert!(!text.contains("aGlkZGVu"), "{path}: {text}");
    }
    // Reading is no writing, whatever headers and parameters say.
    for what in [
        "DELETE /api/v1/namespaces/default/configmaps/x",
        "DELETE /api/v1/namespaces/default/configmaps",
        "DELETE /api/v1/namespaces/default/configmaps?watch=true",
        "DELETE /api/v1/namespaces/default/configmaps/?fieldSelector=metadata.name%3Dx",
        "PUT /api/v1/namespaces/default/configmaps/x",
        "PUT /api/v1/namespaces/default/configmaps/x?_method=GET",
        "PATCH /api/v1/namespaces/default/configmaps/x",
        "POST /api/v1/namespaces/default/configmaps?dryRun=All",
        "POST /api/v1/watch/namespaces/default/configmaps",
    ] {
        let (code, text) = cluster.send("jane", what, "{}").await;
        assert!(matches!(code, 403..=405), "{what}: {code} {text}");
    }
    cluster.stop().await;
}

/// Gives jane permissions in the namespace `default`.
async fn allow(cluster: &Cluster, rules: &str, proof: &str) {
    let rbac = "/apis/rbac.authorization.k8s.io/v1/namespaces/default";
    let role = format!(r#"{{"metadata":{{"name":"r"}},"rules":[{rules}]}}"#);
    let binding = r#"{"metadata":{"name":"r"},"subjects":[{"kind":"User","name":"jane"}],"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"Role","name":"r"}}"#;
    cluster.ok("admin", &format!("POST {rbac}/roles"), &role).await;
    cluster.ok("admin", &format!("POST {rbac}/rolebindings"), binding).await;
    cluster.until_sent("jane", proof, "", |answer| answer.0 != 403).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn field_selected_name_needs_the_named_permission() {
    let cluster = Cluster::start(&[]).await;
    for name in ["foo", "bar"] {
        let secret = format!(r#"{{"metadata":{{"name":"{name}"}}}}"#);
        cluster.ok("admin", "POST /api/v1/namespaces/default/secrets", &secret).await;
    }
    let rules = r#"{"verbs":["list","watch"],"apiGroups":[""],"resources":["secrets"],"resourceNames":["foo"]}"#;
    let named = "/api/v1/namespaces/default/secrets?fieldSelector=metadata.name%3Dfoo";
    allow(&cluster, rules, &format!("GET {named}")).await;
    let secrets = "/namespaces/default/secrets";
    let end = "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&timeoutSeconds=1";
    for (path, selector, expected) in [
        ("/watch{}/foo", "", 200),
        ("/watch{}/foo", "fieldSelector=", 200),
        ("/watch{}/foo", "fieldSelector=metadata.name%3Dfoo", 200),
        ("/watch{}/foo", "fieldSelector=metadata.name%3D%3Dfoo,metadata.namespace%3Ddefault", 200),
        ("/watch{}/foo", "fieldSelector=metadata.name%3Dbar", 400),
        ("/watch{}/foo", "fieldSelector=metadata.name%3D", 400),
        ("/watch{}/foo", "fieldSelector=metadata.name!%3Dfoo", 400),
        ("/watch{}/foo", "fieldSelector=metadata.namespace%3Ddefault", 400),
        (
            "/watch{}/foo",
            "fieldSelector=metadata.name%3Dbar&fieldSelector=metadata.name%3Dfoo",
            400,
        ),
        ("/watch{}", "fieldSelector=metadata.name%3Dfoo", 403),
        ("/watch{}/bar", "fieldSelector=metadata.name%3Dfoo", 403),
        ("{}", "fieldSelector=metadata.name%3Dfoo", 200),
        ("{}", "fieldSelector=metadata.name%3Dfoo;x", 403),
        ("{}", "fieldSelector=metadata.name%3Dfoo%zz", 403),
        ("{}", "fieldSelector=metadata.name%3Dfoo&limit=x", 403),
        ("{}", "fieldSelector=metadata.name%3Dbar", 403),
    ] {
        let path = format!("/api/v1{}?{end}&{selector}", path.replace("{}", secrets));
        let (code, text) = cluster.send("jane", &format!("GET {path}"), "").await;
        assert_eq!(code, expected, "{path}: {text}");
        assert!(code != 200 || !text.contains(r#""name":"bar""#), "{path}: {text}");
    }
    let wrong =
        "GET /api/v1/watch/namespaces/default/secrets/foo?fieldSelector=metadata.name%3Dbar";
    let why = "400 fieldSelector metadata.name doesn't match requested name";
    assert_eq!(cluster.refused("jane", wrong, "").await, why);
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_written_is_what_the_path_names() {
    let cluster = Cluster::start(&[]).await;
    let rules = r#"{"verbs":["create","update","patch","get"],"apiGroups":["","coordination.k8s.io"],"resources":["configmaps","leases"],"resourceNames":["foo","new"]}"#;
    let maps = "/api/v1/namespaces/default/configmaps";
    let leases = "/apis/coordination.k8s.io/v1/namespaces/default/leases";
    cluster.ok("admin", &format!("POST {maps}"), r#"{"metadata":{"name":"foo"}}"#).await;
    allow(&cluster, rules, &format!("GET {maps}/foo")).await;
    let object = |metadata: &str| {
        format!(r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{metadata}}}"#)
    };
    let lease = |metadata: &str| format!(r#"{{"metadata":{metadata}}}"#);
    let other = |name: &str| {
        format!("400 the name of the object (evil) does not match the name on the URL ({name})")
    };
    let unnamed = |name: &str| {
        format!(
            "400 the name of the object ({name} based on URL) was undeterminable: name must be \
             provided"
        )
    };
    let elsewhere = "400 the namespace of the provided object does not match the namespace sent on \
                     the request";
    let evil = r#"{"name":"evil"}"#;
    for name in ["foo", "new"] {
        let moved = format!(r#"{{"name":"{name}","namespace":"kube-public"}}"#);
        for (metadata, expected) in
            [(evil, other(name)), ("{}", unnamed(name)), (&moved, elsewhere.to_owned())]
        {
            // Applied to what is there, the name that is not said is the one that it has.
            if (name, metadata) != ("foo", "{}") {
                let apply = format!("APPLY {maps}/{name}?fieldManager=m");
                let found = cluster.refused("jane", &apply, &object(metadata)).await;
                assert_eq!(found, expected, "{apply} {metadata}");
            }
            let put = format!("PUT {leases}/{name}");
            let found = cluster.refused("jane", &put, &lease(metadata)).await;
            assert_eq!(found, expected, "{put} {metadata}");
        }
    }
    let patch = format!("PATCH {maps}/foo");
    assert_eq!(cluster.refused("jane", &patch, &lease(evil)).await, other("foo"));
    let moved = r#"{"namespace":"kube-public"}"#;
    assert_eq!(cluster.refused("jane", &patch, &lease(moved)).await, elsewhere);
    let mine = r#"{"name":"new","uid":"u"}"#;
    let apply = format!("APPLY {maps}/new?fieldManager=m");
    let refused = cluster.refused("jane", &apply, &object(mine)).await;
    assert!(refused.starts_with("409 Operation cannot be fulfilled on configmaps"), "{refused}");
    // Nothing of that has come about; what the path names does.
    for path in ["/api/v1/configmaps", "/apis/coordination.k8s.io/v1/leases"] {
        let (_, text) = cluster.send("admin", &format!("GET {path}"), "").await;
        assert!(!text.contains("evil") && !text.contains(r#""name":"new""#), "{text}");
    }
    let new = r#"{"name":"new"}"#;
    cluster.ok("jane", &apply, &object(new)).await;
    cluster.ok("jane", &format!("PUT {leases}/new"), &lease(new)).await;
    cluster.stop().await;
}

/// Cluster-scoped objects are not reached through a namespace in which a user has permissions.
#[tokio::test(flavor = "multi_thread")]
async fn a_namespace_is_no_way_out_of_it() {
    let cluster = Cluster::start(&[]).await;
    let rules = r#"{"verbs":["*"],"apiGroups":["*"],"resources":["*"]}"#;
    allow(&cluster, rules, "GET /api/v1/namespaces/default/secrets").await;
    for (method, path, expected) in [
        ("GET", "/api/v1/namespaces/default/namespaces/kube-public", 404),
        ("PATCH", "/api/v1/namespaces/default/namespaces/kube-public", 404),
        ("DELETE", "/api/v1/namespaces/default/namespaces/kube-public", 404),
        ("GET", "/api/v1/namespaces/default/namespaces", 404),
        ("GET", "/api/v1/namespaces/default/nodes", 404),
        ("GET", "/api/v1/namespaces/default/namespaces/kube-public/status", 404),
        ("GET", "/api/v1/namespaces//secrets", 403),
        ("GET", "/api/v1/secrets", 403),
        ("GET", "/api/v1/namespaces/kube-public", 403),
    ] {
        let (code, text) = cluster.send("jane", &format!("{method} {path}"), "{}").await;
        assert_eq!(code, expected, "{method} {path}: {text}");
    }
    cluster.ok("admin", "GET /api/v1/namespaces/kube-public", "").await;
    cluster.stop().await;
}
