//! Check and repair of a store that no process has open.

use std::{collections::BTreeMap, path::Path};

use bytes::Bytes;
use rusqlite::{Connection, Row};

use super::{
    database::{Meta, connect, reader, require_own_format, snapshot, sqlite},
    directory::Directory,
    index,
    new_store::{forget_past, index_record, insert, revision_mark},
    record::{Record, select_records},
};
use crate::progress::{MaintenanceProgress, REPORT_EVERY, Report, UNREPORTED};
use crate::{Damaged, Entry, Error, Result, Revision};

/// Result of [`check`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckReport {
    /// The revision of the store.
    pub revision: Revision,
    /// The oldest revision that can be read.
    pub compacted: Revision,
    /// Keys that exist and can be read.
    pub keys: u64,
    /// Records read, current and superseded.
    pub records: u64,
    /// Records that cannot be read or contradict each other.
    pub damaged: Vec<Damaged>,
}

/// Validates a value; the error describes the damage.
pub type Judge<'a> = &'a dyn Fn(&Entry) -> Result<(), String>;

/// Accepts every value.
pub(super) const ANY: Judge<'static> = &|_| Ok(());

/// Reads and verifies everything in a data directory that is not in use: the file's structure, every record, that no
/// revision is missing, and that index and records agree. Fails if no report is possible, as when the file is not a
/// database any more.
pub fn check(directory: &Path) -> Result<CheckReport> {
    check_values(directory, ANY, UNREPORTED)
}

/// Checks a data directory like [`check`], and validates the values of all keys with `judge`.
pub fn check_values(directory: &Path, judge: Judge<'_>, report: Report<'_>) -> Result<CheckReport> {
    let directory = Directory::open_existing(directory)?;
    let report = check_file(&directory.database(), judge, report)?;
    require_head(&directory, report.revision)?;
    Ok(report)
}

/// Drops the keys that [`check_values`] finds damaged, rebuilds the index and compacts the history: clients start over.
/// Returns the damage that was found.
pub fn drop_damaged(directory: &Path, judge: Judge<'_>, report: Report<'_>) -> Result<CheckReport> {
    let directory = Directory::open_existing(directory)?;
    let mut connection = connect(&directory.database())?;
    let transaction = connection.transaction().map_err(sqlite)?;
    let survey = Survey::of(&transaction, judge, report)?;
    require_head(&directory, Revision(survey.last))?;
    survey.rewrite(&transaction, survey.last)?;
    transaction.commit().map_err(sqlite)?;
    directory.sync()?;
    Ok(survey.report())
}

pub(super) fn check_file(file: &Path, judge: Judge<'_>, report: Report<'_>) -> Result<CheckReport> {
    if !file.exists() {
        return Err(Error::Invalid(format!("there is no file {file:?}")));
    }
    snapshot(&reader(file)?, |connection| Ok(Survey::of(connection, judge, report)?.report()))
}

fn require_head(directory: &Directory, revision: Revision) -> Result<()> {
    if directory.noted_head() <= revision.0 {
        return Ok(());
    }
    Err(Error::Corrupt(format!(
        "revisions {} to {} were acknowledged and are missing",
        revision.next(),
        directory.noted_head()
    )))
}

/// Contents of a store, as found by a check.
struct Survey {
    last: u64,
    compacted: u64,
    records: u64,
    /// The newest readable record of each key, without its value.
    newest: BTreeMap<Bytes, Record>,
    /// Damage by revision and key; revision 0 if unknown.
    damaged: BTreeMap<(u64, Bytes), String>,
}

impl Survey {
    fn of(connection: &Connection, judge: Judge<'_>, report: Report<'_>) -> Result<Survey> {
        report(MaintenanceProgress::Note("reading the whole file".to_owned()));
        check_structure(connection)?;
        require_own_format(connection)?;
        let newest: Option<i64> = connection
            .query_row("SELECT max(revision) FROM history", [], |row| row.get(0))
            .map_err(sqlite)?;
        let mut survey = Survey {
            last: newest.map_or(0, i64::cast_unsigned).max(Revision::INITIAL.0),
            compacted: Meta::Compacted.read(connection)?,
            records: 0,
            newest: BTreeMap::new(),
            damaged: BTreeMap::new(),
        };
        survey.read_history(connection, report)?;
        survey.read_index(connection)?;
        survey.read_present(connection, judge, report)?;
        Ok(survey)
    }

