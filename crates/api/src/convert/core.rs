//! Conversion of core kinds, above all of pairs of fields with the same meaning.

use super::{ReadJson, pod};
use crate::value::{Map, Value};

/// Label of a selector that must not be combined with others.
const BUDGET_LABEL: &str = "pdb.kubernetes.io/deprecated-v1beta1-empty-selector-match";

/// Sets `podCIDR` and the first of `podCIDRs` to the same value; `podCIDR` wins.
pub(super) fn node(node: &mut Map, _: ReadJson<'_>) -> Result<(), String> {
    if let Some(Value::Map(spec)) = node.get_mut("spec") {
        pod::first_of(spec, "podCIDR", "podCIDRs", &[]);
    }
    Ok(())
}

/// Moves `stringData` of a Secret into `data`.
pub(super) fn secret(secret: &mut Map, _: ReadJson<'_>) -> Result<(), String> {
    let Some(Value::Map(texts)) = secret.remove("stringData") else { return Ok(()) };
    if !texts.is_empty()
        && let Some(data) = super::made_in(secret, "data")
    {
        data.extend(texts.into_entries().into_iter().map(|(key, text)| {
            let text = text.as_str().unwrap_or_default();
            (key, base64(text.as_bytes()).as_str().into())
        }));
    }
    Ok(())
}

pub(super) fn pod_disruption_budget(budget: &mut Map, _: ReadJson<'_>) -> Result<(), String> {
    let selector = budget.get_mut("spec").and_then(|spec| spec.at_mut(&["selector"]));
    let Some(Value::Map(selector)) = selector else { return Ok(()) };
    let labels = selector.get("matchLabels").is_some_and(|labels| !labels.is_empty());
    if let Some(Value::List(expressions)) = selector.get_mut("matchExpressions") {
        let alone = !labels && expressions.len() == 1;
        let none = |e: &Value| {
            e.str_at(&["operator"]) == "Exists" && e.at(&["values"]).is_none_or(Value::is_empty)
        };
        expressions.retain(|e| e.str_at(&["key"]) != BUDGET_LABEL || (alone && none(e)));
    }
    Ok(())
}

/// Replaces the selectors of policy/v1beta1, which is stored but not served, that mean something else: an empty one
/// selects nothing there, and one for the lack of a label of its own all pods. Whether there was one.
pub(super) fn replace_v1beta1_selector(budget: &mut Map) -> bool {
    let selector = budget.get_mut("spec").and_then(|spec| spec.at_mut(&["selector"]));
    let Some(selector) = selector.filter(|selector| selector.as_map().is_some()) else {
        return false;
    };
    let is_bare = |selector: &Value, field| selector.at(&[field]).is_none_or(Value::is_empty);
    let is_all = |only: &Value| {
        only.str_at(&["key"]) == BUDGET_LABEL
            && only.str_at(&["operator"]) == "DoesNotExist"
            && is_bare(only, "values")
    };
    let replacement = match selector.list_at(&["matchExpressions"]) {
        _ if !is_bare(selector, "matchLabels") => return false,
        [] => {
            let none = [("key", BUDGET_LABEL.into()), ("operator", Value::from("Exists"))];
            let none = Value::List([Value::Map(Map::from_iter(none))].into_iter().collect());
            Map::from_iter([("matchExpressions", none)])
        }
        [only] if is_all(only) => Map::new(),
        _ => return false,
    };
    *selector = Value::Map(replacement);
    true
}

/// Drops an empty conversion webhook.
pub(super) fn custom_resource_definition(
    definition: &mut Map,
    _: ReadJson<'_>,
) -> Result<(), String> {
    let conversion = definition.get_mut("spec").and_then(|spec| spec.at_mut(&["conversion"]));
    if let Some(Value::Map(conversion)) = conversion
        && conversion.get("webhook").and_then(Value::as_map).is_some_and(Map::is_empty)
    {
        conversion.remove("webhook");
    }
    Ok(())
}

fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let byte = |i: usize| u32::from(chunk.get(i).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for digit in 0..4 {
            let index = (bits >> (18 - 6 * digit)) as usize & 63;
            out.push(if digit <= chunk.len() { char::from(DIGITS[index]) } else { '=' });
        }
    }
    out
}

#[cfg(test)]
mod tests {
    #[test]
    fn base64() {
        for (text, expected) in [("", ""), ("a", "YQ=="), ("ab", "YWI="), ("abc", "YWJj")] {
            assert_eq!(super::base64(text.as_bytes()), expected);
        }
    }
}
