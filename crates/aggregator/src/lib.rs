//! The aggregation layer (upstream: kube-aggregator): finds the server of each API group version.
//!
//! ```text
//! APIService cache ─▶ registered (read once) ─┬─▶ proxy: requests ─▶ upstream (one a server)
//!                                             ├─▶ auto registration ◀─ served groups, definitions
//!                                             ├─▶ availability: local, remote
//!                                             └─▶ discovery and OpenAPI of remote groups
//! ```
//!
//! Also proxies requests for resources that only a peer of this server serves ([`Peers`]; upstream: peerproxy).
//!
//! An APIService names the server of each group version. For local ones the request goes to the next delegate. For
//! remote ones it is proxied, with the user in headers. `auto_register` owns the APIServices of local groups and of
//! custom resources (upstream: autoRegister); the availability controllers write the condition `Available`, which proxy
//! and discovery read (upstream: AvailableConditionController).

mod aggregator;
mod api_service;
mod auto_register;
mod availability;
mod crd_registration;
mod discovery;

mod hooks;
mod identity;
mod lanes;
mod openapi;
mod peers;
mod proxy;
mod registered;
mod service_resolver;
mod strategy;
#[cfg(test)]
mod testing;
mod upstream;

pub use aggregator::{Aggregator, Config};
pub use peers::{PeerEndpoints, PeerProxy, Peers, PeersConfig};
pub use proxy::Proxy;
pub use service_resolver::{ResolveError, ServiceResolver};
pub use strategy::ApiServiceStrategy;
