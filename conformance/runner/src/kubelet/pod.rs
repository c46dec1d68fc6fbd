//! Pod status as containers start and end.

use kevel_api::time::Time;
use kevel_clock::Clock;
use serde_json::{Value, json};

use super::node_address;

/// Parts of commands that run on.
const RUN_ON: [&str; 6] = ["sleep", "pause", "netexec", "serve", "while", "tail -f"];

/// Exit code of the containers' commands; `None` if one of them runs on.
pub(super) fn exit_code(pod: &Value) -> Option<u64> {
    if pod["spec"]["restartPolicy"] == "Always" {
        return None;
    }
    let owners = pod["metadata"]["ownerReferences"].as_array();
    let of_job = owners.is_some_and(|owners| owners.iter().any(|owner| owner["kind"] == "Job"));
    let codes = pod["spec"]["containers"].as_array()?.iter();
    codes
        .map(|container| container_exit_code(container, of_job))
        .try_fold(0, |worst, code| Some(code?.max(worst)))
}

fn container_exit_code(container: &Value, of_job: bool) -> Option<u64> {
    if container["image"].as_str().is_some_and(|image| image.contains("/pause:")) {
        return None;
    }
    let words = ["command", "args"].iter().flat_map(|key| container[key].as_array()).flatten();
    let text = words.filter_map(Value::as_str).collect::<Vec<_>>().join(" ");
    if RUN_ON.iter().any(|word| text.contains(word)) || (text.is_empty() && !of_job) {
        return None;
    }
    let code = text.split_once("exit ").and_then(|(_, rest)| rest.split_whitespace().next());
    Some(code.and_then(|code| code.parse().ok()).unwrap_or(0))
}

/// Whether a pod's images exist: tests name missing ones on purpose.
pub(super) fn has_images(pod: &Value) -> bool {
    let containers = pod["spec"]["containers"].as_array().into_iter().flatten();
    let mut images = containers.filter_map(|container| container["image"].as_str());
    !images.any(|image| image.ends_with(":404") || image.contains("invalid"))
}

/// Status of a pod whose containers have started.
pub(super) fn started(pod: &Value) -> Value {
    let now = Time::now(&Clock::system()).to_string();
    let gates = pod["spec"]["readinessGates"].as_array().is_some_and(|gates| !gates.is_empty());
    let condition = |kind: &str, status: bool| {
        let status = if status { "True" } else { "False" };
        json!({"type": kind, "status": status, "lastTransitionTime": now})
    };
    let statuses = |key: &str, state: Value, ready: bool| -> Vec<Value> {
        let containers = pod["spec"][key].as_array().into_iter().flatten();
        containers.map(|container| container_status(container, &state, ready)).collect()
    };
    let completed = json!({"terminated": {"exitCode": 0, "reason": "Completed", "startedAt": now, "finishedAt": now}});
    let address = pod_address(pod["metadata"]["uid"].as_str().unwrap_or_default());
    let host = pod["spec"]["nodeName"].as_str().and_then(|name| name.strip_prefix("node-"));
    let host = node_address(host.and_then(|index| index.parse().ok()).unwrap_or_default());
    json!({
        "phase": "Running",
        "observedGeneration": pod["metadata"]["generation"],
        "startTime": now,
        "hostIP": host, "hostIPs": [{"ip": host}],
        "podIP": address, "podIPs": [{"ip": address}],
        "conditions": [
            condition("PodReadyToStartContainers", true),
            condition("Initialized", true),
            condition("Ready", !gates),
            condition("ContainersReady", true),
            condition("PodScheduled", true),
        ],
        "containerStatuses": statuses("containers", json!({"running": {"startedAt": now}}), true),
        "initContainerStatuses": statuses("initContainers", completed, true),
    })
}

/// Status of a pod whose containers have ended, with its phase if that changes.
pub(super) fn ended(pod: &Value, code: u64, phase: Option<&str>) -> Value {
    let now = Time::now(&Clock::system()).to_string();
    let reason = if code == 0 { "Completed" } else { "Error" };
    let state = json!({"running": null, "terminated": {
        "exitCode": code, "reason": reason, "startedAt": pod["status"]["startTime"], "finishedAt": now}});
    let containers = pod["spec"]["containers"].as_array().into_iter().flatten();
    let statuses: Vec<Value> =
        containers.map(|container| container_status(container, &state, false)).collect();
    let condition = |kind: &str| json!({"type": kind, "status": "False", "reason": "PodCompleted", "lastTransitionTime": now});
    let mut status = json!({
        "conditions": [condition("Ready"), condition("ContainersReady")],
        "containerStatuses": statuses,
    });
    if let Some(phase) = phase {
        status["phase"] = phase.into();
    }
    status
}

fn container_status(container: &Value, state: &Value, ready: bool) -> Value {
    json!({
        "name": container["name"], "image": container["image"], "imageID": container["image"],
        "containerID": format!("pretended://{}", container["name"].as_str().unwrap_or_default()),
        "restartCount": 0, "ready": ready, "started": ready, "state": state, "lastState": {},
    })
}

/// Pod address derived from the UID, so that collisions are rare.
fn pod_address(uid: &str) -> String {
    let part = |range: std::ops::Range<usize>| {
        uid.get(range).and_then(|hex| u8::from_str_radix(hex, 16).ok()).unwrap_or(1)
    };
    format!("10.{}.{}.{}", 201 + part(0..2) % 40, part(2..4), part(4..6).clamp(1, 254))
}
