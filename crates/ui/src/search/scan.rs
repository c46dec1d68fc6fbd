//! The walk through the caches.

use std::sync::Arc;
use std::time::Duration;

use kevel_api::value::{Map, Value};
use kevel_clock::Stopwatch;
use kevel_registry::resource::Resource;
use kevel_registry::storage::Storage;
use kevel_store::cache::{Cache, Object, Snapshot};

use super::query::{Score, SearchQuery};
use super::rights::ListRights;
use super::tops::Tops;

/// Objects between two looks at the time.
const OBJECTS_BETWEEN_LOOKS: usize = 64;
/// Behind all keys of a namespace: the character after the slash.
const AFTER_SLASH: char = '0';

/// A kind to look at.
pub(super) struct SearchedKind {
    storage: Arc<Storage>,
    /// Resources that show its objects, one for each group.
    rows: Vec<Arc<Resource>>,
    /// The state that both passes look at.
    snapshot: Snapshot,
}

impl SearchedKind {
    pub(super) fn new(row: &Arc<Resource>, storage: &Arc<Storage>) -> Self {
        let snapshot = storage.cache.latest();
        SearchedKind { storage: storage.clone(), rows: vec![row.clone()], snapshot }
    }

    pub(super) fn is_of(&self, cache: &Arc<Cache>) -> bool {
        Arc::ptr_eq(&self.storage.cache, cache)
    }

    /// Adds a resource, unless it is another version of one: the first is preferred.
    pub(super) fn add(&mut self, row: &Arc<Resource>) {
        let same = |known: &Arc<Resource>| known.group_resource_name() == row.group_resource_name();
        if !self.rows.iter().any(same) {
            self.rows.push(row.clone());
        }
    }
}

/// Group and plural, for comparison.
trait GroupResourceName {
    fn group_resource_name(&self) -> (&str, &str);
}

impl GroupResourceName for Resource {
    fn group_resource_name(&self) -> (&str, &str) {
        (self.kind.group.as_str(), &self.plural)
    }
}

/// An object that fits.
struct SearchHit {
    score: Score,
    object: Arc<Object>,
    row: Arc<Resource>,
    by_text: bool,
}

/// A search under way.
pub(super) struct Scan<'a> {
    query: &'a SearchQuery,
    started: Stopwatch,
    time: Duration,
    hits: Tops<SearchHit>,
    /// Objects looked at, so that the time is looked at in between.
    looked_at: usize,
    complete: bool,
}

impl<'a> Scan<'a> {
    pub(super) fn new(
        query: &'a SearchQuery,
        started: Stopwatch,
        time: Duration,
        most: usize,
    ) -> Self {
        let hits = Tops::new(most);
        Scan { query, started, time, hits, looked_at: 0, complete: true }
    }

    /// Whether names alone have not filled the answer.
    pub(super) fn wants_text(&self) -> bool {
        self.complete && self.query.has_text() && !self.hits.is_full()
    }

    /// Looks at the objects of a kind that the user may list.
    pub(super) async fn look_at(
        &mut self,
        candidate: &SearchedKind,
        with_text: bool,
        rights: &mut ListRights<'_>,
    ) {
        if !self.complete || candidate.snapshot.is_empty() {
            return;
        }
        match self.query.namespace() {
            // No question about all namespaces where one is meant.
            Some(namespace) => {
                self.namespace(candidate, namespace, with_text, rights).await;
            }
            None => match self.allowed(candidate, "", rights).await {
                Some(row) => self.objects(candidate, "", &row, with_text),
                None => self.each_namespace(candidate, with_text, rights).await,
            },
        }
    }

    /// The first resource that the user may list in the namespace.
    async fn allowed(
        &mut self,
        candidate: &SearchedKind,
        namespace: &str,
        rights: &mut ListRights<'_>,
    ) -> Option<Arc<Resource>> {
        for row in &candidate.rows {
            // An authorizer that is a webhook may take its time.
            let left = self.time.saturating_sub(self.started.elapsed());
            match tokio::time::timeout(left, rights.may_list(row, namespace)).await {
                Ok(Some(true)) => return Some(row.clone()),
                Ok(Some(false)) => {}
                Ok(None) | Err(_) => self.complete = false,
            }
        }
        None
    }

    async fn each_namespace(
        &mut self,
        candidate: &SearchedKind,
        with_text: bool,
        rights: &mut ListRights<'_>,
    ) {
        let mut after: Option<String> = None;
        while self.in_time() {
            let next = candidate.snapshot.range("", after.as_deref()).next();
            let Some(namespace) = next.map(|object| object.namespace().to_owned()) else { return };
            if namespace.is_empty() {
                // The kind has no namespaces, and the user may not list it.
                return;
            }
            self.namespace(candidate, &namespace, with_text, rights).await;
            after = Some(format!("{namespace}{AFTER_SLASH}"));
        }
    }

    async fn namespace(
        &mut self,
        candidate: &SearchedKind,
        namespace: &str,
        with_text: bool,
        rights: &mut ListRights<'_>,
    ) {
        if let Some(row) = self.allowed(candidate, namespace, rights).await {
            self.objects(candidate, &format!("{namespace}/"), &row, with_text);
        }
    }

    /// Looks at objects that the user may list.
    fn objects(
        &mut self,
        candidate: &SearchedKind,
        prefix: &str,
        row: &Arc<Resource>,
        with_text: bool,
    ) {
        for object in candidate.snapshot.range(prefix, None) {
            self.looked_at += 1;
            if self.looked_at.is_multiple_of(OBJECTS_BETWEEN_LOOKS) && !self.in_time() {
                return;
            }
            kevel_compute::charge(1);
            if with_text {
                kevel_compute::charge_bytes(object.wire().map_or(0, bytes::Bytes::len));
            }
            let score = |text| self.query.score(object, row, &candidate.storage, text);
            let found = score(with_text);
            // Found by its names in the first pass.
            if found.is_none() || with_text && score(false).is_some() {
                continue;
            }
            let score = found.unwrap_or_default();
            let hit =
                SearchHit { score, object: object.clone(), row: row.clone(), by_text: with_text };
            self.hits.add(score, hit);
        }
    }

    fn in_time(&mut self) -> bool {
        self.complete &= self.started.elapsed() < self.time;
        self.complete
    }

    /// The objects found, best first, and whether all were looked at.
    pub(super) fn finish(self) -> (Vec<Value>, bool) {
        let mut hits = self.hits.into_vec();
        hits.sort_by(|one, other| {
            let place = |hit: &SearchHit| (hit.object.name().len(), hit.object.key().to_owned());
            other.score.cmp(&one.score).then_with(|| place(one).cmp(&place(other)))
        });
        let results = hits.iter().map(|hit| shown(hit, self.query)).collect();
        (results, self.complete)
    }
}

/// An object in the answer.
fn shown(hit: &SearchHit, query: &SearchQuery) -> Value {
    let (row, object) = (&hit.row, &hit.object);
    let mut fields = Map::new();
    for (field, value) in [
        ("apiVersion", row.api_version().as_str()),
        ("kind", row.kind.kind.as_str()),
        ("resource", row.plural.as_str()),
        ("namespace", object.namespace()),
        ("name", object.name()),
    ] {
        fields.insert(field, Value::String(value.into()));
    }
    if let Some(excerpt) = query.excerpt(object).filter(|_| hit.by_text) {
        fields.insert("excerpt", Value::String(excerpt.into()));
    }
    Value::Map(fields)
}
