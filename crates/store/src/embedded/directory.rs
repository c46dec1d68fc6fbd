//! Data directory of a store: lock, last acknowledged revision, and whether the database is complete.

use std::{
    fs::{self, File, TryLockError},
    io,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
};

use super::Durability;
use crate::{Error, Result, private};

pub(super) const DATABASE_FILE: &str = "kevel.db";
/// Database of an incomplete store: of an import or a restore that is running or was interrupted.
const PARTIAL_FILE: &str = "kevel.db.partial";
const LOCK_FILE: &str = "lock";
const HEAD_FILE: &str = "head";

/// A data directory, locked by this process.
#[derive(Debug)]
pub(super) struct Directory {
    path: PathBuf,
    head: File,
    lock: File,
    durability: Durability,
}

impl Directory {
    /// Opens a directory with a store in it, or with none for a new, empty one.
    pub(super) fn open(path: &Path) -> Result<Directory> {
        Directory::open_with(path, Durability::Disk)
    }

    /// Opens a directory whose store is as durable as `durability` says.
    pub(super) fn open_with(path: &Path, durability: Durability) -> Result<Directory> {
        let directory = Directory { durability, ..Directory::take(path)? };
        if directory.partial().exists() {
            return Err(Error::Invalid(format!(
                "{path:?} holds an import or a restore that was interrupted: run the same `kube-apiserver store` \
                 command again, or remove {:?} to begin with an empty store",
                directory.partial()
            )));
        }
        // SQLite would create the file readable for everybody. Its other files get the mode of this one.
        private::open(&directory.database()).map_err(|e| unusable("open", path, e))?;
        directory.sync_names()?;
        Ok(directory)
    }

    /// Opens a directory with a store in it.
    pub(super) fn open_existing(path: &Path) -> Result<Directory> {
        match is_store(path) {
            true => Directory::open(path),
            false => Err(Error::Invalid(format!("there is no store in {path:?}"))),
        }
    }

    /// Opens a directory for a store that is to be made. It must be empty, apart from the files of an interrupted
    /// import, which are removed.
    pub(super) fn open_empty(path: &Path) -> Result<Directory> {
        let directory = Directory::take(path)?;
        let names = names(path).map_err(|e| unusable("read", path, e))?;
        let (left, others): (Vec<_>, Vec<_>) = names
            .iter()
            .filter(|name| ![LOCK_FILE, HEAD_FILE].contains(&name.as_str()))
            .partition(|name| name.starts_with(PARTIAL_FILE));
        if !others.is_empty() || left.is_empty() && directory.noted_head() != 0 {
            return Err(Error::Invalid(format!("{path:?} is not empty")));
        }
        directory.clear()?;
        Ok(directory)
    }

    /// Removes an incomplete store.
    pub(super) fn clear(&self) -> Result<()> {
        let clear = || -> io::Result<()> {
            for name in names(&self.path)?.iter().filter(|name| name.starts_with(PARTIAL_FILE)) {
                fs::remove_file(self.path.join(name))?;
            }
            private::sync_dir(&self.path)
        };
        clear().map_err(|e| unusable("clear", &self.path, e))
    }

    /// Releases the lock.
    pub(super) fn unlock(&self) {
        let _ = self.lock.unlock();
    }

    /// Fails if another process has the directory open. Makes nothing there.
    pub(super) fn ensure_free(path: &Path) -> Result<()> {
        match fs::File::open(path.join(LOCK_FILE)) {
            Ok(lock) => lock_alone(&lock, path),
            Err(_) => Ok(()),
        }
    }

    /// Takes the directory for this process alone.
    fn take(path: &Path) -> Result<Directory> {
        private::create_dir_all(path).map_err(|e| unusable("create", path, e))?;
        private::tighten_and_say(path);
        let open = |name: &str| private::open(&path.join(name));
        let lock = open(LOCK_FILE).map_err(|e| unusable("lock", path, e))?;
        lock_alone(&lock, path)?;
        let head = open(HEAD_FILE).map_err(|e| unusable("open", path, e))?;
        Ok(Directory { path: path.into(), head, lock, durability: Durability::Disk })
    }

