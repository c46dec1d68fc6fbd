//! Load of a resource's objects from the engine.

use std::sync::Arc;

use super::{CacheMetrics, Object, Resource, Snapshot, key_below};
use crate::{Engine, Error, RangeOptions, Revision, failpoint};

/// Page size of a load.
const LOAD_PAGE: usize = 1000;

/// Reads a resource from the engine, page by page at one revision.
pub(super) async fn load(
    engine: &dyn Engine,
    resource: &Resource,
    revision: Option<Revision>,
    metrics: &CacheMetrics,
) -> Result<Snapshot, Error> {
    let mut fetched = 0;
    let prefix = resource.prefix.as_bytes();
    let mut options = RangeOptions { revision, limit: LOAD_PAGE, ..RangeOptions::default() };
    let mut objects = Vec::new();
    let mut page = engine.range(prefix, options.clone()).await?;
    loop {
        failpoint::reach(failpoint::LOADING);
        options.revision = Some(page.revision);
        let read = page.entries.last().map(|entry| &entry.key);
        let damaged = page.damaged.last().map(|damaged| &damaged.key);
        options.after = read.max(damaged).cloned();
        fetched += page.entries.len() + page.damaged.len();
        // Reads the next page while this one is decoded.
        let (entries, damaged) = (page.entries, page.damaged);
        let next = async {
            if page.more { Some(engine.range(prefix, options.clone()).await) } else { None }
        };
        let take_in = async {
            tokio::task::yield_now().await;
            for entry in entries {
                kevel_compute::charge(4);
                let Some(key) = key_below(&resource.prefix, &entry.key) else { continue };
                objects.push(Arc::new(resource.object(key, &entry)));
            }
            for damaged in damaged {
                let Some(key) = key_below(&resource.prefix, &damaged.key) else { continue };
                objects.push(Arc::new(Object::damaged(key, &damaged)));
            }
        };
        match tokio::join!(next, take_in).0 {
            Some(read) => page = read?,
            None => {
                metrics.count_load(fetched, objects.len());
                return Ok(Snapshot::loaded(objects, page.revision));
            }
        }
    }
}
