//! A store that is made of what somebody brings: an import, or a backup.
//!
//! It is made under another name, and gets its own when it is whole. What is interrupted on the way is no
//! store: a server refuses the directory rather than begin empty there, and the next attempt begins anew.

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

/// A store in the making.
#[derive(Debug)]
pub(crate) struct NewStore {
    directory: Directory,
    connection: Connection,
    last: u64,
}

impl NewStore {
    /// Begins one in a directory that holds none. All its revisions are after `after`.
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
        // The log would grow to the size of the store.
        carry_over(&self.connection)
    }

    /// Makes it a store. Returns its revision.
    pub(crate) fn finish(mut self) -> Result<Revision> {
        // Also of a store without keys: the newest record tells the revision.
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

/// Takes a directory without a store, and makes the file there that becomes one with [`complete`].
pub(super) fn begin_file(directory: &Path) -> Result<(Directory, Connection)> {
    let directory = Directory::open_empty(directory)?;
    let partial = directory.partial();
    let made = private::create_new(&partial);
    made.map_err(|e| Error::Invalid(format!("cannot write {partial:?}: {e}")))?;
    let connection = connect(&partial)?;
    Ok((directory, connection))
}

/// Gives a store that is whole its name. It is at `revision`.
pub(super) fn complete(directory: &Directory, connection: Connection, revision: u64) -> Result<()> {
    carry_over(&connection)?;
    connection.close().map_err(|(_, error)| sqlite(error))?;
    directory.complete(revision)
}

/// Carries the log over into the file, all of it.
pub(super) fn carry_over(connection: &Connection) -> Result<()> {
    let checkpoint = connection.wal_checkpoint_v2(None::<&str>, CheckpointMode::TRUNCATE);
    checkpoint.map(|_| ()).map_err(sqlite)
}

/// Writes a record, its entry in the index, and when it expires.
pub(super) fn insert(connection: &Connection, record: &Record) -> rusqlite::Result<()> {
    record.insert(connection)?;
    index_record(connection, record)
}

/// Writes a record's entry in the index, and when it expires.
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

/// The record that tells the revision of a store where no other does.
pub(super) fn revision_mark(revision: u64) -> Record {
    let key = Bytes::from_static(REVISION_MARK);
    Record { revision, key, created: 0, previous: 0, expires: 0, value: None }
}

/// Notes that nothing before `revision`, which is the last, can be read, and that nothing is left to remove.
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
