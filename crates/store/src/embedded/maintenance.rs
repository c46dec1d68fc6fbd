//! Backup, restore and check.

use std::{fs, io, ops::ControlFlow, path::Path};

use rusqlite::{
    Connection,
    backup::{Backup, StepResult},
};

use super::{
    database::{DATABASE_FILE, Database, Directory, Meta, connect, reader, snapshot, sqlite},
    index::{self, KeyRange},
    record::{Record, select_records},
    unindexed,
};
use crate::{Error, Result, Revision, private};

/// What [`check`] read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckReport {
    /// The revision of the store.
    pub revision: Revision,
    /// The oldest revision that can be read.
    pub compacted: Revision,
    /// Keys that exist.
    pub keys: u64,
    /// Records read, of the present and of the past.
    pub records: u64,
}

/// Copies `database` into the new file `target`, in one snapshot: writes go on meanwhile.
pub(super) fn backup(database: &Database, target: &Path) -> Result<Revision> {
    let report = new_copy(target, || database.with_source(|source| copy(source, target)))?;
    Ok(report.revision)
}

/// Copies the store in `directory` into the new file `target`, whether a server has it open or not.
pub fn backup_directory(directory: &Path, target: &Path) -> Result<CheckReport> {
    let database = directory.join(DATABASE_FILE);
    if !database.exists() {
        return Err(Error::Invalid(format!("there is no store in {directory:?}")));
    }
    new_copy(target, || copy(&reader(&database)?, target))
}

/// Makes a file that was not there, and checks it. What is not whole does not stay.
fn new_copy(target: &Path, copy: impl FnOnce() -> Result<()>) -> Result<CheckReport> {
    let made = private::create_new(target);
    made.map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => Error::Invalid(format!("{target:?} exists already")),
        _ => Error::Invalid(format!("cannot write {target:?}: {error}")),
    })?;
    let synced = || {
        let synced = private::sync_dir(private::parent_of(target));
        synced.map_err(|e| Error::Unavailable(format!("cannot sync {target:?}: {e}")))
    };
    let checked = copy().and_then(|()| check_file(target)).and_then(|r| synced().map(|()| r));
    if checked.is_err() {
        let _ = fs::remove_file(target);
    }
    checked
}

/// Makes a data directory out of a backup. `directory` must be empty or not exist.
pub fn restore(backup: &Path, directory: &Path) -> Result<CheckReport> {
    let report = check_file(backup)?;
    let occupied = fs::read_dir(directory).is_ok_and(|mut entries| entries.next().is_some());
    if occupied {
        return Err(Error::Invalid(format!("{directory:?} is not empty")));
    }
    let target = Directory::open(directory)?;
    copy(&reader(backup)?, &target.database())?;
    target.note_head(report.revision.0);
    target.sync()?;
    Ok(report)
}

/// Reads and verifies everything in a data directory that is not in use: the file's structure, every
/// record, that no revision is missing, and that index and records agree.
pub fn check(directory: &Path) -> Result<CheckReport> {
    if !directory.join(DATABASE_FILE).exists() {
        return Err(Error::Invalid(format!("there is no store in {directory:?}")));
    }
    let directory = Directory::open(directory)?;
    let report = check_file(&directory.database())?;
    if directory.noted_head() > report.revision.0 {
        return Err(Error::Corrupt(format!(
            "revisions {} to {} were acknowledged and are missing",
            report.revision.next(),
            directory.noted_head()
        )));
    }
    Ok(report)
}

fn copy(source: &Connection, target: &Path) -> Result<()> {
    let mut target = connect(target)?;
    let backup = Backup::new(source, &mut target).map_err(sqlite)?;
    // All pages in one step: in several, every write in between would start it over.
    match backup.step(-1).map_err(sqlite)? {
        StepResult::Done => Ok(()),
        _ => Err(Error::Unavailable("the database is busy".into())),
    }
}

