//! A new store made by an import or a restore.
//!
//! The database is made under another name and renamed when it is complete. After an interruption a server refuses the
//! directory rather than start empty there, and the next attempt starts over.

use std::path::Path;

use bytes::Bytes;
use kevel_clock::Clock;
use rusqlite::{Connection, wal::CheckpointMode};

use super::{
    check::REVISION_MARK,
    clock::{expiry, wall_millis},
    database::{Meta, WRITER_CACHE_KIB, connect, prepare, sqlite},
    directory::Directory,
    index::{self, Version},
    record::Record,
};
use crate::{Error, Result, Revision, migrate::Item, private};

/// An incomplete store.
#[derive(Debug)]
pub(crate) struct NewStore {
    directory: Directory,
    connection: Connection,
    last: u64,
}

impl NewStore {
    /// Begins a store in a directory that has none. All its revisions are after `after`.
    pub(crate) fn begin(directory: &Path, after: Revision) -> Result<NewStore> {
        let (directory, mut connection) = begin_file(directory)?;
        prepare(&mut connection, WRITER_CACHE_KIB)?;
        Ok(NewStore { directory, connection, last: after.0 })
    }

    /// Writes keys, which come in order.
    pub(crate) fn put(&mut self, items: &[Item]) -> Result<()> {
        let transaction = self.connection.transaction().map_err(sqlite)?;
        let (mut last, now) = (self.last, wall_millis(&Clock::system()));
        for item in items {
            last += 1;
            let expires = item.ttl.map_or(0, |ttl| expiry(now, ttl));
            let (key, value) = (item.key.clone(), Some(item.value.clone()));
            let record = Record { revision: last, key, created: last, previous: 0, expires, value };
            insert(&transaction, &record).map_err(sqlite)?;
        }
        transaction.commit().map_err(sqlite)?;
        self.last = last;
        // Otherwise the log would grow to the size of the store.
        carry_over(&self.connection)
    }

    /// Completes the store. Returns its revision.
    pub(crate) fn finish(mut self) -> Result<Revision> {
        // Needed for a store without keys too: the newest record holds the revision.
        self.last += 1;
        let transaction = self.connection.transaction().map_err(sqlite)?;
        insert(&transaction, &revision_mark(self.last)).map_err(sqlite)?;
        forget_past(&transaction, self.last).map_err(sqlite)?;
        Meta::Clock.write(&transaction, wall_millis(&Clock::system())).map_err(sqlite)?;
        transaction.commit().map_err(sqlite)?;
        let NewStore { directory, connection, last } = self;
        complete(&directory, connection, last)?;
        Ok(Revision(last))
    }
}

/// Locks a directory without a store, and creates the file that becomes its database with [`complete`].
pub(super) fn begin_file(directory: &Path) -> Result<(Directory, Connection)> {
    let directory = Directory::open_empty(directory)?;
    let partial = directory.partial();
    let made = private::create_new(&partial);
    made.map_err(|e| Error::Invalid(format!("cannot write {partial:?}: {e}")))?;
    let connection = connect(&partial)?;
    Ok((directory, connection))
}

/// Renames a complete database, which is at `revision`, to its final name.
pub(super) fn complete(directory: &Directory, connection: Connection, revision: u64) -> Result<()> {
    carry_over(&connection)?;
    connection.close().map_err(|(_, error)| sqlite(error))?;
    directory.complete(revision)
}

/// Copies the whole write-ahead log into the database file.
pub(super) fn carry_over(connection: &Connection) -> Result<()> {
    let checkpoint = connection.wal_checkpoint_v2(None::<&str>, CheckpointMode::TRUNCATE);
    checkpoint.map(|_| ()).map_err(sqlite)
}

/// Writes a record, its index entry and its expiry.
pub(super) fn insert(connection: &Connection, record: &Record) -> rusqlite::Result<()> {
    record.insert(connection)?;
    index_record(connection, record)
}

/// Writes a record's index entry and expiry.
pub(super) fn index_record(connection: &Connection, record: &Record) -> rusqlite::Result<()> {
    let version = Version { revision: record.revision, created: record.created };
    index::fold(connection, &record.key, version)?;
    if record.expires != 0 {
        connection
            .prepare_cached("INSERT INTO expiring VALUES (?1, ?2)")?
            .execute((record.expires.cast_signed(), record.revision.cast_signed()))?;
    }
    Ok(())
}

/// Record that only holds the store's revision.
pub(super) fn revision_mark(revision: u64) -> Record {
    let key = Bytes::from_static(REVISION_MARK);
    Record { revision, key, created: 0, previous: 0, expires: 0, value: None }
}

/// Records that everything before `revision`, the last one, is compacted and swept.
pub(super) fn forget_past(connection: &Connection, revision: u64) -> rusqlite::Result<()> {
    for (meta, value) in [
        (Meta::Compacted, revision),
        (Meta::Indexed, revision),
        (Meta::Swept, revision.saturating_sub(1)),
    ] {
        meta.write(connection, value)?;
    }
    Ok(())
}
