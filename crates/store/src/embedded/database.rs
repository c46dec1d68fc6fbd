//! The SQLite files of a data directory: connections and schema.

use std::{
    collections::BTreeSet,
    path::Path,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use rusqlite::{Connection, ErrorCode, OpenFlags, OptionalExtension, config::DbConfig, hooks::Wal};

use super::{Durability, directory::Directory, record::checksum_of};
use crate::{Error, Result, private};

/// "KEVL": lets `file` and an operator identify the database.
const APPLICATION_ID: i32 = 0x4b45_564c;
const SCHEMA_VERSION: i32 = 1;
/// Large pages hold several objects each, so a batch of writes touches few of them.
const PAGE_BYTES: u32 = 16 * 1024;
/// Holds the index of about 100,000 keys.
pub(super) const WRITER_CACHE_KIB: i32 = 16 * 1024;
const READER_CACHE_KIB: i32 = 1024;
/// Size to which a larger write-ahead log is truncated when it is reset.
const LOG_FILE_BYTES: u32 = 64 << 20;
/// Connections wait for each other only in rare moments such as a recovery.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);
/// Maximum number of concurrent readers; each has a connection of its own.
pub(super) const READERS: usize = 4;

/// `history` is the log of all writes, in order of revision; a write only appends to it. `keys` is the index from a key
/// to its revisions and lags behind the log (`meta.indexed`); the versions in between are in memory. A `created` of 0
/// marks a deletion, and so does a missing value.
const SCHEMA: &str = "
CREATE TABLE history (
    revision INTEGER PRIMARY KEY,
    key      BLOB    NOT NULL,
    created  INTEGER NOT NULL,
    previous INTEGER NOT NULL,
    expires  INTEGER NOT NULL,
    checksum INTEGER NOT NULL,
    value    BLOB
);
CREATE TABLE keys (
    key      BLOB    NOT NULL,
    revision INTEGER NOT NULL,
    created  INTEGER NOT NULL,
    checksum INTEGER NOT NULL,
    PRIMARY KEY (key, revision DESC)
) WITHOUT ROWID;
CREATE TABLE expiring (
    expires  INTEGER NOT NULL,
    revision INTEGER NOT NULL,
    PRIMARY KEY (expires, revision)
) WITHOUT ROWID;
CREATE TABLE meta (
    name     TEXT    PRIMARY KEY,
    value    INTEGER NOT NULL,
    checksum INTEGER NOT NULL
) WITHOUT ROWID;
";

/// The data and the connections to it.
#[derive(Debug)]
pub(super) struct Database {
    /// The writing connection. In memory there is no other, and readers share it.
    writer: Mutex<Connection>,
    directory: Option<Directory>,
    idle_readers: Mutex<Vec<Connection>>,
    log_pages: Arc<AtomicUsize>,
    closed: AtomicBool,
}

impl Database {
    /// Opens or creates the database in the directory `path`.
    pub(super) fn open(path: &Path, durability: Durability) -> Result<Database> {
        let directory = Directory::open_with(path, durability)?;
        let connection = connect(&directory.database())?;
        let database = Database::new(connection, Some(directory))?;
        // The write-ahead log exists by now. SQLite makes its directory entry durable with the first sync of the log,
        // but ignores a failure: a power loss would then remove the log, and every acknowledged write with it.
        if durability == Durability::Disk
            && let Err(error) = private::sync_dir(path)
        {
            return Err(Error::Unavailable(format!("cannot sync {path:?}: {error}")));
        }
        Ok(database)
    }

    /// A new, empty database in memory.
    pub(super) fn memory() -> Result<Database> {
        Database::new(Connection::open_in_memory().map_err(sqlite)?, None)
    }

    fn new(mut connection: Connection, directory: Option<Directory>) -> Result<Database> {
        let durability = directory.as_ref().map_or(Durability::Disk, Directory::durability);
        prepare_with(&mut connection, WRITER_CACHE_KIB, durability)?;
        let log_pages = Arc::new(AtomicUsize::new(0));
        let pages = log_pages.clone();
        let note_pages = move |_: &mut Wal, count| {
            pages.store(usize::try_from(count).unwrap_or(0), Ordering::Relaxed);
            Ok(())
        };
        connection.wal_hook(Some(note_pages)).map_err(sqlite)?;
        let writer = Mutex::new(connection);
        let (idle_readers, closed) = Default::default();
        Ok(Database { writer, directory, idle_readers, log_pages, closed })
    }

    pub(super) fn directory(&self) -> Option<&Directory> {
        self.directory.as_ref()
    }

    /// Closes the files, so that they can be opened again.
    pub(super) fn close(&self) {
        self.closed.store(true, Ordering::Release);
        lock(&self.idle_readers).clear();
        let Some(directory) = &self.directory else { return };
        // A stand-in: replacing the connection closes it.
        if let Ok(stand_in) = Connection::open_in_memory() {
            *self.writer() = stand_in;
        }
        directory.unlock();
    }

    /// Pages in the write-ahead log after the last commit.
    pub(super) fn log_pages(&self) -> usize {
        self.log_pages.load(Ordering::Relaxed)
    }

    /// The writing connection.
    pub(super) fn writer(&self) -> MutexGuard<'_, Connection> {
        lock(&self.writer)
    }

    /// Runs `copy` on a connection for SQLite's backup API.
    pub(super) fn with_source<T>(&self, copy: impl FnOnce(&Connection) -> Result<T>) -> Result<T> {
        match &self.directory {
            Some(directory) => copy(&reader(&directory.database())?),
            None => copy(&self.writer()),
        }
    }

    /// Runs `read` on a connection, within one snapshot.
    pub(super) fn read<T>(&self, read: impl FnOnce(&Connection) -> Result<T>) -> Result<T> {
        if self.closed.load(Ordering::Acquire) {
            return Err(Error::closed());
        }
        let Some(directory) = &self.directory else {
            return snapshot(&self.writer(), read);
        };
        let idle = lock(&self.idle_readers).pop();
        let connection = match idle {
            Some(connection) => connection,
            None => reader(&directory.database())?,
        };
        let result = snapshot(&connection, read);
        let mut idle = lock(&self.idle_readers);
        // A connection that cannot end its transaction is dropped.
        let useful = connection.is_autocommit() && !self.closed.load(Ordering::Acquire);
        if useful && idle.len() < READERS {
            idle.push(connection);
        }
        result
    }
}

