//! Folder of the data.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use thiserror::Error;

/// Folder of the store below `--data-dir`: beside what others may keep there.
const STORE: &str = "kevel";

/// Folder that a real etcd keeps its data in.
const MEMBER: &str = "member";

/// Beginning of the names of envtest's temporary folders, which it removes itself unless it is killed.
const TEMPORARY: &str = "k8s_test_framework_";

/// Mode of new folders: tests have secrets, too.
const MODE: u32 = 0o700;

/// The folder cannot be used.
#[derive(Debug, Error)]
pub enum FolderError {
    /// The folder belongs to a real etcd.
    #[error(
        "--data-dir {0} holds the data of a real etcd, which this stand-in cannot read: choose another folder"
    )]
    Etcd(String),
    /// The system refuses it.
    #[error("cannot use --data-dir {0}: {1}")]
    Io(String, io::Error),
}

/// Makes the folder of the store below `data_dir`, and returns its absolute path.
pub(crate) fn prepare(data_dir: &Path) -> Result<PathBuf, FolderError> {
    let name = || data_dir.display().to_string();
    if data_dir.join(MEMBER).exists() {
        return Err(FolderError::Etcd(name()));
    }
    let store = data_dir.join(STORE);
    let mut builder = DirBuilder::new();
    let made = builder.recursive(true).mode(MODE).create(&store);
    made.and_then(|()| store.canonicalize()).map_err(|error| FolderError::Io(name(), error))
}

/// Removes the folder if it is one of envtest's temporary folders. Its test was killed and cannot.
pub(crate) fn remove_if_temporary(data_dir: &Path) {
    let name = data_dir.file_name().unwrap_or_default();
    if name.to_string_lossy().starts_with(TEMPORARY) {
        // What cannot be removed stays: there is no reader of an error.
        let _ = fs::remove_dir_all(data_dir);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_of_a_real_etcd_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let store = prepare(folder.path()).unwrap();
        assert!(store.is_absolute() && store.ends_with(STORE));
        fs::create_dir(folder.path().join(MEMBER)).unwrap();
        assert!(matches!(prepare(folder.path()), Err(FolderError::Etcd(_))));
    }

    #[test]
    fn only_temporary_folders_of_envtest_are_removed() {
        let folder = tempfile::tempdir().unwrap();
        let (temporary, own) =
            (folder.path().join("k8s_test_framework_7"), folder.path().join("data"));
        for data_dir in [&temporary, &own] {
            prepare(data_dir).unwrap();
            remove_if_temporary(data_dir);
        }
        assert!(!temporary.exists() && own.exists());
    }
}
