//! Subsets of Endpoints: addresses with the same ports.

use std::collections::BTreeMap;

use kevel_api::value::{Map, Value};

/// Most addresses of an Endpoints object.
const MAX_ADDRESSES: usize = 1000;

/// Port: name, number, protocol, application protocol.
type SubsetPort = (String, i64, String, Option<String>);
/// Address, and UID of its target.
type SubsetAddress = (String, String);
/// Readiness by address.
type Readiness = BTreeMap<SubsetAddress, bool>;

/// Subsets in their canonical form (upstream: `RepackSubsets`): each address and port once, addresses with the same
/// ports together, in order. An address that is not ready in one place is not ready.
pub(super) fn repack(subsets: &[Value]) -> Vec<Value> {
    let mut addresses: BTreeMap<SubsetAddress, &Value> = BTreeMap::new();
    let mut by_port: BTreeMap<Option<SubsetPort>, Readiness> = BTreeMap::new();
    for subset in subsets {
        let ports = subset.list_at(&["ports"]);
        let ports: Vec<Option<SubsetPort>> = if ports.is_empty() {
            vec![None]
        } else {
            ports.iter().map(|port| Some(read(port))).collect()
        };
        for (field, ready) in [("addresses", true), ("notReadyAddresses", false)] {
            for address in subset.list_at(&[field]) {
                kevel_compute::charge(1);
                let key = key(address);
                addresses.entry(key.clone()).or_insert(address);
                for port in &ports {
                    let readiness = by_port.entry(port.clone()).or_default();
                    *readiness.entry(key.clone()).or_insert(true) &= ready;
                }
            }
        }
    }
    let mut grouped: BTreeMap<Readiness, Vec<SubsetPort>> = BTreeMap::new();
    for (port, readiness) in by_port {
        grouped.entry(readiness).or_default().extend(port);
    }
    let mut groups: Vec<(Vec<SubsetPort>, Readiness)> =
        grouped.into_iter().map(|(readiness, ports)| (ports, readiness)).collect();
    groups.sort();
    groups.into_iter().map(|(ports, readiness)| subset(&ports, &readiness, &addresses)).collect()
}

fn read(port: &Value) -> SubsetPort {
    let number = port.at(&["port"]).and_then(Value::as_int).unwrap_or(0);
    let application = port.at(&["appProtocol"]).and_then(Value::as_str).map(str::to_owned);
    let text = |field| port.str_at(&[field]).to_owned();
    (text("name"), number, text("protocol"), application)
}

fn key(address: &Value) -> SubsetAddress {
    (address.str_at(&["ip"]).to_owned(), address.str_at(&["targetRef", "uid"]).to_owned())
}

fn subset(
    ports: &[SubsetPort],
    readiness: &Readiness,
    addresses: &BTreeMap<SubsetAddress, &Value>,
) -> Value {
    let of = |wanted: bool| {
        let keys = readiness.iter().filter(|(_, ready)| **ready == wanted);
        let found = keys.filter_map(|(key, _)| addresses.get(key).map(|address| plain(address)));
        Value::List(found.collect())
    };
    let ports = ports.iter().map(|(name, number, protocol, application)| {
        let mut port = Map::new();
        for (field, value) in [("name", name), ("protocol", protocol)] {
            if !value.is_empty() {
                port.insert(field, value.as_str().into());
            }
        }
        port.insert("port", (*number).into());
        if let Some(application) = application {
            port.insert("appProtocol", application.as_str().into());
        }
        Value::Map(port)
    });
    let parts = [
        ("addresses", of(true)),
        ("notReadyAddresses", of(false)),
        ("ports", Value::List(ports.collect())),
    ];
    let parts = parts.into_iter().filter(|(_, list)| !list.as_list().is_none_or(<[_]>::is_empty));
    Map::from_iter(parts).into()
}

/// Address without the resourceVersion of its target.
fn plain(address: &Value) -> Value {
    let mut address = address.clone();
    if let Some(target) = address.at_mut(&["targetRef"]).and_then(Value::as_map_mut) {
        target.remove("resourceVersion");
    }
    address
}

