//! Reads of one key, of a range of keys, and of a part of the history.

use std::{
    ops::ControlFlow,
    sync::{PoisonError, RwLock},
};

use bytes::Bytes;
use rusqlite::Connection;

use super::{
    database::{Database, Meta, sqlite},
    index::{self, KeyRange, Recent, Version, damaged},
    record::{Record, select_records},
};
use crate::{
    Damaged, Entry, Error, Event, GetResponse, RangeOptions, RangeResponse, Result, Revision,
    WatchResponse,
};

/// Step in which history is read, in records and in bytes, whichever comes first.
const HISTORY_STEP_RECORDS: u64 = 1024;
const HISTORY_STEP_BYTES: usize = 4 << 20;

/// Reader of the database and of the versions that its index lacks.
///
/// The order matters: `recent` is read before the database's snapshot begins, so versions that have left `recent` by
/// then are in the snapshot. Versions in both do no harm.
#[derive(Debug)]
pub(super) struct Reader<'a> {
    pub(super) database: &'a Database,
    pub(super) recent: &'a RwLock<Recent>,
}

impl Reader<'_> {
    pub(super) fn get(&self, key: &Bytes, at: Option<Revision>) -> Result<GetResponse> {
        unless_overtaken(at, || self.get_once(key, at))
    }

    pub(super) fn range(&self, prefix: &[u8], options: &RangeOptions) -> Result<RangeResponse> {
        unless_overtaken(options.revision, || self.range_once(prefix, options))
    }

    pub(super) fn count(&self, prefix: &[u8]) -> Result<u64> {
        unless_overtaken(None, || self.count_once(prefix))
    }

    fn get_once(&self, key: &Bytes, at: Option<Revision>) -> Result<GetResponse> {
        let (revision, current, recent) = {
            let recent = self.recent.read().unwrap_or_else(PoisonError::into_inner);
            let revision = revision_to_read(at, recent.last)?;
            (revision, recent.last, recent.find(key, revision))
        };
        let entry = self.database.read(|connection| {
            require_kept(connection, revision)?;
            let version = match recent {
                Some(version) => Some(version),
                None => index::find(connection, key, revision)?,
            };
            version.filter(|v| v.created != 0).map(|v| load(connection, key, v)).transpose()
        })?;
        Ok(GetResponse { entry, revision: Revision(current) })
    }

    fn range_once(&self, prefix: &[u8], options: &RangeOptions) -> Result<RangeResponse> {
        let range = KeyRange::new(prefix, options.after.as_deref());
        let (revision, recent) = self.recent_within(&range, options.revision)?;
        let limit = if options.limit == 0 { usize::MAX } else { options.limit };
        self.database.read(|connection| {
            require_kept(connection, revision)?;
            let (mut found, mut total) = (Vec::new(), 0u64);
            index::scan(connection, recent, &range, revision, |key, version| {
                total += 1;
                if found.len() < limit {
                    found.push((Bytes::copy_from_slice(key), version));
                    ControlFlow::Continue(())
                } else if options.count {
                    ControlFlow::Continue(())
                } else {
                    ControlFlow::Break(())
                }
            })?;
            let remaining = total - found.len() as u64;
            let (entries, damaged) = load_all(connection, found)?;
            Ok(RangeResponse {
                entries,
                damaged,
                more: remaining > 0,
                remaining: options.count.then_some(remaining),
                revision: Revision(revision),
            })
        })
    }

    fn count_once(&self, prefix: &[u8]) -> Result<u64> {
        let range = KeyRange::new(prefix, None);
        let (revision, recent) = self.recent_within(&range, None)?;
        self.database.read(|connection| {
            require_kept(connection, revision)?;
            let mut count = 0;
            index::scan(connection, recent, &range, revision, |_, _| {
                count += 1;
                ControlFlow::Continue(())
            })?;
            Ok(count)
        })
    }

    /// Next step of history under `prefix`, of revisions after `after` and up to `until`.
    pub(super) fn history(&self, prefix: &[u8], after: u64, until: u64) -> Result<WatchResponse> {
        let until = until.min(after.saturating_add(HISTORY_STEP_RECORDS));
        self.database.read(|connection| {
            require_kept(connection, after)?;
            let (mut events, mut bytes, mut last) = (Vec::new(), 0, after);
            each_record(connection, after, until, |record| {
                last = record.revision;
                if record.key.starts_with(prefix) {
                    let event = event_of(connection, &record)?;
                    bytes +=
                        event.key.len() + value_len(&event.current) + value_len(&event.previous);
                    events.push(event);
                }
                Ok(if bytes < HISTORY_STEP_BYTES {
                    ControlFlow::Continue(())
                } else {
                    ControlFlow::Break(())
                })
            })?;
            Ok(WatchResponse { events, revision: Revision(last) })
        })
    }

    pub(super) fn recent_within(
        &self,
        range: &KeyRange,
        at: Option<Revision>,
    ) -> Result<(u64, Vec<(Bytes, Version)>)> {
        let recent = self.recent.read().unwrap_or_else(PoisonError::into_inner);
        Ok((revision_to_read(at, recent.last)?, recent.within(range)))
    }
}

