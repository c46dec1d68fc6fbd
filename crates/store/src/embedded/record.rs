//! Record of one write: a row of the history, with a checksum.

use bytes::Bytes;
use rusqlite::{Connection, Row};

use super::database::sqlite;
use crate::{Entry, Error, Event, Result, Revision};

/// SQL that selects the columns of [`Record::from_row`].
macro_rules! select_records {
    ($condition:literal) => {
        concat!(
            "SELECT revision, key, created, previous, expires, checksum, value FROM history WHERE ",
            $condition
        )
    };
}
pub(super) use select_records;

/// Record of a write: the key's value since `revision`, or its deletion.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Record {
    pub(super) revision: u64,
    pub(super) key: Bytes,
    /// The revision that created the key; 0 in the record of a deletion.
    pub(super) created: u64,
    /// Revision of the superseded record; 0 when the key did not exist.
    pub(super) previous: u64,
    /// Expiry of the key, in milliseconds since 1970; 0 for none.
    pub(super) expires: u64,
    /// `None` in the record of a deletion.
    pub(super) value: Option<Bytes>,
}

impl Record {
    /// Reads and verifies the record of `revision`, which must exist.
    pub(super) fn load(connection: &Connection, revision: u64) -> Result<Record> {
        let mut statement =
            connection.prepare_cached(select_records!("revision = ?1")).map_err(sqlite)?;
        let mut rows = statement.query([revision.cast_signed()]).map_err(sqlite)?;
        match rows.next().map_err(sqlite)? {
            Some(row) => Record::from_row(row),
            None => Err(Error::Corrupt(format!("the record of revision {revision} is missing"))),
        }
    }

    /// Reads a row of [`select_records!`] and verifies its checksum.
    pub(super) fn from_row(row: &Row<'_>) -> Result<Record> {
        let number = |column| {
            let value: i64 = row.get(column).map_err(sqlite)?;
            u64::try_from(value).map_err(|_| Error::Corrupt(format!("negative number {value}")))
        };
        let bytes = |column| -> Result<Option<Bytes>> {
            let value = row.get_ref(column).map_err(sqlite)?;
            let blob = value.as_blob_or_null().map_err(|e| Error::Corrupt(e.to_string()))?;
            Ok(blob.map(Bytes::copy_from_slice))
        };
        let revision = number(0)?;
        let corrupt =
            || Error::Corrupt(format!("the record of revision {revision} is not what was written"));
        let record = Record {
            revision,
            key: bytes(1)?.ok_or_else(corrupt)?,
            created: number(2)?,
            previous: number(3)?,
            expires: number(4)?,
            value: bytes(6)?,
        };
        if row.get::<_, i64>(5).map_err(sqlite)? != record.checksum()
            || (record.created == 0) != record.value.is_none()
        {
            return Err(corrupt());
        }
        Ok(record)
    }

    pub(super) fn insert(&self, connection: &Connection) -> rusqlite::Result<()> {
        connection
            .prepare_cached("INSERT INTO history VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)")?
            .execute((
                self.revision.cast_signed(),
                &self.key[..],
                self.created.cast_signed(),
                self.previous.cast_signed(),
                self.expires.cast_signed(),
                self.checksum(),
                self.value.as_deref(),
            ))?;
        Ok(())
    }

    /// Entry of this record; `None` for a deletion.
    pub(super) fn entry(&self) -> Option<Entry> {
        Some(Entry {
            key: self.key.clone(),
            value: self.value.clone()?,
            create_revision: Revision(self.created),
            mod_revision: Revision(self.revision),
        })
    }

    /// Event of this write, given the superseded record.
    pub(super) fn event(&self, previous: Option<&Record>) -> Event {
        Event {
            key: self.key.clone(),
            revision: Revision(self.revision),
            current: self.entry(),
            previous: previous.and_then(Record::entry),
            unreadable: None,
        }
    }

    fn checksum(&self) -> i64 {
        let numbers = [self.revision, self.created, self.previous, self.expires];
        let head = checksum_of(&self.key, &numbers);
        let Some(value) = &self.value else { return head };
        i64::from(crc32c::crc32c_append(head as u32, value))
    }
}

/// Checksum of a key (or name) and the numbers stored with it.
pub(super) fn checksum_of(key: &[u8], numbers: &[u64]) -> i64 {
    let start = crc32c::crc32c(key);
    let sum = numbers.iter().fold(start, |sum, n| crc32c::crc32c_append(sum, &n.to_le_bytes()));
    i64::from(sum)
}
