//! Informers of all resources that can be collected, custom ones included.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use kevel_api::builtin;
use kevel_api::gvk::GroupVersionKind;
use kevel_api::value::Value;
use kevel_codec::json;
use kevel_compute::Metered;
use kevel_controller_runtime::{HasSynced, Informer, InformerEvent};
use kevel_registry::resource::{Resource, Resources, api_version};
use kevel_registry::type_ref::TypeRef;
use kevel_store::cache::{Cache, Object};
use tokio::task::{AbortHandle, JoinSet};

use super::Collector;
use super::identity::{ObservedObject, Uid, is_deleted};
use crate::tables::changed;

/// Type of which nothing but an object's metadata is decoded.
static METADATA: TypeRef = TypeRef::BuiltIn(builtin::defined("meta.v1.PartialObjectMetadata"));

/// Informers by group and plural.
pub(super) struct Monitors {
    collector: Arc<Collector>,
    tables: Vec<Arc<Resources>>,
    running: HashMap<(String, String), Monitor>,
    tasks: JoinSet<()>,
}

struct Monitor {
    kind: GroupVersionKind,
    /// Cache that the informer reads. A changed CustomResourceDefinition gets a new cache.
    cache: Arc<Cache>,
    synced: HasSynced,
    task: AbortHandle,
}

impl Monitors {
    pub fn new(collector: Arc<Collector>, tables: &[Arc<Resources>]) -> Self {
        let (running, tasks) = (HashMap::new(), JoinSet::new());
        Monitors { collector, tables: tables.to_vec(), running, tasks }
    }

    /// Starts and stops informers, so that there is one for each resource that is served now.
    pub fn sync(&mut self) {
        while self.tasks.try_join_next().is_some() {}
        let wanted = self.collector.mapper.monitored();
        let key = |row: &Resource| (row.kind.group.to_string(), row.plural.clone());
        let keys: HashSet<_> = wanted.iter().map(|row| key(row)).collect();
        let gone: Vec<_> =
            self.running.keys().filter(|key| !keys.contains(*key)).cloned().collect();
        for key in gone {
            if let Some(monitor) = self.running.remove(&key) {
                monitor.task.abort();
                let GroupVersionKind { group, version, kind } = &monitor.kind;
                self.collector.change(|graph| graph.unobserve(&api_version(group, version), kind));
            }
        }
        for row in wanted {
            let Some(storage) = &row.storage else { continue };
            let known = self.running.get(&key(&row));
            if known.is_some_and(|known| {
                Arc::ptr_eq(&known.cache, &storage.cache) && known.kind == row.kind
            }) {
                continue;
            }
            let monitor = self.start(&row.kind, storage.cache.clone());
            if let Some(old) = self.running.insert(key(&row), monitor) {
                old.task.abort();
            }
        }
    }

    /// Waits until all informers have synced.
    pub async fn synced(&self) {
        let all: Vec<HasSynced> =
            self.running.values().map(|monitor| monitor.synced.clone()).collect();
        for synced in all {
            synced.wait().await;
        }
    }

    /// Follows the tables of resources until dropped.
    pub async fn follow(mut self) {
        loop {
            let changes = changed(&self.tables);
            self.sync();
            changes.await;
        }
    }

    fn start(&mut self, kind: &GroupVersionKind, cache: Arc<Cache>) -> Monitor {
        let informer = Informer::new(cache.clone());
        let synced = informer.has_synced();
        let collector = self.collector.clone();
        let api_version: Arc<str> = api_version(&kind.group, &kind.version).into();
        let name: Arc<str> = Arc::from(&*kind.kind);
        let mut listed: Option<HashSet<Uid>> = None;
        let run = informer.run(move |event| match event {
            InformerEvent::Init => listed = Some(HashSet::new()),
            InformerEvent::Apply(object, _) => {
                let Some(metadata) = metadata(object) else { return };
                let uid = metadata.str_at(&["metadata", "uid"]);
                // Most objects own nothing and are owned by nothing.
                let owned = !metadata.list_at(&["metadata", "ownerReferences"]).is_empty();
                if !owned
                    && !is_deleted(&metadata)
                    && !collector.change(|graph| graph.contains(uid))
                {
                    return;
                }
                if let Some(listed) = &mut listed {
                    listed.insert(uid.into());
                }
                let observed = ObservedObject::read(&metadata, &api_version, &name);
                collector.change(|graph| graph.observe(observed));
            }
            InformerEvent::Delete(object) => {
                let Some(metadata) = metadata(object) else { return };
                let observed = ObservedObject::read(&metadata, &api_version, &name);
                collector.change(|graph| graph.forget(&observed.identity));
            }
            InformerEvent::InitDone => {
                if let Some(listed) = listed.take() {
                    collector.change(|graph| graph.retain(&api_version, &name, &listed));
                }
            }
        });
        let task = self.tasks.spawn(Metered::task(Box::pin(run), "garbage-collector-controller"));
        Monitor { kind: kind.clone(), cache, synced, task }
    }
}

/// Metadata of an object; `None` if the object is damaged.
fn metadata(object: &Object) -> Option<Value> {
    let wire = object.wire().ok()?;
    Some(json::decode(wire, METADATA.schema(), json::Unknown::Ignore).ok()?.value)
}
