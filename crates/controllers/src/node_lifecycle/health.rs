//! Health of a node: when it last gave a sign of life, and what its conditions become without one.

use std::time::{Duration, UNIX_EPOCH};

use kevel_api::time::{MicroTime, Time};
use kevel_api::value::{Map, Value};
use kevel_clock::{Clock, Moment};
use kevel_store::Revision;

use crate::object::{condition, texts};

/// Time without a sign of life after which a node is unhealthy (upstream: `--node-monitor-grace-period`).
const MONITOR_GRACE: Duration = Duration::from_secs(50);
/// Grace period of a node whose kubelet has never posted its status (upstream: `--node-startup-grace-period`).
const STARTUP_GRACE: Duration = Duration::from_secs(60);

/// Condition that says whether a node takes pods.
pub(super) const READY: &str = "Ready";
/// Conditions that a kubelet posts. `NetworkUnavailable` is the control plane's.
const OF_KUBELET: [&str; 4] = [READY, "MemoryPressure", "DiskPressure", "PIDPressure"];

/// Last sign of life of a node: a heartbeat in its status, or a renewed Lease.
#[derive(Debug)]
pub(super) struct NodeHealth {
    /// Moment at which the sign was observed.
    observed: Moment,
    /// Age of the sign at that moment.
    age: Duration,
    /// Heartbeat of the condition `Ready`; `None` while the node has no such condition.
    heartbeat: Option<String>,
    /// Renewal of the node's Lease.
    renewal: Option<MicroTime>,
    /// Revision of the Lease that was heard of last, and the moment of that.
    heard: Option<(Revision, Moment)>,
}

impl NodeHealth {
    /// Health of a node that was not known before: a node without a status is as old as its object, any other gets the
    /// whole grace period.
    pub fn new(node: &Value, clock: &Clock) -> Self {
        let heartbeat = heartbeat(node);
        let age = if heartbeat.is_some() { Duration::ZERO } else { age(node, clock) };
        NodeHealth { observed: clock.moment(), age, heartbeat, renewal: None, heard: None }
    }

    /// Notes the heartbeat in a node's status.
    pub fn note_status(&mut self, node: &Value, now: Moment) {
        let heartbeat = heartbeat(node);
        if heartbeat.is_some() && heartbeat != self.heartbeat {
            self.give_sign(now);
        }
        self.heartbeat = heartbeat;
    }

    /// Notes a write of the node's Lease that is not read yet. One that renews nothing makes the renewal before it look
    /// younger, once.
    pub fn hear_renewal(&mut self, revision: Revision, now: Moment) {
        self.heard = Some((revision, now));
    }

    /// Notes the renewal in the node's Lease of a revision: if it is a new one, the node gave a sign of life when the
    /// Lease was heard of.
    pub fn note_renewal(&mut self, renewal: MicroTime, revision: Revision, now: Moment) {
        if self.renewal.is_some_and(|known| known >= renewal) {
            return;
        }
        self.renewal = Some(renewal);
        let heard = self.heard.filter(|(heard, _)| *heard == revision);
        let moment = heard.map_or(now, |(_, moment)| moment);
        if moment >= self.observed {
            self.give_sign(moment);
        }
    }

    /// Notes a sign of life.
    pub fn give_sign(&mut self, now: Moment) {
        (self.observed, self.age) = (now, Duration::ZERO);
    }

    /// Time until the node is unhealthy; zero if it is.
    pub fn time_left(&self, now: Moment) -> Duration {
        let grace = if self.heartbeat.is_some() { MONITOR_GRACE } else { STARTUP_GRACE };
        let silent = now.saturating_duration_since(self.observed) + self.age;
        grace.saturating_sub(silent)
    }
}

fn heartbeat(node: &Value) -> Option<String> {
    Some(condition(node, READY)?.str_at(&["lastHeartbeatTime"]).to_owned())
}

/// Time since the creation of an object.
fn age(object: &Value, clock: &Clock) -> Duration {
    let created = object.str_at(&["metadata", "creationTimestamp"]).parse();
    let Ok(Time { seconds }) = created else { return Duration::ZERO };
    let created = UNIX_EPOCH + Duration::from_secs(u64::try_from(seconds).unwrap_or(0));
    clock.now().duration_since(created).unwrap_or_default()
}

/// Status of the condition `Ready`: `True`, `False`, `Unknown`; `None` without the condition.
pub(super) fn ready_status(node: &Value) -> Option<&str> {
    Some(condition(node, READY)?.str_at(&["status"]))
}

