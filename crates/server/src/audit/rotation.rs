//! Log rotation: `audit.log` becomes `audit-2006-01-02T15-04-05.000.log`, and backups that are too many or too old are
//! removed.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, fchown};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};

use kevel_api::time::{MicroTime, Time};
use kevel_clock::Clock;

/// Options of the rotation (`--audit-log-max*`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rotation {
    /// Largest size of a file; 0 is no limit.
    pub max_bytes: u64,
    /// Days that backups are kept, by the date in their names; 0 keeps them.
    pub max_age_days: i64,
    /// Number of backups that are kept; 0 keeps all.
    pub max_backups: usize,
    /// Whether backups are compressed.
    pub compress: bool,
}

/// A log file with its backups.
#[derive(Debug)]
pub struct Rotated {
    path: PathBuf,
    rotation: Rotation,
    clock: Clock,
    open: Option<(File, u64)>,
    /// Wakes the thread that removes and compresses backups; the thread ends with this value.
    mill: Option<SyncSender<()>>,
}

impl Rotated {
    /// The log file at a path. It is opened at the first write.
    pub fn new(path: &Path, rotation: Rotation, clock: Clock) -> Self {
        Rotated { path: path.to_owned(), rotation, clock, open: None, mill: None }
    }

    /// Writes a whole line into one file.
    pub(super) fn write(&mut self, line: &[u8]) -> io::Result<()> {
        let (length, limit) = (line.len() as u64, self.rotation.max_bytes);
        if length > limit {
            let message = format!("write length {length} exceeds maximum file size {limit}");
            return Err(io::Error::other(message));
        }
        if self.open.is_none() {
            self.open_existing(length)?;
        }
        if self.open.as_ref().is_some_and(|(_, size)| size + length > limit) {
            self.rotate()?;
        }
        let (file, size) = self.open.as_mut().ok_or_else(|| io::Error::other("no file"))?;
        file.write_all(line)?;
        *size += length;
        Ok(())
    }

