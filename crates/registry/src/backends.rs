//! Stores of a server: one for all resources, and others for some (`--etcd-servers-overrides`), usually events.

use std::fmt;
use std::sync::Arc;

use kevel_api::gvk::GroupResource;
use kevel_store::Engine;
use kevel_store::cache::Caches;

/// Stands for all resources of a group.
const ALL_RESOURCES: &str = "*";

/// A store, and the caches that follow it. Revisions of different stores are not comparable.
#[derive(Clone)]
pub struct Backend {
    /// Store that objects are written to.
    pub engine: Arc<dyn Engine>,
    /// Watch caches that objects are read from.
    pub caches: Arc<Caches>,
}

impl fmt::Debug for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Backend")
    }
}

impl Backend {
    /// A backend whose caches follow the keys below a prefix.
    pub fn new(engine: Arc<dyn Engine>, prefix: &str) -> Self {
        let caches = Arc::new(Caches::start(engine.clone(), prefix));
        Backend { engine, caches }
    }
}

/// A store of some resources (`--etcd-servers-overrides`).
#[derive(Clone, Debug)]
pub struct Override {
    /// Resources stored there; `*` for all of a group.
    pub resources: Vec<GroupResource>,
    /// The store.
    pub backend: Backend,
}

/// Stores of all resources.
#[derive(Clone, Debug)]
pub struct Backends {
    /// Store of all resources without an override.
    pub default: Backend,
    /// Overrides, in the order of the flag.
    pub overrides: Vec<Override>,
}

impl Backends {
    /// A single store for all resources.
    pub fn new(default: Backend) -> Self {
        Backends { default, overrides: Vec::new() }
    }

    /// Store of a resource: its own, its group's, or the default.
    pub fn of(&self, group: &str, resource: &str) -> &Backend {
        let named = |resource: &str| {
            let is_it = |named: &GroupResource| named.group == group && named.resource == resource;
            self.overrides.iter().find(|those| those.resources.iter().any(is_it))
        };
        let found = named(resource).or_else(|| named(ALL_RESOURCES));
        found.map_or(&self.default, |found| &found.backend)
    }

    /// All stores, the default first.
    pub fn all(&self) -> impl Iterator<Item = &Backend> {
        [&self.default].into_iter().chain(self.overrides.iter().map(|those| &those.backend))
    }
}
