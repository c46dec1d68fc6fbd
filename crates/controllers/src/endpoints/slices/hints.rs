//! Hints of endpoints, by the traffic distribution of their Service.

use kevel_api::value::{Map, Value};

use super::super::slice::{SliceChanges, name_of};

/// Traffic distributions for which slices get topology hints, and whether by node as well as by zone.
const DISTRIBUTIONS: &[(&str, bool)] =
    &[("PreferClose", false), ("PreferSameZone", false), ("PreferSameNode", true)];

/// Sets the hints of all slices of a Service that stay.
pub(super) fn set_hints(service: &Value, existing: &[Value], changes: &mut SliceChanges) {
    let wanted = service.str_at(&["spec", "trafficDistribution"]);
    let nodes = DISTRIBUTIONS.iter().find(|(name, _)| *name == wanted).map(|(_, nodes)| *nodes);
    let changed = changes.update.iter().chain(&changes.delete).map(name_of);
    let changed: Vec<String> = changed.map(str::to_owned).collect();
    for slice in existing.iter().filter(|slice| !changed.iter().any(|name| name == name_of(slice)))
    {
        let mut hinted = slice.clone();
        hint(&mut hinted, nodes);
        if hinted != *slice {
            changes.update.push(hinted);
        }
    }
    changes.create.iter_mut().chain(&mut changes.update).for_each(|slice| hint(slice, nodes));
}

/// Sets the hints of a slice: those of ready endpoints, or none at all.
fn hint(slice: &mut Value, nodes: Option<bool>) {
    if slice.list_at(&["endpoints"]).is_empty() {
        return;
    }
    for endpoint in slice.make_list(&[], "endpoints").iter_mut().filter_map(Value::as_map_mut) {
        kevel_compute::charge(1);
        let Some(nodes) = nodes else {
            endpoint.remove("hints");
            continue;
        };
        let conditions = endpoint.get("conditions").and_then(Value::as_map);
        let ready = conditions.and_then(|conditions| conditions.get("ready"));
        if ready.and_then(Value::as_bool) != Some(true) {
            continue;
        }
        let for_name = |field: &str| {
            let name = endpoint.get(field)?.clone();
            let named = Value::Map(Map::from_iter([("name", name)]));
            Some(Value::List([named].into_iter().collect()))
        };
        let zone = for_name("zone").map(|zones| ("forZones", zones));
        let node = if nodes { for_name("nodeName").map(|nodes| ("forNodes", nodes)) } else { None };
        let hints: Map = zone.into_iter().chain(node).collect();
        if hints.is_empty() {
            endpoint.remove("hints");
        } else {
            endpoint.insert("hints", hints.into());
        }
    }
}
