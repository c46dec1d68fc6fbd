//! Storage options of every resource: flags, and the server's clock.

use std::collections::BTreeSet;
use std::sync::Arc;

use kevel_api::gvk::GroupResource;
use kevel_clock::Clock;

/// Storage options of a resource.
#[derive(Clone, Debug)]
pub struct RegistryOptions {
    /// `--enable-garbage-collector`: deletions set the garbage collector's finalizers.
    pub garbage_collection: bool,
    /// Whether `resourceVersion=0` is served from the watch cache, as a whole list. Otherwise it reads the latest
    /// state, in pages.
    pub watch_cache: bool,
    /// `--delete-collection-workers`.
    pub delete_collection_workers: usize,
    /// `AllowUnsafeMalformedObjectDeletion`: objects that cannot be read fail lists by name, and can be deleted.
    pub unsafe_deletion: bool,
    /// Clock of the server.
    pub clock: Clock,
}

impl Default for RegistryOptions {
    fn default() -> Self {
        RegistryOptions {
            garbage_collection: true,
            watch_cache: true,
            delete_collection_workers: 1,
            unsafe_deletion: false,
            clock: Clock::system(),
        }
    }
}

/// Storage options of all resources.
#[derive(Clone, Debug, Default)]
pub struct RegistryFlags {
    /// Options of most resources.
    pub most: RegistryOptions,
    /// Resources without a watch cache (`--watch-cache-sizes`).
    pub uncached: Arc<BTreeSet<GroupResource>>,
}

impl RegistryFlags {
    /// Options of a resource.
    pub fn of(&self, group: &str, plural: &str) -> RegistryOptions {
        let uncached = self.uncached.contains(&GroupResource::new(group, plural));
        RegistryOptions { watch_cache: self.most.watch_cache && !uncached, ..self.most.clone() }
    }
}
