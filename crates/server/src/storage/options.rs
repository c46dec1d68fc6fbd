//! Configuration of the storage of every resource: what flags say, and the server's clock.

use std::collections::BTreeSet;
use std::sync::Arc;

use kevel_api::gvk::GroupResource;
use kevel_clock::Clock;

/// How one resource is treated.
#[derive(Clone, Debug)]
pub struct RegistryOptions {
    /// Whether somebody looks after dependents: deletions then leave finalizers for them.
    pub garbage_collection: bool,
    /// Whether a client that takes any state gets the cache's, whole. Otherwise it gets the current one, in the parts that
    /// it asks for.
    pub watch_cache: bool,
    /// How many objects a delete of a collection works on at a time.
    pub delete_collection_workers: usize,
    /// Time of the server.
    pub clock: Clock,
}

impl Default for RegistryOptions {
    fn default() -> Self {
        RegistryOptions {
            garbage_collection: true,
            watch_cache: true,
            delete_collection_workers: 1,
            clock: Clock::system(),
        }
    }
}

/// How all resources are treated.
#[derive(Clone, Debug, Default)]
pub struct RegistryFlags {
    /// What holds for most of them.
    pub most: RegistryOptions,
    /// Those that have no watch cache.
    pub uncached: Arc<BTreeSet<GroupResource>>,
}

impl RegistryFlags {
    /// How a resource is treated.
    pub fn of(&self, group: &str, plural: &str) -> RegistryOptions {
        let uncached = self.uncached.contains(&GroupResource::new(group, plural));
        RegistryOptions { watch_cache: self.most.watch_cache && !uncached, ..self.most.clone() }
    }
}