/// Repeats a read of the present if a compaction came between the read of `recent` and the snapshot: the revision then
/// present is compacted.
fn unless_overtaken<T>(at: Option<Revision>, read: impl Fn() -> Result<T>) -> Result<T> {
    loop {
        match read() {
            Err(Error::Compacted { .. }) if at.is_none() => {}
            result => return result,
        }
    }
}

/// Calls `visit` with the records after `after` up to `until`; a missing one is an error.
pub(super) fn each_record(
    connection: &Connection,
    after: u64,
    until: u64,
    mut visit: impl FnMut(Record) -> Result<ControlFlow<()>>,
) -> Result<()> {
    let mut statement = connection
        .prepare_cached(select_records!("revision > ?1 AND revision <= ?2 ORDER BY revision"))
        .map_err(sqlite)?;
    let mut rows = statement.query((after.cast_signed(), until.cast_signed())).map_err(sqlite)?;
    // The history of an empty store begins with revision 2.
    for expected in after.max(Revision::INITIAL.0) + 1..=until {
        let record = rows.next().map_err(sqlite)?.map(Record::from_row).transpose()?;
        match record.filter(|record| record.revision == expected) {
            Some(record) => {
                if visit(record)?.is_break() {
                    return Ok(());
                }
            }
            None => {
                return Err(Error::Corrupt(format!(
                    "the record of revision {expected} is missing"
                )));
            }
        }
    }
    Ok(())
}

fn event_of(connection: &Connection, record: &Record) -> Result<Event> {
    let previous = match record.previous {
        0 => None,
        revision => Some(Record::load(connection, revision)?),
    };
    Ok(record.event(previous.as_ref()))
}

fn value_len(entry: &Option<Entry>) -> usize {
    entry.as_ref().map_or(0, |entry| entry.value.len())
}

fn revision_to_read(requested: Option<Revision>, current: u64) -> Result<u64> {
    match requested {
        None => Ok(current),
        Some(requested) if requested.0 > current => {
            Err(Error::FutureRevision { requested, current: Revision(current) })
        }
        Some(requested) => Ok(requested.0),
    }
}

pub(super) fn require_kept(connection: &Connection, revision: u64) -> Result<()> {
    let compacted = Meta::Compacted.read(connection)?;
    if revision < compacted {
        let (requested, compacted) = (Revision(revision), Revision(compacted));
        return Err(Error::Compacted { requested, compacted });
    }
    Ok(())
}

/// Entry of a version. Damage of its record concerns this key alone.
fn load(connection: &Connection, key: &Bytes, version: Version) -> Result<Entry> {
    let record = version.record(connection, key)?;
    record.entry().ok_or_else(|| {
        damaged(key, version.revision, "its record is that of a deletion".to_owned())
    })
}

/// Loads entries in order of revision, so that each page is read once. Returns the entries in order of key, and the
/// damaged keys.
fn load_all(
    connection: &Connection,
    found: Vec<(Bytes, Version)>,
) -> Result<(Vec<Entry>, Vec<Damaged>)> {
    let mut order: Vec<usize> = (0..found.len()).collect();
    order.sort_unstable_by_key(|&place| found.get(place).map(|(_, version)| version.revision));
    let mut entries: Vec<Option<Entry>> = vec![None; found.len()];
    let mut damaged = Vec::new();
    for place in order {
        let (Some((key, version)), Some(entry)) = (found.get(place), entries.get_mut(place)) else {
            continue;
        };
        match load(connection, key, *version) {
            Ok(loaded) => *entry = Some(loaded),
            Err(Error::Damaged(what)) => damaged.push(*what),
            Err(error) => return Err(error),
        }
    }
    damaged.sort_by(|a, b| a.key.cmp(&b.key));
    Ok((entries.into_iter().flatten().collect(), damaged))
}
