//! Merging and comparing tolerations of pods.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};

use kevel_api::value::{Map, Value};

/// Toleration of a taint with any value.
pub(super) fn exists(key: &str, effect: &str, seconds: Option<i64>) -> Value {
    let seconds = seconds.map(|seconds| ("tolerationSeconds", Value::Int(seconds)));
    let fields = [("key", key.into()), ("operator", "Exists".into()), ("effect", effect.into())];
    Value::Map(Map::from_iter(fields.into_iter().chain(seconds)))
}

/// Tolerations of both lists, without those that others in the lists include.
pub(super) fn merge(first: &[Value], second: &[Value]) -> Vec<Value> {
    let all: Vec<Toleration<'_>> = first.iter().chain(second).map(Toleration::of).collect();
    // For each toleration, whether a later one includes it.
    let mut later = TolerationIndex::default();
    let mut included: Vec<bool> = Vec::with_capacity(all.len());
    for toleration in all.iter().rev() {
        included.push(later.other_includes(toleration));
        later.add(*toleration);
    }
    let mut kept = TolerationIndex::default();
    let mut merged = Vec::new();
    for (toleration, included) in all.iter().zip(included.iter().rev()) {
        if !included && !kept.has(toleration) && !kept.other_includes(toleration) {
            kept.add(*toleration);
            merged.push(toleration.value.clone());
        }
    }
    merged
}

/// Fields of a toleration.
#[derive(Clone, Copy, Debug)]
struct Toleration<'v> {
    value: &'v Value,
    key: &'v str,
    operator: &'v str,
    text: &'v str,
    effect: &'v str,
    seconds: Option<i64>,
}

/// Identity of a toleration.
type Parts<'v> = (&'v str, &'v str, &'v str, &'v str, Option<i64>);

impl<'v> Toleration<'v> {
    fn of(value: &'v Value) -> Self {
        let text = |field| value.str_at(&[field]);
        let seconds = value.at(&["tolerationSeconds"]).and_then(Value::as_int);
        let (key, operator) = (text("key"), text("operator"));
        Toleration { value, key, operator, text: text("value"), effect: text("effect"), seconds }
    }

    fn parts(&self) -> Parts<'v> {
        (self.key, self.operator, self.text, self.effect, self.seconds)
    }

    /// Seconds for which the taint is tolerated; `i64::MAX` if not limited.
    fn lasts(&self) -> i64 {
        match self.effect {
            "NoExecute" => self.seconds.unwrap_or(i64::MAX),
            _ => i64::MAX,
        }
    }
}

/// Tolerations by key, effect and value (`None`: any value), to find those that include another.
#[derive(Debug, Default)]
struct TolerationIndex<'v> {
    /// For each key, the two that last longest.
    longest: HashMap<(&'v str, &'v str, Option<&'v str>), Vec<Toleration<'v>>>,
    all: HashSet<Parts<'v>>,
}

impl<'v> TolerationIndex<'v> {
    fn add(&mut self, toleration: Toleration<'v>) {
        if !self.all.insert(toleration.parts()) {
            return;
        }
        let value = match toleration.operator {
            "" | "Equal" => Some(toleration.text),
            "Exists" => None,
            _ => return,
        };
        let longest = self.longest.entry((toleration.key, toleration.effect, value)).or_default();
        longest.push(toleration);
        longest.sort_by_key(|toleration| Reverse(toleration.lasts()));
        longest.truncate(2);
    }

    fn has(&self, toleration: &Toleration<'v>) -> bool {
        self.all.contains(&toleration.parts())
    }

    /// True if a different toleration includes this one.
    fn other_includes(&self, narrow: &Toleration<'v>) -> bool {
        let equal = (narrow.operator == "Equal").then_some(Some(narrow.text));
        let values = [Some(None), equal];
        let effects = [narrow.effect, ""];
        // An empty key needs the operator Exists.
        let keys = [narrow.key, ""];
        keys.iter().enumerate().any(|(any_key, key)| {
            effects.iter().any(|effect| {
                values.iter().flatten().filter(|value| any_key == 0 || value.is_none()).any(
                    |value| {
                        let known = self.longest.get(&(key, effect, *value)).into_iter().flatten();
                        let mut others = known.filter(|known| known.parts() != narrow.parts());
                        others.any(|known| includes(known.value, narrow.value))
                    },
                )
            })
        })
    }
}

/// True if each toleration is included in an allowed one, or if the list of allowed ones is empty.
pub(super) fn allowed(tolerations: &[Value], allowed: &[Value]) -> bool {
    allowed.is_empty() || tolerations.iter().all(|t| allowed.iter().any(|wide| includes(wide, t)))
}

/// True if `wide` tolerates every taint that `narrow` does.
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