    fn report(self) -> CheckReport {
        let keys = self.kept().filter(|record| record.created != 0).count() as u64;
        let damaged = self.damaged.into_iter().map(|((revision, key), why)| Damaged {
            key,
            revision: Revision(revision),
            sealed: false,
            why,
        });
        CheckReport {
            revision: Revision(self.last),
            compacted: Revision(self.compacted),
            keys,
            records: self.records,
            damaged: damaged.collect(),
        }
    }

    fn note(&mut self, revision: u64, key: Bytes, why: impl Into<String>) {
        self.damaged.insert((revision, key), why.into());
    }

    fn is_damaged(&self, revision: u64) -> bool {
        let from = (revision, Bytes::new());
        self.damaged.range(from..).next().is_some_and(|((found, _), _)| *found == revision)
    }

    /// Checks that every record is as it was written, that none is missing since the compaction, and that the
    /// superseded record of each is still readable.
    fn read_history(&mut self, connection: &Connection, report: Report<'_>) -> Result<()> {
        let total = count_records(connection)?;
        let mut statement =
            connection.prepare(select_records!("true ORDER BY revision")).map_err(sqlite)?;
        let mut rows = statement.query([]).map_err(sqlite)?;
        let mut next = self.compacted.max(Revision::INITIAL.0) + 1;
        while let Some(row) = rows.next().map_err(sqlite)? {
            self.records += 1;
            if self.records.is_multiple_of(REPORT_EVERY) {
                let (verb, units, done) = ("checked", "records", self.records);
                report(MaintenanceProgress::Counted { verb, units, done, total });
            }
            let revision = row.get::<_, i64>(0).map_err(sqlite)?.cast_unsigned();
            if revision > next {
                self.note(next, Bytes::new(), missing(next, revision - 1));
            }
            next = next.max(revision + 1);
            let mut record = match Record::from_row(row) {
                Ok(record) => record,
                Err(error) => {
                    self.note(revision, blob(row, 1), reason(error));
                    continue;
                }
            };
            if revision > self.compacted && record.previous != 0 {
                match Record::load(connection, record.previous) {
                    Ok(previous) if previous.key != record.key => {
                        self.note(revision, record.key.clone(), "it follows one of another key");
                    }
                    // A record that exists is checked by itself.
                    Err(error) if !self.is_damaged(record.previous) => {
                        self.note(record.previous, record.key.clone(), reason(error));
                    }
                    _ => {}
                }
            }
            record.value = None;
            self.newest.insert(record.key.clone(), record);
        }
        Ok(())
    }

    /// Checks that the index has one entry for each record up to `Meta::Indexed`, and that each agrees with its record.
    fn read_index(&mut self, connection: &Connection) -> Result<()> {
        let mut statement = connection
            .prepare("SELECT key, revision, created, checksum FROM keys")
            .map_err(sqlite)?;
        let mut rows = statement.query([]).map_err(sqlite)?;
        let indexed = Meta::Indexed.read(connection)?;
        let mut followed = 0i64;
        while let Some(row) = rows.next().map_err(sqlite)? {
            match index::version_of(row) {
                Ok((key, version)) => {
                    followed += i64::from(version.revision <= indexed);
                    let key = Bytes::copy_from_slice(key);
                    if let Err(Error::Damaged(damaged)) = version.record(connection, &key) {
                        // Here the key is known for certain.
                        self.damaged.retain(|(revision, _), _| *revision != version.revision);
                        self.note(version.revision, key, damaged.why);
                    }
                }
                Err(error) => self.note(0, blob(row, 0), reason(error)),
            }
        }
        let records: i64 = connection
            .query_row(
                "SELECT count(*) FROM history WHERE revision <= ?1",
                [indexed.cast_signed()],
                |row| row.get(0),
            )
            .map_err(sqlite)?;
        if records != followed {
            let why = format!("the index has {followed} entries for {records} records");
            self.note(0, Bytes::new(), why);
        }
        Ok(())
    }

    /// Checks that the value of each existing key is valid, and that a key with a time to live is in `expiring`.
    fn read_present(
        &mut self,
        connection: &Connection,
        judge: Judge<'_>,
        report: Report<'_>,
    ) -> Result<()> {
        let present: Vec<(Bytes, u64)> =
            self.kept().filter(|r| r.created != 0).map(|r| (r.key.clone(), r.revision)).collect();
        let total = present.len() as u64;
        for (done, (key, revision)) in (0u64..).zip(present) {
            if done.is_multiple_of(REPORT_EVERY) {
                report(MaintenanceProgress::Counted {
                    verb: "checked",
                    units: "objects",
                    done,
                    total,
                });
            }
            let record = Record::load(connection, revision)?;
            if let Some(Err(why)) = record.entry().map(|entry| judge(&entry)) {
                self.note(revision, key.clone(), why);
            }
            if record.expires != 0 && !is_noted(connection, &record)? {
                self.note(revision, key, "it would never expire");
            }
        }
        Ok(())
    }

