//! The format of `ar`, in which Debian packages are.

use super::super::{BuildTime, PackageError};

/// First bytes of an archive.
const MAGIC: &[u8] = b"!<arch>\n";
/// Longest name that fits into the header.
const LONGEST_NAME: usize = 16;

/// An archive of files, by name. They stay in their order, which Debian prescribes.
pub fn ar(files: &[(&str, Vec<u8>)], time: &BuildTime) -> Result<Vec<u8>, PackageError> {
    let mut archive = MAGIC.to_vec();
    for (name, bytes) in files {
        if name.len() > LONGEST_NAME {
            return Err(PackageError::LongName((*name).to_owned()));
        }
        let header =
            format!("{name:<16}{:<12}{:<6}{:<6}{:<8}{:<10}`\n", time.0, 0, 0, 100_644, bytes.len());
        archive.extend_from_slice(header.as_bytes());
        archive.extend_from_slice(bytes);
        if bytes.len() % 2 == 1 {
            archive.push(b'\n');
        }
    }
    Ok(archive)
}
