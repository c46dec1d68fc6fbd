//! Rows of all servers of the chain.

use std::sync::Arc;

use kevel_controlplane::{Capabilities, RowsConfig, rows};
use kevel_extensions::Extensions;
use kevel_features::Feature;
use kevel_registry::resource::{Resource, Resources};
use kevel_registry::storage::Storage;

use super::aggregator;
use super::config::{AGGREGATOR, Config, EXTENSIONS};
use super::extensions::extensions;

/// Rows of the three servers, and the extensions server, whose rows come and go.
pub struct Tables {
    /// APIServices.
    pub aggregator: Arc<Resources>,
    /// Built-in kinds.
    pub kube: Arc<Resources>,
    /// Definitions of custom resources, and custom resources.
    pub extensions: Extensions,
}

impl Tables {
    /// Rows of all enabled resources.
    pub fn install(config: &Config) -> Result<Self, String> {
        Ok(Tables {
            aggregator: install(config, |group| group == AGGREGATOR)?,
            kube: install(config, |group| group != EXTENSIONS && group != AGGREGATOR)?,
            extensions: extensions(config),
        })
    }

    /// Rows of all servers, in the order in which a request passes them.
    pub fn all(&self) -> [Arc<Resources>; 4] {
        let [aggregator, kube, definitions] = self.built_in();
        [aggregator, kube, definitions, self.extensions.custom.clone()]
    }

    /// Rows of all kinds but custom ones.
    pub fn built_in(&self) -> [Arc<Resources>; 3] {
        [self.aggregator.clone(), self.kube.clone(), self.extensions.definitions.clone()]
    }

    /// Storage of CustomResourceDefinitions, if they are served.
    pub fn definitions(&self) -> Option<Arc<Storage>> {
        let rows = self.extensions.definitions.current();
        let row = rows.get(EXTENSIONS, "v1", "customresourcedefinitions");
        row.and_then(|row| row.storage.clone())
    }
}

/// Rows of the enabled resources of some groups.
fn install(config: &Config, groups: impl Fn(&str) -> bool) -> Result<Arc<Resources>, String> {
    let enabled = config.options.resource_config();
    let wanted = |resource: &kevel_api::builtin::Resource| {
        groups(resource.group) && enabled.enabled(resource.group, resource.version, resource.path)
    };
    let resources = Resources::default();
    let capabilities = Capabilities {
        allow_privileged: config.options.flags.misc.allow_privileged,
        features: config.options.feature_gates.effective(),
        clock: config.options.clock.clone(),
    };
    let services = config.services.iter();
    let allocations =
        services.map(|services| (("", "services"), services.allocation(&capabilities)));
    let allocations = allocations.collect();
    let rows = rows(
        wanted,
        &RowsConfig {
            storages: &config.storages,
            creaters: config.creaters.clone(),
            allocations,
            listers: vec![(("", "componentstatuses"), config.component_statuses.clone())],
            capabilities,
        },
    )?;
    let hashed = config.options.feature_gates.enabled(Feature::StorageVersionHash);
    let served = |mut resource: Resource| {
        resource.conventions.cbor = config.cbor();
        resource.conventions.storage_version_hash = hashed;
        match resource.kind.group == AGGREGATOR {
            true => aggregator::row(config, resource),
            false => resource,
        }
    };
    resources.install(rows.into_iter().map(served));
    Ok(Arc::new(resources))
}
