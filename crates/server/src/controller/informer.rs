//! Informers of controllers.

use std::sync::Arc;
use std::time::Duration;

use kevel_store::cache::{At, Cache, CacheError, Object, Selection};

/// Wait of an informer before it lists again.
const RETRY: Duration = Duration::from_millis(200);

/// Calls `hear` for every object, then for every changed one (with the last state of a deleted one). Lists again after
/// missed changes. Ends when the cache is closed (upstream: `SharedInformer`).
pub async fn inform(cache: Arc<Cache>, mut hear: impl FnMut(&Object) + Send + 'static) {
    loop {
        match follow(&cache, &mut hear).await {
            Err(CacheError::Closed) => return,
            _ => tokio::time::sleep(RETRY).await,
        }
    }
}

async fn follow(cache: &Arc<Cache>, hear: &mut impl FnMut(&Object)) -> Result<(), CacheError> {
    let (snapshot, mut watcher) = cache.list_watch(Selection::default(), At::Consistent).await?;
    snapshot.range("", None).for_each(|object| hear(object));
    let mut seen = Vec::new();
    loop {
        watcher.next(&mut seen).await?;
        for delivery in seen.drain(..) {
            if let Some(object) = delivery.event.object(delivery.change) {
                hear(object);
            }
        }
    }
}
