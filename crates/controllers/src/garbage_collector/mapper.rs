//! Resources by kind (upstream: RESTMapper).

use std::sync::Arc;

use kevel_api::status::StatusError;
use kevel_controller_runtime::Client;
use kevel_registry::resource::{Resource, Resources};
use kevel_registry::verb::Verb;

use super::identity::ObjectIdentity;
use crate::discovery::{ApiResource, preferred_resources};

/// Resources that are never collected and never own anything.
const IGNORED: [(&str, &str); 2] = [("", "events"), ("events.k8s.io", "events")];

/// Finds the resource of a kind: in the server's tables, or by discovery of aggregated APIs.
#[derive(Debug)]
pub(super) struct Mapper {
    tables: Vec<Arc<Resources>>,
    client: Client,
}

/// Place of an object in the API.
#[derive(Debug)]
pub(super) struct RestMapping {
    resource: ApiResource,
    /// Whether an informer tells of the resource's objects.
    pub is_monitored: bool,
}

impl RestMapping {
    pub fn namespaced(&self) -> bool {
        self.resource.namespaced
    }

    /// Path of an object.
    pub fn path(&self, identity: &ObjectIdentity) -> String {
        format!("{}/{}", self.resource.path(&identity.namespace), identity.name)
    }
}

impl Mapper {
    pub fn new(tables: &[Arc<Resources>], client: Client) -> Self {
        Mapper { tables: tables.to_vec(), client }
    }

    /// The resource of a kind; `None` if no server has it.
    pub async fn find(
        &self,
        api_version: &str,
        kind: &str,
    ) -> Result<Option<RestMapping>, StatusError> {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        let local = self.tables.iter().find_map(|table| {
            let rows = table.current();
            let row = rows.version(group, version)?.values().find(|row| &*row.kind.kind == kind)?;
            let is_monitored = is_monitored(row);
            Some(RestMapping { resource: api_resource(row), is_monitored })
        });
        if local.is_some() {
            return Ok(local);
        }
        let discovered = preferred_resources(&self.client).await?;
        let mut remote = discovered.resources.into_iter();
        let found = remote
            .find(|found| found.group == group && found.version == version && found.kind == kind);
        Ok(found.map(|resource| RestMapping { resource, is_monitored: false }))
    }

    /// Resources that informers are to tell of, each in its preferred version.
    pub fn monitored(&self) -> Vec<Arc<Resource>> {
        let mut found: Vec<Arc<Resource>> = Vec::new();
        for table in &self.tables {
            for row in table.current().all().filter(|row| is_monitored(row)) {
                let known = |other: &Arc<Resource>| {
                    other.plural == row.plural && other.kind.group == row.kind.group
                };
                if !found.iter().any(known) {
                    found.push(row.clone());
                }
            }
        }
        found
    }
}

/// Whether a resource can be collected (upstream: `GetDeletableResources`).
fn is_monitored(row: &Resource) -> bool {
    let verbs = [Verb::Delete, Verb::List, Verb::Watch];
    row.storage.is_some()
        && verbs.iter().all(|verb| row.allows(*verb))
        && !IGNORED.contains(&(&*row.kind.group, row.plural.as_str()))
}

fn api_resource(row: &Resource) -> ApiResource {
    ApiResource {
        group: row.kind.group.to_string(),
        version: row.kind.version.to_string(),
        plural: row.plural.clone(),
        kind: row.kind.kind.to_string(),
        namespaced: row.namespaced,
        verbs: Vec::new(),
    }
}
