//! Status of quotas.

use serde_json::{Value, json};

use super::{cluster, create_namespace, create_owned, create_pod};

const QUOTA: &str = "/api/v1/namespaces/limited/resourcequotas";

#[tokio::test(flavor = "multi_thread")]
async fn usage_falls_when_objects_go() {
    let cluster = cluster().await;
    create_namespace(&cluster, "limited").await;
    let maps = "/api/v1/namespaces/limited/configmaps";
    let root = format!("GET {maps}/kube-root-ca.crt");
    cluster.until(&root, |(code, _)| *code == 200).await;
    create_owned(&cluster, "limited", "before", &[]).await;
    let hard =
        json!({"count/configmaps": "3", "configmaps": "5", "pods": "1", "requests.cpu": "2"});
    let quota = json!({"metadata": {"name": "q"}, "spec": {"hard": hard}});
    cluster.admin.create(QUOTA, &quota).await;
    let used = |maps: &str| {
        let used = json!({
            "count/configmaps": maps, "configmaps": maps, "pods": "0", "requests.cpu": "0",
        });
        move |quota: &Value| quota["status"]["used"] == used
    };
    let read = format!("GET {QUOTA}/q");
    let found = cluster.until_ok(&read, "", used("2")).await;
    assert_eq!(found["status"]["hard"], found["spec"]["hard"]);

    create_owned(&cluster, "limited", "third", &[]).await;
    cluster.until_ok(&read, "", used("3")).await;
    let fourth = r#"{"metadata":{"name":"fourth"}}"#;
    let refused = cluster.refused("admin", &format!("POST {maps}"), fourth).await;
    assert!(refused.contains("exceeded quota: q"), "{refused}");

    cluster.admin.delete(&format!("{maps}/before")).await;
    cluster.until_ok(&read, "", used("2")).await;
    create_owned(&cluster, "limited", "fourth", &[]).await;
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn usage_follows_objects_into_the_scope_of_a_quota() {
    let cluster = cluster().await;
    create_namespace(&cluster, "limited").await;
    let spec = json!({"hard": {"pods": "5"}, "scopes": ["Terminating"]});
    cluster.admin.create(QUOTA, &json!({"metadata": {"name": "q"}, "spec": spec})).await;
    let used = |pods: &'static str| move |quota: &Value| quota["status"]["used"]["pods"] == pods;
    let pods = create_pod(&cluster, "limited", "runs", &json!({})).await;
    let read = format!("GET {QUOTA}/q");
    cluster.until_ok(&read, "", used("0")).await;
    let ends = r#"{"spec":{"activeDeadlineSeconds":1000}}"#;
    cluster.ok("admin", &format!("PATCH {pods}/runs"), ends).await;
    cluster.until_ok(&read, "", used("1")).await;
    cluster.stop().await;
}
