//! Connections to one server, as many as its requests need.
//!
//! A server limits concurrent requests on an HTTP/2 connection, and watches stay open: with one connection only, some
//! hundred watches would block all other requests.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hyper_rustls::{FixedServerNameResolver, HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use kevel_server::egress::{Connector, Dialer};
use kevel_server::proxy::Outgoing;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;

/// Maximum number of requests per connection. API servers allow a hundred.
const MAX_REQUESTS: usize = 90;
/// Maximum number of connections; beyond it they are shared by more requests.
const MAX_LANES: usize = 64;
/// Maximum age and number of idle connections.
const IDLE: Duration = Duration::from_secs(90);
const MAX_IDLE: usize = 25;
/// Idle time after which an HTTP/2 connection is pinged, and the time limit of the reply: otherwise requests would go
/// to a vanished peer until the system gives up.
const PING: (Duration, Duration) = (Duration::from_secs(30), Duration::from_secs(15));

/// Connection pool, with HTTP/2 if the server supports it.
type Connections = legacy::Client<HttpsConnector<Connector>, Outgoing>;

/// Connections to one server.
pub(crate) struct Lanes {
    tls: ClientConfig,
    name: ServerName<'static>,
    dialer: Dialer,
    lanes: Mutex<Vec<Arc<Lane>>>,
}

struct Lane {
    connections: Connections,
    requests: AtomicUsize,
}

/// A request's slot on a connection, until the end of its response.
pub(crate) struct Lease(Arc<Lane>);

impl Lanes {
    pub fn new(tls: ClientConfig, name: ServerName<'static>, dialer: Dialer) -> Self {
        Lanes { tls, name, dialer, lanes: Mutex::default() }
    }

    /// Reserves a slot for a request.
    pub fn lease(&self) -> Lease {
        let mut lanes = self.lanes.lock().unwrap_or_else(PoisonError::into_inner);
        let requests = |lane: &Arc<Lane>| lane.requests.load(Ordering::Relaxed);
        let full = lanes.len() >= MAX_LANES;
        let free = match full {
            false => lanes.iter().find(|lane| requests(lane) < MAX_REQUESTS),
            true => lanes.iter().min_by_key(|lane| requests(lane)),
        };
        let lane = free.cloned().unwrap_or_else(|| {
            let connections = connections(self.tls.clone(), &self.name, self.dialer.clone());
            let lane = Arc::new(Lane { connections, requests: AtomicUsize::new(0) });
            lanes.push(lane.clone());
            lane
        });
        lane.requests.fetch_add(1, Ordering::Relaxed);
        Lease(lane)
    }
}

impl Lease {
    pub fn connections(&self) -> &Connections {
        &self.0.connections
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.0.requests.fetch_sub(1, Ordering::Relaxed);
    }
}

fn connections(tls: ClientConfig, name: &ServerName<'static>, dialer: Dialer) -> Connections {
    let https = HttpsConnectorBuilder::new()
        .with_tls_config(tls)
        .https_only()
        .with_server_name_resolver(FixedServerNameResolver::new(name.clone()))
        .enable_all_versions()
        .wrap_connector(Connector::new(dialer));
    legacy::Client::builder(TokioExecutor::new())
        .timer(TokioTimer::new())
        .pool_timer(TokioTimer::new())
        .pool_idle_timeout(IDLE)
        .pool_max_idle_per_host(MAX_IDLE)
        .http2_keep_alive_interval(PING.0)
        .http2_keep_alive_timeout(PING.1)
        .build(https)
}
