//! The aggregation layer: which server answers for which version of which group.
//!
//! ```text
//! APIService cache ─▶ registered (read once) ─┬─▶ proxy: requests ─▶ upstream (one a server)
//!                                             ├─▶ auto registration ◀─ served groups, definitions
//!                                             ├─▶ availability: local, remote
//!                                             └─▶ discovery and OpenAPI of remote groups
//! ```

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
mod proxy;
mod registered;
mod strategy;
mod upstream;

pub use aggregator::{Aggregator, Config};
pub use proxy::Proxy;
pub use strategy::ApiServiceStrategy;
