//! Status of ResourceQuotas: limits and usage of their namespace.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use kevel_admission_plugins::quota::{
    Evaluators, IGNORED, ResourceList, Scope, add, at, scopes_of,
};
use kevel_api::quantity::{Format, Quantity};
use kevel_api::status::{StatusError, reason};
use kevel_api::value::{Map, Value};
use kevel_compute::Metered;
use kevel_controller_runtime::{Backoff, Client, Informer, InformerEvent, WorkQueue, run};
use kevel_registry::resource::{Resource, Resources};
use kevel_registry::storage::Storage;
use kevel_registry::verb::Verb;
use kevel_store::cache::{At, Cache, Object};
use tokio::task::{AbortHandle, JoinSet};

use crate::context::ControllerContext;
use crate::descriptor::ControllerLoop;
use crate::lister::CacheLister;
use crate::tables::changed;
use crate::unavailable::Unavailable;

const NAME: &str = "resourcequota-controller";
/// Workers (upstream: `ConcurrentResourceQuotaSyncs`).
const WORKERS: usize = 5;
/// Time between two computations of all quotas (upstream: `ResourceQuotaSyncPeriod`).
const RESYNC: Duration = Duration::from_secs(5 * 60);
const ZERO: Quantity = Quantity::new(0, Format::DecimalSi);

struct Quotas {
    client: Client,
    quotas: CacheLister,
    tables: Vec<Arc<Resources>>,
    evaluators: Evaluators,
    queue: Arc<WorkQueue>,
}

/// Fields of a quota that determine its usage: scopes and limited resources.
struct QuotaLimits {
    hard: ResourceList,
    scopes: Vec<Scope>,
}

fn limits(quota: &Value) -> QuotaLimits {
    QuotaLimits { hard: at(quota, &["spec", "hard"]), scopes: scopes_of(quota) }
}

pub(crate) fn build(context: &ControllerContext) -> Result<ControllerLoop, Unavailable> {
    let queue = context.queue("resourcequota_primary", Backoff::default());
    let this = Arc::new(Quotas {
        client: context.client(NAME),
        quotas: CacheLister::new(context.storage("", "resourcequotas")?),
        tables: context.tables().to_vec(),
        evaluators: Evaluators::new(&|gate| context.feature(gate), context.clock().clone()),
        queue: queue.clone(),
    });
    let (heard, lister) = (queue.clone(), this.quotas.clone());
    let quotas = this.quotas.informer().run(move |event| {
        if let InformerEvent::Apply(quota, before) = event
            && before.is_none_or(|before| spec(&lister, before) != spec(&lister, quota))
        {
            heard.add(quota.key());
        }
    });
    let resync = this.clone();
    let resync = async move {
        loop {
            tokio::time::sleep(RESYNC).await;
            resync
                .quotas
                .snapshot()
                .range("", None)
                .for_each(|quota| resync.queue.add(quota.key()));
        }
    };
    let replenish = this.clone().replenish();
    let reconcile = move |key: String| {
        let this = this.clone();
        async move { this.reconcile(&key).await }
    };
    Ok(Box::pin(async move {
        tokio::join!(quotas, resync, replenish, run(queue, NAME, WORKERS, reconcile));
    }))
}

fn spec(lister: &CacheLister, quota: &Object) -> Option<Value> {
    lister.tree(quota).ok()?.at(&["spec"]).cloned()
}

impl Quotas {
    /// Resources that quotas may count, once each.
    fn resources(&self) -> Vec<Arc<Resource>> {
        let mut seen = HashSet::new();
        let mut found = Vec::new();
        for table in &self.tables {
            for row in table.current().all() {
                let verbs = [Verb::Create, Verb::Delete, Verb::List, Verb::Watch];
                let counted = row.namespaced
                    && row.storage.is_some()
                    && verbs.iter().all(|verb| row.allows(*verb))
                    && !IGNORED.contains(&(&*row.kind.group, row.plural.as_str()));
                if counted && seen.insert((row.kind.group.to_string(), row.plural.clone())) {
                    found.push(row.clone());
                }
            }
        }
        found
    }

    /// Follows the objects of all resources: usage falls when objects go, and changes with some.
    async fn replenish(self: Arc<Self>) {
        let mut running: HashMap<(String, String), (Arc<Cache>, AbortHandle)> = HashMap::new();
        let mut tasks = JoinSet::new();
        loop {
            let changes = changed(&self.tables);
            while tasks.try_join_next().is_some() {}
            let resources = self.resources();
            let key = |row: &Resource| (row.kind.group.to_string(), row.plural.clone());
            let keys: HashSet<_> = resources.iter().map(|row| key(row)).collect();
            running.retain(|known, (_, task)| {
                let stays = keys.contains(known);
                if !stays {
                    task.abort();
                }
                stays
            });
            for row in &resources {
                let Some(storage) = &row.storage else { continue };
                let known = running.get(&key(row));
                if known.is_some_and(|(cache, _)| Arc::ptr_eq(cache, &storage.cache)) {
                    continue;
                }
                let informer = self.clone().monitor(row.clone(), storage.clone());
                let task = tasks.spawn(Metered::task(Box::pin(informer), NAME));
                if let Some((_, old)) = running.insert(key(row), (storage.cache.clone(), task)) {
                    old.abort();
                }
            }
            changes.await;
        }
    }

