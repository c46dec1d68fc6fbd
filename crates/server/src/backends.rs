//! The stores of a server: one for all resources, and others for some
//! (`--etcd-servers-overrides`), where much that nobody would miss is written: events.

use std::fmt;
use std::sync::Arc;

use kevel_api::gvk::GroupResource;
use kevel_store::Engine;
use kevel_store::cache::Caches;

/// Stands for all resources of a group.
const ALL_RESOURCES: &str = "*";

/// A store, and the caches that follow it. Revisions of one store say nothing about another.
#[derive(Clone)]
pub struct Backend {
    /// Where objects are stored.
    pub engine: Arc<dyn Engine>,
    /// Where they are read.
    pub caches: Arc<Caches>,
}

impl fmt::Debug for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Backend")
    }
}

impl Backend {
    /// Follows what is stored below a prefix.
    pub fn new(engine: Arc<dyn Engine>, prefix: &str) -> Self {
        let caches = Arc::new(Caches::start(engine.clone(), prefix));
        Backend { engine, caches }
    }
}

/// A store of some resources.
#[derive(Clone, Debug)]
pub struct Override {
    /// What is stored there, and nowhere else; a resource may be `*`.
    pub resources: Vec<GroupResource>,
    /// The store.
    pub backend: Backend,
}

/// Where each resource is stored.
#[derive(Clone, Debug)]
pub struct Backends {
    /// The store of all resources that have no other.
    pub default: Backend,
    /// The stores of those that have, in the order of the flag.
    pub overrides: Vec<Override>,
}

impl Backends {
    /// One store for everything.
    pub fn new(default: Backend) -> Self {
        Backends { default, overrides: Vec::new() }
    }

    /// The store of a resource: its own, that of its group, or the one for all.
    pub fn of(&self, group: &str, resource: &str) -> &Backend {
        let named = |resource: &str| {
            let is_it = |named: &GroupResource| named.group == group && named.resource == resource;
            self.overrides.iter().find(|those| those.resources.iter().any(is_it))
        };
        let found = named(resource).or_else(|| named(ALL_RESOURCES));
        found.map_or(&self.default, |found| &found.backend)
    }

    /// All of them, the one for everything first.
    pub fn all(&self) -> impl Iterator<Item = &Backend> {
        [&self.default].into_iter().chain(self.overrides.iter().map(|those| &those.backend))
    }
}