/// The node with conditions for the end of its grace period; `None` if `Ready` is `Unknown` already.
pub(super) fn without_sign(node: &Value, now: &str) -> Option<Value> {
    if ready_status(node) == Some("Unknown") {
        return None;
    }
    let created = node.str_at(&["metadata", "creationTimestamp"]).to_owned();
    let mut node = node.clone();
    let conditions = node.make_list(&["status"], "conditions");
    for of in OF_KUBELET {
        let known = conditions.iter_mut().find(|condition| condition.str_at(&["type"]) == of);
        match known {
            None => conditions.push(never_posted(of, &created, now).into()),
            Some(known) if known.str_at(&["status"]) == "Unknown" => {}
            Some(known) => {
                let fields = known.make_map(&[]);
                for (field, text) in [
                    ("status", "Unknown"),
                    ("reason", "NodeStatusUnknown"),
                    ("message", "Kubelet stopped posting node status."),
                    ("lastTransitionTime", now),
                ] {
                    fields.insert(field, text.into());
                }
            }
        }
    }
    Some(node)
}

fn never_posted(of: &str, created: &str, now: &str) -> Map {
    texts([
        ("type", of),
        ("status", "Unknown"),
        ("lastHeartbeatTime", created),
        ("lastTransitionTime", now),
        ("reason", "NodeStatusNeverUpdated"),
        ("message", "Kubelet never posted node status."),
    ])
}

#[cfg(test)]
mod tests {
    use kevel_clock::ManualClock;
    use kevel_codec::json::{Unknown, decode_any};

    use super::*;

    const CREATED: &str = "1970-01-01T00:00:40Z";

    fn node(conditions: &str) -> Value {
        let text = format!(
            r#"{{"metadata":{{"creationTimestamp":"{CREATED}"}},"status":{{"conditions":[{conditions}]}}}}"#
        );
        decode_any(text.as_bytes(), Unknown::Ignore).unwrap().value
    }

    fn ready(heartbeat: &str) -> Value {
        node(&format!(r#"{{"type":"Ready","status":"True","lastHeartbeatTime":"{heartbeat}"}}"#))
    }

    #[test]
    fn each_sign_of_life_begins_the_grace_period_again() {
        let manual = ManualClock::new(UNIX_EPOCH + Duration::from_secs(100));
        let clock = manual.clock();
        let left = |health: &NodeHealth| health.time_left(clock.moment()).as_secs();
        // Created 60 seconds ago, and no status since.
        assert_eq!(left(&NodeHealth::new(&node(""), &clock)), 0);
        manual.advance(Duration::from_secs(10));
        // A status of any age is new to a controller that starts.
        let mut health = NodeHealth::new(&ready("1"), &clock);
        assert_eq!(left(&health), 50);
        manual.advance(Duration::from_secs(30));
        health.note_status(&ready("1"), clock.moment());
        assert_eq!(left(&health), 20);
        health.note_status(&ready("2"), clock.moment());
        assert_eq!(left(&health), 50);
        let renewal = |seconds| MicroTime { seconds, nanos: 0 };
        manual.advance(Duration::from_secs(20));
        health.hear_renewal(Revision(7), clock.moment());
        manual.advance(Duration::from_secs(10));
        assert_eq!(left(&health), 20);
        // The sign of life was the write of the Lease, not the look at it.
        health.note_renewal(renewal(5), Revision(7), clock.moment());
        assert_eq!(left(&health), 40);
        // A Lease that is in the cache, and was not heard of yet, was written now.
        health.note_renewal(renewal(6), Revision(8), clock.moment());
        assert_eq!(left(&health), 50);
        manual.advance(Duration::from_secs(60));
        health.hear_renewal(Revision(9), clock.moment());
        health.note_renewal(renewal(6), Revision(9), clock.moment());
        assert_eq!(left(&health), 0);
        // A node whose condition was removed has the longer grace period.
        health.note_status(&node(""), clock.moment());
        assert_eq!(left(&health), 0);
        health.give_sign(clock.moment());
        assert_eq!(left(&health), 60);
    }

    #[test]
    fn conditions_of_the_kubelet_become_unknown() {
        let disk = r#"{"type":"DiskPressure","status":"Unknown","reason":"r"}"#;
        let other = r#"{"type":"NetworkUnavailable","status":"True"}"#;
        let seen =
            node(&format!(r#"{{"type":"Ready","status":"True","reason":"k"}},{disk},{other}"#));
        let now = "1970-01-01T00:02:00Z";
        let dead = without_sign(&seen, now).unwrap();
        let row = |of: &str| {
            let condition = condition(&dead, of).unwrap();
            ["status", "reason", "lastTransitionTime", "lastHeartbeatTime"]
                .map(|field| condition.str_at(&[field]).to_owned())
        };
        assert_eq!(row("Ready"), ["Unknown", "NodeStatusUnknown", now, ""]);
        assert_eq!(row("DiskPressure"), ["Unknown", "r", "", ""]);
        assert_eq!(row("NetworkUnavailable"), ["True", "", "", ""]);
        assert_eq!(row("PIDPressure"), ["Unknown", "NodeStatusNeverUpdated", now, CREATED]);
        assert_eq!(without_sign(&dead, now), None);
    }
}
