//! Metrics of nodes, by the reference's names.

use std::sync::Arc;

use kevel_server::metrics::{Counter, Description, Family, FloatGauge, Gauge, Histogram, Metrics};

use super::zones::ZoneSize;

/// Bounds of a node's duration: eight powers of four from a millisecond.
const SECONDS: &[f64] = &[0.001, 0.004, 0.016, 0.064, 0.256, 1.024, 4.096, 16.384];
const LABELS: &[&str] = &["zone"];

/// Metrics of nodes and their zones.
#[derive(Debug)]
pub(super) struct NodeMetrics {
    zone_health: Arc<Family<FloatGauge>>,
    zone_size: Arc<Family<Gauge>>,
    unhealthy: Arc<Family<Gauge>>,
    evictions: Arc<Family<Counter>>,
    duration: Arc<Histogram>,
}

impl NodeMetrics {
    pub fn new(metrics: &Metrics) -> Self {
        let of_zone = |name, help| Description { name, help, labels: LABELS };
        let duration = Description {
            name: "node_collector_update_node_health_duration_seconds",
            help: "[ALPHA] Seconds of a health check of a node.",
            labels: &[],
        };
        NodeMetrics {
            zone_health: metrics.family(
                of_zone(
                    "node_collector_zone_health",
                    "[ALPHA] Share of ready nodes by zone, in percent.",
                ),
                FloatGauge::default,
            ),
            zone_size: metrics.gauge(of_zone("node_collector_zone_size", "[ALPHA] Nodes by zone.")),
            unhealthy: metrics.gauge(of_zone(
                "node_collector_unhealthy_nodes_in_zone",
                "[ALPHA] Nodes that are not ready, by zone.",
            )),
            evictions: metrics.counter(of_zone(
                "node_collector_evictions_total",
                "[STABLE] Nodes tainted for eviction of their pods, by zone.",
            )),
            duration: metrics.histogram(duration, SECONDS).with(&[]),
        }
    }

    /// Shows the size of a zone.
    pub fn show(&self, size: &ZoneSize) {
        let labels = [size.zone.as_str()];
        let number = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
        self.zone_size.with(&labels).set(number(size.nodes));
        self.unhealthy.with(&labels).set(number(size.unhealthy));
        let float = |count: usize| f64::from(u32::try_from(count).unwrap_or(u32::MAX));
        let healthy = float(size.nodes.saturating_sub(size.unhealthy));
        let health = if size.nodes == 0 { 100.0 } else { 100.0 * healthy / float(size.nodes) };
        self.zone_health.with(&labels).set(health);
        // A zone without evictions has a zero.
        self.evictions.with(&labels);
    }

    /// Counts a node that was tainted.
    pub fn count_eviction(&self, zone: &str) {
        self.evictions.with(&[zone]).increment();
    }

    /// Notes the seconds of a look at a node.
    pub fn observe(&self, seconds: f64) {
        self.duration.observe(seconds);
    }
}
