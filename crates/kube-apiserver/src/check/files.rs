//! Files that are named on the command line, and those in directories.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

/// Ends of the names of manifests in directories (kubectl's).
const EXTENSIONS: [&str; 3] = ["json", "yaml", "yml"];
/// Most bytes of all files together. They are in memory while they are checked.
const MAX_INPUT: u64 = 512 << 20;
/// Most entries of directories that are looked at: a wrong directory ends in an error, not in hours.
const MAX_ENTRIES: usize = 1_000_000;
/// Most directories in each other.
const MAX_DEPTH: usize = 64;

/// A file that was read.
#[derive(Debug)]
pub struct ManifestFile {
    /// Name as the user sees it: as it was given, or below the directory that was given.
    pub name: String,
    /// Content.
    pub bytes: Vec<u8>,
}

/// Reason why what is named on the command line cannot be checked.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// There is no such file.
    #[error("the path {0:?} does not exist")]
    Missing(PathBuf),
    /// It cannot be read.
    #[error("cannot read {0}: {1}")]
    Unreadable(String, io::Error),
    /// A directory has no manifests.
    #[error("no manifests in {0}: recognized file extensions are .json, .yaml and .yml")]
    Empty(PathBuf),
    /// There is more than is read.
    #[error("the files are larger than {} MiB together", MAX_INPUT >> 20)]
    TooLarge,
    /// Directories have more entries than are looked at.
    #[error("{0} has more than {MAX_ENTRIES} files, or is more than {MAX_DEPTH} directories deep")]
    TooMany(PathBuf),
}

/// Reads files, the manifests in directories, and standard input (`-`), in order; in a directory by name.
pub fn read_all(paths: &[PathBuf]) -> Result<Vec<ManifestFile>, FileError> {
    let mut reader = FileReader { files: Vec::new(), bytes: 0, entries: 0 };
    for path in paths {
        reader.read(path)?;
    }
    Ok(reader.files)
}

struct FileReader {
    files: Vec<ManifestFile>,
    bytes: u64,
    entries: usize,
}

impl FileReader {
    fn read(&mut self, path: &Path) -> Result<(), FileError> {
        if path == Path::new("-") {
            return self.add("<stdin>".to_owned(), io::stdin().lock());
        }
        let unreadable = |error| FileError::Unreadable(path.display().to_string(), error);
        let metadata = fs::metadata(path).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => FileError::Missing(path.to_owned()),
            _ => unreadable(error),
        })?;
        if !metadata.is_dir() {
            return self.open(path);
        }
        let before = self.files.len();
        self.directory(path, path, 0)?;
        match self.files.len() == before {
            true => Err(FileError::Empty(path.to_owned())),
            false => Ok(()),
        }
    }

    fn directory(&mut self, root: &Path, path: &Path, depth: usize) -> Result<(), FileError> {
        let unreadable = |error| FileError::Unreadable(path.display().to_string(), error);
        let mut entries = Vec::new();
        for entry in fs::read_dir(path).map_err(unreadable)? {
            self.entries += 1;
            if self.entries > MAX_ENTRIES || depth > MAX_DEPTH {
                return Err(FileError::TooMany(root.to_owned()));
            }
            let entry = entry.map_err(unreadable)?;
            // Of the link itself, as kubectl does: links to directories are not followed, and there are no circles.
            entries.push((entry.path(), entry.file_type().map_err(unreadable)?));
        }
        entries.sort_by(|one, other| one.0.cmp(&other.0));
        for (path, kind) in entries {
            let extension = path.extension().and_then(|extension| extension.to_str());
            if kind.is_dir() {
                self.directory(root, &path, depth + 1)?;
            } else if extension.is_some_and(|end| EXTENSIONS.contains(&end)) && path.is_file() {
                self.open(&path)?;
            }
        }
        Ok(())
    }

    fn open(&mut self, path: &Path) -> Result<(), FileError> {
        let name = path.display().to_string();
        match File::open(path) {
            Ok(file) => self.add(name, file),
            Err(error) => Err(FileError::Unreadable(name, error)),
        }
    }

    fn add(&mut self, name: String, source: impl io::Read) -> Result<(), FileError> {
        let mut bytes = Vec::new();
        let left = MAX_INPUT - self.bytes;
        let read = source.take(left + 1).read_to_end(&mut bytes);
        let read = read.map_err(|error| FileError::Unreadable(name.clone(), error))? as u64;
        if read > left {
            return Err(FileError::TooLarge);
        }
        self.bytes += read;
        self.files.push(ManifestFile { name, bytes });
        Ok(())
    }
}
