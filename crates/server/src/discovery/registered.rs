//! Groups and versions as API services register them, for servers that answer for some of them.

use std::sync::Arc;

use kevel_api::value::Value;

use super::priority::Priority;

/// Knows what is registered.
pub trait Registered: Send + Sync + 'static {
    /// What is registered now: the same while nothing changes.
    fn current(&self) -> Arc<Registrations>;
}

/// What is registered at one moment.
#[derive(Debug, Default)]
pub struct Registrations {
    /// Groups in the order in which `/apis` lists them, each with its versions, preferred first.
    pub groups: Vec<(String, Vec<String>)>,
    /// Versions that other servers answer for.
    pub remote: Vec<RemoteVersion>,
}

/// A version that another server answers for, as that server describes it.
#[derive(Clone, Debug)]
pub struct RemoteVersion {
    /// The API group.
    pub group: String,
    /// Where it stands among the others.
    pub priority: Priority,
    /// An `APIVersionDiscovery`.
    pub document: Arc<Value>,
}
