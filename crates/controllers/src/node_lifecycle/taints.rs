//! Taints of nodes.

use kevel_api::value::{Map, Value};

use super::health::READY;
use crate::object::texts;

pub(super) const NOT_READY: &str = "node.kubernetes.io/not-ready";
pub(super) const UNREACHABLE: &str = "node.kubernetes.io/unreachable";
const UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";
pub(super) const NO_SCHEDULE: &str = "NoSchedule";
pub(super) const NO_EXECUTE: &str = "NoExecute";

/// Conditions, with a status of each, and the taint for that.
const OF_CONDITIONS: [(&str, &str, &str); 6] = [
    (READY, "False", NOT_READY),
    (READY, "Unknown", UNREACHABLE),
    ("MemoryPressure", "True", "node.kubernetes.io/memory-pressure"),
    ("DiskPressure", "True", "node.kubernetes.io/disk-pressure"),
    ("NetworkUnavailable", "True", "node.kubernetes.io/network-unavailable"),
    ("PIDPressure", "True", "node.kubernetes.io/pid-pressure"),
];

/// A change of a node's taints of one effect.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TaintChange {
    pub effect: &'static str,
    pub add: Vec<&'static str>,
    pub remove: Vec<&'static str>,
}

impl TaintChange {
    /// Change of the taints that keep new pods off a node, by its conditions and `spec.unschedulable`.
    pub fn of_conditions(node: &Value) -> Self {
        let conditions = node.list_at(&["status", "conditions"]);
        let has = |of: &str, status: &str| {
            let fits = |it: &&Value| it.str_at(&["type"]) == of && it.str_at(&["status"]) == status;
            conditions.iter().any(|condition| fits(&condition))
        };
        let wanted = OF_CONDITIONS.iter().filter(|(of, status, _)| has(of, status));
        let mut wanted: Vec<&str> = wanted.map(|(_, _, key)| *key).collect();
        if node.at(&["spec", "unschedulable"]).and_then(Value::as_bool) == Some(true) {
            wanted.push(UNSCHEDULABLE);
        }
        let own = OF_CONDITIONS.iter().map(|(_, _, key)| *key).chain([UNSCHEDULABLE]);
        let remove = own.filter(|key| !wanted.contains(key) && is_tainted(node, key, NO_SCHEDULE));
        let remove = remove.collect();
        wanted.retain(|key| !is_tainted(node, key, NO_SCHEDULE));
        TaintChange { effect: NO_SCHEDULE, add: wanted, remove }
    }

    /// Taint that evicts pods, in place of its opposite.
    pub fn evicting(key: &'static str) -> Self {
        TaintChange { effect: NO_EXECUTE, add: vec![key], remove: vec![opposite(key)] }
    }

    /// Removal of the taints that evict pods.
    pub fn reachable() -> Self {
        TaintChange { effect: NO_EXECUTE, add: Vec::new(), remove: vec![UNREACHABLE, NOT_READY] }
    }

    /// Patch of a node in the state that was seen; `None` if nothing changes. A taint that is there already is added
    /// again, with the present time.
    pub fn patch(&self, node: &Value, now: &str) -> Option<Value> {
        let is = |taint: &Value, keys: &[&str]| {
            taint.str_at(&["effect"]) == self.effect && keys.contains(&taint.str_at(&["key"]))
        };
        let old = node.list_at(&["spec", "taints"]);
        if self.add.is_empty() && !old.iter().any(|taint| is(taint, &self.remove)) {
            return None;
        }
        let mut new: Vec<Value> =
            old.iter().filter(|taint| !is(taint, &self.remove)).cloned().collect();
        for key in &self.add {
            let taint = texts([("key", key), ("effect", self.effect), ("timeAdded", now)]).into();
            match new.iter_mut().find(|taint| is(taint, &[key])) {
                Some(known) => *known = taint,
                None => new.push(taint),
            }
        }
        let seen = node.str_at(&["metadata", "resourceVersion"]);
        let metadata = texts([("resourceVersion", seen)]);
        let taints =
            if new.is_empty() { Value::Null } else { Value::List(new.into_iter().collect()) };
        let spec = Map::from_iter([("taints", taints)]);
        Some(Map::from_iter([("metadata", Value::Map(metadata)), ("spec", spec.into())]).into())
    }
}

/// The taint that excludes another one: a node is either not ready or unreachable.
pub(super) fn opposite(key: &str) -> &'static str {
    if key == NOT_READY { UNREACHABLE } else { NOT_READY }
}