    /// The newest records of the undamaged keys. A key is damaged if a record newer than its newest readable one is.
    fn kept(&self) -> impl Iterator<Item = &Record> {
        let mut damaged: BTreeMap<&Bytes, u64> = BTreeMap::new();
        for (revision, key) in self.damaged.keys().filter(|(revision, _)| *revision != 0) {
            damaged.insert(key, *revision);
        }
        let readable = move |record: &&Record| {
            damaged.get(&record.key).is_none_or(|revision| *revision < record.revision)
        };
        self.newest.values().filter(readable)
    }

    /// Keeps only the undamaged keys, as if everything else had been compacted, at `revision`: the store's own or a
    /// later one.
    fn rewrite(&self, connection: &Connection, revision: u64) -> Result<()> {
        // The deleted part may be most of the store: dirty pages must not all stay in memory.
        connection.execute_batch("PRAGMA cache_spill = ON").map_err(sqlite)?;
        let kept: BTreeMap<u64, &Record> =
            self.kept().filter(|r| r.created != 0).map(|r| (r.revision, r)).collect();
        self.write_kept(connection, &kept, revision).map_err(sqlite)
    }

    fn write_kept(
        &self,
        connection: &Connection,
        kept: &BTreeMap<u64, &Record>,
        revision: u64,
    ) -> rusqlite::Result<()> {
        connection.execute_batch(
            "CREATE TEMP TABLE kept (revision INTEGER PRIMARY KEY);
             DELETE FROM keys; DELETE FROM expiring;",
        )?;
        let mut keep = connection.prepare("INSERT INTO temp.kept VALUES (?1)")?;
        for (revision, record) in kept {
            keep.execute([revision.cast_signed()])?;
            index_record(connection, record)?;
        }
        drop(keep);
        connection.execute_batch(
            "DELETE FROM history WHERE revision NOT IN (SELECT revision FROM temp.kept);
             DROP TABLE temp.kept;",
        )?;
        if revision > Revision::INITIAL.0 && !kept.contains_key(&revision) {
            insert(connection, &revision_mark(revision))?;
        }
        forget_past(connection, revision)
    }
}

/// Key of the record that only holds the store's revision.
pub(super) const REVISION_MARK: &[u8] = b"dropped";

/// Moves a store to a later revision and compacts its history. Damaged keys are dropped with `drop`; without it nothing
/// is changed if there are any.
pub(super) fn move_on(
    connection: &mut Connection,
    by: u64,
    drop: bool,
    report: Report<'_>,
) -> Result<CheckReport> {
    let transaction = connection.transaction().map_err(sqlite)?;
    let mut survey = Survey::of(&transaction, ANY, report)?;
    if survey.damaged.is_empty() || drop {
        let revision = survey.last.saturating_add(by);
        survey.rewrite(&transaction, revision)?;
        transaction.commit().map_err(sqlite)?;
        (survey.last, survey.compacted) = (revision, revision);
    }
    Ok(survey.report())
}

/// Records of the history, current and superseded.
fn count_records(connection: &Connection) -> Result<u64> {
    let count =
        connection.query_row("SELECT count(*) FROM history", [], |row| row.get::<_, i64>(0));
    count.map(i64::cast_unsigned).map_err(sqlite)
}

fn check_structure(connection: &Connection) -> Result<()> {
    let verdict: String =
        connection.query_row("PRAGMA integrity_check(1)", [], |row| row.get(0)).map_err(sqlite)?;
    if verdict == "ok" { Ok(()) } else { Err(Error::Corrupt(verdict)) }
}

fn is_noted(connection: &Connection, record: &Record) -> Result<bool> {
    connection
        .prepare_cached("SELECT 1 FROM expiring WHERE expires = ?1 AND revision = ?2")
        .and_then(|mut s| s.exists((record.expires.cast_signed(), record.revision.cast_signed())))
        .map_err(sqlite)
}

fn missing(first: u64, last: u64) -> String {
    match first == last {
        true => "its record is missing".to_owned(),
        false => format!("the records of revisions {first} to {last} are missing"),
    }
}

/// Value of a column, empty if it cannot be read.
fn blob(row: &Row<'_>, column: usize) -> Bytes {
    let value = row.get_ref(column).ok();
    let blob = value.and_then(|value| value.as_blob().ok().map(Bytes::copy_from_slice));
    blob.unwrap_or_default()
}

fn reason(error: Error) -> String {
    match error {
        Error::Corrupt(why) => why,
        error => error.to_string(),
    }
}