/// Cuts subsets to [`MAX_ADDRESSES`], ready ones first, in proportion; returns whether anything was cut.
pub(super) fn truncate(subsets: &mut [Value]) -> bool {
    let count = |field: &str| subsets.iter().map(|subset| subset.list_at(&[field]).len()).sum();
    let (ready, not_ready): (usize, usize) = (count("addresses"), count("notReadyAddresses"));
    if ready + not_ready <= MAX_ADDRESSES {
        return false;
    }
    let (field, room, total) = if ready > MAX_ADDRESSES {
        ("addresses", MAX_ADDRESSES, ready)
    } else {
        ("notReadyAddresses", MAX_ADDRESSES - ready, not_ready)
    };
    let mut left = room;
    for subset in subsets {
        let Some(subset) = subset.as_map_mut() else { continue };
        if field == "addresses" {
            subset.remove("notReadyAddresses");
        }
        let Some(list) = subset.get_mut(field).and_then(Value::as_list_mut) else { continue };
        let share = (list.len() * room).div_ceil(total).min(left);
        list.truncate(share);
        left -= list.len();
        if list.is_empty() {
            subset.remove(field);
        }
    }
    true
}

/// Whether Endpoints have the mark of a cut that they have not, or are too many.
pub(super) fn is_marked_right(subsets: &[Value], marked: bool) -> bool {
    let count = |subset: &Value| {
        subset.list_at(&["addresses"]).len() + subset.list_at(&["notReadyAddresses"]).len()
    };
    !marked && subsets.iter().map(count).sum::<usize>() <= MAX_ADDRESSES
}

#[cfg(test)]
mod tests {
    use kevel_codec::json;

    use super::*;

    fn parse(text: &str) -> Vec<Value> {
        let read = json::decode_any(text.as_bytes(), json::Unknown::Ignore).unwrap();
        read.value.as_list().unwrap().to_vec()
    }

    #[test]
    fn addresses_with_the_same_ports_are_packed_together() {
        let subsets = parse(
            r#"[{"addresses":[{"ip":"1.1.1.2"}],"ports":[{"port":80,"name":"a"}]},
                {"addresses":[{"ip":"1.1.1.1"}],"ports":[{"port":80,"name":"a"}]},
                {"addresses":[{"ip":"1.1.1.1"},{"ip":"1.1.1.2"}],"ports":[{"port":81,"name":"b"}]},
                {"notReadyAddresses":[{"ip":"1.1.1.3"}],"ports":[{"port":80,"name":"a"}]}]"#,
        );
        let packed = parse(
            r#"[{"addresses":[{"ip":"1.1.1.1"},{"ip":"1.1.1.2"}],
                 "notReadyAddresses":[{"ip":"1.1.1.3"}],"ports":[{"port":80,"name":"a"}]},
                {"addresses":[{"ip":"1.1.1.1"},{"ip":"1.1.1.2"}],"ports":[{"port":81,"name":"b"}]}]"#,
        );
        assert_eq!(repack(&subsets), packed);
        assert_eq!(repack(&packed), packed);
    }

    #[test]
    fn more_than_a_thousand_addresses_are_cut() {
        let addresses = |count: usize| {
            let addresses = (0..count).map(|at| {
                Map::from_iter([(
                    "ip",
                    Value::from(format!("10.0.{}.{}", at / 256, at % 256).as_str()),
                )])
            });
            Value::List(addresses.map(Value::Map).collect())
        };
        let subset = |ready: usize, not_ready: usize| {
            Value::from(Map::from_iter([
                ("addresses", addresses(ready)),
                ("notReadyAddresses", addresses(not_ready)),
            ]))
        };
        let mut few = [subset(900, 100)];
        assert!(!truncate(&mut few));
        let mut many = [subset(400, 300), subset(500, 100)];
        assert!(truncate(&mut many));
        let left: Vec<usize> =
            many.iter().map(|subset| subset.list_at(&["notReadyAddresses"]).len()).collect();
        assert_eq!(left, [75, 25]);
    }
}
