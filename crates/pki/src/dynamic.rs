//! Values from files that are read again when they change.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, TryLockError};
use std::time::Duration;

use arc_swap::ArcSwap;
use kevel_clock::Stopwatch;

/// Interval at which the files' metadata are checked; only when the value is used.
const LOOK: Duration = Duration::from_secs(1);
/// Interval at which files are read again even if their metadata are unchanged.
const READ: Duration = Duration::from_secs(60);

/// A value parsed from files (upstream: DynamicFileCAContent, DynamicCertKeyPairContent). Nothing runs in the
/// background: `current` checks, at most once a second, whether the files have changed. If they become unreadable or
/// invalid, the value stays.
///
/// ```
/// # let folder = tempfile::tempdir().unwrap();
/// # let path = folder.path().join("tokens");
/// # std::fs::write(&path, "a\nb\n").unwrap();
/// use kevel_pki::Dynamic;
/// let lines = Dynamic::load("tokens", &[&path], |files| {
///     let text = String::from_utf8(files[0].clone()).map_err(|e| e.to_string())?;
///     Ok(text.lines().count())
/// });
/// assert_eq!(*lines.unwrap().current(), 2);
/// ```
pub struct Dynamic<T> {
    name: String,
    paths: Vec<PathBuf>,
    parse: Parse<T>,
    current: ArcSwap<T>,
    start: Stopwatch,
    /// Time of the next check, in milliseconds since the start.
    next: AtomicU64,
    look: Duration,
    seen: Mutex<Seen>,
}

type Parse<T> = Box<dyn Fn(&[Vec<u8>]) -> Result<T, String> + Send + Sync>;

struct Seen {
    stamps: Vec<Option<Stamp>>,
    files: Vec<Vec<u8>>,
    read: Stopwatch,
}

/// Metadata that change with a file: device, inode, size, mtime and ctime.
type Stamp = (u64, u64, u64, i64, i64, i64, i64);

impl<T> std::fmt::Debug for Dynamic<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Dynamic({}, {:?})", self.name, self.paths)
    }
}

impl<T> Dynamic<T> {
    /// Reads the files; `parse` gets the contents of all of them, in order.
    pub fn load<P: AsRef<Path>>(
        name: &str,
        paths: &[P],
        parse: impl Fn(&[Vec<u8>]) -> Result<T, String> + Send + Sync + 'static,
    ) -> Result<Self, String> {
        let paths: Vec<PathBuf> = paths.iter().map(|path| path.as_ref().to_owned()).collect();
        let stamps = stamps(&paths);
        let files = read(&paths)?;
        let value = parse(&files)?;
        let start = Stopwatch::start();
        Ok(Dynamic {
            name: name.to_owned(),
            paths,
            parse: Box::new(parse),
            current: ArcSwap::from_pointee(value),
            start,
            next: AtomicU64::new(LOOK.as_millis() as u64),
            look: LOOK,
            seen: Mutex::new(Seen { stamps, files, read: start }),
        })
    }

    /// A constant value without files.
    pub fn fixed(value: T) -> Self {
        let seen = Seen { stamps: Vec::new(), files: Vec::new(), read: Stopwatch::start() };
        Dynamic {
            name: String::new(),
            paths: Vec::new(),
            parse: Box::new(|_| Err(String::new())),
            current: ArcSwap::from_pointee(value),
            start: Stopwatch::start(),
            next: AtomicU64::new(u64::MAX),
            look: LOOK,
            seen: Mutex::new(seen),
        }
    }

    /// Checks the files at every use: for tests.
    pub fn impatient(mut self) -> Self {
        self.look = Duration::ZERO;
        self.next = AtomicU64::new(0);
        self
    }

    /// The present value.
    pub fn current(&self) -> Arc<T> {
        let now = self.start.elapsed().as_millis() as u64;
        if now >= self.next.load(Ordering::Relaxed) {
            self.next.store(now + self.look.as_millis() as u64, Ordering::Relaxed);
            self.look();
        }
        self.current.load_full()
    }

    fn look(&self) {
        let mut seen = match self.seen.try_lock() {
            Ok(seen) => seen,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            // Another task is reading the files.
            Err(TryLockError::WouldBlock) => return,
        };
        // Before reading: a change during the read is noticed at the next check.
        let stamps = stamps(&self.paths);
        if seen.stamps == stamps && seen.read.elapsed() < READ {
            return;
        }
        (seen.stamps, seen.read) = (stamps, Stopwatch::start());
        match read(&self.paths) {
            Ok(files) if files == seen.files => {}
            Ok(files) => match (self.parse)(&files) {
                Ok(value) => {
                    seen.files = files;
                    self.current.store(Arc::new(value));
                    tracing::info!(name = self.name, "loaded again");
                }
                Err(error) => self.complain(&error),
            },
            Err(error) => self.complain(&error),
        }
    }

    fn complain(&self, error: &str) {
        tracing::error!(name = self.name, error, "cannot be loaded again, the old content stays");
    }
}

fn stamps(paths: &[PathBuf]) -> Vec<Option<Stamp>> {
    let stamp = |path: &PathBuf| {
        let data = fs::metadata(path).ok()?;
        let modified = (data.mtime(), data.mtime_nsec());
        let changed = (data.ctime(), data.ctime_nsec());
        Some((data.dev(), data.ino(), data.size(), modified.0, modified.1, changed.0, changed.1))
    };
    paths.iter().map(stamp).collect()
}

fn read(paths: &[PathBuf]) -> Result<Vec<Vec<u8>>, String> {
    let read =
        |path: &PathBuf| fs::read(path).map_err(|error| format!("{}: {error}", path.display()));
    paths.iter().map(read).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changed_files_are_loaded_and_invalid_ones_ignored() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("number");
        let number = |files: &[Vec<u8>]| {
            let text = String::from_utf8_lossy(&files[0]).into_owned();
            text.trim().parse::<u32>().map_err(|error| error.to_string())
        };
        assert!(Dynamic::load("number", &[&path], number).is_err());
        fs::write(&path, "1").unwrap();
        let dynamic = Dynamic::load("number", &[&path], number).unwrap().impatient();
        assert_eq!(*dynamic.current(), 1);
        for (content, expected) in [("22", 22), ("333x", 22), ("4444", 4444)] {
            fs::write(&path, content).unwrap();
            assert_eq!(*dynamic.current(), expected, "{content}");
        }
        fs::remove_file(&path).unwrap();
        assert_eq!(*dynamic.current(), 4444);
        // The update of a Secret volume is a rename.
        fs::write(folder.path().join("next"), "5555").unwrap();
        fs::rename(folder.path().join("next"), &path).unwrap();
        assert_eq!(*dynamic.current(), 5555);
        let before = dynamic.current();
        assert!(Arc::ptr_eq(&before, &dynamic.current()));
    }
}
