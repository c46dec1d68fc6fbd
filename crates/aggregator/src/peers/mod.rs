//! Peers: other API servers of the same cluster that serve resources this one does not, as during a rolling upgrade
//! (upstream: `util/peerproxy`).
//!
//! ```text
//! identity leases (cache) ─▶ sync: /api and /apis of each peer ─┐
//! definitions, API services ─▶ exclusions ──────────────────────┴▶ ArcSwap<PeerResources> ─┬▶ PeerProxy: requests
//!                                                                                  └▶ discovery of all servers
//! ```
//!
//! # Several servers on one store
//!
//! Servers share only the store, and each may stop at any step. Reserved addresses and ports are written to the store
//! before the object that uses them, and released only in the state that was examined, because a cache may be stale.
//! `crates/kevel/tests/replicas` runs three servers at once.
//!
//! - *Peers* (gate `UnknownVersionInteroperabilityProxy`, `--peer-ca-file`). A server without a row for a resource
//!   passes the request to a peer that has one: after authorization, before it is counted, with the user in headers and
//!   the front proxy's client certificate. A request that was passed on is marked and not passed on again. Peers are
//!   asked for their resources when the holder of an identity lease changes.
//! - Versions of CRDs and APIServices are never looked up at peers, nor for five minutes after their deletion: every
//!   server learns of them from the same objects, and a late server must not bring them back.
//! - Aggregated discovery at `/apis` merges all servers in the order of their IDs, so that all servers give the same
//!   answer.
//! - *Coordinated leader election* (gate `CoordinatedLeaderElection`; `controlplane::coordination`). One server, the
//!   holder of a lease (`LeaderElector`), chooses the holders of other Leases among their LeaseCandidates. The next
//!   step is a function of objects and time (`election::step`), so another server can continue at any point.
//! - *Storage versions* (gate `StorageVersionAPI`; `StorageVersionManager`). A server publishes the versions in which
//!   it stores and reads each kind, and refuses clients' writes until it has. Its own writes do not wait, as in the
//!   reference.
//! - *Graceful stop.* In the second half of `--shutdown-delay-duration` every response ends its connection (GOAWAY for
//!   HTTP/2), so that no connection closes between two requests. Connections of watches end with the watch, and clients
//!   continue at another server at the same revision (recall, see `kevel_store`).
//! - A server's name is its host name (`CompletedOptions::hostname`): two in one process need two names.

mod exclusions;
mod metrics;
mod proxy;
mod sync;

use std::collections::{BTreeMap, HashSet};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwap;
use kevel_api::value::Value;
use kevel_component::future::Pending;
use kevel_component::signals::Signal;
use kevel_controller_runtime::{Backoff, WorkQueue};
use kevel_registry::resource::Resources;
use kevel_registry::storage::Storage;
use kevel_server::certificates::verify::Purpose;
use kevel_server::certificates::{Dynamic, warn_unable_to_sign};
use kevel_server::discovery::{PeerDiscovery, PeerGroups};
use kevel_server::egress::Dialer;
use kevel_server::metrics::Metrics;
use kevel_server::webhook::{Endpoint, Identity};

pub use proxy::PeerProxy;

use crate::Aggregator;
use crate::registered::ApiServices;
use crate::upstream::Server;
use exclusions::Exclusions;
use metrics::PeerMetrics;

/// DNS name in every API server's certificate.
const SERVER_NAME: &str = "kubernetes.default.svc";
/// An unreachable peer is tried again as long as its lease exists.
const BACKOFF: Backoff = Backoff {
    base: Duration::from_millis(5),
    max: Duration::from_secs(30),
    per_second: f64::INFINITY,
    burst: f64::INFINITY,
};

/// Addresses of peers by server ID.
pub trait PeerEndpoints: Send + Sync + 'static {
    /// `host:port` of a peer; `None` if it has not published one lately.
    fn endpoint<'a>(&'a self, server_id: &'a str) -> Pending<'a, Result<Option<String>, String>>;
}

/// Configuration of the peer proxy.
pub struct PeersConfig {
    /// This server's ID.
    pub server_id: String,
    /// Storage of Leases, which include the servers' identity leases.
    pub leases: Arc<Storage>,
    /// Addresses of peers.
    pub endpoints: Arc<dyn PeerEndpoints>,
    /// Storage of CustomResourceDefinitions, if they are served.
    pub definitions: Option<Arc<Storage>>,
    /// Resources that this server serves.
    pub tables: Vec<Arc<Resources>>,
    /// `--peer-ca-file`
    pub ca_file: String,
    /// Client certificate for peers: `--proxy-client-cert-file` and its key.
    pub identity: Identity,
    /// Dialer for peers.
    pub dialer: Dialer,
    /// Metrics of the server.
    pub metrics: Arc<Metrics>,
}

