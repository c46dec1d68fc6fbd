//! The format of `tar`: POSIX ustar, with pax headers for extended attributes.

use super::super::{BuildTime, PackageError};
use super::{ArchiveEntry, EntryContent, FILE};

const BLOCK: usize = 512;
/// An archive ends with two blocks of zeros.
const END: usize = 2 * BLOCK;
/// Longest path or target that fits into a header. No file of a package has a longer one.
const LONGEST_PATH: usize = 100;
/// Largest file that eleven octal digits can say.
const LARGEST_FILE: usize = 0o777_7777_7777;

/// An archive of the entries in their order.
pub fn tar(entries: &[ArchiveEntry], time: &BuildTime) -> Result<Vec<u8>, PackageError> {
    let mut archive = Vec::new();
    let time = time.0;
    for entry in entries {
        if let EntryContent::Attributed(_, attributes) = &entry.content {
            let records: Vec<u8> =
                attributes.iter().flat_map(|(name, value)| record(name, value)).collect();
            header(
                &mut archive,
                Header { path: "pax", mode: FILE, kind: b'x', size: records.len(), link: "", time },
            )?;
            body(&mut archive, &records);
        }
        let folder = format!("{}/", entry.path);
        let (path, kind, link, content) = match &entry.content {
            EntryContent::Folder => (&folder, b'5', "", &[][..]),
            EntryContent::Link(target) => (&entry.path, b'2', target.as_str(), &[][..]),
            EntryContent::File(bytes) | EntryContent::Attributed(bytes, _) => {
                (&entry.path, b'0', "", bytes.as_slice())
            }
        };
        header(
            &mut archive,
            Header { path, mode: entry.mode, kind, size: content.len(), link, time },
        )?;
        body(&mut archive, content);
    }
    archive.resize(archive.len() + END, 0);
    Ok(archive)
}

struct Header<'a> {
    path: &'a str,
    mode: u32,
    kind: u8,
    size: usize,
    link: &'a str,
    time: u64,
}

fn header(archive: &mut Vec<u8>, header: Header<'_>) -> Result<(), PackageError> {
    for name in [header.path, header.link] {
        if name.len() > LONGEST_PATH {
            return Err(PackageError::LongName(name.to_owned()));
        }
    }
    if header.size > LARGEST_FILE {
        return Err(PackageError::LargeFile(header.path.to_owned()));
    }
    let mut block = [0; BLOCK];
    let mut put = |offset: usize, bytes: &[u8]| {
        block[offset..offset + bytes.len()].copy_from_slice(bytes);
    };
    put(0, header.path.as_bytes());
    put(100, format!("{:07o}", header.mode).as_bytes());
    put(108, b"0000000");
    put(116, b"0000000");
    put(124, format!("{:011o}", header.size).as_bytes());
    put(136, format!("{:011o}", header.time).as_bytes());
    // The checksum counts its own field as spaces.
    put(148, b"        ");
    put(156, &[header.kind]);
    put(157, header.link.as_bytes());
    put(257, b"ustar\x0000");
    put(265, b"root");
    put(297, b"root");
    put(329, b"0000000");
    put(337, b"0000000");
    let sum: u32 = block.iter().map(|byte| u32::from(*byte)).sum();
    block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    archive.extend_from_slice(&block);
    Ok(())
}

/// The bytes, and zeros up to the next block.
fn body(archive: &mut Vec<u8>, bytes: &[u8]) {
    archive.extend_from_slice(bytes);
    archive.resize(archive.len().next_multiple_of(BLOCK), 0);
}

/// A pax record of an extended attribute: its own length, which counts its digits too, then key and value.
fn record(name: &str, value: &[u8]) -> Vec<u8> {
    let rest = [b" SCHILY.xattr.", name.as_bytes(), b"=", value, b"\n"].concat();
    let mut length = rest.len();
    while rest.len() + length.to_string().len() != length {
        length = rest.len() + length.to_string().len();
    }
    [length.to_string().as_bytes(), &rest].concat()
}

#[cfg(test)]
mod tests {
    use super::record;

    #[test]
    fn a_record_counts_its_own_digits() {
        for (value, expected) in [(1, 22), (78, 99), (79, 101), (80, 102)] {
            let made = record("a.b", &vec![b'v'; value]);
            assert_eq!(made.len(), expected, "{value}");
            assert!(made.starts_with(format!("{expected} SCHILY.xattr.a.b=v").as_bytes()));
        }
    }
}
