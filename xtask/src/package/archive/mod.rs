//! Archives whose bytes follow from their entries alone: in the order given, with one time and without the owners of the
//! machine.

mod ar;
mod tar;
mod zip;

use std::io::Write as _;

use flate2::Compression;
use flate2::write::GzEncoder;

pub use ar::ar;
pub use tar::tar;
pub use zip::zip;

use super::PackageError;

/// Mode of a file that is only read.
pub const FILE: u32 = 0o644;
/// Mode of programs and folders.
pub const PROGRAM: u32 = 0o755;

/// An entry of an archive, by its path without a slash in front.
#[derive(Debug, Clone)]
pub struct ArchiveEntry {
    pub path: String,
    pub mode: u32,
    pub content: EntryContent,
}

/// Content of an [`ArchiveEntry`].
#[derive(Debug, Clone)]
pub enum EntryContent {
    Folder,
    File(Vec<u8>),
    /// A symbolic link, by its target.
    Link(String),
    /// A file with extended attributes, by name. Only tar has them.
    Attributed(Vec<u8>, Vec<(String, Vec<u8>)>),
}

impl ArchiveEntry {
    pub fn folder(path: &str) -> Self {
        ArchiveEntry { path: path.to_owned(), mode: PROGRAM, content: EntryContent::Folder }
    }

    pub fn file(path: impl Into<String>, mode: u32, bytes: impl Into<Vec<u8>>) -> Self {
        ArchiveEntry { path: path.into(), mode, content: EntryContent::File(bytes.into()) }
    }

    pub fn link(path: &str, target: &str) -> Self {
        ArchiveEntry {
            path: path.to_owned(),
            mode: 0o777,
            content: EntryContent::Link(target.to_owned()),
        }
    }

    /// The bytes of a file, or of a link's target.
    pub fn bytes(&self) -> &[u8] {
        match &self.content {
            EntryContent::Folder => &[],
            EntryContent::File(bytes) | EntryContent::Attributed(bytes, _) => bytes,
            EntryContent::Link(target) => target.as_bytes(),
        }
    }
}

/// The entries in the order of their paths, with the folders that they are in.
pub fn with_folders(entries: Vec<ArchiveEntry>) -> Vec<ArchiveEntry> {
    let mut all: std::collections::BTreeMap<String, ArchiveEntry> =
        std::collections::BTreeMap::new();
    for entry in entries {
        for (end, _) in entry.path.match_indices('/') {
            let folder = &entry.path[..end];
            all.entry(folder.to_owned()).or_insert_with(|| ArchiveEntry::folder(folder));
        }
        all.insert(entry.path.clone(), entry);
    }
    all.into_values().collect()
}

/// Bytes compressed with gzip: no name, no time.
pub fn gzip(bytes: &[u8]) -> Result<Vec<u8>, PackageError> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(bytes).and_then(|()| encoder.finish()).map_err(PackageError::Archive)
}