    fn open_existing(&mut self, length: u64) -> io::Result<()> {
        self.tidy_later();
        let size = match fs::metadata(&self.path) {
            Ok(data) => data.len(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return self.open_new(),
            Err(error) => return Err(error),
        };
        if size + length >= self.rotation.max_bytes {
            return self.rotate();
        }
        match OpenOptions::new().append(true).open(&self.path) {
            Ok(file) => {
                self.open = Some((file, size));
                Ok(())
            }
            Err(_) => self.open_new(),
        }
    }

    fn rotate(&mut self) -> io::Result<()> {
        self.open = None;
        self.open_new()?;
        self.tidy_later();
        Ok(())
    }

    /// Renames the current file, if any, and opens a new one with its mode and owner.
    fn open_new(&mut self) -> io::Result<()> {
        let old = fs::metadata(&self.path).ok();
        if old.is_some() {
            fs::rename(&self.path, self.backup_name(MicroTime::now(&self.clock)))?;
        }
        let mode = old.as_ref().map_or(0o600, |old| old.mode() & 0o7777);
        let mut options = OpenOptions::new();
        let file = options.create(true).write(true).truncate(true).mode(mode).open(&self.path)?;
        give(&file, old.as_ref());
        self.open = Some((file, 0));
        Ok(())
    }

    fn backup_name(&self, now: MicroTime) -> PathBuf {
        let (prefix, extension) = name_parts(&self.path);
        let text = now.to_string();
        // `2006-01-02T15:04:05.000000Z`, to the millisecond and without colons.
        let stamp = text.get(..23).unwrap_or(&text).replace(':', "-");
        self.path.with_file_name(format!("{prefix}{stamp}{extension}"))
    }

    /// Wakes the thread for backups: its work may take long, and no request must wait for it.
    fn tidy_later(&mut self) {
        let (path, rotation) = (&self.path, self.rotation);
        if rotation.max_backups == 0 && rotation.max_age_days == 0 && !rotation.compress {
            return;
        }
        let start = || {
            let (sender, receiver) = sync_channel(1);
            let (path, clock) = (path.clone(), self.clock.clone());
            let thread = std::thread::Builder::new().name("audit-log-files".to_owned());
            let started = thread.spawn(move || tidy_when_told(&path, rotation, &clock, &receiver));
            started.ok().map(|_| sender)
        };
        if self.mill.is_none() {
            self.mill = start();
        }
        match self.mill.as_ref().map(|mill| mill.try_send(())) {
            // Already woken.
            Some(Ok(()) | Err(TrySendError::Full(()))) => {}
            None | Some(Err(TrySendError::Disconnected(()))) => self.mill = None,
        }
    }
}

/// Sets a file's owner to that of another, if permitted.
fn give(file: &File, like: Option<&fs::Metadata>) {
    if let Some(like) = like {
        let _ = fchown(file, Some(like.uid()), Some(like.gid()));
    }
}

/// Prefix and suffix of the date in the names of backups.
fn name_parts(path: &Path) -> (String, String) {
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    match name.rfind('.') {
        Some(at) => (format!("{}-", &name[..at]), name[at..].to_owned()),
        None => (format!("{name}-"), String::new()),
    }
}

fn tidy_when_told(path: &Path, rotation: Rotation, clock: &Clock, told: &Receiver<()>) {
    while told.recv().is_ok() {
        if let Err(error) = tidy(path, rotation, Time::now(clock)) {
            tracing::warn!(%error, "old audit logs could not be removed or compressed");
        }
    }
}

const GZIP: &str = ".gz";

/// Removes backups that are too many or too old, and compresses the others.
fn tidy(path: &Path, rotation: Rotation, now: Time) -> io::Result<()> {
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let (prefix, extension) = name_parts(path);
    let mut backups = Vec::new();
    for entry in fs::read_dir(folder)? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if let Some(time) = time_of(&name, &prefix, &extension) {
            backups.push((time, name));
        }
    }
    // Newest first.
    backups.sort_by(|a, b| b.cmp(a));
    let oldest = now.seconds.saturating_sub(rotation.max_age_days.saturating_mul(86_400));
    let mut kept: Vec<String> = Vec::new();
    for (time, name) in backups {
        // A file that is being compressed exists twice.
        let plain = name.strip_suffix(GZIP).unwrap_or(&name).to_owned();
        let counted = kept.contains(&plain);
        let many = rotation.max_backups > 0 && !counted && kept.len() >= rotation.max_backups;
        let old = rotation.max_age_days > 0 && time < oldest;
        let file = folder.join(&name);
        if many || old {
            fs::remove_file(file)?;
            continue;
        }
        if rotation.compress && !name.ends_with(GZIP) {
            compress(&file)?;
        }
        if !counted {
            kept.push(plain);
        }
    }
    Ok(())
}

/// Time in the name of a backup, in seconds.
fn time_of(name: &str, prefix: &str, extension: &str) -> Option<i64> {
    let name = name.strip_suffix(GZIP).unwrap_or(name);
    let stamp = name.strip_prefix(prefix)?.strip_suffix(extension)?;
    let (date, time) = stamp.split_once('T')?;
    let (time, millis) = time.split_once('.')?;
    let millis = millis.len() == 3 && millis.bytes().all(|digit| digit.is_ascii_digit());
    let time: Time = format!("{date}T{}Z", time.replace('-', ":")).parse().ok()?;
    millis.then_some(time.seconds)
}

fn compress(path: &Path) -> io::Result<()> {
    let mut name = path.as_os_str().to_owned();
    name.push(GZIP);
    let target = PathBuf::from(name);
    let result = compress_into(path, &target);
    // Of a failed compression, the incomplete target is removed and the original kept.
    fs::remove_file(if result.is_ok() { path } else { &target })?;
    result
}

