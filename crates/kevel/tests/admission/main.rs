//! Admission plug-ins on a running server: changes and refusals of writes.

#![allow(clippy::unwrap_used)]

mod certificates;
mod closed;
mod configuration;
mod limit_ranger;
mod namespaces;
mod pod_security;
mod pods;
mod policy_params;
mod priority;
mod resource_claims;
mod resource_quota;
mod service_account;
mod storage;

use kevel_test_support::Cluster;

const PODS: &str = "/api/v1/namespaces/default/pods";

/// A server on which pods can be made.
async fn cluster(flags: &[&str]) -> Cluster {
    let cluster = Cluster::start(flags).await;
    account(&cluster, "default").await;
    cluster
}

/// Makes the account of a namespace's pods.
async fn account(cluster: &Cluster, namespace: &str) {
    let found = format!("GET /api/v1/namespaces/{namespace}");
    cluster.until(&found, |answer| answer.0 == 200).await;
    let account = r#"{"metadata":{"name":"default"}}"#;
    let accounts = format!("POST /api/v1/namespaces/{namespace}/serviceaccounts");
    cluster.ok("admin", &accounts, account).await;
}

/// A pod with these fields in its spec, besides a container.
fn pod(spec: &str) -> String {
    let container = r#""containers":[{"name":"c","image":"i"}]"#;
    let spec = match spec {
        "" => container.to_owned(),
        spec if spec.contains(r#""containers""#) => spec.to_owned(),
        spec => format!("{container},{spec}"),
    };
    format!(r#"{{"metadata":{{"name":"p"}},"spec":{{{spec}}}}}"#)
}
