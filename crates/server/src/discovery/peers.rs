//! Discovery documents of the cluster's other API servers (upstream: `peerAggregatedDiscoveryHandler`).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kevel_api::value::{Map, Value};

use crate::metrics::{Counter, Description, Metrics};

/// Source of the peers' discovery documents.
pub trait PeerDiscovery: Send + Sync + 'static {
    /// Current documents; the same `Arc` while nothing changes.
    fn current(&self) -> Arc<PeerGroups>;
}

/// Discovery documents of the peers at one moment.
#[derive(Debug, Default)]
pub struct PeerGroups {
    /// ID of this server.
    pub server_id: String,
    /// `APIGroupDiscovery` documents of each other server, by its ID.
    pub peers: BTreeMap<String, Vec<Value>>,
}

/// Discovery merged with peers, and its metrics.
pub(super) struct PeerAggregation {
    pub peers: Option<Arc<dyn PeerDiscovery>>,
    pub hits: Arc<Counter>,
    pub misses: Arc<Counter>,
    pub no_peer: Arc<Counter>,
}

impl PeerAggregation {
    pub fn new(metrics: &Metrics, peers: Option<Arc<dyn PeerDiscovery>>) -> Self {
        let counter =
            |name, help| metrics.counter(Description { name, help, labels: &[] }).with(&[]);
        PeerAggregation {
            peers,
            hits: counter(
                "aggregator_discovery_peer_aggregated_cache_hits_total",
                "[ALPHA] Requests for merged discovery that were answered from the cache.",
            ),
            misses: counter(
                "aggregator_discovery_peer_aggregated_cache_misses_total",
                "[ALPHA] Merges of the discovery of all servers.",
            ),
            no_peer: counter(
                "aggregator_discovery_nopeer_requests_total",
                "[ALPHA] Requests for the discovery of this server alone.",
            ),
        }
    }
}

/// Merges the groups of all servers. A resource that servers describe differently gets the union.
pub(super) fn merge(local: &[Value], others: &PeerGroups) -> Vec<Value> {
    let own = (others.server_id.as_str(), local);
    let peers = others.peers.iter().map(|(id, groups)| (id.as_str(), groups.as_slice()));
    // In the order of the servers' IDs, so that every server gets the same result.
    let all: BTreeMap<&str, &[Value]> = peers.chain([own]).collect();
    let mut merged: BTreeMap<&str, Value> = BTreeMap::new();
    for group in all.values().copied().flatten() {
        let known = merged.entry(group_name(group)).or_insert_with(|| group.clone());
        if let Some(changed) = merge_groups(known, group) {
            *known = changed;
        }
    }
    let names = all.values().map(|groups| groups.iter().map(group_name).collect());
    let order = merge_preserving_relative_order(&names.collect::<Vec<Vec<&str>>>());
    order.into_iter().filter_map(|name| merged.remove(name)).collect()
}

fn group_name(group: &Value) -> &str {
    group.str_at(&["metadata", "name"])
}

/// The first group with the additions of the second; `None` if there are none.
fn merge_groups(one: &Value, other: &Value) -> Option<Value> {
    merge_lists(one, other, "versions", "version", |one, other| {
        merge_lists(one, other, "resources", "resource", merge_resources)
    })
}

fn merge_lists(
    one: &Value,
    other: &Value,
    list: &'static str,
    name: &str,
    merge: impl Fn(&Value, &Value) -> Option<Value>,
) -> Option<Value> {
    let (ours, theirs) = (one.list_at(&[list]), other.list_at(&[list]));
    let (our_names, their_names) = (names(ours, name), names(theirs, name));
    let mut merged: BTreeMap<&str, Value> = BTreeMap::new();
    for (name, item) in our_names.iter().copied().zip(ours) {
        merged.insert(name, item.clone());
    }
    let mut changed = our_names != their_names;
    for (name, item) in their_names.iter().copied().zip(theirs) {
        let known = merged.entry(name).or_insert_with(|| item.clone());
        if let Some(both) = merge(known, item) {
            (*known, changed) = (both, true);
        }
    }
    if !changed {
        return None;
    }
    let order = merge_preserving_relative_order(&[our_names, their_names]);
    let items = order.into_iter().filter_map(|name| merged.remove(name)).collect();
    let mut both = one.clone();
    both.make_map(&[]).insert(list, Value::List(items));
    Some(both)
}

fn names<'v>(items: &'v [Value], name: &str) -> Vec<&'v str> {
    items.iter().map(|item| item.str_at(&[name])).collect()
}

