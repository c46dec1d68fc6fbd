use serde_json::json;

use super::cluster;

const CLAIMS: &str = "/api/v1/namespaces/default/persistentvolumeclaims";

fn claim(class: Option<&str>) -> String {
    let mut claim = json!({"metadata": {"name": "v"}, "spec": {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}},
    }});
    if let Some(class) = class {
        claim["spec"]["storageClassName"] = class.into();
    }
    claim.to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn claims_have_the_newest_default_class_and_are_protected() {
    let cluster = cluster(&[]).await;
    let class = |name: &str| {
        json!({"metadata": {"name": name, "annotations": {
            "storageclass.kubernetes.io/is-default-class": "true",
        }}, "provisioner": "p", "allowVolumeExpansion": true})
        .to_string()
    };
    cluster.ok("admin", "POST /apis/storage.k8s.io/v1/storageclasses", &class("usual")).await;
    let dry = format!("POST {CLAIMS}?dryRun=All");
    let made = cluster
        .until_ok(&dry, &claim(None), |made| !made["spec"]["storageClassName"].is_null())
        .await;
    assert_eq!(made["spec"]["storageClassName"], "usual");
    assert_eq!(made["metadata"]["finalizers"][0], "kubernetes.io/pvc-protection");
    let made = cluster.ok("admin", &dry, &claim(Some(""))).await;
    assert_eq!(made["spec"]["storageClassName"], "");
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn bound_claims_grow_where_their_class_can() {
    let cluster = cluster(&[]).await;
    cluster.ok("admin", &format!("POST {CLAIMS}"), &claim(Some("none"))).await;
    let bound = r#"{"status":{"phase":"Bound","capacity":{"storage":"1Gi"}}}"#;
    cluster.ok("admin", &format!("PATCH {CLAIMS}/v/status"), bound).await;
    let grown = r#"{"spec":{"resources":{"requests":{"storage":"2Gi"}}}}"#;
    assert_eq!(
        cluster.refused("admin", &format!("PATCH {CLAIMS}/v"), grown).await,
        r#"403 persistentvolumeclaims "v" is forbidden: only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must support resize"#
    );
    let class =
        json!({"metadata": {"name": "none"}, "provisioner": "p", "allowVolumeExpansion": true});
    let class = class.to_string();
    cluster.ok("admin", "POST /apis/storage.k8s.io/v1/storageclasses", &class).await;
    cluster
        .until_sent("admin", &format!("PATCH {CLAIMS}/v"), grown, |answer| answer.0 == 200)
        .await;
    cluster.stop().await;
}