/// Opens a read-only connection to an existing database.
pub(super) fn reader(file: &Path) -> Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(file, flags).map_err(sqlite)?;
    configure(&connection, READER_CACHE_KIB, Durability::Disk)?;
    connection.pragma_update(None, "query_only", true).map_err(sqlite)?;
    Ok(connection)
}

/// Opens a connection for checkpoints.
pub(super) fn checkpointer(directory: &Directory) -> Result<Connection> {
    let connection = connect(&directory.database())?;
    configure(&connection, READER_CACHE_KIB, directory.durability())?;
    Ok(connection)
}

/// Opens a connection for writing, creating the file if it does not exist.
pub(super) fn connect(file: &Path) -> Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_CREATE
        | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    Connection::open_with_flags(file, flags).map_err(sqlite)
}

/// Creates the tables of a new database, or refuses one of another program.
pub(super) fn prepare(connection: &mut Connection, cache_kib: i32) -> Result<()> {
    prepare_with(connection, cache_kib, Durability::Disk)
}

fn prepare_with(connection: &mut Connection, cache_kib: i32, durability: Durability) -> Result<()> {
    // Only effective before the first table is created.
    connection.pragma_update(None, "page_size", PAGE_BYTES).map_err(sqlite)?;
    configure(connection, cache_kib, durability)?;
    match format(connection)? {
        (0, 0) => create_tables(connection),
        _ => require_own_format(connection),
    }
}

/// The program that a database belongs to, and the version of its format.
fn format(connection: &Connection) -> Result<(i32, i32)> {
    let pragma = |name| connection.pragma_query_value(None, name, |row| row.get(0));
    let application = pragma("application_id").map_err(sqlite)?;
    Ok((application, pragma("user_version").map_err(sqlite)?))
}

/// Refuses a database of another program, of another format than this version's, or with other tables.
pub(super) fn require_own_format(connection: &Connection) -> Result<()> {
    match format(connection)? {
        (APPLICATION_ID, SCHEMA_VERSION) => require_own_schema(connection),
        (APPLICATION_ID, newer) => Err(Error::Invalid(format!(
            "the data has format {newer}, this version understands {SCHEMA_VERSION}: start the version that wrote it, or a \
             newer one"
        ))),
        _ => Err(Error::Invalid("the database belongs to another program".into())),
    }
}

/// Refuses a database with other tables than a store's own. A foreign backup could contain a trigger, a view or an
/// expression of an index, which would run with the next statement.
fn require_own_schema(connection: &Connection) -> Result<()> {
    let mut statement = connection
        .prepare("SELECT type, name, coalesce(sql, '') FROM sqlite_schema")
        .map_err(sqlite)?;
    let found = statement
        .query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
        .and_then(Iterator::collect::<rusqlite::Result<Vec<(String, String, String)>>>)
        .map_err(sqlite)?;
    let own: BTreeSet<String> = statements(SCHEMA).collect();
    let mut missing = own.clone();
    for (kind, name, definition) in found {
        let definition = statements(&definition).next().unwrap_or_default();
        missing.remove(&definition);
        if !own.contains(&definition) {
            return Err(Error::Corrupt(format!(
                "the {kind} {name:?} of the database is not one that a store has"
            )));
        }
    }
    match missing.first() {
        None => Ok(()),
        Some(table) => Err(Error::Corrupt(format!("the database is without its table: {table}"))),
    }
}

/// Statements of an SQL text, with white space normalized.
fn statements(text: &str) -> impl Iterator<Item = String> {
    let words = |statement: &str| statement.split_whitespace().collect::<Vec<_>>().join(" ");
    text.split(';').map(words).filter(|statement| !statement.is_empty())
}

