//! Simulated kubelet: registers nodes, renews their leases, and moves the pods bound to them through their phases by
//! status updates alone, so that controllers and the scheduler have work.
//!
//! A pod starts at once. Its containers end by their command: `exit N` ends with N, a command with `sleep` or the like
//! runs on, as does a container without a command outside of a Job; any other succeeds. With `restartPolicy: Always`
//! all run until the pod is deleted.

mod pod;

use std::sync::Arc;
use std::time::Duration;

use kevel_api::time::{MicroTime, Time};
use kevel_clock::Clock;
use serde_json::{Value, json};

use crate::Result;
use crate::client::{Client, Request};

/// Default number of simulated nodes.
pub const NODES: usize = 3;
/// Lease renewal interval of a real kubelet.
const RENEW: Duration = Duration::from_secs(10);
/// Heartbeats between repetitions of an unchanged node status.
const HEARTBEATS_PER_STATUS: u64 = 6;

/// Simulates `count` nodes until the process ends.
pub async fn run(client: Client, count: usize) -> Result<()> {
    let client = Arc::new(client);
    for index in 0..count {
        let client = Arc::clone(&client);
        tokio::spawn(async move { heartbeat(&client, index).await });
    }
    loop {
        if let Err(error) = follow_pods(&client).await {
            eprintln!("watching pods: {error}");
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
}

async fn heartbeat(client: &Client, index: usize) {
    let mut beat = 0;
    loop {
        let said = match beat % HEARTBEATS_PER_STATUS {
            0 => register(client, index).await,
            _ => Ok(()),
        };
        match said.and(renew(client, index).await) {
            Ok(()) => {
                beat += 1;
                tokio::time::sleep(RENEW).await;
            }
            // A server that has just started may not have everything yet.
            Err(error) => {
                eprintln!("{}: {error}", node_name(index));
                beat = 0;
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        }
    }
}

fn node_name(index: usize) -> String {
    format!("node-{index}")
}

async fn register(client: &Client, index: usize) -> Result<()> {
    let name = node_name(index);
    let node = json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": name, "labels": {
            "kubernetes.io/hostname": name, "kubernetes.io/os": "linux",
            "kubernetes.io/arch": "amd64", "beta.kubernetes.io/os": "linux",
            "beta.kubernetes.io/arch": "amd64",
        }},
    });
    let created = client.send(Request::post("/api/v1/nodes", &node)).await?;
    if !matches!(created.code, 201 | 409) {
        return Err(String::from_utf8_lossy(&created.body).into());
    }
    let now = Time::now(&Clock::system()).to_string();
    let condition = |kind: &str, status: &str, reason: &str| {
        json!({"type": kind, "status": status, "reason": reason, "message": reason,
               "lastHeartbeatTime": now, "lastTransitionTime": now})
    };
    let room = json!({"cpu": "16", "memory": "64Gi", "pods": "500", "ephemeral-storage": "500Gi"});
    let status = json!({"status": {
        "capacity": room, "allocatable": room,
        "conditions": [
            condition("MemoryPressure", "False", "KubeletHasSufficientMemory"),
            condition("DiskPressure", "False", "KubeletHasNoDiskPressure"),
            condition("PIDPressure", "False", "KubeletHasSufficientPID"),
            condition("Ready", "True", "KubeletReady"),
        ],
        "addresses": [
            {"type": "InternalIP", "address": node_address(index)},
            {"type": "Hostname", "address": name},
        ],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
        "nodeInfo": {
            "kubeletVersion": "v1.36.3", "kubeProxyVersion": "v1.36.3", "architecture": "amd64",
            "operatingSystem": "linux", "osImage": "pretended", "kernelVersion": "6.1.0",
            "containerRuntimeVersion": "pretended://1.0", "machineID": name, "systemUUID": name,
            "bootID": name,
        },
    }});
    let path = format!("/api/v1/nodes/{name}/status");
    client.json(Request::patch(path, "strategic-merge-patch+json", &status)).await?;
    Ok(())
}

