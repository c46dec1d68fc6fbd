//! Writing of certificate and key files.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use bytes::Bytes;

use super::private;

/// Mode of a folder that all may read, as the reference creates `--cert-dir`.
const OPEN_FOLDER_MODE: u32 = 0o755;

/// Read permission of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Readable {
    ByAll = 0o644,
    ByOwner = private::FILE_MODE as isize,
}

/// Files to be written together.
#[derive(Debug, Default)]
pub(super) struct Batch(Vec<Planned>);

#[derive(Debug)]
struct Planned {
    path: PathBuf,
    contents: Vec<u8>,
    readable: Readable,
}

impl Batch {
    /// Adds a file.
    pub fn add(&mut self, path: &Path, contents: impl Into<Vec<u8>>, readable: Readable) {
        self.0.push(Planned { path: path.to_owned(), contents: contents.into(), readable });
    }

    /// Writes the files atomically: no file is ever incomplete, or readable by others before its mode is set. Missing
    /// folders are created, with access for the owner alone unless they hold a file for all.
    ///
    /// Each file is synced before it gets its name, and the name before this returns. The files are synced
    /// concurrently: a disk takes about as long for several as for one.
    pub fn write(self) -> Result<(), String> {
        let folders = self.folders();
        for (folder, mode) in &folders {
            private::create_dir_all_with(folder, *mode).map_err(|error| failed(folder, error))?;
        }
        std::thread::scope(|scope| {
            let threads: Vec<_> =
                self.0.iter().map(|file| scope.spawn(|| file.write_temporary())).collect();
            let results = threads.into_iter().map(|thread| match thread.join() {
                Ok(result) => result,
                Err(_) => Err("a file could not be written".to_owned()),
            });
            results.collect::<Result<(), _>>()
        })?;
        self.0.iter().try_for_each(|file| {
            fs::rename(file.temporary(), &file.path).map_err(|error| failed(&file.path, error))
        })?;
        folders
            .keys()
            .try_for_each(|folder| private::sync_dir(folder).map_err(|error| failed(folder, error)))
    }

    /// Folders of the files, with the mode for those that have to be created.
    fn folders(&self) -> BTreeMap<PathBuf, u32> {
        let mut folders = BTreeMap::new();
        for file in &self.0 {
            let folder = private::parent_of(&file.path).to_owned();
            let mode = folders.entry(folder).or_insert(private::FOLDER_MODE);
            if file.readable == Readable::ByAll {
                *mode = OPEN_FOLDER_MODE;
            }
        }
        folders
    }
}

fn failed(path: &Path, error: io::Error) -> String {
    format!("{}: {error}", path.display())
}

impl Planned {
    fn temporary(&self) -> PathBuf {
        let mut name = self.path.as_os_str().to_owned();
        name.push(format!(".{}.new", std::process::id()));
        name.into()
    }

    fn write_temporary(&self) -> Result<(), String> {
        let write = || -> io::Result<()> {
            // Left over from a process with the same process ID.
            let _ = fs::remove_file(self.temporary());
            let mode = self.readable as u32;
            let mut options = OpenOptions::new();
            let mut file =
                options.write(true).create_new(true).mode(mode).open(self.temporary())?;
            file.write_all(&self.contents)?;
            file.sync_all()
        };
        write().map_err(|error| failed(&self.path, error))
    }
}

/// Certificates of a PEM text that can be decoded, as DER.
pub fn pem_certificates(pem: &[u8]) -> Vec<Bytes> {
    use rustls::pki_types::CertificateDer;
    use rustls::pki_types::pem::PemObject as _;
    let certificates = CertificateDer::pem_slice_iter(pem).flatten();
    certificates.map(|der| Bytes::copy_from_slice(&der)).collect()
}

/// Encodes a PEM block.
pub fn pem(label: &str, der: &[u8]) -> String {
    let text = kevel_codec::base64::encode(der);
    let mut pem = format!("-----BEGIN {label}-----\n");
    let mut rest = text.as_str();
    while !rest.is_empty() {
        let (line, after) = rest.split_at(rest.len().min(64));
        pem.push_str(line);
        pem.push('\n');
        rest = after;
    }
    pem.push_str(&format!("-----END {label}-----\n"));
    pem
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt as _;

    use super::*;

    #[test]
    fn a_secret_is_readable_by_its_owner_alone() {
        let folder = tempfile::tempdir().unwrap();
        for (name, readable, mode, folder_mode) in
            [("a/b/key", Readable::ByOwner, 0o600, 0o700), ("c/crt", Readable::ByAll, 0o644, 0o755)]
        {
            let path = folder.path().join(name);
            for contents in ["old", "new"] {
                let mut batch = Batch::default();
                batch.add(&path, contents, readable);
                batch.write().unwrap();
            }
            assert_eq!(fs::read(&path).unwrap(), b"new");
            let found = fs::metadata(&path).unwrap().mode() & 0o777;
            // The process's umask may remove bits.
            assert_eq!(found & mode, found, "{name}");
            let folder = path.parent().unwrap();
            let found = fs::metadata(folder).unwrap().mode() & 0o777;
            assert_eq!(found & folder_mode, found, "{name}");
            let files = fs::read_dir(folder)
                .unwrap()
                .filter(|entry| entry.as_ref().unwrap().file_type().unwrap().is_file());
            assert_eq!(files.count(), 1, "nothing is left beside it");
        }
    }
}