/// A resource with the verbs and subresources of both.
fn merge_resources(one: &Value, other: &Value) -> Option<Value> {
    if one == other {
        return None;
    }
    let both = || [one, other].into_iter();
    let verbs: BTreeSet<&str> =
        both().flat_map(|of| of.list_at(&["verbs"])).filter_map(Value::as_str).collect();
    let subresources: BTreeMap<&str, &Value> = both()
        .flat_map(|of| of.list_at(&["subresources"]))
        .map(|sub| (sub.str_at(&["subresource"]), sub))
        .collect();
    let mut merged = one.clone();
    let map: &mut Map = merged.make_map(&[]);
    map.insert("verbs", Value::List(verbs.into_iter().map(Value::from).collect()));
    if !subresources.is_empty() {
        map.insert("subresources", Value::List(subresources.into_values().cloned().collect()));
    }
    Some(merged)
}

/// Merges lists of names and keeps their relative order; ties by name. If the lists contradict each other, all are
/// sorted by name.
fn merge_preserving_relative_order<'n>(lists: &[Vec<&'n str>]) -> Vec<&'n str> {
    let all: BTreeSet<&str> = lists.iter().flatten().copied().collect();
    // A list with all names gives the order.
    if let Some(whole) = lists.iter().find(|list| list.len() == all.len()) {
        return whole.clone();
    }
    let pairs =
        lists.iter().flat_map(|list| list.iter().copied().zip(list.iter().copied().skip(1)));
    let mut before: BTreeSet<(&str, &str)> = pairs.collect();
    let (mut left, mut order) = (all.clone(), Vec::new());
    while let Some(next) =
        left.iter().copied().find(|name| before.iter().all(|(_, after)| after != name))
    {
        left.remove(next);
        before.retain(|(first, _)| *first != next);
        order.push(next);
    }
    if left.is_empty() { order } else { all.into_iter().collect() }
}

#[cfg(test)]
mod tests {
    use kevel_codec::json::{self, Unknown};

    use super::*;

    #[test]
    fn names_keep_the_order_that_each_list_gives_them() {
        for (lists, expected) in [
            (&["a b c", "b c"][..], "a b c"),
            (&["a c", "b c"], "a b c"),
            (&["c a", "c b"], "c a b"),
            (&["b a", "a z c"], "b a z c"),
            (&["a b x", "b a y"], "a b x y"),
            (&["", "a"], "a"),
        ] {
            let split: Vec<Vec<&str>> =
                lists.iter().map(|list| list.split_whitespace().collect()).collect();
            assert_eq!(merge_preserving_relative_order(&split).join(" "), expected, "{lists:?}");
        }
    }

    /// Parses `apps v1/deployments:get,list` as a group.
    fn group(text: &str) -> Value {
        let mut words = text.split(' ');
        let name = words.next().unwrap();
        let versions: Vec<String> = words
            .map(|version| {
                let (version, resources) = version.split_once('/').unwrap();
                let resources: Vec<String> = resources
                    .split('+')
                    .map(|resource| {
                        let (resource, verbs) = resource.split_once(':').unwrap();
                        let verbs = verbs.replace(',', "\",\"");
                        format!(r#"{{"resource":"{resource}","verbs":["{verbs}"]}}"#)
                    })
                    .collect();
                format!(r#"{{"version":"{version}","resources":[{}]}}"#, resources.join(","))
            })
            .collect();
        let text =
            format!(r#"{{"metadata":{{"name":"{name}"}},"versions":[{}]}}"#, versions.join(","));
        json::decode_any(text.as_bytes(), Unknown::Ignore).unwrap().value
    }

    #[test]
    fn what_either_server_serves_is_served() {
        let local = [group("apps v1/deployments:get,list"), group("x.io v1/xs:get")];
        let peer = vec![
            group("apps v1/deployments:get,watch+daemonsets:get v2/new:get"),
            group("batch v1/jobs:get"),
            group("x.io v1/xs:get"),
        ];
        let expected = [
            group("apps v1/deployments:get,list,watch+daemonsets:get v2/new:get"),
            group("batch v1/jobs:get"),
            group("x.io v1/xs:get"),
        ];
        for peer_id in ["a", "z"] {
            let peers = BTreeMap::from([(peer_id.to_owned(), peer.clone())]);
            let others = PeerGroups { server_id: "m".to_owned(), peers };
            assert_eq!(merge(&local, &others), expected, "{peer_id}");
        }
        let alone = PeerGroups { server_id: "m".to_owned(), ..PeerGroups::default() };
        assert_eq!(merge(&local, &alone), local);
    }
}
