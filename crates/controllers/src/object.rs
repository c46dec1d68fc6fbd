//! Common facts of objects, for controllers.

use std::time::Duration;

use kevel_api::status::{StatusError, reason};
use kevel_api::time::Time;
use kevel_api::value::{Map, Value};
use kevel_clock::Clock;

use crate::recorder::Regarding;

/// Name of an object.
pub(crate) fn name(object: &Value) -> &str {
    object.str_at(&["metadata", "name"])
}

/// Namespace of an object.
pub(crate) fn namespace(object: &Value) -> &str {
    object.str_at(&["metadata", "namespace"])
}

/// UID of an object.
pub(crate) fn uid(object: &Value) -> &str {
    object.str_at(&["metadata", "uid"])
}

/// Whether an object is being deleted.
pub(crate) fn is_deleted(object: &Value) -> bool {
    !object.str_at(&["metadata", "deletionTimestamp"]).is_empty()
}

/// Integer at a path; zero if there is none.
pub(crate) fn int_at(object: &Value, path: &[&str]) -> i64 {
    object.at(path).and_then(Value::as_int).unwrap_or(0)
}

/// Namespace and name of a key.
pub(crate) fn split(key: &str) -> (&str, &str) {
    key.split_once('/').unwrap_or(("", key))
}

/// The owner that controls an object (upstream: `GetControllerOf`).
pub(crate) fn controller_of(object: &Value) -> Option<&Value> {
    let owners = object.list_at(&["metadata", "ownerReferences"]);
    let controls = |owner: &&Value| owner.at(&["controller"]).and_then(Value::as_bool);
    owners.iter().find(|owner| controls(owner) == Some(true))
}

/// Whether an object is controlled by another one.
pub(crate) fn is_controlled_by(object: &Value, owner: &Value) -> bool {
    controller_of(object).is_some_and(|reference| reference.str_at(&["uid"]) == uid(owner))
}

/// Condition of a type in the status of an object.
pub(crate) fn condition<'a>(object: &'a Value, of: &str) -> Option<&'a Value> {
    let conditions = object.list_at(&["status", "conditions"]);
    conditions.iter().find(|condition| condition.str_at(&["type"]) == of)
}

/// Whether a condition in the status of an object is true.
pub(crate) fn is_true(object: &Value, of: &str) -> bool {
    condition(object, of).is_some_and(|condition| condition.str_at(&["status"]) == "True")
}

/// Wait until a time, by the server's clock; zero if it is over.
pub(crate) fn wait_until(time: Time, clock: &Clock) -> Duration {
    let left = time.seconds.saturating_sub(Time::now(clock).seconds);
    Duration::from_secs(u64::try_from(left).unwrap_or(0))
}

/// Object of an Event.
pub(crate) fn regarding(api_version: &str, kind: &str, object: &Value) -> Regarding {
    Regarding {
        api_version: api_version.to_owned(),
        kind: kind.to_owned(),
        namespace: namespace(object).to_owned(),
        name: name(object).to_owned(),
        uid: uid(object).to_owned(),
    }
}

/// Map of texts.
pub(crate) fn texts<const N: usize>(entries: [(&str, &str); N]) -> Map {
    entries.into_iter().map(|(key, text)| (key, Value::from(text))).collect()
}

/// Success also where the object is gone.
pub(crate) fn unless_gone<T>(result: Result<T, StatusError>) -> Result<Option<T>, StatusError> {
    match result {
        Err(error) if error.reason() == reason::NOT_FOUND => Ok(None),
        result => result.map(Some),
    }
}