async fn renew(client: &Client, index: usize) -> Result<()> {
    let name = node_name(index);
    let folder = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases";
    let spec = json!({"holderIdentity": name, "leaseDurationSeconds": 40, "renewTime": MicroTime::now(&Clock::system()).to_string()});
    let patch = json!({"spec": spec});
    let path = format!("{folder}/{name}");
    let renewed = client.send(Request::patch(path, "merge-patch+json", &patch)).await?;
    if renewed.code == 404 {
        let lease = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
                           "metadata": {"name": name}, "spec": spec});
        client.json(Request::post(folder, &lease)).await?;
    }
    Ok(())
}

async fn follow_pods(client: &Arc<Client>) -> Result<()> {
    // The watch begins with the current state of all pods.
    let path = "/api/v1/pods?watch=1&sendInitialEvents=true&allowWatchBookmarks=true\
                &resourceVersionMatch=NotOlderThan&fieldSelector=spec.nodeName!=";
    let mut events = client.watch(Request::get(path)).await?;
    while let Some(line) = events.next().await? {
        let mut event: Value = serde_json::from_slice(&line)?;
        if !matches!(event["type"].as_str(), Some("ADDED" | "MODIFIED")) {
            continue;
        }
        let pod = event["object"].take();
        let client = Arc::clone(client);
        tokio::spawn(async move {
            if let Err(error) = step(&client, &pod).await {
                eprintln!("{}: {error}", pod["metadata"]["name"]);
            }
        });
    }
    Ok(())
}

/// Moves a pod one step further; the resulting event leads to the next step.
async fn step(client: &Client, pod: &Value) -> Result<()> {
    let metadata = &pod["metadata"];
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let path = format!(
        "/api/v1/namespaces/{}/pods/{}",
        text(&metadata["namespace"]),
        text(&metadata["name"])
    );
    let ours = text(&pod["spec"]["nodeName"]).starts_with("node-");
    if !ours {
        return Ok(());
    }
    let running = pod["status"]["phase"] == "Running";
    let status = match pod["status"]["phase"].as_str() {
        _ if !metadata["deletionTimestamp"].is_null() => {
            let last = json!({"gracePeriodSeconds": 0, "preconditions": {"uid": metadata["uid"]}});
            if running {
                patch_status(client, &path, metadata, pod::ended(pod, 0, None)).await?;
            }
            let last = Request::delete(path).with_body("application/json", last.to_string());
            // Another client may have deleted the pod first.
            client.send(last).await?;
            return Ok(());
        }
        Some("Pending") if pod::has_images(pod) => pod::started(pod),
        Some("Running") => match pod::exit_code(pod) {
            Some(0) => pod::ended(pod, 0, Some("Succeeded")),
            Some(code) => pod::ended(pod, code, Some("Failed")),
            None if pod["status"]["observedGeneration"] != metadata["generation"] => {
                json!({"observedGeneration": metadata["generation"]})
            }
            None => return Ok(()),
        },
        _ => return Ok(()),
    };
    patch_status(client, &path, metadata, status).await
}

async fn patch_status(client: &Client, path: &str, metadata: &Value, status: Value) -> Result<()> {
    let patch = json!({"metadata": {"uid": metadata["uid"]}, "status": status});
    let request = Request::patch(format!("{path}/status"), "strategic-merge-patch+json", &patch);
    let answer = client.send(request).await?;
    match answer.code {
        // The pod is gone, or is another of the same name.
        200 | 404 | 409 => Ok(()),
        code => {
            Err(format!("{path}/status: {code} {}", String::from_utf8_lossy(&answer.body)).into())
        }
    }
}

/// Address without a listener, so that connections to the kubelet are refused at once.
fn node_address(index: usize) -> String {
    format!("127.0.0.{}", index % 250 + 2)
}
