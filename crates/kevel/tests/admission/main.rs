//! What the admission plug-ins make of writes to a running server, and refuse.

#![allow(clippy::unwrap_used)]

mod certificates;
#[path = "../authorization/cluster.rs"]
mod cluster;
mod configuration;
mod limit_ranger;
mod namespaces;
mod pod_security;
mod pods;
mod priority;
mod resource_quota;
mod service_account;
mod storage;

use self::cluster::Cluster;

const PODS: &str = "/api/v1/namespaces/default/pods";

/// A server on which pods can be made.
async fn cluster(flags: &[&str]) -> Cluster {
    let cluster = Cluster::start(flags).await;
    let account = "GET /api/v1/namespaces/default/serviceaccounts/default";
    cluster.until(account, |answer| answer.0 == 200).await;
    cluster
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
