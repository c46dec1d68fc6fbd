//! Files and folders for the owner alone: the store, keys, kubeconfigs.
//!
//! New ones have the right mode from the start, whatever the process's umask. The modes of existing ones are tightened.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

/// Mode of a file that only its owner may read and write.
pub const FILE_MODE: u32 = 0o600;
/// Mode of a folder that only its owner may read.
pub const FOLDER_MODE: u32 = 0o700;
/// Mode bits of group and others.
const OTHERS: u32 = 0o077;
/// Sticky bit of shared folders such as `/tmp`.
const STICKY: u32 = 0o1000;

/// Opens a file for reading and writing, creating it if it does not exist.
pub fn open(path: &Path) -> io::Result<File> {
    options().create(true).truncate(false).open(path)
}

/// Creates a file that must not exist.
pub fn create_new(path: &Path) -> io::Result<File> {
    options().create_new(true).open(path)
}

fn options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true).write(true).mode(FILE_MODE);
    options
}

/// Creates a folder and its missing parents, for the owner alone. Their names are synced before this returns, so that
/// files in them cannot be lost.
pub fn create_dir_all(path: &Path) -> io::Result<()> {
    create_dir_all_with(path, FOLDER_MODE)
}

/// Creates a folder and its missing parents with another mode.
pub fn create_dir_all_with(path: &Path, mode: u32) -> io::Result<()> {
    if path.as_os_str().is_empty() || path.is_dir() {
        return Ok(());
    }
    let parent = parent_of(path);
    create_dir_all_with(parent, mode)?;
    match DirBuilder::new().mode(mode).create(path) {
        Err(error) if !path.is_dir() => Err(error),
        _ => sync_dir(parent),
    }
}

/// Syncs the names in a folder.
pub fn sync_dir(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

/// Folder of a path.
pub fn parent_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        Some(_) => Path::new("."),
        None => path,
    }
}

/// Result of [`tighten`].
#[derive(Debug, Default)]
pub struct Tightened {
    /// Paths that others had access to.
    pub changed: Vec<PathBuf>,
    /// Paths that could not be changed or read.
    pub failed: Vec<(PathBuf, io::Error)>,
}

/// Removes the permissions of group and others from a file, or from a folder and everything in it. Missing paths, links
/// and shared folders (`/tmp`) are left alone.
pub fn tighten(path: &Path) -> Tightened {
    let mut tightened = Tightened::default();
    tightened.visit(path);
    tightened
}

/// [`tighten`]s, and logs the result. A failure, as on a volume of another owner, is not fatal.
pub fn tighten_and_say(path: &Path) {
    let Tightened { changed, failed } = tighten(path);
    for path in &changed {
        tracing::info!("Others had access to {}; now its owner alone has", path.display());
    }
    for (path, error) in &failed {
        let path = path.display();
        tracing::warn!("Others may have access to {path}, and it cannot be changed: {error}");
    }
}

impl Tightened {
    fn visit(&mut self, path: &Path) {
        match self.try_visit(path) {
            // SQLite creates and removes files.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => self.failed.push((path.to_owned(), error)),
            Ok(()) => {}
        }
    }

    fn try_visit(&mut self, path: &Path) -> io::Result<()> {
        let metadata = fs::symlink_metadata(path)?;
        let (kind, mode) = (metadata.file_type(), metadata.permissions().mode());
        if !(kind.is_dir() || kind.is_file()) || kind.is_dir() && mode & STICKY != 0 {
            return Ok(());
        }
        if mode & OTHERS != 0 {
            match fs::set_permissions(path, Permissions::from_mode(mode & 0o7777 & !OTHERS)) {
                Ok(()) => self.changed.push(path.to_owned()),
                Err(error) => self.failed.push((path.to_owned(), error)),
            }
        }
        if kind.is_dir() {
            for entry in fs::read_dir(path)? {
                self.visit(&entry?.path());
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::symlink_metadata(path).unwrap().permissions().mode() & 0o7777
    }

    #[test]
    fn what_is_made_is_private_from_the_start() {
        let folder = tempfile::tempdir().unwrap();
        let inner = folder.path().join("a/b");
        create_dir_all(&inner).unwrap();
        create_dir_all(&inner).unwrap();
        drop((open(&inner.join("file")).unwrap(), create_new(&inner.join("new")).unwrap()));
        assert!(create_new(&inner.join("new")).is_err());
        let made = ["a", "a/b", "a/b/file", "a/b/new"].map(|path| mode(&folder.path().join(path)));
        assert_eq!(made, [0o700, 0o700, 0o600, 0o600]);
        assert!(create_dir_all(&inner.join("file/below")).is_err());
    }

    #[test]
    fn what_is_there_is_tightened_and_links_are_not_followed() {
        let (folder, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let at = |path: &str| folder.path().join(path);
        let set = |path: &Path, mode| {
            fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
        };
        fs::create_dir_all(at("data/open")).unwrap();
        fs::write(at("data/open/key"), "").unwrap();
        fs::write(at("data/tool"), "").unwrap();
        set(&at("data"), 0o750);
        set(&at("data/open"), 0o777);
        set(&at("data/open/key"), 0o644);
        set(&at("data/tool"), 0o755);
        set(outside.path(), 0o755);
        std::os::unix::fs::symlink(outside.path(), at("data/link")).unwrap();
        fs::create_dir(at("data/shared")).unwrap();
        set(&at("data/shared"), 0o1777);
        let tightened = tighten(&at("data"));
        assert_eq!(tightened.changed.len(), 4, "{tightened:?}");
        let modes = ["data", "data/open", "data/open/key", "data/tool", "data/shared"]
            .map(|path| mode(&at(path)));
        assert_eq!(modes, [0o700, 0o700, 0o600, 0o700, 0o1777]);
        assert_eq!(mode(outside.path()), 0o755);
        for path in ["data", "absent"] {
            let Tightened { changed, failed } = tighten(&at(path));
            assert!(changed.is_empty() && failed.is_empty(), "{changed:?} {failed:?}");
        }
    }
}
