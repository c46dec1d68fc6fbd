//! Backup, restore and defragmentation.

use std::{fs, io, path::Path};

use rusqlite::{
    Connection,
    backup::{Backup, StepResult},
};

use super::{
    check::{ANY, CheckReport, check_file, move_on},
    database::{Database, WRITER_CACHE_KIB, connect, prepare, reader, sqlite},
    directory::{DATABASE_FILE, Directory},
    new_store::{begin_file, carry_over, complete},
};
use crate::progress::{MaintenanceProgress, Report, UNREPORTED};
use crate::{Error, Result, Revision, private};

/// Copies `database` into the new file `target`, in one snapshot: writes go on meanwhile.
pub(super) fn backup(database: &Database, target: &Path) -> Result<Revision> {
    let copy = || database.with_source(|source| copy(source, target));
    let report = new_copy(target, copy, UNREPORTED)?;
    Ok(report.revision)
}

/// Copies the store in `directory` into the new file `target`, whether a server has it open or not.
pub fn backup_directory(
    directory: &Path,
    target: &Path,
    report: Report<'_>,
) -> Result<CheckReport> {
    let database = directory.join(DATABASE_FILE);
    if !database.exists() {
        return Err(Error::Invalid(format!("there is no store in {directory:?}")));
    }
    report(MaintenanceProgress::Note(format!("copying {}", database.display())));
    new_copy(target, || copy(&reader(&database)?, target), report)
}

/// Creates a copy in a new file and checks it. A file that is no store is removed; damage in the store is also in its
/// copy, and in the report.
fn new_copy(
    target: &Path,
    copy: impl FnOnce() -> Result<()>,
    report: Report<'_>,
) -> Result<CheckReport> {
    let made = private::create_new(target);
    made.map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => Error::Invalid(format!("{target:?} exists already")),
        _ => Error::Invalid(format!("cannot write {target:?}: {error}")),
    })?;
    let synced = || {
        let synced = private::sync_dir(private::parent_of(target));
        synced.map_err(|e| Error::Unavailable(format!("cannot sync {target:?}: {e}")))
    };
    let checked =
        copy().and_then(|()| check_file(target, ANY, report)).and_then(|r| synced().map(|()| r));
    if checked.is_err() {
        let _ = fs::remove_file(target);
    }
    checked
}

/// Number of revisions that a restored store skips: more than any cluster writes between a backup and its restore.
/// Revisions that clients have seen since the backup are then compacted ones, instead of other writes.
pub const REVISIONS_SKIPPED: u64 = 1_000_000_000;

/// Makes a data directory from a backup. `directory` must be empty or not exist. The store continues at a revision that
/// no client has seen ([`REVISIONS_SKIPPED`]), and its history is compacted: clients start over.
///
/// A damaged backup is not restored unless `drop` is set, which leaves out the damaged keys; the report names them.
pub fn restore(
    backup: &Path,
    directory: &Path,
    drop: bool,
    report: Report<'_>,
) -> Result<CheckReport> {
    if !backup.exists() {
        return Err(Error::Invalid(format!("there is no file {backup:?}")));
    }
    let source = reader(backup)?;
    let (directory, mut connection) = begin_file(directory)?;
    report(MaintenanceProgress::Note(format!("copying {}", backup.display())));
    copy_into(&source, &mut connection)?;
    prepare(&mut connection, WRITER_CACHE_KIB)?;
    let report = move_on(&mut connection, REVISIONS_SKIPPED, drop, report)?;
    if report.damaged.is_empty() || drop {
        complete(&directory, connection, report.revision.0)?;
    } else {
        directory.clear()?;
    }
    Ok(report)
}

/// Returns the free space of a store that no server has open to the file system, and returns the size of its file.
/// Needs as much space again while it runs. The store never requires it: free space is reused.
pub fn defragment(directory: &Path) -> Result<u64> {
    let directory = Directory::open_existing(directory)?;
    let mut connection = connect(&directory.database())?;
    prepare(&mut connection, WRITER_CACHE_KIB)?;
    connection.execute_batch("PRAGMA cache_spill = ON; VACUUM").map_err(sqlite)?;
    carry_over(&connection)?;
    connection.close().map_err(|(_, error)| sqlite(error))?;
    let size = fs::metadata(directory.database()).map(|file| file.len());
    size.map_err(|e| Error::Unavailable(e.to_string()))
}

fn copy(source: &Connection, target: &Path) -> Result<()> {
    copy_into(source, &mut connect(target)?)
}

fn copy_into(source: &Connection, target: &mut Connection) -> Result<()> {
    let backup = Backup::new(source, target).map_err(sqlite)?;
    // All pages in one step: with several, every write in between would restart the copy.
    match backup.step(-1).map_err(sqlite)? {
        StepResult::Done => Ok(()),
        _ => Err(Error::Unavailable("the database is busy".into())),
    }
}
