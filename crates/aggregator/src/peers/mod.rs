//! Other servers of the same cluster that serve what this one does not, as while a cluster is upgraded one server
//! after the other (k8s.io/apiserver's `util/peerproxy`).
//!
//! ```text
//! identity leases (cache) ─▶ sync: /api and /apis of each peer ─┐
//! definitions, API services ─▶ exclusions ──────────────────────┴▶ ArcSwap<Known> ─┬▶ PeerProxy: requests
//!                                                                                  └▶ discovery of all servers
//! ```

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
use kevel_server::certificates::verify::Purpose;
use kevel_server::certificates::{Dynamic, warn_unable_to_sign};
use kevel_server::controller::{Backoff, WorkQueue};
use kevel_server::discovery::{PeerDiscovery, PeerGroups};
use kevel_server::egress::Dialer;
use kevel_server::future::Pending;
use kevel_server::metrics::Metrics;
use kevel_server::resource::Resources;
use kevel_server::signals::Signal;
use kevel_server::storage::Storage;
use kevel_server::webhook::{Endpoint, Identity};

pub use proxy::PeerProxy;

use crate::Aggregator;
use crate::registered::ApiServices;
use crate::upstream::Server;
use exclusions::Exclusions;
use metrics::PeerMetrics;

/// The name in every server's certificate.
const SERVER_NAME: &str = "kubernetes.default.svc";
/// A peer that cannot be asked is asked again, for as long as its lease says that it is there.
const BACKOFF: Backoff = Backoff {
    base: Duration::from_millis(5),
    max: Duration::from_secs(30),
    per_second: f64::INFINITY,
    burst: f64::INFINITY,
};

/// Knows where a server is that is known by its ID.
pub trait PeerEndpoints: Send + Sync + 'static {
    /// Its `host:port`; `None` if it has not said one lately.
    fn endpoint<'a>(&'a self, server_id: &'a str) -> Pending<'a, Result<Option<String>, String>>;
}

/// What peers are known from.
pub struct PeersConfig {
    /// What this server is called among them.
    pub server_id: String,
    /// Leases, among which are those by which servers show that they are there.
    pub leases: Arc<Storage>,
    /// Where they are.
    pub endpoints: Arc<dyn PeerEndpoints>,
    /// The definitions of custom kinds, where there are any.
    pub definitions: Option<Arc<Storage>>,
    /// What this server serves.
    pub tables: Vec<Arc<Resources>>,
    /// `--peer-ca-file`
    pub ca_file: String,
    /// What this server shows to them: `--proxy-client-cert-file` and its key.
    pub identity: Identity,
    /// The way to them.
    pub dialer: Dialer,
    /// Where it is counted.
    pub metrics: Arc<Metrics>,
}

impl std::fmt::Debug for PeersConfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PeersConfig").field("server_id", &self.server_id).finish_non_exhaustive()
    }
}

/// The other servers of the cluster, and what they serve.
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
    known: ArcSwap<Known>,
    /// Signaled when the objects that decide who serves what are loaded. Until then everything is served here.
    synced: Signal,
}

impl std::fmt::Debug for Peers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.known.load().groups.peers.keys()).finish()
    }
}

#[derive(Default)]
struct State {
    /// What each peer says that it serves.
    said: BTreeMap<String, Peer>,
    exclusions: Exclusions,
}

/// A group and one of its versions.
type GroupVersion = (String, String);

/// What a peer serves.
#[derive(Clone, Debug, Default)]
struct Peer {
    resources: HashSet<(GroupVersion, String)>,
    /// `APIGroupDiscovery` documents, without the core group's.
    groups: Vec<Value>,
}

/// What peers serve that is theirs to serve.
#[derive(Debug, Default)]
struct Known {
    resources: BTreeMap<String, HashSet<(GroupVersion, String)>>,
    groups: Arc<PeerGroups>,
}

impl Aggregator {
    /// The peers of this server. Builds everything and runs nothing.
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
    /// What stands before the servers of the chain.
    pub fn proxy(self: &Arc<Self>) -> PeerProxy {
        PeerProxy(self.clone())
    }

    /// What they serve, for discovery.
    pub fn discovery(self: &Arc<Self>) -> Arc<dyn PeerDiscovery> {
        self.clone()
    }

    /// Where a peer is.
    async fn endpoint(&self, server_id: &str) -> Result<String, String> {
        let found = self.endpoints.endpoint(server_id).await?;
        found.ok_or_else(|| format!("no endpoint is known of {server_id}"))
    }

    /// Changes what is known, and shows what follows from it.
    fn publish(&self, change: impl FnOnce(&mut State)) {
        let mut state = self.state();
        change(&mut state);
        let kept = |(id, peer): (&String, &Peer)| (id.clone(), state.exclusions.without(peer));
        let peers: Vec<(String, Peer)> = state.said.iter().map(kept).collect();
        let groups = peers.iter().map(|(id, peer)| (id.clone(), peer.groups.clone())).collect();
        let groups = PeerGroups { server_id: self.server_id.clone(), peers: groups };
        let resources = peers.into_iter().map(|(id, peer)| (id, peer.resources)).collect();
        self.known.store(Arc::new(Known { resources, groups: Arc::new(groups) }));
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
