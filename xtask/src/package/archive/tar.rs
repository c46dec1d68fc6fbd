//! The format of `tar`: POSIX ustar, with pax headers for extended attributes.

use ::tar::{Builder, EntryType, Header};

use super::super::{BuildTime, PackageError};
use super::{ArchiveEntry, EntryContent};

/// Name of a pax record that holds an extended attribute, without the attribute's own name.
const ATTRIBUTE: &str = "SCHILY.xattr.";

/// An archive of the entries in their order.
pub fn tar(entries: &[ArchiveEntry], time: &BuildTime) -> Result<Vec<u8>, PackageError> {
    let mut archive = Builder::new(Vec::new());
    for entry in entries {
        let header = header(entry, time)?;
        if let EntryContent::Attributed(_, attributes) = &entry.content {
            let records: Vec<(String, &[u8])> = attributes
                .iter()
                .map(|(name, value)| (format!("{ATTRIBUTE}{name}"), value.as_slice()))
                .collect();
            let records = records.iter().map(|(name, value)| (name.as_str(), *value));
            archive.append_pax_extensions(records).map_err(PackageError::Archive)?;
        }
        let content = match &entry.content {
            EntryContent::File(bytes) | EntryContent::Attributed(bytes, _) => bytes.as_slice(),
            EntryContent::Folder | EntryContent::Link(_) => &[],
        };
        archive.append(&header, content).map_err(PackageError::Archive)?;
    }
    archive.into_inner().map_err(PackageError::Archive)
}

fn header(entry: &ArchiveEntry, time: &BuildTime) -> Result<Header, PackageError> {
    let mut header = Header::new_ustar();
    let (kind, end) = match &entry.content {
        EntryContent::Folder => (EntryType::Directory, "/"),
        EntryContent::Link(_) => (EntryType::Symlink, ""),
        EntryContent::File(_) | EntryContent::Attributed(..) => (EntryType::Regular, ""),
    };
    let path = format!("{}{end}", entry.path);
    // `set_path` drops the `./` that paths of Debian packages begin with.
    let name = &mut header.as_old_mut().name;
    let name = name.get_mut(..path.len()).ok_or_else(|| PackageError::LongName(path.clone()))?;
    name.copy_from_slice(path.as_bytes());
    if let EntryContent::Link(target) = &entry.content {
        header.set_link_name_literal(target).map_err(PackageError::Archive)?;
        header.set_size(0);
    } else {
        header.set_size(entry.bytes().len() as u64);
    }
    header.set_entry_type(kind);
    header.set_mode(entry.mode);
    header.set_mtime(time.0);
    for set in [Header::set_uid, Header::set_gid] {
        set(&mut header, 0);
    }
    for set in [Header::set_username, Header::set_groupname] {
        set(&mut header, "root").map_err(PackageError::Archive)?;
    }
    header.set_cksum();
    Ok(header)
}

#[cfg(test)]
mod tests {
    use super::super::FILE;
    use super::{ArchiveEntry, BuildTime, EntryContent, PackageError, tar};

    #[test]
    fn a_long_name_is_refused() {
        for (length, is_taken) in [(100, true), (101, false)] {
            let made = tar(&[ArchiveEntry::file("n".repeat(length), FILE, "")], &BuildTime(0));
            assert_eq!(made.is_ok(), is_taken, "{length}");
            assert!(is_taken || matches!(made, Err(PackageError::LongName(_))), "{made:?}");
        }
    }

    #[test]
    fn attributes_and_paths_are_read_back() {
        let attributes = vec![("security.capability".to_owned(), vec![0, 1, 255])];
        let entries = [
            ArchiveEntry::folder("."),
            ArchiveEntry {
                path: "./a".to_owned(),
                mode: FILE,
                content: EntryContent::Attributed(b"text".to_vec(), attributes),
            },
        ];
        let bytes = tar(&entries, &BuildTime(7)).unwrap();
        let mut archive = ::tar::Archive::new(bytes.as_slice());
        let mut read = Vec::new();
        for entry in archive.entries().unwrap() {
            let mut entry = entry.unwrap();
            let extensions = entry.pax_extensions().unwrap();
            let records: Vec<(String, Vec<u8>)> = extensions
                .into_iter()
                .flatten()
                .map(|record| record.unwrap())
                .map(|record| (record.key().unwrap().to_owned(), record.value_bytes().to_vec()))
                .collect();
            assert_eq!(entry.header().mtime().unwrap(), 7);
            read.push((String::from_utf8(entry.path_bytes().into_owned()).unwrap(), records));
        }
        let capability = ("SCHILY.xattr.security.capability".to_owned(), vec![0, 1, 255]);
        assert_eq!(read, [("./".to_owned(), vec![]), ("./a".to_owned(), vec![capability])]);
    }
}