fn create_tables(connection: &mut Connection) -> Result<()> {
    let transaction = connection.transaction().map_err(sqlite)?;
    transaction.execute_batch(SCHEMA).map_err(sqlite)?;
    transaction.pragma_update(None, "application_id", APPLICATION_ID).map_err(sqlite)?;
    transaction.pragma_update(None, "user_version", SCHEMA_VERSION).map_err(sqlite)?;
    transaction.commit().map_err(sqlite)
}

fn configure(connection: &Connection, cache_kib: i32, durability: Durability) -> Result<()> {
    let synchronous = match durability {
        Durability::Disk => "FULL",
        Durability::Process => "OFF",
    };
    connection.set_prepared_statement_cache_capacity(32);
    connection.busy_timeout(BUSY_TIMEOUT).map_err(sqlite)?;
    // Plans must not depend on bound values: a statement would be prepared again for each of them.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true).map_err(sqlite)?;
    // A store has no triggers and no views: foreign ones in the file never run.
    for foreign in [
        DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA,
        DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER,
        DbConfig::SQLITE_DBCONFIG_ENABLE_VIEW,
    ] {
        connection.set_db_config(foreign, false).map_err(sqlite)?;
    }
    connection
        .execute_batch(&format!(
            "PRAGMA journal_mode = WAL;
             PRAGMA synchronous = {synchronous};
             PRAGMA wal_autocheckpoint = 0;
             PRAGMA journal_size_limit = {LOG_FILE_BYTES};
             PRAGMA cache_size = -{cache_kib};
             PRAGMA cache_spill = OFF;
             PRAGMA cell_size_check = ON;
             PRAGMA temp_store = MEMORY;"
        ))
        .map_err(sqlite)
}

pub(super) fn snapshot<T>(
    connection: &Connection,
    read: impl FnOnce(&Connection) -> Result<T>,
) -> Result<T> {
    connection.execute_batch("BEGIN").map_err(sqlite)?;
    let result = read(connection);
    connection.execute_batch("COMMIT").map_err(sqlite)?;
    result
}

/// Fails if an error has ended the transaction. On a disk error during a read SQLite rolls back the whole transaction:
/// its earlier writes are gone, and later ones would be committed by themselves.
pub(super) fn require_transaction(connection: &Connection, error: &Error) -> rusqlite::Result<()> {
    match connection.is_autocommit() {
        false => Ok(()),
        true => {
            let failure = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_IOERR);
            Err(rusqlite::Error::SqliteFailure(failure, Some(error.to_string())))
        }
    }
}

/// Numbers that the database stores about itself.
#[derive(Debug, Clone, Copy)]
pub(super) enum Meta {
    /// The oldest revision that can be read.
    Compacted,
    /// Revision up to which superseded records have been removed.
    Swept,
    /// Revision up to which `keys` has the records of `history`.
    Indexed,
    /// The store's time when a key was last given a time to live.
    Clock,
    /// Written to test whether writing works.
    Probe,
}

impl Meta {
    fn name(self) -> &'static str {
        match self {
            Meta::Compacted => "compacted",
            Meta::Swept => "swept",
            Meta::Indexed => "indexed",
            Meta::Clock => "clock",
            Meta::Probe => "probe",
        }
    }

    pub(super) fn read(self, connection: &Connection) -> Result<u64> {
        let row: Option<(i64, i64)> = connection
            .prepare_cached("SELECT value, checksum FROM meta WHERE name = ?1")
            .and_then(|mut statement| {
                statement.query_row([self.name()], |row| Ok((row.get(0)?, row.get(1)?))).optional()
            })
            .map_err(sqlite)?;
        let Some((value, checksum)) = row else { return Ok(0) };
        match u64::try_from(value) {
            Ok(value) if checksum_of(self.name().as_bytes(), &[value]) == checksum => Ok(value),
            _ => Err(Error::Corrupt(format!("the note of {}", self.name()))),
        }
    }

    pub(super) fn write(self, connection: &Connection, value: u64) -> rusqlite::Result<()> {
        connection.prepare_cached("INSERT OR REPLACE INTO meta VALUES (?1, ?2, ?3)")?.execute((
            self.name(),
            value.cast_signed(),
            checksum_of(self.name().as_bytes(), &[value]),
        ))?;
        Ok(())
    }
}

/// Maps SQLite's errors to the store's.
pub(super) fn sqlite(error: rusqlite::Error) -> Error {
    use rusqlite::Error::*;
    match &error {
        SqliteFailure(failure, _) => match failure.code {
            ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase => {
                Error::Corrupt(error.to_string())
            }
            _ => Error::Unavailable(error.to_string()),
        },
        FromSqlConversionFailure(..) | IntegralValueOutOfRange(..) | InvalidColumnType(..) => {
            Error::Corrupt(error.to_string())
        }
        _ => Error::Unavailable(error.to_string()),
    }
}

/// Locks, also after a panic elsewhere: the guarded data is consistent between statements.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
