//! Columns of Pod: the state of its containers.

use std::collections::HashMap;

use kevel_api::value::Value;
use kevel_registry::columns::{Column, Completed};

use super::cell::{FieldValue, NONE, Shown};
use super::{Columns, columns};

pub(crate) const POD: Columns = Columns {
    completed,
    ..columns!(
        |o| where {
            let state = State::of(o);
            let restarts = match state.restarted {
                Some(last) if state.restarts != 0 => format!("{} ({} ago)", state.restarts, o.ago(last)),
                _ => state.restarts.to_string(),
            };
            // If both are set, `podIP` counts.
            let first_ip = o.each("status.podIPs").next().map_or("", |ip| ip.text("ip"));
        }
        Column::NAME => o.name(),
        Column::text("Ready", "How many of the pod's containers are ready.") =>
            format!("{}/{}", state.ready, state.total),
        Column::text("Status", "What the pod's containers are doing, in a word.") => state.reason,
        Column::text("Restarts", "How often containers were restarted, and when last.") => restarts,
        Column::AGE => o.age(),
        Column::text("IP", "core.v1.PodStatus#podIP").wide() =>
            o.text_or("status.podIP", if first_ip.is_empty() { NONE } else { first_ip }),
        Column::text("Node", "core.v1.PodSpec#nodeName").wide() => o.text_or("spec.nodeName", NONE),
        Column::text("Nominated Node", "core.v1.PodStatus#nominatedNodeName").wide() =>
            o.text_or("status.nominatedNodeName", NONE),
        Column::text("Readiness Gates", "core.v1.PodSpec#readinessGates").wide() =>
            readiness_gates(o),
    )
};

fn completed(pod: &Value) -> Option<Completed> {
    match pod.str_at(&["status", "phase"]) {
        "Succeeded" => {
            Some(Completed { reason: "Succeeded", message: "The pod has completed successfully." })
        }
        "Failed" => Some(Completed { reason: "Failed", message: "The pod failed." }),
        _ => None,
    }
}

fn readiness_gates(o: &Shown<'_>) -> String {
    let gates = o.each("spec.readinessGates");
    let all = gates.len();
    if all == 0 {
        return NONE.into();
    }
    // Of several conditions of a type the first counts. A map, because both lists may be long.
    let conditions = o.each("status.conditions").rev();
    let holds: HashMap<&str, bool> =
        conditions.map(|c| (c.text("type"), c.text("status") == "True")).collect();
    let open = gates.filter(|gate| holds.get(gate.text("conditionType")) == Some(&true)).count();
    format!("{open}/{all}")
}

/// Aggregated state of a pod's containers.
struct State<'a> {
    reason: String,
    ready: usize,
    total: usize,
    restarts: i64,
    /// Time at which a container last terminated before a restart.
    restarted: Option<FieldValue<'a>>,
}

impl<'a> State<'a> {
    fn of(o: &Shown<'a>) -> Self {
        let mut state = State {
            reason: o.text_or("status.reason", o.text("status.phase")).into(),
            ready: 0,
            total: o.count("spec.containers") as usize,
            restarts: 0,
            restarted: None,
        };
        let gated = |c: &FieldValue<'_>| {
            c.text("type") == "PodScheduled" && c.text("reason") == "SchedulingGated"
        };
        if o.each("status.conditions").any(|condition| gated(&condition)) {
            state.reason = "SchedulingGated".into();
        }
        let initializing = state.init_containers(o);
        if !initializing || o.holds("Initialized") {
            state.containers(o);
        }
        if o.is_deleted() {
            if o.text("status.reason") == "NodeLost" {
                state.reason = "Unknown".into();
            } else if !matches!(o.text("status.phase"), "Failed" | "Succeeded") {
                state.reason = "Terminating".into();
            }
        }
        state
    }

    /// Adds the init containers, up to the first that blocks the pod; true if one does. Restarts of init containers
    /// that are not restartable count only until all have completed.
    fn init_containers(&mut self, o: &Shown<'a>) -> bool {
        let sidecars: HashMap<&str, bool> = o
            .each("spec.initContainers")
            .map(|c| (c.text("name"), c.text("restartPolicy") == "Always"))
            .collect();
        let restarting = |c: &FieldValue<'_>| c.text("restartPolicy") == "Always";
        self.total += o.each("spec.initContainers").filter(restarting).count();
        let mut of_sidecars = (0, None);
        let mut held_up = None;
        for (index, status) in o.each("status.initContainerStatuses").enumerate() {
            let is_sidecar = sidecars.get(status.text("name")).copied().unwrap_or(false);
            self.count_restarts(status);
            if is_sidecar {
                of_sidecars.0 += status.int("restartCount");
                of_sidecars.1 = later(of_sidecars.1, status);
            }
            let ended = status.at("state.terminated");
            if ended.is_set() && ended.int("exitCode") == 0 {
                continue;
            }
            if is_sidecar && status.flag("started") {
                self.ready += usize::from(status.flag("ready"));
                continue;
            }
            let waits = status.text("state.waiting.reason");
            held_up = Some(if ended.is_set() {
                format!("Init:{}", end_reason(ended))
            } else if !waits.is_empty() && waits != "PodInitializing" {
                format!("Init:{waits}")
            } else {
                format!("Init:{index}/{}", o.count("spec.initContainers"))
            });
            break;
        }
        let held = held_up.is_some();
        if !held || o.holds("Initialized") {
            (self.restarts, self.restarted) = of_sidecars;
        }
        if let Some(reason) = held_up {
            self.reason = reason;
        }
        held
    }

    /// Adds the containers. In reverse order, so that the reason of the first container wins.
    fn containers(&mut self, o: &Shown<'a>) {
        let mut running = false;
        let mut failure = None;
        for status in o.each("status.containerStatuses").rev() {
            self.count_restarts(status);
            let waits = status.text("state.waiting.reason");
            let ended = status.at("state.terminated");
            if !waits.is_empty() {
                self.reason = waits.into();
            } else if ended.is_set() {
                self.reason = end_reason(ended);
                if ended.int("exitCode") != 0 {
                    failure = Some(self.reason.clone());
                }
            } else if status.flag("ready") && status.at("state.running").is_set() {
                running = true;
                self.ready += 1;
            }
        }
        // A completed container does not describe a pod with other containers still running.
        if self.reason == "Completed" {
            let is_ready =
                |c: FieldValue<'_>| c.text("type") == "Ready" && c.text("status") == "True";
            if running && o.each("status.conditions").any(is_ready) {
                self.reason = "Running".into();
            } else if let Some(failure) = failure {
                self.reason = failure;
            } else if running {
                self.reason = "NotReady".into();
            }
        }
    }

    fn count_restarts(&mut self, status: FieldValue<'a>) {
        self.restarts += status.int("restartCount");
        self.restarted = later(self.restarted, status);
    }
}

/// The later of a timestamp and the end of a container's last termination.
fn later<'a>(moment: Option<FieldValue<'a>>, status: FieldValue<'a>) -> Option<FieldValue<'a>> {
    let ended = status.at("lastState.terminated.finishedAt");
    // Timestamps have one format, so that they can be compared as strings.
    let is_later = moment.is_none_or(|moment| moment.as_text() < ended.as_text());
    if ended.is_set() && is_later { Some(ended) } else { moment }
}

fn end_reason(ended: FieldValue<'_>) -> String {
    match (ended.text("reason"), ended.int("signal")) {
        ("", 0) => format!("ExitCode:{}", ended.int("exitCode")),
        ("", signal) => format!("Signal:{signal}"),
        (reason, _) => reason.into(),
    }
}