impl std::fmt::Debug for PeersConfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PeersConfig").field("server_id", &self.server_id).finish_non_exhaustive()
    }
}

/// Peers of this server, and their resources.
pub struct Peers {
    server_id: String,
    leases: Arc<Storage>,
    endpoints: Arc<dyn PeerEndpoints>,
    definitions: Option<Arc<Storage>>,
    tables: Vec<Arc<Resources>>,
    services: Arc<ApiServices>,
    server: Dynamic<Server>,
    metrics: PeerMetrics,
    queue: Arc<WorkQueue>,
    exclusion_queue: Arc<WorkQueue>,
    state: Mutex<State>,
    known: ArcSwap<PeerResources>,
    /// Signaled when leases, CustomResourceDefinitions and APIServices are loaded. Until then no request is proxied.
    synced: Signal,
}

impl std::fmt::Debug for Peers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.known.load().groups.peers.keys()).finish()
    }
}

#[derive(Default)]
struct State {
    /// Discovered resources of each peer.
    said: BTreeMap<String, Peer>,
    exclusions: Exclusions,
}

/// API group and version.
type GroupVersion = (String, String);

/// Resources of a peer.
#[derive(Clone, Debug, Default)]
struct Peer {
    resources: HashSet<(GroupVersion, String)>,
    /// `APIGroupDiscovery` documents, without the core group's.
    groups: Vec<Value>,
}

/// Resources of peers, without excluded versions.
#[derive(Debug, Default)]
struct PeerResources {
    resources: BTreeMap<String, HashSet<(GroupVersion, String)>>,
    groups: Arc<PeerGroups>,
}

impl Aggregator {
    /// The peers of this server. Builds the parts without starting them.
    pub fn peers(&self, config: PeersConfig) -> Result<Arc<Peers>, String> {
        let PeersConfig { identity, dialer, .. } = config;
        let source = config.ca_file.clone();
        let server = Dynamic::load("peer-ca", &[Path::new(&config.ca_file)], move |files| {
            warn_unable_to_sign(&source, Purpose::ServerAuth, files);
            let server = Server::new(Endpoint {
                ca: files.first().cloned(),
                server_name: Some(SERVER_NAME.to_owned()),
                identity: Some(identity.clone()),
                dialer: dialer.clone(),
                ..Endpoint::default()
            });
            server.check().map(|()| server)
        });
        let peers = Arc::new(Peers {
            server_id: config.server_id,
            leases: config.leases,
            endpoints: config.endpoints,
            definitions: config.definitions,
            tables: config.tables,
            services: self.services.clone(),
            server: server?,
            metrics: PeerMetrics::new(&config.metrics),
            queue: WorkQueue::new(BACKOFF),
            exclusion_queue: WorkQueue::new(BACKOFF),
            state: Mutex::default(),
            known: ArcSwap::default(),
            synced: Signal::new("PeersSynced"),
        });
        peers.publish(|_| {});
        Ok(peers)
    }
}

impl Peers {
    /// Filter in front of the server chain.
    pub fn proxy(self: &Arc<Self>) -> PeerProxy {
        PeerProxy(self.clone())
    }

    /// Resources of peers, for merged discovery.
    pub fn discovery(self: &Arc<Self>) -> Arc<dyn PeerDiscovery> {
        self.clone()
    }

    /// Address of a peer.
    async fn endpoint(&self, server_id: &str) -> Result<String, String> {
        let found = self.endpoints.endpoint(server_id).await?;
        found.ok_or_else(|| format!("no endpoint is known of {server_id}"))
    }

    /// Changes the state, and publishes the result.
    fn publish(&self, change: impl FnOnce(&mut State)) {
        let mut state = self.state();
        change(&mut state);
        let kept = |(id, peer): (&String, &Peer)| (id.clone(), state.exclusions.without(peer));
        let peers: Vec<(String, Peer)> = state.said.iter().map(kept).collect();
        let groups = peers.iter().map(|(id, peer)| (id.clone(), peer.groups.clone())).collect();
        let groups = PeerGroups { server_id: self.server_id.clone(), peers: groups };
        let resources = peers.into_iter().map(|(id, peer)| (id, peer.resources)).collect();
        self.known.store(Arc::new(PeerResources { resources, groups: Arc::new(groups) }));
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PeerDiscovery for Peers {
    fn current(&self) -> Arc<PeerGroups> {
        self.known.load().groups.clone()
    }
}
