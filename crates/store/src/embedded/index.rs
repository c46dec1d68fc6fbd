//! Index from a key to its revisions.
//!
//! Keys arrive in no order, so keeping the `keys` table current would touch one page for each write of a batch. Instead
//! the newest versions wait in memory and are folded into the table in order of key, a few with each batch, which
//! touches each page once for many writes. On opening, the history is read again from `meta.indexed` on.

use std::{
    collections::BTreeMap,
    ops::{Bound, ControlFlow},
    sync::Arc,
};

use bytes::Bytes;
use rusqlite::{Connection, Row, Rows};

use super::{
    database::sqlite,
    record::{Record, checksum_of},
};
use crate::{Damaged, Error, Result, Revision, prefix_end};

/// Number of versions at which a fold begins. Opening reads at most two such generations.
const GENERATION: usize = 4096;

/// Key and revision of a version, with the revision that created the key (0: this version deleted it).
pub(super) type Versions = BTreeMap<(Bytes, u64), u64>;

/// Versions that the `keys` table may not have yet.
#[derive(Debug, Default)]
pub(super) struct Recent {
    /// The store's last revision.
    pub(super) last: u64,
    active: Versions,
    /// The generation that is being folded: partly in the table, and here until all of it is.
    frozen: Arc<Versions>,
}

impl Recent {
    pub(super) fn new(last: u64) -> Recent {
        Recent { last, ..Recent::default() }
    }

    pub(super) fn insert(&mut self, record: &Record) {
        self.active.insert((record.key.clone(), record.revision), record.created);
        self.last = record.revision;
    }

    /// Number of versions since the last generation was frozen.
    pub(super) fn gathered(&self) -> usize {
        self.active.len()
    }

    pub(super) fn is_generation(&self) -> bool {
        self.active.len() >= GENERATION
    }

    /// Begins a fold of the active versions. The previous generation must have been dropped.
    pub(super) fn freeze(&mut self) -> Arc<Versions> {
        self.frozen = Arc::new(std::mem::take(&mut self.active));
        self.frozen.clone()
    }

    /// Drops the folded generation.
    pub(super) fn forget(&mut self) {
        self.frozen = Arc::default();
    }

    /// Version of `key` at `revision`, if it is among the recent ones.
    pub(super) fn find(&self, key: &Bytes, revision: u64) -> Option<Version> {
        [&self.active, &*self.frozen].into_iter().find_map(|versions| {
            let mut older = versions.range((key.clone(), 0)..=(key.clone(), revision));
            let ((_, revision), created) = older.next_back()?;
            Some(Version { revision: *revision, created: *created })
        })
    }

    /// All recent versions of the keys in `range`, in order of key.
    pub(super) fn within(&self, range: &KeyRange) -> Vec<(Bytes, Version)> {
        let mut found = Vec::new();
        for versions in [&self.active, &*self.frozen] {
            let from =
                versions.range((Bound::Included((range.start.clone(), 0)), Bound::Unbounded));
            let inside = from.take_while(|((key, _), _)| range.is_before_end(key));
            found.extend(inside.map(|((key, revision), created)| {
                (key.clone(), Version { revision: *revision, created: *created })
            }));
        }
        found.sort_unstable_by(|a, b| a.0.cmp(&b.0));
        found
    }
}

/// A revision at which a key was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Version {
    pub(super) revision: u64,
    /// Revision that created the key; 0 if this version is its deletion.
    pub(super) created: u64,
}

impl Version {
    fn checksum(self, key: &[u8]) -> i64 {
        checksum_of(key, &[self.revision, self.created])
    }

    /// Record of this version of `key`. An error about it concerns this key alone.
    pub(super) fn record(self, connection: &Connection, key: &Bytes) -> Result<Record> {
        let revision = self.revision;
        match Record::load(connection, revision) {
            Ok(record) if record.key == key && record.created == self.created => Ok(record),
            Ok(_) => {
                let why = format!("the index and the record of revision {revision} disagree");
                Err(damaged(key, revision, why))
            }
            Err(Error::Corrupt(why)) => Err(damaged(key, revision, why)),
            Err(error) => Err(error),
        }
    }
}

/// Error about a key whose record cannot be read.
pub(super) fn damaged(key: &Bytes, revision: u64, why: String) -> Error {
    Error::Damaged(Box::new(Damaged {
        key: key.clone(),
        revision: Revision(revision),
        why,
        sealed: false,
    }))
}

/// Keys from `start` on, before `end`.
#[derive(Debug, Clone)]
pub(super) struct KeyRange {
    start: Bytes,
    end: Option<Vec<u8>>,
}

impl KeyRange {
    /// The keys that begin with `prefix` and come after `after`.
    pub(super) fn new(prefix: &[u8], after: Option<&[u8]>) -> KeyRange {
        let start = match after {
            // The closest key after `after`.
            Some(after) if after >= prefix => [after, &[0]].concat(),
            _ => prefix.to_vec(),
        };
        KeyRange { start: start.into(), end: prefix_end(prefix) }
    }

    fn is_before_end(&self, key: &[u8]) -> bool {
        self.end.as_deref().is_none_or(|end| key < end)
    }
}

