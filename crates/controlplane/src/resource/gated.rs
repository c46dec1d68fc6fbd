//! Fields that are there only while a feature is on.

use kevel_api::value::Value;

use crate::capabilities::{Capabilities, Features};

/// What a feature brings: dropped while it is off, unless some of it was there before.
pub(super) struct Gated {
    pub on: fn(&Features) -> bool,
    /// Where it stands; `*` is every item of a list, or every entry of a map.
    pub fields: &'static [&'static str],
    /// Where else it shows that the feature is in use.
    pub also_in: &'static [&'static str],
}

/// Drops what no feature lets in; `old` is what the object replaces.
pub(super) fn drop_gated(
    object: &mut Value,
    old: Option<&Value>,
    gated: &[Gated],
    capabilities: &Capabilities,
) {
    for feature in gated.iter().filter(|feature| !(feature.on)(&capabilities.features)) {
        let mut known = feature.fields.iter().chain(feature.also_in);
        if !old.is_some_and(|old| known.any(|path| has(old, path))) {
            feature.fields.iter().for_each(|path| remove(object, path));
        }
    }
}

/// Whether anything stands at a path.
fn has(value: &Value, path: &str) -> bool {
    let (step, rest) = path.split_once('.').map_or((path, None), |(step, rest)| (step, Some(rest)));
    let below = |value: &Value| rest.is_none_or(|rest| has(value, rest));
    match (step, value) {
        ("*", Value::List(list)) => list.iter().any(below),
        ("*", Value::Map(map)) => map.iter().any(|(_, value)| below(value)),
        (name, Value::Map(map)) => map.get(name).is_some_and(below),
        _ => false,
    }
}

/// Removes what stands at a path, which ends in a name.
fn remove(value: &mut Value, path: &str) {
    match (path.split_once('.'), value) {
        (None, Value::Map(map)) => {
            map.remove(path);
        }
        (Some(("*", rest)), Value::List(list)) => {
            list.iter_mut().for_each(|value| remove(value, rest));
        }
        (Some(("*", rest)), Value::Map(map)) => {
            map.iter_mut().for_each(|(_, value)| remove(value, rest));
        }
        (Some((name, rest)), Value::Map(map)) => {
            if let Some(value) = map.get_mut(name) {
                remove(value, rest);
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::cases::value;

    const GATED: &[Gated] = &[Gated {
        on: |features| features.dra_device_taints,
        fields: &["a.*.b", "c"],
        also_in: &["d.*.e"],
    }];

    #[test]
    fn what_no_feature_lets_in_is_dropped_unless_it_is_in_use() {
        let full = value(r#"{"a": [{"b": 0, "x": 1}, {}], "c": "", "d": {"k": {"e": 1}}}"#);
        let left = value(r#"{"a": [{"x": 1}, {}], "d": {"k": {"e": 1}}}"#);
        let with = |on| Capabilities {
            features: Features { dra_device_taints: on, ..Features::default() },
            ..Capabilities::default()
        };
        for (old, on, kept) in [
            (None, false, false),
            (None, true, true),
            (Some("{}"), false, false),
            (Some(r#"{"a": [{}, {"b": 1}]}"#), false, true),
            (Some(r#"{"c": ""}"#), false, true),
            (Some(r#"{"d": {"k": {}}}"#), false, false),
            (Some(r#"{"d": {"k": {"e": 2}}}"#), false, true),
        ] {
            let (mut object, old) = (full.clone(), old.map(value));
            drop_gated(&mut object, old.as_ref(), GATED, &with(on));
            assert_eq!(object, if kept { full.clone() } else { left.clone() }, "{old:?} {on}");
        }
    }
}
