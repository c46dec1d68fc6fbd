//! The aggregation layer: which server answers for which version of which group.
//!
//! ```text
//! APIService cache ─▶ registered (read once) ─┬─▶ proxy: requests ─▶ upstream (one a server)
//!                                             ├─▶ auto registration ◀─ served groups, definitions
//!                                             ├─▶ availability: local, remote
//!                                             └─▶ discovery and OpenAPI of remote groups
//! ```
//!
//! And the same for resources: which peer of this server answers for those that it does not serve ([`Peers`]).

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
mod upstream;

pub use aggregator::{Aggregator, Config};
pub use peers::{PeerEndpoints, PeerProxy, Peers, PeersConfig};
pub use proxy::Proxy;
pub use service_resolver::{ResolveError, ServiceResolver};
pub use strategy::ApiServiceStrategy;
