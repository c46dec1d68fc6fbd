use super::{account, cluster, pod};
use kevel_test_support::Cluster;

async fn namespace(cluster: &Cluster, name: &str, level: &str) {
    let body = format!(
        r#"{{"metadata":{{"name":"{name}","labels":{{"pod-security.kubernetes.io/enforce":"{level}"}}}}}}"#
    );
    cluster.ok("admin", "POST /api/v1/namespaces", &body).await;
    account(cluster, name).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn namespaces_ask_for_a_level() {
    let cluster = cluster(&[]).await;
    namespace(&cluster, "base", "baseline").await;
    namespace(&cluster, "tight", "restricted").await;
    let host = r#""hostNetwork":true,"volumes":[{"name":"v","hostPath":{"path":"/"}}]"#;
    let good = r#""securityContext":{"runAsNonRoot":true,"seccompProfile":{"type":"RuntimeDefault"}},"containers":[{"name":"c","image":"i","securityContext":{"allowPrivilegeEscalation":false,"capabilities":{"drop":["ALL"]}}}]"#;
    for (namespace, spec, error) in [
        ("default", host, ""),
        ("base", "", ""),
        (
            "base",
            host,
            r#"violates PodSecurity "baseline:latest": host namespaces (hostNetwork=true), hostPath volumes (volume "v")"#,
        ),
        (
            "tight",
            "",
            r#"violates PodSecurity "restricted:latest": allowPrivilegeEscalation != false (container "c" must set securityContext.allowPrivilegeEscalation=false), unrestricted capabilities (container "c" must set securityContext.capabilities.drop=["ALL"]), runAsNonRoot != true (pod or container "c" must set securityContext.runAsNonRoot=true), seccompProfile (pod or container "c" must set securityContext.seccompProfile.type to "RuntimeDefault" or "Localhost")"#,
        ),
        ("tight", good, ""),
    ] {
        let what = format!("POST /api/v1/namespaces/{namespace}/pods?dryRun=All");
        match error {
            "" => drop(cluster.ok("admin", &what, &pod(spec)).await),
            error => assert_eq!(
                cluster.refused("admin", &what, &pod(spec)).await,
                format!(r#"403 pods "p" is forbidden: {error}"#)
            ),
        }
    }
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn configuration_file_sets_defaults_and_exemptions() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("admission.yaml");
    std::fs::write(
        &file,
        r#"
apiVersion: apiserver.config.k8s.io/v1
kind: AdmissionConfiguration
plugins:
- name: PodSecurity
  configuration:
    apiVersion: pod-security.admission.config.k8s.io/v1
    kind: PodSecurityConfiguration
    defaults: {enforce: baseline, enforce-version: v1.30}
    exemptions: {usernames: [joe], namespaces: [kube-system]}
"#,
    )
    .unwrap();
    let flag = format!("--admission-control-config-file={}", file.display());
    let flags = [&*flag, "--authorization-mode=AlwaysAllow", "--allow-privileged"];
    let cluster = cluster(&flags).await;
    account(&cluster, "kube-system").await;
    let privileged =
        pod(r#""containers":[{"name":"c","image":"i","securityContext":{"privileged":true}}]"#);
    for (who, namespace, allowed) in
        [("jane", "default", false), ("joe", "default", true), ("jane", "kube-system", true)]
    {
        let what = format!("POST /api/v1/namespaces/{namespace}/pods?dryRun=All");
        match allowed {
            true => drop(cluster.ok(who, &what, &privileged).await),
            false => assert_eq!(
                cluster.refused(who, &what, &privileged).await,
                r#"403 pods "p" is forbidden: violates PodSecurity "baseline:v1.30": privileged (container "c" must not set securityContext.privileged=true)"#
            ),
        }
    }
    let metrics = cluster.metrics().await;
    for line in [
        r#"pod_security_evaluations_total{decision="deny",mode="enforce",policy_level="baseline",policy_version="v1.30",request_operation="create",resource="pod",subresource=""} 1"#,
        r#"pod_security_exemptions_total{request_operation="create",resource="pod",subresource=""} 2"#,
        r#"pod_security_evaluations_total{decision="allow",mode="enforce",policy_level="privileged",policy_version="latest",request_operation="update",resource="pod",subresource=""} 0"#,
    ] {
        assert!(metrics.contains(line), "{line}");
    }
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn deprecated_apis_are_counted_once_asked_for() {
    let flags = ["--runtime-config=networking.k8s.io/v1beta1=true"];
    let cluster = cluster(&flags).await;
    let line = r#"apiserver_requested_deprecated_apis{group="networking.k8s.io",removed_release="1.37",resource="servicecidrs",subresource="",version="v1beta1"} 1"#;
    assert!(!cluster.metrics().await.contains(line));
    cluster.ok("admin", "GET /apis/networking.k8s.io/v1beta1/servicecidrs", "").await;
    assert!(cluster.metrics().await.contains(line));
    cluster.stop().await;
}
