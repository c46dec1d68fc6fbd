//! Defaults of pod-level resources (`spec.resources`).
//!
//! A resource that the pod does not set is what its containers need together: all containers and sidecars at once, or
//! an init container beside the sidecars started before it, whichever is more.

use std::collections::BTreeMap;

use compact_str::CompactString;

use super::struct_in;
use crate::quantity::Quantity;
use crate::value::{Map, Value};

const HUGE_PAGES: &str = "hugepages-";

/// Completes `spec.resources` if it has a request or a limit.
pub(super) fn default_pod_resources(spec: &mut Map) {
    let Some(Value::Map(given)) = spec.get("resources") else { return };
    let amounts = |field| given.get(field).and_then(Value::as_map).filter(|m| !m.is_empty());
    if amounts("limits").is_none() && amounts("requests").is_none() {
        return;
    }
    // Huge pages cannot be overcommitted: their limit comes first, and the request follows it.
    let requested = amounts("requests").cloned().unwrap_or_default();
    let pages = sum(spec, "limits")
        .into_iter()
        .filter(|(name, _)| name.starts_with(HUGE_PAGES) && !requested.contains_key(name));
    let pages: Vec<_> = pages.collect();
    let asked = sum(spec, "requests").into_iter().filter(|(name, _)| is_cpu_or_memory(name));
    let asked: Vec<_> = asked.collect();

    let Some(resources) = struct_in(spec, "resources") else { return };
    fill(resources, "limits", pages);
    let Some(limits) = resources.get("limits").and_then(Value::as_map) else { return };
    if limits.is_empty() {
        return;
    }
    let supported = |name: &str| is_cpu_or_memory(name) || name.starts_with(HUGE_PAGES);
    let limits = limits.iter().filter(|(name, _)| supported(name));
    let limits: Vec<_> = limits.map(|(name, v)| (name.to_owned(), v.clone())).collect();
    fill(resources, "requests", asked);
    fill(resources, "requests", limits);
}

fn is_cpu_or_memory(name: &str) -> bool {
    name == "cpu" || name == "memory"
}

fn fill(resources: &mut Map, field: &str, amounts: Vec<(String, impl Into<Value>)>) {
    if amounts.is_empty() {
        return;
    }
    let Some(map) = struct_in(resources, field) else { return };
    let missing = amounts.into_iter().filter(|(name, _)| !map.contains_key(name));
    let missing: Vec<_> =
        missing.map(|(name, amount)| (CompactString::from(name), amount.into())).collect();
    map.extend(missing);
}

/// An amount, with its original text unless it was computed.
#[derive(Clone)]
struct Amount {
    quantity: Quantity,
    text: Option<String>,
}

impl From<Amount> for Value {
    fn from(amount: Amount) -> Self {
        let text = amount.text.unwrap_or_else(|| amount.quantity.to_string());
        text.as_str().into()
    }
}

type Amounts = BTreeMap<String, Amount>;

/// Sum of all containers' requests or limits.
fn sum(spec: &Map, field: &str) -> Amounts {
    let (mut total, mut sidecars, mut starting) = (Amounts::new(), Amounts::new(), Amounts::new());
    for container in list(spec, "containers") {
        add(&mut total, container, field);
    }
    for container in list(spec, "initContainers") {
        if container.str_at(&["restartPolicy"]) == "Always" {
            add(&mut total, container, field);
            add(&mut sidecars, container, field);
            let started = amounts(container, field)
                .filter_map(|(name, ..)| Some((name.to_owned(), sidecars.get(name)?.clone())));
            raise(&mut starting, started);
        } else {
            // The sidecars' amounts of other resources were counted when they were started.
            let together = amounts(container, field).map(|(name, quantity, text)| {
                let mut amount = Amount { quantity, text: Some(text.to_owned()) };
                if let Some(beside) = sidecars.get(name) {
                    amount.quantity += beside.quantity;
                    amount.text = None;
                }
                (name.to_owned(), amount)
            });
            raise(&mut starting, together);
        }
    }
    raise(&mut total, starting);
    total
}

fn list<'m>(spec: &'m Map, field: &str) -> impl Iterator<Item = &'m Value> {
    spec.get(field).and_then(Value::as_list).into_iter().flatten()
}

/// Amounts of a container: name, quantity, and original text.
fn amounts<'v>(
    container: &'v Value,
    field: &str,
) -> impl Iterator<Item = (&'v str, Quantity, &'v str)> {
    let amounts = container.at(&["resources", field]).and_then(Value::as_map);
    amounts.into_iter().flat_map(Map::iter).filter_map(|(name, amount)| {
        let text = amount.as_str()?;
        Some((name, text.parse().ok()?, text))
    })
}

fn add(total: &mut Amounts, container: &Value, field: &str) {
    for (name, quantity, text) in amounts(container, field) {
        match total.get_mut(name) {
            Some(sum) => {
                sum.quantity += quantity;
                sum.text = None;
            }
            None => {
                let text = Some(text.to_owned());
                total.insert(name.to_owned(), Amount { quantity, text });
            }
        }
    }
}

/// Takes the greater of two amounts for each resource.
fn raise(to: &mut Amounts, from: impl IntoIterator<Item = (String, Amount)>) {
    for (name, amount) in from {
        if to.get(&name).is_none_or(|known| amount.quantity > known.quantity) {
            to.insert(name, amount);
        }
    }
}
