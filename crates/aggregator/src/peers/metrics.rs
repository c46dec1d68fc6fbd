//! Metrics of the peer proxy.

use std::sync::Arc;

use kevel_server::metrics::{Counter, Description, Family, Metrics};
use kevel_server::request_info::RequestInfo;

/// Error label: a peer's address is unknown for a request.
pub(super) const ENDPOINT_RESOLUTION: &str = "endpoint_resolution";
/// Error label: a peer's address is unknown for discovery.
pub(super) const HOSTPORT_RESOLUTION: &str = "hostport_resolution";
/// Error label: a peer's discovery cannot be fetched.
pub(super) const FETCH_DISCOVERY: &str = "fetch_discovery";

/// Metrics of the peer proxy.
#[derive(Clone, Debug)]
pub(super) struct PeerMetrics {
    rerouted: Arc<Family<Counter>>,
    errors: Arc<Family<Counter>>,
    sync_errors: Arc<Family<Counter>>,
}

impl PeerMetrics {
    pub fn new(metrics: &Metrics) -> Self {
        PeerMetrics {
            rerouted: metrics.counter(Description {
                name: "apiserver_rerouted_request_total",
                help: "[ALPHA] Requests proxied to a peer, by code and resource; without a resource, those for discovery.",
                labels: &["code", "group", "version", "resource"],
            }),
            errors: metrics.counter(Description {
                name: "apiserver_peer_proxy_errors_total",
                help: "[ALPHA] Requests that could not be proxied to a peer, by reason and resource.",
                labels: &["type", "group", "version", "resource"],
            }),
            sync_errors: metrics.counter(Description {
                name: "apiserver_peer_discovery_sync_errors_total",
                help: "[ALPHA] Failed discovery requests to peers, by reason.",
                labels: &["type"],
            }),
        }
    }

    /// Counts a request that a peer answered.
    pub fn rerouted(&self, code: http::StatusCode, info: Option<&RequestInfo>) {
        let [group, version, resource] = labels(info);
        self.rerouted.with(&[code.as_str(), group, version, resource]).increment();
    }

    /// Counts a request that could not be proxied.
    pub fn failed(&self, why: &str, info: &RequestInfo) {
        let [group, version, resource] = labels(Some(info));
        self.errors.with(&[why, group, version, resource]).increment();
    }

    /// Counts a failed discovery of a peer.
    pub fn not_synced(&self, why: &str) {
        self.sync_errors.with(&[why]).increment();
    }
}

fn labels(info: Option<&RequestInfo>) -> [&str; 3] {
    info.map_or([""; 3], |info| [&info.group, &info.version, &info.resource])
}
