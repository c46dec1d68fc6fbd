//! Migration of stored objects: writes all objects of a resource again, so that each is stored in the present version and
//! encryption.
//!
//! Of the StorageVersionMigrations of a resource, the oldest runs ([`runner`]). It first notes a resource version
//! ([`rewriting`]), then writes the objects that are not newer.

mod definition;
mod migration;
mod rewriting;
mod runner;

use std::sync::Arc;

use kevel_api::status::{StatusError, reason};
use kevel_api::value::Value;
use kevel_controller_runtime::{Backoff, Client, run};

use crate::context::ControllerContext;
use crate::descriptor::ControllerLoop;
use crate::lister::CacheLister;
use crate::object::name;
use crate::unavailable::Unavailable;

const NAME: &str = "storage-version-migrator-controller";
const GROUP: &str = "storagemigration.k8s.io";
const PLURAL: &str = "storageversionmigrations";
/// Migrations that are worked on at a time (upstream: `workers`).
const WORKERS: usize = 5;

/// Shared state of the workers.
struct Migrator {
    client: Client,
    migrations: CacheLister,
}

pub(crate) fn build(context: &ControllerContext) -> Result<ControllerLoop, Unavailable> {
    // Upstream's name of the runner's queue.
    let runs = context.queue("resource-version-controller", Backoff::default());
    let queue = context.queue(NAME, Backoff::default());
    let this = Arc::new(Migrator {
        client: context.client(NAME),
        migrations: CacheLister::new(context.storage(GROUP, PLURAL)?),
    });
    let (heard, heard_runs, lister) = (queue.clone(), runs.clone(), this.migrations.clone());
    let informer = this.migrations.informer().for_each(move |object| {
        heard.add(object.name());
        if let Ok(resource) = lister.facts(object, migration::resource) {
            heard_runs.add(&resource);
        }
    });
    let runner = this.clone();
    let choose = move |resource: String| {
        let this = runner.clone();
        async move { unless_changed(this.choose(&resource).await) }
    };
    let rewrite = move |name: String| {
        let this = this.clone();
        async move { unless_changed(this.migrate(&name).await) }
    };
    Ok(Box::pin(async move {
        tokio::join!(
            informer,
            run(runs, "migration-runner-controller", 1, choose),
            run(queue, NAME, WORKERS, rewrite),
        );
    }))
}

/// Success also where a migration has changed or gone meanwhile: the change queues it again.
fn unless_changed(
    result: Result<(), migration::MigrationError>,
) -> Result<(), migration::MigrationError> {
    match result {
        Err(migration::MigrationError::Request(error))
            if [reason::CONFLICT, reason::NOT_FOUND].contains(&error.reason()) =>
        {
            Ok(())
        }
        result => result,
    }
}

impl Migrator {
    /// Writes the status of a migration.
    async fn update_status(&self, migration: &Value) -> Result<(), StatusError> {
        let path = format!("/apis/{GROUP}/v1beta1/{PLURAL}/{}/status", name(migration));
        self.client.update(&path, migration).await.map(drop)
    }
}
