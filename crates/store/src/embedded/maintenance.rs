//! Backup and restore.

use std::{fs, io, path::Path};

use rusqlite::{
    Connection,
    backup::{Backup, StepResult},
};

use super::{
    check::{ANY, CheckReport, check_file},
    database::{DATABASE_FILE, Database, Directory, connect, reader, sqlite},
};
use crate::{Error, Result, Revision, private};

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

/// Makes a file that was not there, and checks it. What is no store does not stay; what is damaged in
/// the store is so in its copy, and in the report.
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
    let checked = copy().and_then(|()| check_file(target, ANY)).and_then(|r| synced().map(|()| r));
    if checked.is_err() {
        let _ = fs::remove_file(target);
    }
    checked
}

/// Makes a data directory out of a backup. `directory` must be empty or not exist.
pub fn restore(backup: &Path, directory: &Path) -> Result<CheckReport> {
    let report = check_file(backup, ANY)?;
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

fn copy(source: &Connection, target: &Path) -> Result<()> {
    let mut target = connect(target)?;
    let backup = Backup::new(source, &mut target).map_err(sqlite)?;
    // All pages in one step: in several, every write in between would start it over.
    match backup.step(-1).map_err(sqlite)? {
        StepResult::Done => Ok(()),
        _ => Err(Error::Unavailable("the database is busy".into())),
    }
}
