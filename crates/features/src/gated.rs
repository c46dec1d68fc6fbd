//! Fields that are there only while a feature is on.

use kevel_api::value::Value;

use crate::{Feature, FeatureSet};

/// Fields of a feature: dropped while it is off, unless the feature was in use before.
#[derive(Clone, Copy, Debug)]
pub struct Gated {
    /// Features that all have to be on.
    pub gates: &'static [Feature],
    /// Paths of the fields, `.` between the steps. `*` is every item of a list or entry of a map, `a|b` either field.
    /// A last step `a!V` is the field with another value than `V`, and `a=V` is not dropped but set to `V`.
    pub fields: &'static [&'static str],
    /// Paths that show that the feature is in use; if there are none, those of its fields.
    pub in_use: &'static [&'static str],
    /// Structs at the end of a path, counted from the last, that go with their last field.
    pub emptied: usize,
}

impl Gated {
    /// Fields of features, which are in use where one of the fields is set.
    pub const fn new(gates: &'static [Feature], fields: &'static [&'static str]) -> Self {
        Gated { gates, fields, in_use: &[], emptied: 0 }
    }
}

/// Drops fields whose gates are off, unless `old`, the replaced object, has them.
pub fn drop_gated(object: &mut Value, old: Option<&Value>, gated: &[Gated], features: &FeatureSet) {
    let off = |gated: &&Gated| !gated.gates.iter().all(|gate| features.has(*gate));
    for gated in gated.iter().filter(off) {
        let mut shown = if gated.in_use.is_empty() { gated.fields } else { gated.in_use }.iter();
        if old.is_some_and(|old| shown.any(|path| has(old, path))) {
            continue;
        }
        for path in gated.fields {
            remove(object, path, gated.emptied);
        }
    }
}

/// Last step of a path: the field's name, a value that counts for nothing, and whether that value takes its place.
fn last(step: &str) -> (&str, Option<&str>, bool) {
    match step.split_once('!') {
        Some((name, value)) => (name, Some(value), false),
        None => match step.split_once('=') {
            Some((name, value)) => (name, Some(value), true),
            None => (step, None, false),
        },
    }
}

/// Tells whether anything stands at a path.
fn has(value: &Value, path: &str) -> bool {
    let Some((step, rest)) = path.split_once('.') else {
        let (names, ignored, _) = last(path);
        return match (names, value) {
            ("*", Value::List(list)) => !list.is_empty(),
            ("*", Value::Map(map)) => !map.is_empty(),
            (names, Value::Map(map)) => {
                let mut found = names.split('|').filter_map(|name| map.get(name));
                found.any(|value| ignored.is_none_or(|ignored| value.as_str() != Some(ignored)))
            }
            _ => false,
        };
    };
    match (step, value) {
        ("*", Value::List(list)) => list.iter().any(|value| has(value, rest)),
        ("*", Value::Map(map)) => map.iter().any(|(_, value)| has(value, rest)),
        (names, Value::Map(map)) => {
            names.split('|').filter_map(|name| map.get(name)).any(|value| has(value, rest))
        }
        _ => false,
    }
}

/// Removes the value at a path, which ends in a name.
fn remove(value: &mut Value, path: &str, emptied: usize) {
    match (path.split_once('.'), value) {
        (None, Value::Map(map)) => {
            let (names, ignored, replaces) = last(path);
            for name in names.split('|') {
                let Some(found) = map.get(name) else { continue };
                match ignored {
                    Some(value) if found.as_str() == Some(value) => {}
                    Some(value) if replaces => {
                        map.insert(name, value.into());
                    }
                    _ => {
                        map.remove(name);
                    }
                }
            }
        }
        (Some(("*", rest)), Value::List(list)) => {
            list.iter_mut().for_each(|value| remove(value, rest, emptied));
        }
        (Some(("*", rest)), Value::Map(map)) => {
            map.iter_mut().for_each(|(_, value)| remove(value, rest, emptied));
        }
        (Some((names, rest)), Value::Map(map)) => {
            let steps = rest.split('.').count();
            for name in names.split('|') {
                let Some(below) = map.get_mut(name) else { continue };
                let had = !below.is_empty();
                remove(below, rest, emptied);
                if steps <= emptied && had && below.is_empty() {
                    map.remove(name);
                }
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use kevel_api::value::Map;

    use super::*;

    fn map<const N: usize>(entries: [(&str, Value); N]) -> Value {
        Value::from(Map::from_iter(entries))
    }

    fn list<const N: usize>(items: [Value; N]) -> Value {
        Value::List(items.into_iter().collect())
    }

    const GATED: &[Gated] = &[Gated {
        in_use: &["a|z.*.b", "c", "d.*.e"],
        ..Gated::new(&[Feature::DRADeviceTaints], &["a|z.*.b", "c"])
    }];

    fn full() -> Value {
        let with = map([("b", "0".into()), ("x", "1".into())]);
        let below = map([("k", map([("e", "1".into())]))]);
        map([
            ("a", list([with.clone(), map([])])),
            ("z", list([with])),
            ("c", "".into()),
            ("d", below),
        ])
    }

    fn left() -> Value {
        let without = map([("x", "1".into())]);
        let below = map([("k", map([("e", "1".into())]))]);
        map([("a", list([without.clone(), map([])])), ("z", list([without])), ("d", below)])
    }

    #[test]
    fn fields_of_a_feature_go_unless_it_is_in_use() {
        let in_use = |value| Some(map([value]));
        for (old, on, kept) in [
            (None, false, false),
            (None, true, true),
            (Some(map([])), false, false),
            (in_use(("a", list([map([]), map([("b", "1".into())])]))), false, true),
            (in_use(("z", list([map([("b", "1".into())])]))), false, true),
            (in_use(("c", "".into())), false, true),
            (in_use(("d", map([("k", map([]))]))), false, false),
            (in_use(("d", map([("k", map([("e", "2".into())]))]))), false, true),
        ] {
            let mut object = full();
            let features = FeatureSet::default().with(Feature::DRADeviceTaints, on);
            drop_gated(&mut object, old.as_ref(), GATED, &features);
            assert_eq!(object, if kept { full() } else { left() }, "{old:?} {on}");
        }
    }

    #[test]
    fn structs_go_with_their_last_field() {
        let gated = [Gated {
            emptied: 1,
            ..Gated::new(&[Feature::ContainerStopSignals], &["containers.*.lifecycle.stopSignal"])
        }];
        let container = |lifecycle| map([("lifecycle", lifecycle)]);
        let signal = ("stopSignal", Value::from("SIGTERM"));
        let hook = ("preStop", map([("sleep", "1".into())]));
        let mut object = map([(
            "containers",
            list([
                container(map([signal.clone()])),
                container(map([signal, hook.clone()])),
                container(map([])),
            ]),
        )]);
        drop_gated(&mut object, None, &gated, &FeatureSet::default());
        let expected = list([map([]), container(map([hook])), container(map([]))]);
        assert_eq!(object, map([("containers", expected)]));
    }

    #[test]
    fn values_can_count_for_nothing() {
        for (path, old, value, expected) in [
            ("p!Always", None, "Always", Some("Always")),
            ("p!Always", None, "Never", None),
            ("p!Always", Some("Always"), "Never", None),
            ("p!Always", Some("Never"), "Never", Some("Never")),
            ("p=Default", None, "Default", Some("Default")),
            ("p=Default", None, "Unmasked", Some("Default")),
            ("p=Default", Some("Unmasked"), "Unmasked", Some("Unmasked")),
        ] {
            let mut object = map([("p", value.into())]);
            let old = old.map(|old| map([("p", old.into())]));
            if !old.as_ref().is_some_and(|old| has(old, path)) {
                remove(&mut object, path, 0);
            }
            assert_eq!(object.at(&["p"]).and_then(Value::as_str), expected, "{path} {value}");
        }
    }
}
