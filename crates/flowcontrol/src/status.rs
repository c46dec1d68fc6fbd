//! The condition `Dangling` of a FlowSchema: whether its priority level is missing.

use std::collections::VecDeque;
use std::time::Duration;

use kevel_api::quote::quote;
use kevel_api::time::Time;
use kevel_api::value::{Map, Value};
use tokio::time::Instant;

/// Field manager of the conditions.
pub const FIELD_MANAGER: &str = "api-priority-and-fairness-config-consumer-v1";

const DANGLING: &str = "Dangling";

/// A FlowSchema's condition that differs from the stored one.
#[derive(Clone, Debug, PartialEq)]
pub struct StatusUpdate {
    /// The FlowSchema's name.
    pub flow_schema: String,
    /// The condition.
    pub condition: Value,
}

impl StatusUpdate {
    /// Object to server-side apply to the FlowSchema's `status`, by [`FIELD_MANAGER`] and with force.
    pub fn apply_configuration(&self) -> Value {
        let conditions = Value::List([self.condition.clone()].into_iter().collect());
        let status = Map::from_iter([("conditions", conditions)]);
        let name = Value::from(self.flow_schema.as_str());
        Value::Map(Map::from_iter([
            ("apiVersion", "flowcontrol.apiserver.k8s.io/v1".into()),
            ("kind", "FlowSchema".into()),
            ("metadata", Value::Map(Map::from_iter([("name", name)]))),
            ("status", status.into()),
        ]))
    }
}

/// Needed change of a FlowSchema's `Dangling` condition; `found` is whether its priority level exists.
pub fn dangling(flow_schema: &Value, found: bool, now: Time) -> Option<StatusUpdate> {
    let level = flow_schema.str_at(&["spec", "priorityLevelConfiguration", "name"]);
    let references = format!(
        "This FlowSchema references the PriorityLevelConfiguration object named {}",
        quote(level)
    );
    let (status, reason, message) = match found {
        true => ("False", "Found", references + " and it exists"),
        false => ("True", "NotFound", references + " but there is no such object"),
    };
    let conditions = flow_schema.list_at(&["status", "conditions"]);
    let known = conditions.iter().find(|condition| condition.str_at(&["type"]) == DANGLING);
    let says = |condition: &Value| {
        condition.str_at(&["status"]) == status
            && condition.str_at(&["reason"]) == reason
            && condition.str_at(&["message"]) == message
    };
    if known.is_some_and(says) {
        return None;
    }
    let condition = Map::from_iter([
        ("type", DANGLING.into()),
        ("status", status.into()),
        ("lastTransitionTime", now.to_string().as_str().into()),
        ("reason", reason.into()),
        ("message", message.as_str().into()),
    ]);
    let name = flow_schema.str_at(&["metadata", "name"]).to_owned();
    Some(StatusUpdate { flow_schema: name, condition: condition.into() })
}

/// Status updates of the last minute, so that servers that disagree do not write endlessly.
#[derive(Debug, Default)]
pub struct RecentUpdates(VecDeque<(Instant, String)>);

impl RecentUpdates {
    /// Time during which updates count.
    const WINDOW: Duration = Duration::from_secs(60);
    /// Maximum updates of a FlowSchema in that time.
    const MOST: usize = 6;

    /// Whether a FlowSchema may be updated now; an allowed update is counted. If not, try again in 30 to 75 s.
    pub fn allow(&mut self, flow_schema: &str, now: Instant) -> bool {
        let is_old = |at: &Instant| now.saturating_duration_since(*at) > RecentUpdates::WINDOW;
        while self.0.front().is_some_and(|(at, _)| is_old(at)) {
            self.0.pop_front();
        }
        let recent = self.0.iter().filter(|(_, name)| name == flow_schema).count();
        let allowed = recent < RecentUpdates::MOST;
        if allowed {
            self.0.push_back((now, flow_schema.to_owned()));
        }
        allowed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kevel_clock::timer_now;

    fn schema(conditions: impl IntoIterator<Item = Value>) -> Value {
        let mut schema = Value::default();
        schema.make_map(&["metadata"]).insert("name", "s".into());
        schema.make_map(&["spec", "priorityLevelConfiguration"]).insert("name", "l".into());
        schema.make_list(&["status"], "conditions").extend(conditions);
        schema
    }

    #[test]
    fn a_condition_is_written_once() {
        let now = Time { seconds: 0 };
        let update = dangling(&schema([]), true, now).unwrap();
        let said =
            |update: &StatusUpdate, field: &str| update.condition.str_at(&[field]).to_owned();
        assert_eq!(
            ["type", "status", "reason", "lastTransitionTime", "message"].map(|f| said(&update, f)),
            [
                "Dangling",
                "False",
                "Found",
                "1970-01-01T00:00:00Z",
                "This FlowSchema references the PriorityLevelConfiguration object named \"l\" and \
                 it exists"
            ]
        );
        let known = schema([update.condition.clone()]);
        assert_eq!(dangling(&known, true, now), None);
        let update = dangling(&known, false, now).unwrap();
        assert_eq!(
            ["status", "reason", "message"].map(|field| said(&update, field)),
            [
                "True",
                "NotFound",
                "This FlowSchema references the PriorityLevelConfiguration object named \"l\" but \
                 there is no such object"
            ]
        );
        let applied = update.apply_configuration();
        assert_eq!(applied.str_at(&["metadata", "name"]), "s");
        assert_eq!(applied.list_at(&["status", "conditions"]), [update.condition]);
    }

    #[test]
    fn servers_that_do_not_agree_do_not_write_without_end() {
        let (mut recent, start) = (RecentUpdates::default(), timer_now());
        let mut at = |second| recent.allow("s", start + Duration::from_secs(second));
        assert_eq!((0..8).map(&mut at).filter(|allowed| *allowed).count(), 6);
        assert!(!at(60));
        assert!(at(61));
        assert!(recent.allow("other", start));
    }
}
