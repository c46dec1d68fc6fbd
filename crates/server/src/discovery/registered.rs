//! Groups and versions registered by APIServices.

use std::sync::Arc;

use kevel_api::value::Value;

use super::priority::Priority;

/// Source of the registered groups and versions.
pub trait Registered: Send + Sync + 'static {
    /// Current registrations; the same `Arc` while nothing changes.
    fn current(&self) -> Arc<Registrations>;
}

/// Registrations at one moment.
#[derive(Debug, Default)]
pub struct Registrations {
    /// Groups in the order of `/apis`, each with its versions, preferred first.
    pub groups: Vec<(String, Vec<String>)>,
    /// Versions served by aggregated servers.
    pub remote: Vec<RemoteVersion>,
}

/// A version served by an aggregated server, with its own description.
#[derive(Clone, Debug)]
pub struct RemoteVersion {
    /// The API group.
    pub group: String,
    /// Priority among other groups and versions.
    pub priority: Priority,
    /// An `APIVersionDiscovery`.
    pub document: Arc<Value>,
}
