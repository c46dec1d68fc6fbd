//! Egress from the server (upstream: `egressselector`): directly, or through a proxy for networks that the server
//! cannot reach itself.
//!
//! A client is given a [`Dialer`] when it is made, and calls it for each connection. An [`EgressSelector`] has one
//! dialer for each [`EgressType`]. Names are resolved by the proxy, if there is one.
//!
//! ```text
//! kubelets, pods, aggregated servers, webhooks by service ─ cluster ──────┐             ┌─ direct
//! webhooks by URL, of authentication, authorization, audit ─ controlplane ┼─▶ Dialer ──┼─ CONNECT over TCP, TLS, a Unix socket
//! etcd ─ etcd ────────────────────────────────────────────────────────────┘             └─ konnectivity's tunnel: gRPC
//! ```
//!
//! - `Connector` is a dialer for HTTP clients that keep connections. Without `--egress-selector-config-file` it
//!   connects directly. Issuers of tokens are reached directly unless their configuration names an egress type; this
//!   server's own Service always is. The store does not know proxies: `etcd::Dial` is a function that connects.
//! - A tunnel is a gRPC connection of its own, run by a task that ends with either side. Its protocol has neither a
//!   half-closed state nor a window, so a tunnel whose reader sleeps for ten seconds is closed, as in the reference:
//!   the proxy server would block all tunnels of the same agent.
//! - Deliberate differences: a CONNECT proxy that does not answer is given up after 30 s (the reference waits forever),
//!   and one over `http://` works (the reference accepts the configuration, and crashes).

mod connector;
mod dialer;
pub mod failure;
mod forward;
mod http_connect;
pub mod informational;
mod metrics;
mod proto;
mod stream;
mod tunnel;

use std::collections::BTreeMap;
use std::fmt;

pub use self::connector::{Connector, Resolve, address};
pub use self::dialer::{DialError, Dialer, ProxyServer, ProxyTls};
pub use self::forward::ForwardProxy;
pub use self::metrics::DialMetrics;
pub use self::stream::{Connection, Stream};

/// Network that a connection leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum EgressType {
    /// Webhooks by URL, of authentication, authorization and audit, too.
    ControlPlane,
    /// The store.
    Etcd,
    /// Kubelets, pods, and services of the cluster.
    Cluster,
}

impl EgressType {
    /// The one of a name, in whatever case.
    pub fn named(name: &str) -> Option<Self> {
        let types = [EgressType::ControlPlane, EgressType::Etcd, EgressType::Cluster];
        types.into_iter().find(|ty| name.eq_ignore_ascii_case(&ty.to_string()))
    }
}

impl fmt::Display for EgressType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            EgressType::ControlPlane => "controlplane",
            EgressType::Etcd => "etcd",
            EgressType::Cluster => "cluster",
        })
    }
}

/// The way to each network. What it does not know is reached directly.
#[derive(Clone, Debug, Default)]
pub struct EgressSelector(Option<BTreeMap<EgressType, Dialer>>);

/// Reason for a missing dialer where a configured one is required.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LookupError {
    /// There is no egress configuration.
    NoSelector,
    /// The egress type is not configured.
    NotConfigured,
}

impl EgressSelector {
    /// These ways.
    pub fn new(dialers: impl IntoIterator<Item = (EgressType, Dialer)>) -> Self {
        EgressSelector(Some(dialers.into_iter().collect()))
    }

    /// The way to a network.
    pub fn dialer(&self, ty: EgressType) -> Dialer {
        self.lookup(ty).unwrap_or_default()
    }

    /// The way to a service of the cluster that is a webhook. This server itself is reached without one.
    pub fn service_dialer(&self, namespace: &str, name: &str, port: i64) -> Dialer {
        match (namespace, name, port) {
            ("default", "kubernetes", 443) => Dialer::default(),
            _ => self.dialer(EgressType::Cluster),
        }
    }

    /// Dialer of a network, if it is configured.
    pub fn lookup(&self, ty: EgressType) -> Result<Dialer, LookupError> {
        let dialers = self.0.as_ref().ok_or(LookupError::NoSelector)?;
        dialers.get(&ty).cloned().ok_or(LookupError::NotConfigured)
    }
}
