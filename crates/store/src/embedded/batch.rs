//! The writes of one transaction.

use std::{
    collections::HashMap,
    sync::{PoisonError, RwLock},
    time::Duration,
};

use bytes::Bytes;
use rusqlite::Connection;

use super::{
    clock::StoreClock,
    database::{Meta, require_transaction},
    index::{self, Recent},
    queue::Operation,
    record::Record,
};
use crate::{Error, Event, Result, Revision};

/// Uncommitted writes of one transaction, on top of the committed ones.
pub(super) struct Batch<'a> {
    connection: &'a Connection,
    recent: &'a RwLock<Recent>,
    clock: &'a StoreClock,
    last: u64,
    records: Vec<Record>,
    events: Vec<Event>,
    /// Index in `records` of the newest record of a key.
    newest: HashMap<Bytes, usize>,
    earliest_expiry: Option<Option<u64>>,
}

impl<'a> Batch<'a> {
    pub(super) fn new(
        connection: &'a Connection,
        recent: &'a RwLock<Recent>,
        clock: &'a StoreClock,
        last: u64,
    ) -> Self {
        let (records, events, newest) = Default::default();
        Batch { connection, recent, clock, last, records, events, newest, earliest_expiry: None }
    }

    /// Carries out an operation. The inner error concerns this operation alone, which then changes nothing; the outer
    /// one means that the whole transaction cannot be committed.
    pub(super) fn apply(
        &mut self,
        key: &Bytes,
        operation: &Operation,
    ) -> rusqlite::Result<Result<Revision>> {
        let current = match self.current(key) {
            Ok(current) => current,
            Err(error) => {
                require_transaction(self.connection, &error)?;
                return Ok(Err(error));
            }
        };
        if let Err(error) = require(operation, current.as_ref()) {
            return Ok(Err(error));
        }
        let (value, ttl) = match operation {
            Operation::Create { value, ttl } | Operation::Update { value, ttl, .. } => {
                (Some(value.clone()), *ttl)
            }
            Operation::Delete { .. } => (None, None),
        };
        self.put(key, value, ttl, current).map(Ok)
    }

    /// Deletes up to `limit` keys that have expired at `now`.
    pub(super) fn expire(&mut self, now: u64, limit: usize) -> rusqlite::Result<()> {
        let due: Vec<(i64, i64)> = self
            .connection
            .prepare_cached(
                "SELECT expires, revision FROM expiring WHERE expires <= ?1 ORDER BY expires LIMIT ?2",
            )?
            .query_map((now.cast_signed(), limit as i64), |row| Ok((row.get(0)?, row.get(1)?)))?
            .collect::<rusqlite::Result<_>>()?;
        for (expires, revision) in due {
            self.forget_expiry(expires, revision)?;
            // A damaged record is skipped: its readers get the error, and the other keys expire.
            let record = match Record::load(self.connection, revision.cast_unsigned()) {
                Ok(record) => record,
                Err(error) => {
                    require_transaction(self.connection, &error)?;
                    continue;
                }
            };
            let key = record.key.clone();
            match self.current(&key) {
                // The row has no checksum of its own: it counts if it is that of the present record.
                Ok(Some(current))
                    if current == record && record.expires == expires.cast_unsigned() =>
                {
                    self.put(&key, None, None, Some(record))?;
                }
                Ok(_) => {}
                Err(error) => require_transaction(self.connection, &error)?,
            }
        }
        self.earliest_expiry = Some(None);
        Ok(())
    }

    /// Change of the earliest expiry: `Some(Some(t))` means `t` was added, `Some(None)` means look it up again.
    pub(super) fn earliest_expiry(&self) -> Option<Option<u64>> {
        self.earliest_expiry
    }

    /// Ends the batch: records the store's time if a key was given a time to live.
    pub(super) fn finish(self) -> rusqlite::Result<(Vec<Record>, Vec<Event>)> {
        if self.records.iter().any(|record| record.expires != 0) {
            Meta::Clock.write(self.connection, self.clock.now())?;
        }
        Ok((self.records, self.events))
    }

    /// Record of `key` if the key exists.
    fn current(&self, key: &Bytes) -> Result<Option<Record>> {
        if let Some(record) = self.newest.get(key).and_then(|&place| self.records.get(place)) {
            return Ok(Some(record.clone()).filter(|record| record.value.is_some()));
        }
        let recent = {
            let recent = self.recent.read().unwrap_or_else(PoisonError::into_inner);
            recent.find(key, u64::MAX)
        };
        let version = match recent {
            Some(version) => Some(version),
            None => index::find(self.connection, key, i64::MAX.cast_unsigned())?,
        };
        let Some(version) = version.filter(|version| version.created != 0) else { return Ok(None) };
        version.record(self.connection, key).map(Some)
    }

    fn put(
        &mut self,
        key: &Bytes,
        value: Option<Bytes>,
        ttl: Option<Duration>,
        current: Option<Record>,
    ) -> rusqlite::Result<Revision> {
        let revision = self.last + 1;
        let created = match (&value, &current) {
            (None, _) => 0,
            (Some(_), Some(current)) => current.created,
            (Some(_), None) => revision,
        };
        let expires = ttl.map_or(0, |ttl| self.clock.expiry(ttl));
        let previous = current.as_ref().map_or(0, |current| current.revision);
        let record = Record { revision, key: key.clone(), created, previous, expires, value };
        record.insert(self.connection)?;
        if let Some(current) = current.as_ref().filter(|current| current.expires != 0) {
            self.forget_expiry(current.expires.cast_signed(), current.revision.cast_signed())?;
        }
        if expires != 0 {
            self.connection
                .prepare_cached("INSERT INTO expiring VALUES (?1, ?2)")?
                .execute((expires.cast_signed(), revision.cast_signed()))?;
            let earliest = self.earliest_expiry.flatten().map_or(expires, |e| e.min(expires));
            self.earliest_expiry = Some(Some(earliest));
        }
        self.events.push(record.event(current.as_ref()));
        self.newest.insert(key.clone(), self.records.len());
        self.records.push(record);
        self.last = revision;
        Ok(Revision(revision))
    }

    fn forget_expiry(&self, expires: i64, revision: i64) -> rusqlite::Result<()> {
        self.connection
            .prepare_cached("DELETE FROM expiring WHERE expires = ?1 AND revision = ?2")?
            .execute((expires, revision))?;
        Ok(())
    }
}

/// Checks whether `operation` is allowed on a key whose record is `current`.
fn require(operation: &Operation, current: Option<&Record>) -> Result<()> {
    let entry = || current.and_then(Record::entry).map(Box::new);
    match (operation, entry()) {
        (Operation::Create { .. }, None) => Ok(()),
        (Operation::Create { .. }, Some(entry)) => Err(Error::Exists(entry)),
        (_, None) => Err(Error::NotFound),
        (Operation::Update { expected, .. } | Operation::Delete { expected }, Some(entry)) => {
            if entry.mod_revision == *expected {
                Ok(())
            } else {
                Err(Error::Conflict(entry))
            }
        }
    }
}
