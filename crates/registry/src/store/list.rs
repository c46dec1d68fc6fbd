//! Lists, and the initial state of watches, from the watch cache (upstream: `Store.ListPredicate`,
//! `Store.WatchPredicate`).

use std::sync::Arc;

use kevel_api::selector::shard::ShardSelector;
use kevel_api::status::StatusError;
use kevel_store::Revision;
use kevel_store::cache::{At, Cache, CacheError, Object, Selection, Snapshot, Watcher};

use super::Store;
use super::continue_token::ContinueToken;
use super::version_selector::VersionSelector;
use crate::failure::cache_error;

/// Objects that a list or watch asks for.
#[derive(Debug)]
pub struct ObjectSelection {
    /// Selection by the cache.
    pub cached: Selection,
    /// The part of the field selector that must be matched in the requested version.
    pub of_version: Option<VersionSelector>,
}

/// A list request.
#[derive(Debug)]
pub struct ListQuery {
    /// Objects to list.
    pub selection: ObjectSelection,
    /// Freshness of the list (`resourceVersion`, `resourceVersionMatch`).
    pub at: At,
    /// Most objects; 0 for all.
    pub limit: usize,
    /// Continue token; `None` for a first page.
    pub token: Option<ContinueToken>,
}

/// One page of a list.
#[derive(Debug)]
pub struct Page {
    /// The objects.
    pub items: Vec<Arc<Object>>,
    /// Revision of the list.
    pub revision: Revision,
    /// Continue token, if there are more objects.
    pub token: Option<String>,
    /// Number of objects after the page, if it is known.
    pub remaining: Option<u64>,
    /// The shard of the objects that was listed.
    pub shard: Option<Arc<ShardSelector>>,
}

impl Page {
    /// The first `limit` of the selected objects.
    fn first_of(
        mut items: Vec<Arc<Object>>,
        limit: usize,
        revision: Revision,
        prefix: &str,
    ) -> Self {
        let more = limit > 0 && items.len() > limit;
        if more {
            items.truncate(limit);
        }
        let last = items.last().filter(|_| more);
        let token = last.map(|last| ContinueToken::write(revision, last.key(), prefix));
        Page { items, revision, token, remaining: None, shard: None }
    }
}

impl Store<'_> {
    /// Lists objects.
    pub async fn list(&self, request: ListQuery) -> Result<Page, StatusError> {
        let ListQuery { selection, at, limit, token } = request;
        let ObjectSelection { cached: selection, of_version } = selection;
        // A list of any cached state (resourceVersion=0) ignores the limit, since it could not be continued.
        let limit = if matches!(at, At::Any) { 0 } else { limit };
        let span = self.cache_span("cacher.GetList");
        span.event("Ready");
        span.event("watchCache locked acquired");
        let cache = &self.storage.cache;
        let snapshot = span.scope(cache.snapshot(at)).await;
        let snapshot = snapshot.map_err(|error| match &token {
            Some(token) => token.refused(error, &selection.prefix),
            None => list_error(error),
        })?;
        span.event("watchCache fresh enough");
        let after = token.as_ref().map_or("", |token| &token.after);
        self.check_readable(&snapshot, &selection.prefix, after)?;
        let mut fetched = 0;
        let mut page =
            |limit| page(cache, &snapshot, &selection, token.as_ref(), limit, &mut fetched);
        let page = match of_version {
            None => page(limit),
            Some(of_version) => {
                let Page { items, revision, .. } = page(0);
                let items = of_version.select(items).await?;
                let page = Page::first_of(items, limit, revision, &selection.prefix);
                Page { shard: selection.shard, ..page }
            }
        };
        self.storage.cache.metrics().count_list(fetched, page.items.len());
        let count = || vec![kevel_trace::number("count", page.items.len())];
        span.event_with("Listed items from cache", count);
        span.event_with("Filtered items", count);
        Ok(page)
    }

    /// Watches objects: the state that the watch begins with, if it begins with one, and the events after it.
    pub async fn watch(
        &self,
        selection: Selection,
        start: WatchStart,
    ) -> Result<(Option<Snapshot>, Watcher), StatusError> {
        let (cache, prefix) = (&self.storage.cache, selection.prefix.clone());
        let span = self.cache_span("cacher.Watch");
        span.event("watchCache locked acquired");
        let watched = async {
            Ok::<_, CacheError>(match start {
                WatchStart::State(at) => {
                    let (snapshot, watcher) = cache.list_watch(selection, at).await?;
                    (Some(snapshot), watcher)
                }
                WatchStart::After(revision) => (None, cache.watch(selection, revision).await?),
                WatchStart::Now => (None, cache.list_watch(selection, At::Any).await?.1),
            })
        };
        let (snapshot, watcher) = span.scope(watched).await.map_err(cache_error)?;
        span.event("watchCache fresh enough");
        drop(span);
        if let Some(snapshot) = &snapshot {
            self.check_readable(snapshot, &prefix, "")?;
        }
        Ok((snapshot, watcher))
    }
}

/// Beginning of a watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WatchStart {
    /// The state, at a freshness, as events.
    State(At),
    /// The first event after a revision.
    After(Revision),
    /// The next event.
    Now,
}

/// The status for a list that the cache cannot serve.
fn list_error(error: CacheError) -> StatusError {
    match error {
        CacheError::Expired { .. } => {
            StatusError::resource_expired("The resourceVersion for the provided list is too old.")
        }
        error => cache_error(error),
    }
}

/// The page of the snapshot that the selection, continue token and limit ask for.
fn page(
    cache: &Arc<Cache>,
    snapshot: &Snapshot,
    selection: &Selection,
    token: Option<&ContinueToken>,
    limit: usize,
    fetched: &mut usize,
) -> Page {
    let after = token.map(|token| token.after.as_str());
    let mut items: Vec<Arc<Object>> = Vec::new();
    let began = token.and_then(|token| token.revision);
    let revision = began.unwrap_or(snapshot.revision());
    for object in cache.candidates(snapshot, selection, after) {
        *fetched += 1;
        if selection.matches(object) {
            items.push(object.clone());
        }
        if limit > 0 && items.len() == limit {
            break;
        }
    }
    let last = items.last().filter(|_| limit > 0 && items.len() == limit).map(|last| last.key());
    let left = last.map_or(0, |last| snapshot.count(&selection.prefix, Some(last)) as u64);
    // A page that is full is continued if any objects follow, selected or not.
    let last = last.filter(|_| left > 0);
    let token = last.map(|last| ContinueToken::write(revision, last, &selection.prefix));
    // remainingItemCount only without selectors: with them, counting would match every object.
    let remaining = last.filter(|_| selection.selects_all()).map(|_| left);
    Page { items, revision, token, remaining, shard: selection.shard.clone() }
}
