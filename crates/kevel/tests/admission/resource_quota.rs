use std::sync::Arc;

use super::{PODS, cluster, pod};
use kevel_test_support::Cluster;

const QUOTAS: &str = "/api/v1/namespaces/default/resourcequotas";

/// Makes a quota of which nothing is used, as its controller would.
async fn quota(cluster: &Cluster, hard: &[(&str, &str)], rest: &str) {
    let map = |entries: &mut dyn Iterator<Item = (&str, &str)>| {
        let entries = entries.map(|(name, amount)| format!(r#""{name}":"{amount}""#));
        format!("{{{}}}", entries.collect::<Vec<_>>().join(","))
    };
    let used = map(&mut hard.iter().map(|(name, _)| (*name, "0")));
    let hard = map(&mut hard.iter().copied());
    let body = format!(r#"{{"metadata":{{"name":"q"}},"spec":{{"hard":{hard}{rest}}}}}"#);
    cluster.ok("admin", &format!("POST {QUOTAS}"), &body).await;
    let status = format!(r#"{{"status":{{"hard":{hard},"used":{used}}}}}"#);
    cluster.ok("admin", &format!("PATCH {QUOTAS}/q/status"), &status).await;
}

fn named(name: &str, cpu: &str) -> String {
    pod(&format!(
        r#""containers":[{{"name":"c","image":"i","resources":{{"requests":{{"cpu":"{cpu}"}}}}}}]"#
    ))
    .replace(r#""name":"p""#, &format!(r#""name":"{name}""#))
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_made_is_counted_before_it_is_there() {
    let cluster = cluster(&[]).await;
    quota(&cluster, &[("pods", "2"), ("requests.cpu", "1")], "").await;
    let pods = format!("POST {PODS}");
    for (body, refused) in [
        (
            pod(""),
            r#"403 pods "p" is forbidden: failed quota: q: must specify requests.cpu for: c"#,
        ),
        (named("a", "600m"), ""),
        (
            named("b", "600m"),
            r#"403 pods "b" is forbidden: exceeded quota: q, requested: requests.cpu=600m, used: requests.cpu=600m, limited: requests.cpu=1"#,
        ),
        (named("b", "100m"), ""),
        (
            named("c", "500m"),
            r#"403 pods "c" is forbidden: exceeded quota: q, requested: pods=1,requests.cpu=500m, used: pods=2,requests.cpu=700m, limited: pods=2,requests.cpu=1"#,
        ),
    ] {
        match refused {
            "" => drop(cluster.ok("admin", &pods, &body).await),
            refused => assert_eq!(cluster.refused("admin", &pods, &body).await, refused),
        }
    }
    let quota = cluster.ok("admin", &format!("GET {QUOTAS}/q"), "").await;
    assert_eq!(quota["status"]["used"].to_string(), r#"{"pods":"2","requests.cpu":"700m"}"#);
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_creates_do_not_exceed_the_quota() {
    let cluster = Arc::new(cluster(&[]).await);
    quota(&cluster, &[("count/configmaps", "7")], "").await;
    let makers = (0..40).map(|number| {
        let cluster = cluster.clone();
        tokio::spawn(async move {
            let body = format!(r#"{{"metadata":{{"name":"m{number}"}}}}"#);
            cluster.send("admin", "POST /api/v1/namespaces/default/configmaps", &body).await.0
        })
    });
    let mut made = 0;
    for maker in makers.collect::<Vec<_>>() {
        match maker.await.unwrap() {
            201 => made += 1,
            code => assert_eq!(code, 403),
        }
    }
    assert_eq!(made, 7);
    let quota = cluster.ok("admin", &format!("GET {QUOTAS}/q"), "").await;
    assert_eq!(quota["status"]["used"]["count/configmaps"], "7");
}

#[tokio::test(flavor = "multi_thread")]
async fn services_and_claims_are_counted_by_what_they_are() {
    let cluster = cluster(&[]).await;
    let hard = [
        ("services", "2"),
        ("services.loadbalancers", "0"),
        ("services.nodeports", "1"),
        ("persistentvolumeclaims", "2"),
        ("requests.storage", "3Gi"),
        ("gold.storageclass.storage.k8s.io/requests.storage", "1Gi"),
    ];
    quota(&cluster, &hard, "").await;
    let claim = |name: &str, class: &str, size: &str| {
        format!(
            r#"{{"metadata":{{"name":"{name}"}},"spec":{{"accessModes":["ReadWriteOnce"],"storageClassName":"{class}","resources":{{"requests":{{"storage":"{size}"}}}}}}}}"#
        )
    };
    let service = |name: &str, kind: &str| {
        format!(
            r#"{{"metadata":{{"name":"{name}"}},"spec":{{"type":"{kind}","ports":[{{"port":80}}]}}}}"#
        )
    };
    let (services, claims) = (
        "POST /api/v1/namespaces/default/services",
        "POST /api/v1/namespaces/default/persistentvolumeclaims",
    );
    for (what, body, error) in [
        (
            services,
            service("s", "LoadBalancer"),
            r#"services "s" is forbidden: exceeded quota: q, requested: services.loadbalancers=1, used: services.loadbalancers=0, limited: services.loadbalancers=0"#,
        ),
        (services, service("a", "NodePort"), ""),
        (
            services,
            service("b", "NodePort"),
            r#"services "b" is forbidden: exceeded quota: q, requested: services.nodeports=1, used: services.nodeports=1, limited: services.nodeports=1"#,
        ),
        (services, service("b", "ClusterIP"), ""),
        (
            claims,
            claim("c", "gold", "2Gi"),
            r#"persistentvolumeclaims "c" is forbidden: exceeded quota: q, requested: gold.storageclass.storage.k8s.io/requests.storage=2Gi, used: gold.storageclass.storage.k8s.io/requests.storage=0, limited: gold.storageclass.storage.k8s.io/requests.storage=1Gi"#,
        ),
        (claims, claim("c", "gold", "1Gi"), ""),
        (
            claims,
            claim("d", "iron", "2049Mi"),
            r#"persistentvolumeclaims "d" is forbidden: exceeded quota: q, requested: requests.storage=2049Mi, used: requests.storage=1Gi, limited: requests.storage=3Gi"#,
        ),
        (claims, claim("d", "iron", "2Gi"), ""),
    ] {
        match error {
            "" => drop(cluster.ok("admin", what, &body).await),
            error => {
                assert_eq!(cluster.refused("admin", what, &body).await, format!("403 {error}"));
            }
        }
    }
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_quota_with_scopes_is_about_some_pods() {
    for (scope, spec) in [
        (r#","scopes":["BestEffort"]"#, ""),
        (r#","scopes":["Terminating"]"#, r#""activeDeadlineSeconds":5"#),
        (
            r#","scopeSelector":{"matchExpressions":[{"scopeName":"PriorityClass","operator":"In","values":["system-node-critical"]}]}"#,
            r#""priorityClassName":"system-node-critical""#,
        ),
        (
            r#","scopes":["CrossNamespacePodAffinity"]"#,
            r#""affinity":{"podAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":[{"topologyKey":"k","namespaces":["x"]}]}}"#,
        ),
    ] {
        let cluster = cluster(&[]).await;
        let class = "GET /apis/scheduling.k8s.io/v1/priorityclasses/system-node-critical";
        cluster.until(class, |answer| answer.0 == 200).await;
        quota(&cluster, &[("pods", "0")], scope).await;
        assert_eq!(
            cluster.refused("admin", &format!("POST {PODS}"), &pod(spec)).await,
            r#"403 pods "p" is forbidden: exceeded quota: q, requested: pods=1, used: pods=0, limited: pods=0"#,
            "{scope}"
        );
        cluster.ok("admin", &format!("POST {PODS}"), &named("other", "1m")).await;
        cluster.stop().await;
    }
}