/// Taint that evicts pods from a node whose condition `Ready` has a status; `None` if none does.
pub(super) fn evicting_key(ready: Option<&str>) -> Option<&'static str> {
    match ready {
        Some("False") => Some(NOT_READY),
        Some("Unknown") => Some(UNREACHABLE),
        _ => None,
    }
}

/// Whether a node has a taint.
pub(super) fn is_tainted(node: &Value, key: &str, effect: &str) -> bool {
    let is = |taint: &&Value| taint.str_at(&["key"]) == key && taint.str_at(&["effect"]) == effect;
    node.list_at(&["spec", "taints"]).iter().any(|taint| is(&taint))
}

#[cfg(test)]
mod tests {
    use kevel_codec::json::{Unknown, decode_any};

    use super::*;

    fn node(text: &str) -> Value {
        decode_any(text.as_bytes(), Unknown::Ignore).unwrap().value
    }

    fn condition(of: &str, status: &str) -> String {
        format!(r#"{{"type":"{of}","status":"{status}"}}"#)
    }

    #[test]
    fn conditions_decide_on_taints() {
        let all = [
            condition("Ready", "Unknown"),
            condition("MemoryPressure", "True"),
            condition("DiskPressure", "True"),
            condition("PIDPressure", "True"),
            condition("NetworkUnavailable", "True"),
        ];
        let wrong = [condition("Ready", "True"), condition("DiskPressure", "Unknown")];
        let prefix = "node.kubernetes.io/";
        for (conditions, spec, add, remove) in [
            (&[][..], "", "", ""),
            (&wrong, "", "", ""),
            (
                &all,
                "",
                "unreachable memory-pressure disk-pressure network-unavailable pid-pressure",
                "",
            ),
            (
                &[condition("Ready", "False")],
                r#""unschedulable":true"#,
                "not-ready unschedulable",
                "",
            ),
            (
                &[condition("Ready", "False")],
                r#""taints":[{"key":"node.kubernetes.io/unreachable","effect":"NoSchedule"},
                {"key":"node.kubernetes.io/unschedulable","effect":"NoSchedule"},
                {"key":"node.kubernetes.io/disk-pressure","effect":"NoExecute"},
                {"key":"other","effect":"NoSchedule"}]"#,
                "not-ready",
                "unreachable unschedulable",
            ),
            (
                &[condition("Ready", "False")],
                r#""taints":[{"key":"node.kubernetes.io/not-ready","effect":"NoSchedule"}]"#,
                "",
                "",
            ),
        ] {
            let conditions = conditions.join(",");
            let text = format!(r#"{{"spec":{{{spec}}},"status":{{"conditions":[{conditions}]}}}}"#);
            let change = TaintChange::of_conditions(&node(&text));
            let short = |keys: &[&str]| keys.join(" ").replace(prefix, "");
            assert_eq!(
                (short(&change.add), short(&change.remove)),
                (add.into(), remove.into()),
                "{text}"
            );
        }
    }

    #[test]
    fn patch_changes_only_its_own_taints() {
        let text = r#"{"metadata":{"resourceVersion":"7"},"spec":{"taints":[{"key":"a","effect":"NoExecute"},
            {"key":"node.kubernetes.io/not-ready","effect":"NoExecute"},
            {"key":"node.kubernetes.io/not-ready","effect":"NoSchedule"}]}}"#;
        let patch = TaintChange::evicting(UNREACHABLE).patch(&node(text), "now").unwrap();
        assert_eq!(patch.str_at(&["metadata", "resourceVersion"]), "7");
        let taints: Vec<String> = patch
            .list_at(&["spec", "taints"])
            .iter()
            .map(|taint| {
                ["key", "effect", "timeAdded"].map(|field| taint.str_at(&[field])).join(" ")
            })
            .collect();
        let expected = [
            "a NoExecute ",
            "node.kubernetes.io/not-ready NoSchedule ",
            "node.kubernetes.io/unreachable NoExecute now",
        ];
        assert_eq!(taints, expected);
        let untainted = node(r#"{"metadata":{}}"#);
        assert_eq!(TaintChange::reachable().patch(&untainted, "now"), None);
        let last = node(
            r#"{"spec":{"taints":[{"key":"node.kubernetes.io/unreachable","effect":"NoExecute"}]}}"#,
        );
        let cured = TaintChange::reachable().patch(&last, "now").unwrap();
        assert_eq!(cured.at(&["spec", "taints"]), Some(&Value::Null));
    }
}
