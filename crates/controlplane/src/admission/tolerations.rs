//! Tolerations of pods, and which of them make others needless.

use kevel_api::value::{Map, Value};

/// A toleration of a taint, whatever its value.
pub(super) fn exists(key: &str, effect: &str, seconds: Option<i64>) -> Value {
    let seconds = seconds.map(|seconds| ("tolerationSeconds", Value::Int(seconds)));
    let fields = [("key", key.into()), ("operator", "Exists".into()), ("effect", effect.into())];
    Value::Map(Map::from_iter(fields.into_iter().chain(seconds)))
}

/// The tolerations of both lists, without those that others include.
pub(super) fn merge(first: &[Value], second: &[Value]) -> Vec<Value> {
    let all: Vec<&Value> = first.iter().chain(second).collect();
    let mut merged: Vec<Value> = Vec::new();
    for (index, toleration) in all.iter().enumerate() {
        let later = all.iter().skip(index + 1);
        let mut wider = later.filter(|later| *later != toleration && includes(later, toleration));
        if !merged.iter().any(|kept| includes(kept, toleration)) && wider.next().is_none() {
            merged.push((*toleration).clone());
        }
    }
    merged
}

/// Whether each toleration is one that is allowed, or included in one.
pub(super) fn allowed(tolerations: &[Value], allowed: &[Value]) -> bool {
    allowed.is_empty() || tolerations.iter().all(|t| allowed.iter().any(|wide| includes(wide, t)))
}

/// Whether one toleration tolerates all that another does.
fn includes(wide: &Value, narrow: &Value) -> bool {
    if wide == narrow {
        return true;
    }
    let text = |field| (wide.str_at(&[field]), narrow.str_at(&[field]));
    let seconds = |toleration: &Value| toleration.at(&["tolerationSeconds"])?.as_int();
    let ((key, narrow_key), (effect, narrow_effect)) = (text("key"), text("effect"));
    let (operator, narrow_operator) = text("operator");
    if key != narrow_key && (!key.is_empty() || operator != "Exists") {
        return false;
    }
    if effect != narrow_effect && !effect.is_empty() {
        return false;
    }
    if effect == "NoExecute"
        && let Some(most) = seconds(wide)
        && seconds(narrow).is_none_or(|seconds| seconds > most)
    {
        return false;
    }
    let (value, narrow_value) = text("value");
    match operator {
        "" | "Equal" => narrow_operator == "Equal" && value == narrow_value,
        other => other == "Exists",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn toleration(key: &str, operator: &str, value: &str, effect: &str, seconds: i64) -> Value {
        let fields = [("key", key), ("operator", operator), ("value", value), ("effect", effect)];
        let fields = fields.into_iter().filter(|(_, text)| !text.is_empty());
        let mut map = Map::from_iter(fields.map(|(name, text)| (name, Value::from(text))));
        if seconds >= 0 {
            map.insert("tolerationSeconds", Value::Int(seconds));
        }
        map.into()
    }

    #[test]
    fn what_is_included_is_left_out() {
        let all = toleration("", "Exists", "", "", -1);
        let key = toleration("a", "Exists", "", "NoExecute", -1);
        let short = toleration("a", "Exists", "", "NoExecute", 3);
        let equal = toleration("a", "Equal", "v", "NoExecute", -1);
        let other = toleration("b", "Equal", "v", "NoSchedule", -1);
        for (first, second, merged) in [
            (vec![&key], vec![&key], vec![&key]),
            (vec![&short], vec![&key], vec![&key]),
            (vec![&key], vec![&short], vec![&key]),
            (vec![&equal, &other], vec![&key], vec![&other, &key]),
            (vec![&equal, &other], vec![&all], vec![&all]),
            (vec![&short, &other], vec![&equal], vec![&short, &other, &equal]),
        ] {
            let list = |items: &[&Value]| items.iter().map(|t| (*t).clone()).collect::<Vec<_>>();
            let found = merge(&list(&first), &list(&second));
            assert_eq!(found, list(&merged), "{first:?} {second:?}");
        }
    }
}
