use std::sync::Arc;

use tempfile::TempDir;

use super::{PODS, account, cluster, pod};

/// A file for `--admission-control-config-file`, as long as the folder is there.
fn file(text: &str) -> (TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("admission.yaml");
    std::fs::write(&path, text).unwrap();
    (folder, format!("--admission-control-config-file={}", path.display()))
}

/// A configuration of one plug-in.
fn plugin(name: &str, configuration: &str) -> String {
    format!(
        "apiVersion: apiserver.config.k8s.io/v1\nkind: AdmissionConfiguration\nplugins:\n\
         - name: {name}\n  configuration: {configuration}\n"
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_makes_no_sense_is_refused() {
    for (text, error) in [
        (
            "kind: Other\napiVersion: x/v1\n".to_owned(),
            r#"no kind "Other" is registered for version "x/v1""#,
        ),
        (
            plugin(
                "PodSecurity",
                "{apiVersion: pod-security.admission.config.k8s.io/v1, kind: PodSecurityConfiguration, defaults: {enforce: high}}",
            ),
            r#"failed to initialize admission plugin PodSecurity: PodSecurity invalid: defaults.enforce: Invalid value: "high": must be one of privileged, baseline, restricted"#,
        ),
        (
            plugin(
                "ResourceQuota",
                "{apiVersion: apiserver.config.k8s.io/v1, kind: ResourceQuotaConfiguration, limitedResources: [{apiGroup: x}]}",
            ),
            "failed to initialize admission plugin ResourceQuota: limitedResources[0].resource: Required value",
        ),
    ] {
        let (_folder, flag) = file(&text);
        let started = kevel::Server::builder().flag(flag).start().await;
        assert_eq!(started.unwrap_err().to_string(), error);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn some_things_need_a_quota() {
    let (_folder, flag) = file(&plugin(
        "ResourceQuota",
        "{apiVersion: apiserver.config.k8s.io/v1, kind: ResourceQuotaConfiguration, limitedResources: [\
         {resource: persistentvolumeclaims, matchContains: [requests.storage]}, \
         {resource: pods, matchScopes: [{scopeName: PriorityClass, operator: In, values: [system-node-critical]}]}]}",
    ));
    let cluster = cluster(&[&flag]).await;
    let class = "GET /apis/scheduling.k8s.io/v1/priorityclasses/system-node-critical";
    cluster.until(class, |answer| answer.0 == 200).await;
    let claim = r#"{"metadata":{"name":"v"},"spec":{"accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":"1Gi"}}}}"#;
    assert_eq!(
        cluster
            .refused("admin", "POST /api/v1/namespaces/default/persistentvolumeclaims", claim)
            .await,
        r#"403 persistentvolumeclaims "v" is forbidden: insufficient quota to consume: requests.storage"#
    );
    let critical = pod(r#""priorityClassName":"system-node-critical""#);
    assert_eq!(
        cluster.refused("admin", &format!("POST {PODS}"), &critical).await,
        "500 insufficient quota to match these scopes: [{PriorityClass In [system-node-critical]}]"
    );
    cluster.ok("admin", &format!("POST {PODS}"), &pod("")).await;
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn events_are_limited() {
    let (_folder, flag) = file(&plugin(
        "EventRateLimit",
        "{apiVersion: eventratelimit.admission.k8s.io/v1alpha1, kind: Configuration, limits: [{type: Namespace, qps: 1, burst: 2}]}",
    ));
    let cluster = Arc::new(cluster(&[&flag, "--enable-admission-plugins=EventRateLimit"]).await);
    let senders = (0..20).map(|number| {
        let cluster = cluster.clone();
        tokio::spawn(async move {
            let body = format!(
                r#"{{"metadata":{{"name":"e{number}"}},"involvedObject":{{"namespace":"default"}}}}"#
            );
            cluster.send("admin", "POST /api/v1/namespaces/default/events", &body).await
        })
    });
    let mut refused = 0;
    for sender in senders.collect::<Vec<_>>() {
        let (code, text) = sender.await.unwrap();
        if code != 201 {
            refused += 1;
            let why = "Too many requests: limit reached on type Namespace for key default";
            assert!(code == 429 && text.contains(why), "{text}");
        }
    }
    assert!((1..20).contains(&refused), "{refused}");
    let other = r#"{"metadata":{"name":"e"},"involvedObject":{"namespace":"kube-public"}}"#;
    cluster.ok("admin", "POST /api/v1/namespaces/kube-public/events", other).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn namespaces_say_where_their_pods_go_and_what_they_tolerate() {
    let (_folder, flag) = file(
        "podNodeSelectorPluginConfig: {clusterDefaultNodeSelector: 'a=b', kube-public: 'c=d,e=f'}\n",
    );
    let plugins = "--enable-admission-plugins=PodNodeSelector,PodTolerationRestriction";
    let cluster = cluster(&[&flag, plugins]).await;
    account(&cluster, "kube-public").await;
    let annotated = r#"{"metadata":{"annotations":{"scheduler.alpha.kubernetes.io/node-selector":"c=d","scheduler.alpha.kubernetes.io/tolerationsWhitelist":"[{\"operator\":\"Exists\",\"effect\":\"NoExecute\"},{\"key\":\"k\",\"operator\":\"Exists\"}]","scheduler.alpha.kubernetes.io/defaultTolerations":"[{\"key\":\"k\",\"operator\":\"Exists\"}]"}}}"#;
    cluster.ok("admin", "PATCH /api/v1/namespaces/kube-public", annotated).await;
    let default = format!("POST {PODS}?dryRun=All");
    let public = "POST /api/v1/namespaces/kube-public/pods?dryRun=All";
    let made = cluster.ok("admin", &default, &pod("")).await;
    assert_eq!(made["spec"]["nodeSelector"].to_string(), r#"{"a":"b"}"#);
    let made = cluster
        .until_ok(public, &pod(""), |made| made["spec"]["nodeSelector"]["a"].is_null())
        .await;
    assert_eq!(made["spec"]["nodeSelector"].to_string(), r#"{"c":"d"}"#);
    assert_eq!(made["spec"]["tolerations"][2]["key"], "k");
    for (what, spec, error) in [
        (
            &*default,
            r#""nodeSelector":{"a":"x"}"#,
            r#"403 pods "p" is forbidden: pod node label selector conflicts with its namespace node label selector"#,
        ),
        (
            public,
            r#""nodeSelector":{"g":"h"}"#,
            r#"403 pods "p" is forbidden: pod node label selector labels conflict with its namespace whitelist"#,
        ),
        (
            public,
            r#""tolerations":[{"key":"other","operator":"Exists","effect":"NoSchedule"}]"#,
            "500 pod tolerations (possibly merged with namespace default tolerations) conflict with its namespace whitelist",
        ),
    ] {
        assert_eq!(cluster.refused("admin", what, &pod(spec)).await, error);
    }
    cluster.stop().await;
}
