//! Controller that applies FlowSchemas and PriorityLevelConfigurations to this server, and writes their conditions
//! (upstream: configController).

use std::future::Future;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use kevel_api::status::reason;
use kevel_api::value::Value;
use kevel_clock::timer_now;
use kevel_controller_runtime::{Backoff, Client, Informer, WorkQueue, run};
use kevel_flowcontrol::bootstrap::Resource;
use kevel_flowcontrol::status::{FIELD_MANAGER, RecentUpdates, StatusUpdate};
use kevel_registry::storage::Storage;
use kevel_server::flowcontrol::FlowControl;

/// Single key of the work queue: all objects are applied together.
const ALL: &str = "all";
/// Delay after which a condition that was written too often is written again; up to [`SPREAD_SECONDS`] are added.
const LATER: Duration = Duration::from_secs(30);
/// Maximum random addition to [`LATER`], so that servers do not write at the same time.
const SPREAD_SECONDS: u64 = 45;

/// Keeps this server's priority and fairness configured by the objects.
pub fn config_consumer(
    flow_control: Arc<FlowControl>,
    client: Client,
    priority_levels: Arc<Storage>,
    flow_schemas: Arc<Storage>,
) -> impl Future<Output = ()> + Send + 'static {
    let queue = WorkQueue::new(Backoff::default());
    let heard = |storage: &Arc<Storage>| {
        let queue = queue.clone();
        Informer::new(storage.cache.clone()).for_each(move |_| queue.add(ALL))
    };
    let informers = [heard(&priority_levels), heard(&flow_schemas)];
    let consumer = Arc::new(Consumer {
        flow_control,
        client,
        priority_levels,
        flow_schemas,
        queue: queue.clone(),
        recent: Mutex::default(),
    });
    let reconcile = move |_| {
        let consumer = consumer.clone();
        async move { consumer.digest().await }
    };
    async move {
        let [levels, schemas] = informers;
        tokio::join!(levels, schemas, run(queue, "priority-and-fairness", 1, reconcile));
    }
}

struct Consumer {
    flow_control: Arc<FlowControl>,
    client: Client,
    priority_levels: Arc<Storage>,
    flow_schemas: Arc<Storage>,
    queue: Arc<WorkQueue>,
    recent: Mutex<RecentUpdates>,
}

impl Consumer {
    /// Applies all cached objects.
    async fn digest(&self) -> Result<(), String> {
        let (levels, schemas) = (objects(&self.priority_levels), objects(&self.flow_schemas));
        let digested = self.flow_control.configure(&levels, &schemas);
        tracing::debug!(
            target: "v5",
            priorityLevels = levels.len(),
            flowSchemas = schemas.len(),
            "Priority and fairness is configured"
        );
        for (name, why) in digested.ignored {
            tracing::warn!(priorityLevel = name, why, "Ignoring a PriorityLevelConfiguration");
        }
        let mut failures = Vec::new();
        for update in digested.status_updates {
            failures.extend(self.write(&update).await.err());
        }
        if failures.is_empty() { Ok(()) } else { Err(failures.join("; ")) }
    }

    async fn write(&self, update: &StatusUpdate) -> Result<(), String> {
        let name = &update.flow_schema;
        if !self.may_write(name) {
            let spread = RandomState::new().hash_one(name) % SPREAD_SECONDS;
            self.queue.add_after(ALL, LATER + Duration::from_secs(spread));
            return Ok(());
        }
        let path = format!("{}/{name}/status", Resource::FlowSchemas.path());
        match self.client.apply(&path, &update.apply_configuration(), FIELD_MANAGER).await {
            Ok(_) => Ok(()),
            // The FlowSchema has been deleted.
            Err(error) if error.reason() == reason::NOT_FOUND => Ok(()),
            Err(error) => Err(format!("status of FlowSchema {name}: {error}")),
        }
    }

    /// True if a condition may be written now; counts the write.
    fn may_write(&self, flow_schema: &str) -> bool {
        let mut recent = self.recent.lock().unwrap_or_else(PoisonError::into_inner);
        recent.allow(flow_schema, timer_now())
    }
}

/// All cached objects of a kind.
fn objects(storage: &Storage) -> Vec<Value> {
    let snapshot = storage.cache.latest();
    snapshot.range("", None).filter_map(|object| storage.tree(object).ok()).collect()
}
