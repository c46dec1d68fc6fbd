//! Zones: how many of their nodes are ready, and at which rate the others are tainted.

use std::collections::{BTreeMap, HashMap};

use kevel_api::value::Value;
use kevel_clock::Moment;

use super::rate::RateLimit;

/// Nodes per second that are tainted in a zone without a disruption (upstream: `--node-eviction-rate`).
const RATE: f64 = 0.1;
/// Evictions per second in a large zone with a partial disruption (upstream: `--secondary-node-eviction-rate`).
const REDUCED_RATE: f64 = 0.01;
/// Nodes above which a zone is large (upstream: `--large-cluster-size-threshold`).
const LARGE: usize = 50;
/// Share of nodes that are not ready, in percent, from which on a zone is partially disrupted (upstream:
/// `--unhealthy-zone-threshold`).
const UNHEALTHY_PERCENT: usize = 55;
/// Fewest nodes of a partial disruption.
const FEWEST_UNHEALTHY: usize = 3;
/// Label of nodes that do not count in their zone.
const EXCLUDED: &str = "node.kubernetes.io/exclude-disruption";

/// State of a zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ZoneState {
    /// Zone that was not evaluated yet.
    Initial,
    Normal,
    /// No node is ready.
    FullDisruption,
    PartialDisruption,
}

/// Change of all zones together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Disruption {
    None,
    /// No node of the cluster is ready any more: nothing is evicted.
    Begun,
    /// A node is ready again.
    Ended,
}

/// Number of nodes of a zone, for metrics.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct ZoneSize {
    pub zone: String,
    pub nodes: usize,
    pub unhealthy: usize,
}

#[derive(Debug)]
struct EvictionZone {
    state: ZoneState,
    limit: RateLimit,
    ready: usize,
    unhealthy: usize,
    /// Nodes of the zone, the excluded ones included.
    members: usize,
    /// Nodes that are to be tainted, in order.
    waiting: BTreeMap<u64, String>,
}

/// A node in its zone.
#[derive(Debug)]
struct ZoneMember {
    zone: String,
    /// Whether the node is ready; `None` if it does not count.
    counted: Option<bool>,
    /// Place among the nodes that wait to be tainted.
    waiting: Option<u64>,
}

/// Zones and their nodes.
#[derive(Debug, Default)]
pub(super) struct Zones {
    zones: BTreeMap<String, EvictionZone>,
    members: HashMap<String, ZoneMember>,
    next_place: u64,
    /// Zones that have gone since their sizes were asked for.
    gone: Vec<String>,
    changed: bool,
}

/// Name of a node's zone (upstream: `GetZoneKey`); empty without one.
pub(super) fn zone_of(node: &Value) -> String {
    let label = |old: &str, new: &str| {
        let of = |key| node.at(&["metadata", "labels", key]).and_then(Value::as_str);
        of(old).or_else(|| of(new)).unwrap_or_default().to_owned()
    };
    let zone = label("failure-domain.beta.kubernetes.io/zone", "topology.kubernetes.io/zone");
    let region = label("failure-domain.beta.kubernetes.io/region", "topology.kubernetes.io/region");
    if zone.is_empty() && region.is_empty() { String::new() } else { format!("{region}:\0:{zone}") }
}

/// Whether a node counts in its zone.
pub(super) fn is_counted(node: &Value) -> bool {
    node.at(&["metadata", "labels", EXCLUDED]).is_none()
}

impl EvictionZone {
    fn new(now: Moment) -> Self {
        EvictionZone {
            state: ZoneState::Initial,
            limit: RateLimit::new(RATE, now),
            ready: 0,
            unhealthy: 0,
            members: 0,
            waiting: BTreeMap::new(),
        }
    }

    fn nodes(&self) -> usize {
        self.ready + self.unhealthy
    }

    fn count(&mut self, counted: Option<bool>) -> Option<&mut usize> {
        counted.map(|ready| if ready { &mut self.ready } else { &mut self.unhealthy })
    }

    /// State by the zone's nodes (upstream: `ComputeZoneState`).
    fn present_state(&self) -> ZoneState {
        if self.nodes() == 0 {
            ZoneState::Initial
        } else if self.ready == 0 {
            ZoneState::FullDisruption
        } else if self.unhealthy >= FEWEST_UNHEALTHY
            && self.unhealthy * 100 >= self.nodes() * UNHEALTHY_PERCENT
        {
            ZoneState::PartialDisruption
        } else {
            ZoneState::Normal
        }
    }

    fn enter(&mut self, state: ZoneState, now: Moment) {
        self.state = state;
        let rate = match state {
            ZoneState::PartialDisruption if self.nodes() > LARGE => REDUCED_RATE,
            ZoneState::PartialDisruption => 0.0,
            _ => RATE,
        };
        self.limit.set(rate, now);
    }
}