fn check_file(file: &Path) -> Result<CheckReport> {
    if !file.exists() {
        return Err(Error::Invalid(format!("there is no file {file:?}")));
    }
    snapshot(&reader(file)?, |connection| {
        check_structure(connection)?;
        let compacted = Meta::Compacted.read(connection)?;
        let recent = unindexed(connection)?;
        let records = check_records(connection, compacted, recent.last)?;
        check_index(connection)?;
        let all = KeyRange::new(b"", None);
        let (mut keys, mut outcome) = (0, Ok(()));
        index::scan(connection, recent.within(&all), &all, recent.last, |_, version| {
            keys += 1;
            outcome = check_present(connection, version.revision);
            if outcome.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        })?;
        outcome?;
        let (revision, compacted) = (Revision(recent.last), Revision(compacted));
        Ok(CheckReport { revision, compacted, keys, records })
    })
}

fn check_structure(connection: &Connection) -> Result<()> {
    let verdict: String =
        connection.query_row("PRAGMA integrity_check(1)", [], |row| row.get(0)).map_err(sqlite)?;
    if verdict == "ok" { Ok(()) } else { Err(Error::Corrupt(verdict)) }
}

/// Every record is as it was written, none is missing since the compaction, and each that replaced
/// another can still tell what it replaced.
fn check_records(connection: &Connection, compacted: u64, last: u64) -> Result<u64> {
    let mut statement =
        connection.prepare(select_records!("true ORDER BY revision")).map_err(sqlite)?;
    let mut rows = statement.query([]).map_err(sqlite)?;
    let (mut count, mut next) = (0, compacted.max(Revision::INITIAL.0) + 1);
    while let Some(row) = rows.next().map_err(sqlite)? {
        let record = Record::from_row(row)?;
        count += 1;
        if record.revision <= compacted {
            continue;
        }
        if record.revision != next {
            return Err(Error::Corrupt(format!("the record of revision {next} is missing")));
        }
        next += 1;
        if record.previous != 0 && Record::load(connection, record.previous)?.key != record.key {
            return Err(Error::Corrupt(format!(
                "the record of revision {} follows one of another key",
                record.revision
            )));
        }
    }
    if next <= last {
        return Err(Error::Corrupt(format!("the record of revision {next} is missing")));
    }
    Ok(count)
}

/// The index has one entry for each record that it has followed, and each agrees with its record.
fn check_index(connection: &Connection) -> Result<()> {
    let mut statement =
        connection.prepare("SELECT key, revision, created, checksum FROM keys").map_err(sqlite)?;
    let mut rows = statement.query([]).map_err(sqlite)?;
    let indexed = Meta::Indexed.read(connection)?;
    let mut followed = 0i64;
    while let Some(row) = rows.next().map_err(sqlite)? {
        let (key, version) = index::version_of(row)?;
        let record = Record::load(connection, version.revision)?;
        if record.key != key || record.created != version.created {
            return Err(Error::Corrupt(format!(
                "the index and the record of revision {} disagree",
                version.revision
            )));
        }
        followed += i64::from(version.revision <= indexed);
    }
    let records: i64 = connection
        .query_row(
            "SELECT count(*) FROM history WHERE revision <= ?1",
            [indexed.cast_signed()],
            |row| row.get(0),
        )
        .map_err(sqlite)?;
    match records == followed {
        true => Ok(()),
        false => {
            Err(Error::Corrupt(format!("the index has {followed} entries for {records} records")))
        }
    }
}

/// A key that exists has its record, and if it is to expire, that is noted.
fn check_present(connection: &Connection, revision: u64) -> Result<()> {
    let record = Record::load(connection, revision)?;
    if record.expires == 0 {
        return Ok(());
    }
    let noted = connection
        .prepare_cached("SELECT 1 FROM expiring WHERE expires = ?1 AND revision = ?2")
        .and_then(|mut s| s.exists((record.expires.cast_signed(), revision.cast_signed())))
        .map_err(sqlite)?;
    match noted {
        true => Ok(()),
        false => Err(Error::Corrupt(format!("revision {revision} would never expire"))),
    }
}
