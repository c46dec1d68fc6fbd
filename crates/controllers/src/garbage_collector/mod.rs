//! Garbage collection: deletes objects whose owners are gone, and carries out foreground and orphaning deletion.
//!
//! Informers of all resources keep an [`OwnerGraph`] of owners and dependents. Its changes queue objects; workers look the
//! queued objects up and decide by what is stored, not by the graph alone.

mod absent;
mod collector;
mod decision;
mod graph;
mod identity;
mod mapper;
#[cfg(test)]
mod model;
mod monitors;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use kevel_controller_runtime::{Backoff, Client, WorkQueue, run};
use tokio::sync::mpsc;

use self::graph::{GraphEffect, OwnerGraph};
use self::identity::ObjectIdentity;
use self::mapper::Mapper;
use self::monitors::Monitors;
use crate::context::ControllerContext;
use crate::descriptor::ControllerLoop;
use crate::recorder::{EventKind, EventRecorder};
use crate::unavailable::Unavailable;

const NAME: &str = "garbage-collector-controller";
const ACCOUNT: &str = "generic-garbage-collector";
/// Workers of each queue (upstream: `ConcurrentGCSyncs`).
const WORKERS: usize = 20;
/// Longest wait for the informers before the workers start.
const SYNC_LIMIT: Duration = Duration::from_secs(30);

/// Shared state of informers and workers.
struct Collector {
    client: Client,
    mapper: Mapper,
    graph: Mutex<OwnerGraph>,
    attempt_to_delete: Arc<WorkQueue>,
    attempt_to_orphan: Arc<WorkQueue>,
    /// References to owners in other namespaces, for Events.
    invalid: mpsc::UnboundedSender<(ObjectIdentity, ObjectIdentity)>,
}

pub(crate) fn build(context: &ControllerContext) -> Result<ControllerLoop, Unavailable> {
    let client = context.client(ACCOUNT);
    let (invalid, heard) = mpsc::unbounded_channel();
    let collector = Arc::new(Collector {
        mapper: Mapper::new(context.tables(), client.clone()),
        client,
        graph: Mutex::default(),
        attempt_to_delete: context.queue("garbage_collector_attempt_to_delete", Backoff::default()),
        attempt_to_orphan: context.queue("garbage_collector_attempt_to_orphan", Backoff::default()),
        invalid,
    });
    let recorder = context.recorder(ACCOUNT, NAME);
    let mut monitors = Monitors::new(collector.clone(), context.tables());
    Ok(Box::pin(async move {
        monitors.sync();
        if tokio::time::timeout(SYNC_LIMIT, monitors.synced()).await.is_err() {
            tracing::warn!(controller = NAME, "not all informers have synced");
        }
        let deleting = {
            let collector = collector.clone();
            run(collector.attempt_to_delete.clone(), NAME, WORKERS, move |uid: String| {
                let collector = collector.clone();
                async move { collector.attempt_to_delete(&uid).await }
            })
        };
        let orphaning = {
            let collector = collector.clone();
            run(collector.attempt_to_orphan.clone(), NAME, WORKERS, move |uid: String| {
                let collector = collector.clone();
                async move { collector.attempt_to_orphan(&uid).await }
            })
        };
        tokio::join!(monitors.follow(), deleting, orphaning, tell(recorder, heard));
    }))
}

/// Records Events about references to owners in other namespaces.
async fn tell(
    recorder: EventRecorder,
    mut heard: mpsc::UnboundedReceiver<(ObjectIdentity, ObjectIdentity)>,
) {
    while let Some((dependent, owner)) = heard.recv().await {
        let namespace = kevel_api::quote::quote(&dependent.namespace);
        let message = format!("ownerRef {owner} does not exist in namespace {namespace}");
        let regarding = dependent.regarding();
        let reason = "OwnerRefInvalidNamespace";
        recorder.event(&regarding, EventKind::Warning, reason, &message).await;
    }
}

impl Collector {
    /// Changes the graph, and queues the resulting work.
    fn change<T>(&self, change: impl FnOnce(&mut OwnerGraph) -> T) -> T {
        let (result, effects, looked_at) = {
            let mut graph = self.graph.lock().unwrap_or_else(PoisonError::into_inner);
            (change(&mut graph), graph.take_effects(), graph.take_looked_at())
        };
        kevel_compute::charge(looked_at);
        for effect in effects {
            match effect {
                GraphEffect::Delete(uid) => self.attempt_to_delete.add(&uid),
                GraphEffect::DeleteLater(uid) => self.attempt_to_delete.add_rate_limited(&uid),
                GraphEffect::Orphan(uid) => self.attempt_to_orphan.add(&uid),
                GraphEffect::InvalidNamespace(dependent, owner) => {
                    let _ = self.invalid.send((dependent, owner));
                }
            }
        }
        result
    }
}