impl Zones {
    /// Puts a node into a zone, as ready or not; `counted` is `None` if it does not count.
    pub fn put(&mut self, node: &str, zone: &str, counted: Option<bool>, now: Moment) {
        let known = self.members.get(node);
        if known.is_some_and(|known| known.zone == zone && known.counted == counted) {
            return;
        }
        let waits = known.is_some_and(|known| known.waiting.is_some());
        self.remove(node);
        let entry = self.zones.entry(zone.to_owned()).or_insert_with(|| EvictionZone::new(now));
        entry.members += 1;
        if let Some(count) = entry.count(counted) {
            *count += 1;
        }
        let member = ZoneMember { zone: zone.to_owned(), counted, waiting: None };
        self.members.insert(node.to_owned(), member);
        self.changed = true;
        self.set_waiting(node, waits);
    }

    /// Removes a node.
    pub fn remove(&mut self, node: &str) {
        self.set_waiting(node, false);
        let Some(member) = self.members.remove(node) else { return };
        self.changed = true;
        let Some(zone) = self.zones.get_mut(&member.zone) else { return };
        zone.members = zone.members.saturating_sub(1);
        if let Some(count) = zone.count(member.counted) {
            *count = count.saturating_sub(1);
        }
    }

    /// Has a node wait to be tainted, or not; returns whether that is new.
    pub fn set_waiting(&mut self, node: &str, waits: bool) -> bool {
        let Some(member) = self.members.get_mut(node) else { return false };
        if member.waiting.is_some() == waits {
            return false;
        }
        let Some(zone) = self.zones.get_mut(&member.zone) else { return false };
        match member.waiting.take() {
            Some(place) => drop(zone.waiting.remove(&place)),
            None => {
                zone.waiting.insert(self.next_place, node.to_owned());
                member.waiting = Some(self.next_place);
                self.next_place += 1;
            }
        }
        true
    }

    /// Nodes that may be tainted now; they no longer wait.
    pub fn take_due(&mut self, now: Moment) -> Vec<String> {
        let mut due = Vec::new();
        for zone in self.zones.values_mut() {
            if !zone.waiting.is_empty() && zone.limit.take(now) {
                due.extend(zone.waiting.pop_first().map(|(_, node)| node));
            }
        }
        for node in &due {
            if let Some(member) = self.members.get_mut(node) {
                member.waiting = None;
            }
        }
        due
    }

    /// Moment at which the next node may be tainted.
    pub fn next_due(&self) -> Option<Moment> {
        let waiting = self.zones.values().filter(|zone| !zone.waiting.is_empty());
        waiting.filter_map(|zone| zone.limit.next()).min()
    }

    /// Whether a node has been put or removed since [`Zones::evaluate`].
    pub fn has_changed(&self) -> bool {
        self.changed
    }

    /// Brings states and rates up to date with the nodes (upstream: `handleDisruption`).
    pub fn evaluate(&mut self, now: Moment) -> Disruption {
        self.changed = false;
        let gone: Vec<String> = self
            .zones
            .iter()
            .filter(|(_, zone)| zone.nodes() == 0)
            .map(|(key, _)| key.clone())
            .collect();
        for key in gone {
            // A zone of nodes that do not count is as new.
            match self.zones.get_mut(&key) {
                Some(zone) if zone.members > 0 => zone.state = ZoneState::Initial,
                _ => drop(self.zones.remove(&key)),
            }
            self.gone.push(key);
        }
        let counted = || self.zones.values().filter(|zone| zone.nodes() > 0);
        let is_full = |state: ZoneState| state == ZoneState::FullDisruption;
        let all_were = counted().all(|zone| is_full(zone.state));
        let all_are = counted().all(|zone| is_full(zone.present_state()));
        let zones = self.zones.values_mut().filter(|zone| zone.nodes() > 0);
        match (all_were, all_are) {
            (true, true) => Disruption::None,
            (false, true) => {
                for zone in zones {
                    zone.state = ZoneState::FullDisruption;
                    zone.limit.set(0.0, now);
                }
                Disruption::Begun
            }
            (true, false) => {
                zones.for_each(|zone| zone.enter(zone.present_state(), now));
                Disruption::Ended
            }
            (false, false) => {
                for zone in zones.filter(|zone| zone.state != zone.present_state()) {
                    zone.enter(zone.present_state(), now);
                }
                Disruption::None
            }
        }
    }

