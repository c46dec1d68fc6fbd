//! Users that controllers act as, and the flag that selects them.

use kevel_controllers::KNOWN;
use kevel_test_support::Cluster;
use kevel_test_support::until;
use serde_json::Value;

use super::{create_namespace, exists};

#[tokio::test(flavor = "multi_thread")]
async fn controllers_act_as_their_service_accounts_through_authorization() {
    let folder = tempfile::tempdir().unwrap();
    let (policy, log) = (folder.path().join("policy.yaml"), folder.path().join("audit.log"));
    let rules = "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: Metadata}]\n";
    std::fs::write(&policy, rules).unwrap();
    let flags = [
        "--controllers=*".to_owned(),
        format!("--audit-policy-file={}", policy.display()),
        format!("--audit-log-path={}", log.display()),
    ];
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    let cluster = Cluster::start(&flags).await;
    create_namespace(&cluster, "new").await;
    let path = "/api/v1/namespaces/new/serviceaccounts/default";
    until(async || exists(&cluster, path).await).await;
    let created = |event: &Value| {
        event["verb"] == "create"
            && event["objectRef"]["resource"] == "serviceaccounts"
            && event["objectRef"]["namespace"] == "new"
            && event["responseStatus"]["code"] == 201
    };
    let mut found = None;
    until(async || {
        let text = std::fs::read_to_string(&log).unwrap_or_default();
        let events = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        found = events.into_iter().find(created);
        found.is_some()
    })
    .await;
    let event = found.unwrap();
    let user = "system:serviceaccount:kube-system:service-account-controller";
    assert_eq!(event["user"]["username"], user);
    let agent = event["userAgent"].as_str().unwrap();
    assert!(agent.starts_with("kube-controller-manager/") && agent.ends_with(user), "{agent}");
    let reason = event["annotations"]["authorization.k8s.io/reason"].as_str().unwrap();
    assert!(reason.contains("system:controller:service-account-controller"), "{reason}");
    let metrics = cluster.metrics().await;
    assert!(metrics.contains(r#"workqueue_adds_total{name="serviceaccount"}"#));
    assert!(metrics.contains(r#"workqueue_depth{name="serviceaccount"} 0"#));
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn unknown_and_absent_controllers_stop_the_start() {
    for (flag, told) in [
        ("--controllers=*,nope", r#""nope" is not in the list of known controllers"#),
        (
            "--controllers=deployment",
            r#""deployment" is a controller of kube-controller-manager that this server does not have"#,
        ),
    ] {
        let error = kevel::Server::builder().flag(flag).start().await.unwrap_err().to_string();
        assert_eq!(error, told);
    }
}

/// Lines of `/readyz?verbose` that name controllers.
async fn ready_controllers(cluster: &Cluster) -> Vec<String> {
    let text = cluster.admin.raw("GET", "/readyz?verbose", &[], "").await.into_body();
    let names = text.lines().filter_map(|line| line.strip_prefix("[+]")?.strip_suffix(" ok"));
    let known = |name: &&str| KNOWN.iter().any(|known| known.name == *name);
    names.filter(known).map(str::to_owned).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn readyz_names_the_controllers_that_run() {
    // One of those selected is off for want of its gate.
    for (flag, expected) in [
        ("--controllers=", vec![]),
        (
            "--controllers=podgc,namespace,podcertificaterequest-cleaner-controller,csrsigning",
            vec![
                "certificatesigningrequest-signing-controller",
                "namespace-controller",
                "pod-garbage-collector-controller",
            ],
        ),
    ] {
        let cluster = Cluster::start(&[flag]).await;
        assert_eq!(ready_controllers(&cluster).await, expected, "{flag}");
        let (code, _) = cluster.admin.get("/readyz/namespace-controller").await;
        assert_eq!(code, if expected.is_empty() { 404 } else { 200 }, "{flag}");
        assert_eq!(cluster.admin.get("/livez/namespace-controller").await.0, 404);
        cluster.stop().await;
    }
}