fn compress_into(path: &Path, target: &Path) -> io::Result<()> {
    let mut from = File::open(path)?;
    let data = from.metadata()?;
    let mode = data.mode() & 0o7777;
    let to = OpenOptions::new().create(true).write(true).truncate(true).mode(mode).open(target)?;
    give(&to, Some(&data));
    let mut gzip = flate2::write::GzEncoder::new(to, flate2::Compression::default());
    io::copy(&mut from, &mut gzip)?;
    gzip.finish()?.sync_all()
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned());
        let mut names: Vec<String> = names.collect();
        names.sort();
        names
    }

    #[test]
    fn a_full_file_makes_room_for_a_new_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("audit.log");
        fs::write(&path, "before\n").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        let mut file =
            Rotated::new(&path, Rotation { max_bytes: 16, ..Rotation::default() }, Clock::system());
        file.write(b"one\n").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "before\none\n");
        file.write(b"two two\n").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "two two\n");
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o640);
        let names = names(folder.path());
        assert_eq!(names.len(), 2, "{names:?}");
        assert!(time_of(&names[0], "audit-", ".log").is_some(), "{names:?}");
        let error = file.write(b"longer than the limit\n").unwrap_err();
        assert_eq!(error.to_string(), "write length 22 exceeds maximum file size 16");
    }

    #[test]
    fn names_of_old_files_have_a_date() {
        let file =
            Rotated::new(Path::new("/var/log/audit.log"), Rotation::default(), Clock::system());
        let time = MicroTime { seconds: 1_136_214_245, nanos: 678_912_000 };
        let name = file.backup_name(time);
        assert_eq!(name, Path::new("/var/log/audit-2006-01-02T15-04-05.678.log"));
        for (name, expected) in [
            ("audit-2006-01-02T15-04-05.678.log", Some(1_136_214_245)),
            ("audit-2006-01-02T15-04-05.678.log.gz", Some(1_136_214_245)),
            ("audit.log", None),
            ("audit-2006-01-02T15-04-05.log", None),
            ("audit-mine.log", None),
            ("other-2006-01-02T15-04-05.678.log", None),
        ] {
            assert_eq!(time_of(name, "audit-", ".log"), expected, "{name}");
        }
    }

    #[test]
    fn old_files_go_and_the_others_are_compressed() {
        let now: Time = "2024-03-10T00:00:00Z".parse().unwrap();
        let all = [
            "audit-2024-03-01T00-00-00.000.log.gz",
            "audit-2024-03-07T00-00-00.000.log",
            "audit-2024-03-08T00-00-00.000.log",
            "audit-2024-03-09T00-00-00.000.log",
            "audit-other.log",
            "audit.log",
        ];
        let rest = ["audit-other.log", "audit.log"];
        let keep = |names: &[&'static str]| [names, &rest].concat();
        for (max_age_days, max_backups, compress, expected) in [
            (0, 0, false, all.to_vec()),
            (0, 2, false, keep(&all[2..4])),
            (2, 0, false, keep(&all[2..4])),
            (5, 1, false, keep(&all[3..4])),
            (
                2,
                0,
                true,
                keep(&[
                    "audit-2024-03-08T00-00-00.000.log.gz",
                    "audit-2024-03-09T00-00-00.000.log.gz",
                ]),
            ),
        ] {
            let folder = tempfile::tempdir().unwrap();
            all.iter().for_each(|name| fs::write(folder.path().join(name), name).unwrap());
            let rotation = Rotation { max_bytes: 1, max_age_days, max_backups, compress };
            tidy(&folder.path().join("audit.log"), rotation, now).unwrap();
            assert_eq!(names(folder.path()), expected, "{rotation:?}");
            if compress {
                let file = File::open(folder.path().join(expected[0])).unwrap();
                let mut text = String::new();
                flate2::read::GzDecoder::new(file).read_to_string(&mut text).unwrap();
                assert_eq!(text, all[2]);
            }
        }
    }
}