/// Writes a version into the table. Idempotent.
pub(super) fn fold(connection: &Connection, key: &[u8], version: Version) -> rusqlite::Result<()> {
    connection.prepare_cached("INSERT OR REPLACE INTO keys VALUES (?1, ?2, ?3, ?4)")?.execute((
        key,
        version.revision.cast_signed(),
        version.created.cast_signed(),
        version.checksum(key),
    ))?;
    Ok(())
}

/// Removes a version from the table.
pub(super) fn remove(connection: &Connection, key: &[u8], revision: u64) -> rusqlite::Result<()> {
    connection
        .prepare_cached("DELETE FROM keys WHERE key = ?1 AND revision = ?2")?
        .execute((key, revision.cast_signed()))?;
    Ok(())
}

/// Version of `key` at `revision` in the table.
pub(super) fn find(connection: &Connection, key: &[u8], revision: u64) -> Result<Option<Version>> {
    let mut statement = connection
        .prepare_cached(
            "SELECT key, revision, created, checksum FROM keys
             WHERE key = ?1 AND revision <= ?2 ORDER BY revision DESC LIMIT 1",
        )
        .map_err(sqlite)?;
    let mut rows = statement.query((key, revision.cast_signed())).map_err(sqlite)?;
    match rows.next().map_err(sqlite)? {
        Some(row) => Ok(Some(version_of(row)?.1)),
        None => Ok(None),
    }
}

/// Calls `visit` with each key of `range` that existed at `revision`, in order, and its version at that revision.
/// `recent` is the result of [`Recent::within`] from before the connection's snapshot began.
pub(super) fn scan(
    connection: &Connection,
    recent: Vec<(Bytes, Version)>,
    range: &KeyRange,
    revision: u64,
    mut visit: impl FnMut(&[u8], Version) -> ControlFlow<()>,
) -> Result<()> {
    const BOUNDED: &str = "SELECT key, revision, created, checksum FROM keys
        WHERE key >= ?1 AND key < ?2 ORDER BY key, revision DESC";
    const UNBOUNDED: &str = "SELECT key, revision, created, checksum FROM keys
        WHERE key >= ?1 ORDER BY key, revision DESC";
    let sql = if range.end.is_some() { BOUNDED } else { UNBOUNDED };
    let mut statement = connection.prepare_cached(sql).map_err(sqlite)?;
    let rows = match &range.end {
        Some(end) => statement.query((&range.start[..], &end[..])),
        None => statement.query([&range.start[..]]),
    };
    let mut table = Cursor::new(rows.map_err(sqlite)?)?;
    let mut recent = recent.into_iter().peekable();
    let mut key = Vec::new();
    loop {
        key.clear();
        match (table.key(), recent.peek()) {
            (None, None) => return Ok(()),
            (Some(stored), None) => key.extend_from_slice(stored),
            (None, Some((waiting, _))) => key.extend_from_slice(waiting),
            (Some(stored), Some((waiting, _))) => key.extend_from_slice(stored.min(waiting)),
        }
        let mut newest: Option<Version> = None;
        let mut consider = |version: Version| {
            if version.revision <= revision && newest.is_none_or(|n| n.revision < version.revision)
            {
                newest = Some(version);
            }
        };
        while table.key() == Some(&key) {
            consider(table.version);
            table.advance()?;
        }
        while let Some((_, version)) = recent.next_if(|(waiting, _)| waiting == &key) {
            consider(version);
        }
        if let Some(version) = newest.filter(|version| version.created != 0)
            && visit(&key, version).is_break()
        {
            return Ok(());
        }
    }
}

/// Cursor over rows of `keys` with access to the present row.
struct Cursor<'a> {
    rows: Rows<'a>,
    at_end: bool,
    key: Vec<u8>,
    version: Version,
}

impl<'a> Cursor<'a> {
    fn new(rows: Rows<'a>) -> Result<Cursor<'a>> {
        let version = Version { revision: 0, created: 0 };
        let mut cursor = Cursor { rows, at_end: false, key: Vec::new(), version };
        cursor.advance()?;
        Ok(cursor)
    }

    fn key(&self) -> Option<&[u8]> {
        (!self.at_end).then_some(&self.key)
    }

    fn advance(&mut self) -> Result<()> {
        match self.rows.next().map_err(sqlite)? {
            None => self.at_end = true,
            Some(row) => {
                let (key, version) = version_of(row)?;
                self.key.clear();
                self.key.extend_from_slice(key);
                self.version = version;
            }
        }
        Ok(())
    }
}

/// Reads and verifies a row of key, revision, created, checksum.
pub(super) fn version_of<'a>(row: &'a Row<'_>) -> Result<(&'a [u8], Version)> {
    let corrupt = || Error::Corrupt("an entry of the key index".into());
    let key = row.get_ref(0).map_err(sqlite)?.as_blob().map_err(|_| corrupt())?;
    let number = |column| {
        let value: i64 = row.get(column).map_err(sqlite)?;
        u64::try_from(value).map_err(|_| corrupt())
    };
    let version = Version { revision: number(1)?, created: number(2)? };
    if row.get::<_, i64>(3).map_err(sqlite)? != version.checksum(key) {
        return Err(corrupt());
    }
    Ok((key, version))
}
