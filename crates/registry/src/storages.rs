//! Storages of the server's resources, for parts that read objects before the resources are served, such as
//! authenticators and authorizers.

use std::sync::Arc;

use crate::storage::Storage;

/// Storages by group and plural, one for all versions of a resource.
#[derive(Clone, Debug, Default)]
pub struct Storages(Vec<((&'static str, &'static str), Arc<Storage>)>);

impl Storages {
    /// Adds the storage of a resource.
    pub fn add(&mut self, group: &'static str, plural: &'static str, storage: Arc<Storage>) {
        self.0.push(((group, plural), storage));
    }

    /// The storage of a resource, if it is served.
    pub fn get(&self, group: &str, plural: &str) -> Option<&Arc<Storage>> {
        self.0.iter().find(|(name, _)| *name == (group, plural)).map(|(_, storage)| storage)
    }

    /// All storages, with group and plural.
    pub fn all(&self) -> impl Iterator<Item = (&'static str, &'static str, &Arc<Storage>)> {
        self.0.iter().map(|((group, plural), storage)| (*group, *plural, storage))
    }

    /// The storage of a resource that the server cannot run without.
    pub fn required(&self, group: &str, plural: &str) -> Result<Arc<Storage>, String> {
        self.get(group, plural).cloned().ok_or_else(|| match group {
            "" => format!("{plural} must be served"),
            group => format!("{plural}.{group} must be served"),
        })
    }
}