    async fn monitor(self: Arc<Self>, row: Arc<Resource>, storage: Arc<Storage>) {
        let informer = Informer::new(storage.cache.clone());
        let only_counts = self.evaluators.of(&row.kind.group, &row.plural).only_counts();
        informer
            .run(move |event| match event {
                InformerEvent::Delete(object) => self.enqueue(object.namespace(), &row),
                InformerEvent::Apply(object, Some(before)) if !only_counts => {
                    self.hear_change(&row, &storage, before, object);
                }
                _ => {}
            })
            .await;
    }

    /// Queues the quotas that count an object otherwise after its change: its usage differs, or it has come into the
    /// scopes of a quota or left them.
    fn hear_change(&self, row: &Resource, storage: &Storage, old: &Object, new: &Object) {
        let quotas = self.quotas.snapshot();
        let prefix = format!("{}/", new.namespace());
        let evaluator = self.evaluators.of(&row.kind.group, &row.plural);
        let mut trees = None;
        for quota in quotas.range(&prefix, None) {
            kevel_compute::charge(1);
            let Ok(limits) = self.quotas.facts(quota, limits) else { continue };
            if !evaluator.is_limited(&limits.hard) {
                continue;
            }
            let both = || Some((storage.tree(old).ok()?, storage.tree(new).ok()?));
            let Some((old, new)) = trees.get_or_insert_with(both) else { return };
            let counted = |object: &Value| {
                let is_in = limits.scopes.iter().all(|scope| evaluator.is_in(scope, object));
                is_in.then(|| evaluator.usage(object))
            };
            if counted(old) != counted(new) {
                self.queue.add(quota.key());
            }
        }
    }

    /// Queues the quotas of a namespace that count a resource.
    fn enqueue(&self, namespace: &str, row: &Resource) {
        let snapshot = self.quotas.snapshot();
        if snapshot.is_empty() {
            return;
        }
        let evaluator = self.evaluators.of(&row.kind.group, &row.plural);
        for quota in snapshot.range(&format!("{namespace}/"), None) {
            let limits = self.quotas.facts(quota, limits);
            if limits.is_ok_and(|limits| evaluator.is_limited(&limits.hard)) {
                self.queue.add(quota.key());
            }
        }
    }

    async fn reconcile(&self, key: &str) -> Result<(), StatusError> {
        let (namespace, name) = key.split_once('/').unwrap_or(("", key));
        let Some(quota) = self.quotas.get(namespace, name)? else { return Ok(()) };
        let hard = at(&quota, &["spec", "hard"]);
        let mut used = at(&quota, &["status", "used"]);
        used.extend(self.usage(namespace, &hard, &scopes_of(&quota)).await?);
        used.retain(|name, _| hard.contains_key(name));
        let known = |field| quota.at(&["status", field]).is_some();
        let same = |list: &ResourceList, field| *list == at(&quota, &["status", field]);
        if known("hard") && known("used") && same(&hard, "hard") && same(&used, "used") {
            return Ok(());
        }
        let list = |list: &ResourceList| {
            let entries = list.iter().map(|(name, amount)| (name.as_str(), amount.to_string()));
            Map::from_iter(entries.map(|(name, amount)| (name, Value::from(amount.as_str()))))
        };
        let status =
            Map::from_iter([("hard", list(&hard).into()), ("used", Value::Map(list(&used)))]);
        let mut updated = quota;
        if let Some(quota) = updated.as_map_mut() {
            quota.insert("status", status.into());
        }
        let path = format!("/api/v1/namespaces/{namespace}/resourcequotas/{name}/status");
        match self.client.update(&path, &updated).await {
            Err(error) if error.reason() == reason::NOT_FOUND => Ok(()),
            written => written.map(drop),
        }
    }

    /// Usage of the limited resources in a namespace.
    async fn usage(
        &self,
        namespace: &str,
        hard: &ResourceList,
        scopes: &[Scope],
    ) -> Result<ResourceList, StatusError> {
        let mut usage = ResourceList::new();
        for row in self.resources() {
            let evaluator = self.evaluators.of(&row.kind.group, &row.plural);
            let limited = evaluator.limited(hard);
            let Some(storage) = row.storage.as_ref().filter(|_| !limited.is_empty()) else {
                continue;
            };
            for name in limited {
                usage.entry(name.to_owned()).or_insert(ZERO);
            }
            let snapshot = storage.cache.snapshot(At::Consistent).await;
            let snapshot = snapshot.map_err(StatusError::internal)?;
            for object in snapshot.range(&format!("{namespace}/"), None) {
                kevel_compute::charge(1);
                let tree = match evaluator.only_counts() {
                    true => Value::Null,
                    false => storage.tree(object).map_err(StatusError::internal)?,
                };
                if scopes.iter().all(|scope| evaluator.is_in(scope, &tree)) {
                    add(&mut usage, &evaluator.usage(&tree));
                }
            }
        }
        usage.retain(|name, _| hard.contains_key(name));
        Ok(usage)
    }
}
