//! Informers of controllers.

use std::sync::Arc;
use std::time::Duration;

use kevel_store::cache::{At, Cache, CacheError, Object, Selection};
use tokio::sync::watch;

/// Wait of an informer before it lists again.
const RETRY: Duration = Duration::from_millis(200);

/// Event of an informer. Objects between `Init` and `InitDone` are all that exist: others, which were heard of before,
/// have been deleted meanwhile.
#[derive(Debug)]
pub enum InformerEvent<'a> {
    /// Begin of a list: at the start, and after changes were missed.
    Init,
    /// An object of the list, or one that was created or changed, with its state before that change if it is known.
    Apply(&'a Arc<Object>, Option<&'a Arc<Object>>),
    /// Last state of a deleted object.
    Delete(&'a Arc<Object>),
    /// End of the list.
    InitDone,
}

/// Tells a controller of a resource's objects and their changes, from the watch cache (upstream: `SharedInformer`).
#[derive(Debug)]
pub struct Informer {
    cache: Arc<Cache>,
    synced: watch::Sender<bool>,
}

/// True once an informer has delivered all objects that existed at its start (upstream: `HasSynced`).
#[derive(Clone, Debug)]
pub struct HasSynced(watch::Receiver<bool>);

impl HasSynced {
    /// Waits until the informer has synced, or has ended.
    pub async fn wait(mut self) {
        let _ = self.0.wait_for(|synced| *synced).await;
    }

    /// Whether the informer has synced.
    pub fn get(&self) -> bool {
        *self.0.borrow()
    }
}

impl Informer {
    /// Informer on a resource's cache.
    pub fn new(cache: Arc<Cache>) -> Self {
        Informer { cache, synced: watch::Sender::new(false) }
    }

    /// Whether the informer has synced.
    pub fn has_synced(&self) -> HasSynced {
        HasSynced(self.synced.subscribe())
    }

    /// Calls `hear` for every object, then for every changed one (with the last state of a deleted one). Ends when the
    /// cache is closed.
    pub async fn for_each(self, mut hear: impl FnMut(&Object) + Send) {
        self.run(|event| match event {
            InformerEvent::Apply(object, _) | InformerEvent::Delete(object) => hear(object),
            InformerEvent::Init | InformerEvent::InitDone => {}
        })
        .await;
    }

    /// Calls `hear` for every event. Lists again after missed changes. Ends when the cache is closed.
    pub async fn run(self, mut hear: impl FnMut(InformerEvent<'_>) + Send) {
        loop {
            match self.follow(&mut hear).await {
                Err(CacheError::Closed) => return,
                _ => tokio::time::sleep(RETRY).await,
            }
        }
    }

    async fn follow(
        &self,
        hear: &mut (impl FnMut(InformerEvent<'_>) + Send),
    ) -> Result<(), CacheError> {
        let listed = self.cache.list_watch(Selection::default(), At::Consistent).await;
        let (snapshot, mut watcher) = listed?;
        hear(InformerEvent::Init);
        for object in snapshot.range("", None) {
            kevel_compute::charge(1);
            hear(InformerEvent::Apply(object, None));
        }
        drop(snapshot);
        hear(InformerEvent::InitDone);
        self.synced.send_replace(true);
        let mut seen = Vec::new();
        loop {
            watcher.next(&mut seen).await?;
            for delivery in seen.drain(..) {
                let event = &delivery.event;
                match (event.current(), event.object(delivery.change)) {
                    (Some(current), _) => hear(InformerEvent::Apply(current, event.previous())),
                    (None, Some(gone)) => hear(InformerEvent::Delete(gone)),
                    (None, None) => {}
                }
            }
        }
    }
}
