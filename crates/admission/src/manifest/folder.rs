//! Files of a manifest folder (upstream: LoadFiles).

use std::ffi::OsString;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::{fs, io};

use kevel_server::config_file::sha256;

use super::error::ManifestFolderError;

/// Endings of manifest files, compared without case.
const ENDINGS: [&str; 3] = ["yaml", "yml", "json"];

/// Line that separates documents; comments may follow it.
const SEPARATOR: &[u8] = b"---";

/// Documents of a folder.
#[derive(Debug)]
pub(super) struct Files {
    /// Documents in the order of file names, then of their places.
    pub documents: Vec<ManifestDocument>,
    /// Hash of the content of all files; empty without content.
    pub hash: String,
}

/// A document and the file that it is in.
#[derive(Debug)]
pub(super) struct ManifestDocument {
    pub file: PathBuf,
    pub text: Vec<u8>,
}

/// Reads the manifest files of a folder, not of those in it.
pub(super) fn read(folder: &Path) -> Result<Files, ManifestFolderError> {
    let names = manifest_files(folder);
    let names = names
        .map_err(|error| ManifestFolderError::ReadFolder { folder: folder.to_owned(), error })?;
    let mut files = Files { documents: Vec::new(), hash: String::new() };
    let mut content = Vec::new();
    for name in names {
        let file = folder.join(name);
        let text = fs::read(&file);
        let text =
            text.map_err(|error| ManifestFolderError::ReadFile { file: file.clone(), error })?;
        if text.is_empty() {
            continue;
        }
        content.extend_from_slice(&text);
        content.push(0);
        let documents = split(&text, &file)?;
        files.documents.extend(
            documents.into_iter().map(|text| ManifestDocument { file: file.clone(), text }),
        );
    }
    files.hash = sha256(&content);
    Ok(files)
}

/// Names of the manifest files in a folder, sorted.
fn manifest_files(folder: &Path) -> io::Result<Vec<OsString>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name();
        if is_manifest(&name.to_string_lossy()) && !entry.file_type()?.is_dir() {
            names.push(name);
        }
    }
    names.sort();
    Ok(names)
}

fn is_manifest(name: &str) -> bool {
    let ending = name.rsplit_once('.').map_or("", |(_, ending)| ending);
    ENDINGS.iter().any(|known| ending.eq_ignore_ascii_case(known))
}

/// Metadata of a folder's manifest files, which tell a change. `None` if the folder cannot be read.
pub(super) type FolderState = Option<Vec<FileState>>;

/// Name of a file, and its inode, length, and times of modification and change; `None` if it is gone.
type FileState = (OsString, Option<(u64, u64, [(i64, i64); 2])>);

/// Present metadata of a folder's manifest files. Symbolic links are followed, so that a mounted ConfigMap or Secret
/// counts as changed when its files are replaced.
pub(super) fn state(folder: &Path) -> FolderState {
    let state = |name: OsString| {
        let about = fs::metadata(folder.join(&name)).ok().map(|about| {
            let times = [(about.mtime(), about.mtime_nsec()), (about.ctime(), about.ctime_nsec())];
            (about.ino(), about.len(), times)
        });
        (name, about)
    };
    Some(manifest_files(folder).ok()?.into_iter().map(state).collect())
}

/// Documents of a file, trimmed, without empty ones (upstream: YAMLReader).
pub(super) fn split(text: &[u8], file: &Path) -> Result<Vec<Vec<u8>>, ManifestFolderError> {
    let mut documents = Vec::new();
    let mut document: Vec<u8> = Vec::new();
    let mut end = |document: &mut Vec<u8>| {
        let whole = std::mem::take(document);
        let trimmed = whole.trim_ascii();
        if !trimmed.is_empty() {
            documents.push(trimmed.to_owned());
        }
    };
    for line in text.split_inclusive(|byte| *byte == b'\n') {
        let line = line.strip_suffix(b"\n").unwrap_or(line);
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if let Some(after) = line.strip_prefix(SEPARATOR) {
            let after = after.trim_ascii();
            if !after.is_empty() && !after.starts_with(b"#") {
                let (file, after) = (file.to_owned(), String::from_utf8_lossy(after).into_owned());
                return Err(ManifestFolderError::Separator { file, after });
            }
            if !document.is_empty() {
                end(&mut document);
                continue;
            }
        }
        document.extend_from_slice(line);
        document.push(b'\n');
    }
    end(&mut document);
    Ok(documents)
}
