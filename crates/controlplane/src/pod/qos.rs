//! QoS class of a pod, computed from its resources.

use std::collections::BTreeMap;

use kevel_api::quantity::Quantity;
use kevel_api::value::{Map, Value};

/// Resources that determine the QoS class.
const COUNTED: [&str; 2] = ["cpu", "memory"];

type Amounts = BTreeMap<&'static str, Quantity>;

/// QoS class: `Guaranteed`, `Burstable` or `BestEffort`.
pub fn class(pod: &Value) -> &'static str {
    let (mut requests, mut limits) = (Amounts::new(), Amounts::new());
    let mut guaranteed = true;
    let own = pod.at(&["spec", "resources"]);
    let containers = ["containers", "initContainers"]
        .into_iter()
        .flat_map(|list| pod.at(&["spec", list]).and_then(Value::as_list).unwrap_or_default());
    // Pod-level resources take precedence over those of the containers.
    let asked: Vec<Option<&Value>> = match own {
        Some(own) => vec![Some(own)],
        None => containers.map(|container| container.at(&["resources"])).collect(),
    };
    for resources in asked {
        let list = |name: &str| resources.and_then(|r| r.at(&[name])).and_then(Value::as_map);
        add(&mut requests, list("requests"));
        let limited = add(&mut limits, list("limits"));
        let whole = own.is_some() && list("limits").is_none_or(Map::is_empty);
        guaranteed &= limited == COUNTED.len() || whole;
    }
    if requests.is_empty() && limits.is_empty() {
        return "BestEffort";
    }
    match guaranteed && requests.len() == limits.len() && requests == limits {
        true => "Guaranteed",
        false => "Burstable",
    }
}

/// Adds the positive amounts of [`COUNTED`] resources, and returns their number.
fn add(amounts: &mut Amounts, list: Option<&Map>) -> usize {
    let mut found = 0;
    for name in COUNTED {
        let amount = list.and_then(|list| list.get(name)).and_then(Value::as_str);
        let Some(amount) = amount.and_then(|text| text.parse::<Quantity>().ok()) else { continue };
        if amount <= Quantity::default() {
            continue;
        }
        found += 1;
        *amounts.entry(name).or_default() += amount;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quality_follows_from_requests_and_limits() {
        let cases = [
            (r#"{"containers":[{"name":"a"}]}"#, "BestEffort"),
            (r#"{"containers":[{"resources":{"requests":{"cpu":"1"}}}]}"#, "Burstable"),
            (
                r#"{"containers":[{"resources":{"limits":{"cpu":"1","memory":"1"},"requests":{"cpu":"1000m","memory":"1"}}}]}"#,
                "Guaranteed",
            ),
            (
                r#"{"containers":[{"resources":{"limits":{"cpu":"1"},"requests":{"cpu":"1"}}}]}"#,
                "Burstable",
            ),
            (
                r#"{"containers":[{"resources":{"limits":{"cpu":"1","memory":"1"},"requests":{"cpu":"1","memory":"1"}}},{}]}"#,
                "Burstable",
            ),
            (r#"{"containers":[{"resources":{"requests":{"example.com/x":"1"}}}]}"#, "BestEffort"),
            (
                r#"{"resources":{"limits":{"cpu":"1","memory":"1"},"requests":{"cpu":"1","memory":"1"}},"containers":[{}]}"#,
                "Guaranteed",
            ),
        ];
        for (spec, expected) in cases {
            let text = format!(r#"{{"spec":{spec}}}"#);
            let pod =
                kevel_codec::json::decode_any(text.as_bytes(), kevel_codec::json::Unknown::Ignore);
            assert_eq!(class(&pod.unwrap().value), expected, "{spec}");
        }
    }
}