    /// Makes the names of new files durable, like their contents.
    fn sync_names(&self) -> Result<()> {
        if self.durability == Durability::Process {
            return Ok(());
        }
        private::sync_dir(&self.path).map_err(|e| unusable("sync", &self.path, e))
    }

    /// Durability of the store in this directory.
    pub(super) fn durability(&self) -> Durability {
        self.durability
    }

    /// Path of an incomplete database.
    pub(super) fn partial(&self) -> PathBuf {
        self.path.join(PARTIAL_FILE)
    }

    /// Makes the complete partial database, which no process has open, the store's.
    pub(super) fn complete(&self, revision: u64) -> Result<()> {
        // Before the rename: a noted revision without its data is detected.
        self.note_head(revision);
        self.sync()?;
        let renamed = fs::rename(self.partial(), self.database());
        renamed.map_err(|e| unusable("complete", &self.path, e))?;
        self.sync_names()
    }

    pub(super) fn database(&self) -> PathBuf {
        self.path.join(DATABASE_FILE)
    }

    /// Notes that `revision` is durable. SQLite takes a damaged write-ahead log for one that was torn by a crash and
    /// drops its rest; this note tells the two apart. It is written after the sync, so it is never ahead of the data,
    /// and needs no sync of its own.
    pub(super) fn note_head(&self, revision: u64) {
        // A failure only weakens that check.
        let _ = self.head.write_all_at(&note(revision), 0);
    }

    /// Writes the note again and syncs it, as a test of the disk.
    pub(super) fn probe(&self, revision: u64) -> Result<()> {
        let synced = || match self.durability {
            Durability::Disk => self.head.sync_data(),
            Durability::Process => Ok(()),
        };
        let written = self.head.write_all_at(&note(revision), 0).and_then(|()| synced());
        written.map_err(|e| Error::Unavailable(format!("cannot write to {:?}: {e}", self.path)))
    }

    /// The last noted revision; 0 if there is no valid note.
    pub(super) fn noted_head(&self) -> u64 {
        let mut note = [0; 12];
        if self.head.read_exact_at(&mut note, 0).is_err() {
            return 0;
        }
        let (number, checksum) = note.split_at(8);
        if crc32c::crc32c(number).to_le_bytes() != checksum {
            return 0;
        }
        number.try_into().map_or(0, u64::from_le_bytes)
    }

    /// Syncs the directory and the note.
    pub(super) fn sync(&self) -> Result<()> {
        let synced = self.head.sync_all().and_then(|()| private::sync_dir(&self.path));
        synced.map_err(|e| Error::Unavailable(format!("cannot sync {:?}: {e}", self.path)))
    }

    pub(super) fn head_path(&self) -> PathBuf {
        self.path.join(HEAD_FILE)
    }
}

/// Whether a directory has a store in it.
pub(crate) fn is_store(directory: &Path) -> bool {
    directory.join(DATABASE_FILE).exists()
}

fn names(folder: &Path) -> io::Result<Vec<String>> {
    let names = fs::read_dir(folder)?.map(|entry| entry.map(|entry| entry.file_name()));
    names.map(|name| name.map(|name| name.to_string_lossy().into_owned())).collect()
}

/// Takes the lock of the directory at `path` for this process, as long as the file is open.
fn lock_alone(lock: &fs::File, path: &Path) -> Result<()> {
    match lock.try_lock() {
        Ok(()) => Ok(()),
        Err(TryLockError::WouldBlock) => Err(Error::Locked(path.into())),
        Err(TryLockError::Error(e)) => Err(unusable("lock", path, e)),
    }
}

fn unusable(verb: &str, path: &Path, error: io::Error) -> Error {
    Error::Invalid(format!("cannot {verb} data directory {path:?}: {error}"))
}

/// A revision with its checksum, as stored in the note.
fn note(revision: u64) -> [u8; 12] {
    let mut note = [0; 12];
    let (number, checksum) = note.split_at_mut(8);
    number.copy_from_slice(&revision.to_le_bytes());
    checksum.copy_from_slice(&crc32c::crc32c(number).to_le_bytes());
    note
}