    /// Sizes of all zones, and of those that have gone since the last call.
    pub fn sizes(&mut self) -> Vec<ZoneSize> {
        let gone = std::mem::take(&mut self.gone).into_iter();
        let gone = gone.map(|zone| ZoneSize { zone, ..ZoneSize::default() });
        let present = self.zones.iter().filter(|(_, zone)| zone.nodes() > 0).map(|(key, zone)| {
            ZoneSize { zone: key.clone(), nodes: zone.nodes(), unhealthy: zone.unhealthy }
        });
        gone.chain(present).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use kevel_clock::ManualClock;

    use super::*;

    /// Zones of `name=ready+unhealthy` each, all unhealthy nodes waiting.
    fn put(zones: &mut Zones, sizes: &str, now: Moment) {
        for zone in sizes.split_whitespace() {
            let (name, counts) = zone.split_once('=').unwrap();
            let (ready, unhealthy) = counts.split_once('+').unwrap();
            let (ready, unhealthy): (usize, usize) =
                (ready.parse().unwrap(), unhealthy.parse().unwrap());
            for number in 0..ready + unhealthy {
                let node = format!("{name}{number}");
                zones.put(&node, name, Some(number < ready), now);
                zones.set_waiting(&node, number >= ready);
            }
        }
    }

    /// State of each zone, with the seconds until its next node is tainted.
    fn states(zones: &Zones, now: Moment) -> String {
        let show = |(name, zone): (&String, &EvictionZone)| {
            let next = zone.limit.next().map(|next| next.saturating_duration_since(now).as_secs());
            let next = next.map_or("never".to_owned(), |next| next.to_string());
            format!("{name} {:?} {next}", zone.state)
        };
        zones.zones.iter().map(show).collect::<Vec<_>>().join(", ")
    }

    #[test]
    fn disruption_slows_evictions_down() {
        for (sizes, disruption, expected) in [
            ("a=3+1", Disruption::None, "a Normal 0"),
            ("a=2+2", Disruption::None, "a Normal 0"),
            ("a=1+2", Disruption::None, "a Normal 0"),
            ("a=1+3", Disruption::None, "a PartialDisruption never"),
            ("a=22+28", Disruption::None, "a PartialDisruption never"),
            ("a=22+29", Disruption::None, "a PartialDisruption 0"),
            ("a=24+29", Disruption::None, "a Normal 0"),
            ("a=0+1", Disruption::Begun, "a FullDisruption never"),
            ("a=0+1 b=0+9", Disruption::Begun, "a FullDisruption never, b FullDisruption never"),
            ("a=0+1 b=1+0", Disruption::None, "a FullDisruption 0, b Normal 0"),
            ("", Disruption::None, ""),
        ] {
            let now = ManualClock::at_present().clock().moment();
            let mut zones = Zones::default();
            put(&mut zones, sizes, now);
            assert_eq!(zones.evaluate(now), disruption, "{sizes}");
            assert_eq!(states(&zones, now), expected, "{sizes}");
            assert_eq!(zones.evaluate(now), Disruption::None, "{sizes}");
        }
    }

    #[test]
    fn evictions_begin_again_when_a_node_is_ready() {
        let manual = ManualClock::at_present();
        let now = || manual.clock().moment();
        let mut zones = Zones::default();
        put(&mut zones, "a=1+2", now());
        assert_eq!(zones.evaluate(now()), Disruption::None);
        assert_eq!(zones.take_due(now()), ["a1"]);
        assert_eq!(zones.next_due(), Some(now() + Duration::from_secs(10)));
        zones.put("a0", "a", Some(false), now());
        assert_eq!(zones.evaluate(now()), Disruption::Begun);
        manual.advance(Duration::from_secs(100));
        assert_eq!((zones.take_due(now()), zones.next_due()), (vec![], None));
        zones.put("a1", "a", Some(true), now());
        assert_eq!(zones.evaluate(now()), Disruption::Ended);
        assert_eq!(zones.take_due(now()), Vec::<String>::new());
        manual.advance(Duration::from_secs(10));
        assert_eq!(zones.take_due(now()), ["a2"]);
    }

    #[test]
    fn nodes_move_between_zones() {
        let now = ManualClock::at_present().clock().moment();
        let mut zones = Zones::default();
        put(&mut zones, "a=1+1", now);
        zones.put("excluded", "a", None, now);
        zones.evaluate(now);
        let size =
            |zone: &str, nodes, unhealthy| ZoneSize { zone: zone.to_owned(), nodes, unhealthy };
        assert_eq!(zones.sizes(), [size("a", 2, 1)]);
        zones.put("a1", "b", Some(false), now);
        zones.put("a0", "b", Some(true), now);
        zones.evaluate(now);
        assert_eq!(zones.sizes(), [size("a", 0, 0), size("b", 2, 1)]);
        // It waits in its new zone.
        assert_eq!(zones.take_due(now), ["a1"]);
        for node in ["a0", "a1", "excluded"] {
            zones.remove(node);
        }
        assert!(zones.has_changed());
        zones.evaluate(now);
        assert!(zones.zones.is_empty() && zones.members.is_empty());
    }
}
