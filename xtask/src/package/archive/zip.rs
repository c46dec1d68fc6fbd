//! The format of `zip`, in which wheels and jars are.

use std::io::Write as _;

use flate2::write::DeflateEncoder;
use flate2::{Compression, Crc};

use super::super::{BuildTime, PackageError};
use super::{ArchiveEntry, EntryContent};

/// Version of the format that is needed to read an entry: deflate, folders.
const NEEDED: u16 = 20;
/// Unix, so that modes are looked at, and the version.
const MADE_BY: u16 = (3 << 8) | NEEDED;
/// Names are UTF-8.
const FLAGS: u16 = 1 << 11;
const DEFLATE: u16 = 8;
const REGULAR_FILE: u32 = 0o100_000;
/// Years are seven bits since the first one.
const FIRST_YEAR: u16 = 1980;
const LAST_YEAR: u16 = FIRST_YEAR + 127;

/// An archive of files in their order; folders are not entries of their own. The format's times have
/// no zone; this one is UTC.
pub fn zip(entries: &[ArchiveEntry], time: &BuildTime) -> Result<Vec<u8>, PackageError> {
    let mut archive = Vec::new();
    let mut directory = Vec::new();
    let mut count: u16 = 0;
    let (date, time) = dos_time(time)?;
    for entry in entries.iter().filter(|entry| !matches!(entry.content, EntryContent::Folder)) {
        let too_large = || PackageError::LargeFile(entry.path.clone());
        let offset = u32::try_from(archive.len()).map_err(|_| too_large())?;
        let bytes = entry.bytes();
        let mut crc = Crc::new();
        crc.update(bytes);
        let mut encoder = DeflateEncoder::new(Vec::new(), Compression::best());
        let packed = encoder.write_all(bytes).and_then(|()| encoder.finish());
        let packed = packed.map_err(PackageError::Compression)?;

        let mut shared = Vec::new();
        for number in [NEEDED, FLAGS, DEFLATE, time, date] {
            shared.extend(number.to_le_bytes());
        }
        let sizes = [u32::try_from(packed.len()), u32::try_from(bytes.len())];
        shared.extend(crc.sum().to_le_bytes());
        for size in sizes {
            shared.extend(size.map_err(|_| too_large())?.to_le_bytes());
        }
        let name = u16::try_from(entry.path.len())
            .map_err(|_| PackageError::LongName(entry.path.clone()))?;
        shared.extend(name.to_le_bytes());
        // No extra field.
        shared.extend(0u16.to_le_bytes());

        archive.extend(*b"PK\x03\x04");
        archive.extend(&shared);
        archive.extend(entry.path.as_bytes());
        archive.extend(packed);

        directory.extend(*b"PK\x01\x02");
        directory.extend(MADE_BY.to_le_bytes());
        directory.extend(&shared);
        // No comment, the first disk, no attributes inside.
        directory.extend([0; 6]);
        directory.extend(((REGULAR_FILE | entry.mode) << 16).to_le_bytes());
        directory.extend(offset.to_le_bytes());
        directory.extend(entry.path.as_bytes());
        count = count.checked_add(1).ok_or_else(too_large)?;
    }
    let too_large = |_| PackageError::LargeFile("the directory".to_owned());
    let start = u32::try_from(archive.len()).map_err(too_large)?;
    let length = u32::try_from(directory.len()).map_err(too_large)?;
    archive.extend(directory);
    archive.extend(*b"PK\x05\x06\0\0\0\0");
    archive.extend(count.to_le_bytes());
    archive.extend(count.to_le_bytes());
    archive.extend(length.to_le_bytes());
    archive.extend(start.to_le_bytes());
    archive.extend([0; 2]);
    Ok(archive)
}

/// Date and time as the format has them: since 1980, two seconds apart. Before that, the format's first day.
fn dos_time(time: &BuildTime) -> Result<(u16, u16), PackageError> {
    let [year, month, day, hour, minute, second] = time.parts()?;
    if !(FIRST_YEAR..=LAST_YEAR).contains(&year) {
        return Ok(((1 << 5) | 1, 0));
    }
    let date = ((year - FIRST_YEAR) << 9) | (month << 5) | day;
    Ok((date, (hour << 11) | (minute << 5) | (second / 2)))
}

#[cfg(test)]
mod tests {
    use super::{BuildTime, dos_time};

    #[test]
    fn times_are_those_of_the_format() {
        for (seconds, expected) in [
            (0, (33, 0)),
            (315_532_800, (33, 0)),
            (315_532_800 + 86_400 + 3_662, (34, (1 << 11) | (1 << 5) | 1)),
        ] {
            assert_eq!(dos_time(&BuildTime(seconds)).unwrap(), expected);
        }
    }
}
