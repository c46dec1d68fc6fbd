//! Writing certificates and keys.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

/// Who may read a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Readable {
    ByAll = 0o644,
    ByOwner = 0o600,
}

/// Writes a file as a whole: there is never a half of it, nor a moment in which others may read what
/// they should not. Folders above it are made.
pub(super) fn write(path: &Path, contents: &[u8], readable: Readable) -> Result<(), String> {
    write_atomically(path, contents, readable)
        .map_err(|error| format!("{}: {error}", path.display()))
}

fn write_atomically(path: &Path, contents: &[u8], readable: Readable) -> io::Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{}.new", std::process::id()));
    let temporary = Path::new(&name);
    // Left over from a process that had this number before.
    let _ = fs::remove_file(temporary);
    let mut file =
        OpenOptions::new().write(true).create_new(true).mode(readable as u32).open(temporary)?;
    file.write_all(contents)?;
    file.sync_all()?;
    fs::rename(temporary, path)
}

/// A PEM block.
pub(super) fn pem(label: &str, der: &[u8]) -> String {
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
        for (name, readable, mode) in
            [("a/b/key", Readable::ByOwner, 0o600), ("a/crt", Readable::ByAll, 0o644)]
        {
            let path = folder.path().join(name);
            write(&path, b"old", readable).unwrap();
            write(&path, b"new", readable).unwrap();
            assert_eq!(fs::read(&path).unwrap(), b"new");
            let found = fs::metadata(&path).unwrap().mode() & 0o777;
            // What the process's umask takes away, it may.
            assert_eq!(found & mode, found, "{name}");
            let folder = path.parent().unwrap();
            let files = fs::read_dir(folder).unwrap().filter(|entry| {
                entry.as_ref().unwrap().file_type().unwrap().is_file()
            });
            assert_eq!(files.count(), 1, "nothing is left beside it");
        }
    }
}
