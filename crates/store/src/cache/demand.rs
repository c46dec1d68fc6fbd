//! Demand for indexes: which labels and fields lists and watches select by, and which of them are indexed.
//!
//! An index is built when a selection is asked for again, and dropped when it was not used for [`INDEX_IDLE`]. The feed
//! builds, installs and drops: it alone changes what a cache shows.

#[cfg(test)]
mod tests;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use kevel_clock::monotonic_now;

use super::epoch::{Epoch, Shown};
use super::feed::Command;
use super::index::{IndexKey, SnapshotIndex, wanted};
use super::snapshot::Candidates;
use super::{Cache, Selection, Snapshot};

/// Maximum number of indexes of a resource. Each has a reference to every object, and up to 150 bytes for each value.
pub const MAX_INDEXES: usize = 8;
/// Number of objects in a range from which on a selection is worth an index: fewer are looked at in less than a
/// millisecond.
pub const INDEXED_OBJECTS: usize = 500;
/// Time after which an unused index is dropped: informers list again, controllers ask every few minutes.
pub const INDEX_IDLE: Duration = Duration::from_secs(10 * 60);
/// Times that a selection is asked for before its index is built.
const ASKS: u32 = 2;
/// Maximum number of properties whose demand is remembered.
const REMEMBERED: usize = 64;
/// Maximum number of changes that an index takes in after it was built from an earlier state.
const MAX_BEHIND: usize = 10_000;

/// Demand for the indexes of a resource.
#[derive(Debug, Default)]
pub(super) struct IndexDemand(Mutex<Vec<Demanded>>);

/// Demand for one index.
#[derive(Debug)]
struct Demanded {
    key: IndexKey,
    asks: u32,
    last: Instant,
    stage: IndexStage,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum IndexStage {
    Asked,
    Building,
    Built,
}

impl IndexDemand {
    fn lock(&self) -> MutexGuard<'_, Vec<Demanded>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that there was no index by a property. Returns whether it is to be built now.
    fn ask(&self, key: IndexKey, now: Instant) -> bool {
        let mut all = self.lock();
        let place = all.iter().position(|one| one.key == key);
        let place = place.or_else(|| {
            let (asks, last, stage) = (0, now, IndexStage::Asked);
            if all.len() >= REMEMBERED {
                let asked =
                    all.iter().enumerate().filter(|(_, one)| one.stage == IndexStage::Asked);
                let (oldest, _) = asked.min_by_key(|(_, one)| one.last)?;
                all.remove(oldest);
            }
            all.push(Demanded { key, asks, last, stage });
            Some(all.len() - 1)
        });
        let in_use = all.iter().filter(|one| one.stage != IndexStage::Asked).count();
        let Some(one) = place.and_then(|place| all.get_mut(place)) else { return false };
        if now - one.last > INDEX_IDLE {
            one.asks = 0;
        }
        one.asks = one.asks.saturating_add(1);
        one.last = now;
        let due = one.stage == IndexStage::Asked && one.asks >= ASKS && in_use < MAX_INDEXES;
        if due {
            one.stage = IndexStage::Building;
        }
        due
    }

    /// Notes that an index was used.
    fn used(&self, key: &IndexKey, now: Instant) {
        if let Some(one) = self.lock().iter_mut().find(|one| one.key == *key) {
            one.last = now;
        }
    }

    /// Notes the result of a build.
    fn built(&self, key: &IndexKey, installed: bool) {
        if let Some(one) = self.lock().iter_mut().find(|one| one.key == *key) {
            one.stage = if installed { IndexStage::Built } else { IndexStage::Asked };
        }
    }

    /// Notes that the indexes are gone. They are built again when they are asked for.
    pub fn lost(&self) {
        let mut all = self.lock();
        let built = all.iter_mut().filter(|one| one.stage == IndexStage::Built);
        built.for_each(|one| one.stage = IndexStage::Asked);
    }

    /// Forgets what was not asked for of late. Returns whether an index is to be dropped.
    fn sweep(&self, now: Instant) -> bool {
        let (mut all, mut dropped) = (self.lock(), false);
        all.retain(|one| {
            let stays = one.stage == IndexStage::Building || now - one.last <= INDEX_IDLE;
            dropped |= !stays && one.stage == IndexStage::Built;
            stays
        });
        dropped
    }

    fn has_built(&self, key: &IndexKey) -> bool {
        self.lock().iter().any(|one| one.key == *key && one.stage == IndexStage::Built)
    }
}

/// An index of the objects that a cache showed when it was built.
#[derive(Debug)]
pub(super) struct BuiltIndex {
    index: SnapshotIndex,
    revision: crate::Revision,
    epoch: Option<Epoch>,
}

impl Cache {
    /// Objects of a snapshot of this cache in order of key, among which are all that the selection selects: to be
    /// matched. From behind the key `after` if one is given.
    pub fn candidates<'s>(
        self: &Arc<Self>,
        snapshot: &'s Snapshot,
        selection: &Selection,
        after: Option<&str>,
    ) -> Candidates<'s> {
        let found = snapshot.candidates(selection, after);
        match &found.index {
            Some(key) => self.demand.used(key, monotonic_now()),
            None if found.are_all()
                && !selection.selects_all()
                && snapshot.count(&selection.prefix, None) >= INDEXED_OBJECTS =>
            {
                self.ask(selection);
            }
            None => {}
        }
        found
    }

    /// Asks for indexes that the selection can use.
    fn ask(self: &Arc<Self>, selection: &Selection) {
        let now = monotonic_now();
        for key in wanted(selection).into_iter().map(|wanted| wanted.key()) {
            let is_field = matches!(key, IndexKey::Field(_));
            if is_field && !Arc::ptr_eq(&selection.paths, &self.resource.fields) {
                continue;
            }
            if self.demand.ask(key.clone(), now) {
                let _ = self.feed.send(Command::Index(self.clone(), key));
            }
        }
    }

    /// Builds an index of what the cache shows.
    pub(super) async fn build(&self, key: IndexKey) -> BuiltIndex {
        let shown = self.current.load_full();
        let paths = self.resource.fields.clone();
        let index = SnapshotIndex::build(&shown.snapshot, key, paths).await;
        BuiltIndex { index, revision: shown.snapshot.revision(), epoch: shown.epoch }
    }

    /// Shows a built index with the changes since, unless they are unknown or too many.
    pub(super) fn install_index(&self, built: BuiltIndex) {
        let BuiltIndex { mut index, revision, epoch } = built;
        let key = index.key().clone();
        let shown = self.current.load_full();
        let since = self.log().after(revision).filter(|since| since.len() <= MAX_BEHIND);
        let since = since.filter(|_| epoch.is_some() && shown.epoch == epoch);
        self.demand.built(&key, since.is_some());
        let Some(since) = since else { return };
        for event in since {
            let readable = |object: &Arc<_>| super::Object::wire(object).is_ok();
            let before = event.previous().filter(|object| readable(object));
            index.change(before, event.current().filter(|object| readable(object)));
        }
        let snapshot = shown.snapshot.indexed(index);
        self.write(|_| self.current.store(Arc::new(Shown { snapshot, epoch: shown.epoch })));
    }

    /// Drops the indexes that were not used of late.
    pub(super) fn drop_idle_indexes(&self, now: Instant) {
        if !self.demand.sweep(now) {
            return;
        }
        let shown = self.current.load_full();
        let snapshot = shown.snapshot.retaining(|key| self.demand.has_built(key));
        self.write(|_| self.current.store(Arc::new(Shown { snapshot, epoch: shown.epoch })));
    }
}
