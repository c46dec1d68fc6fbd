//! Conditions in a pod's status.

use kevel_api::time::Time;
use kevel_api::value::{Map, Value};

/// A condition to be set on a pod.
#[derive(Clone, Copy, Debug, Default)]
pub struct Condition<'a> {
    pub ty: &'a str,
    pub status: &'a str,
    pub reason: &'a str,
    pub message: &'a str,
}

impl Condition<'_> {
    /// Sets the condition; keeps `lastTransitionTime` if the status does not change.
    pub fn set(self, pod: &mut Value, now: Time) {
        let Some(pod) = pod.as_map_mut() else { return };
        let status = pod.entry_or_insert_with("status", || Map::new().into());
        let Some(status) = status.as_map_mut() else { return };
        let list = status.entry_or_insert_with("conditions", || Value::List(Default::default()));
        let Some(list) = list.as_list_mut() else { return };
        let position = list.iter().position(|old| old.str_at(&["type"]) == self.ty);
        let old = position.and_then(|position| list.get(position));
        let since = old.filter(|old| old.str_at(&["status"]) == self.status);
        let since = since.and_then(|old| old.at(&["lastTransitionTime"]).cloned());
        let since = since.unwrap_or_else(|| now.to_string().as_str().into());
        let texts = [
            ("type", self.ty),
            ("status", self.status),
            ("reason", self.reason),
            ("message", self.message),
        ];
        let texts = texts.into_iter().filter(|(_, text)| !text.is_empty());
        let mut condition: Map = texts.map(|(name, text)| (name, Value::from(text))).collect();
        condition.insert("lastTransitionTime", since);
        match position.and_then(|position| list.get_mut(position)) {
            Some(old) => *old = condition.into(),
            None => list.push(condition.into()),
        }
    }

    /// True if a pod has a condition of this type and status.
    pub fn holds(self, pod: &Value) -> bool {
        let conditions = pod.at(&["status", "conditions"]).and_then(Value::as_list);
        conditions.unwrap_or_default().iter().any(|condition| {
            condition.str_at(&["type"]) == self.ty && condition.str_at(&["status"]) == self.status
        })
    }
}
