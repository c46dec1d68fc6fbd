//! The format of `zip`, in which wheels and jars are.

use std::io::{Cursor, Write as _};

use ::zip::write::SimpleFileOptions;
use ::zip::{CompressionMethod, DateTime, System, ZipWriter};

use super::super::{BuildTime, PackageError};
use super::{ArchiveEntry, EntryContent};

/// The best that deflate does.
const LEVEL: i64 = 9;

/// An archive of files in their order; folders are not entries of their own. The format's times have
/// no zone; this one is UTC.
pub fn zip(entries: &[ArchiveEntry], time: &BuildTime) -> Result<Vec<u8>, PackageError> {
    let mut archive = ZipWriter::new(Cursor::new(Vec::new()));
    let options = SimpleFileOptions::default()
        .compression_method(CompressionMethod::Deflated)
        .compression_level(Some(LEVEL))
        .last_modified_time(zip_time(time)?)
        .system(System::Unix);
    for entry in entries.iter().filter(|entry| !matches!(entry.content, EntryContent::Folder)) {
        let started = archive.start_file(&entry.path, options.unix_permissions(entry.mode));
        started.map_err(|error| PackageError::Archive(error.into()))?;
        archive.write_all(entry.bytes()).map_err(PackageError::Archive)?;
    }
    let finished = archive.finish().map_err(|error| PackageError::Archive(error.into()))?;
    Ok(finished.into_inner())
}

/// The time as the format has it; its first day, in 1980, for one that it cannot express.
fn zip_time(time: &BuildTime) -> Result<DateTime, PackageError> {
    let [year, rest @ ..] = time.parts()?;
    let [month, day, hour, minute, second] = rest.map(|part| u8::try_from(part).unwrap_or(u8::MAX));
    let time = DateTime::from_date_and_time(year, month, day, hour, minute, second);
    Ok(time.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::{BuildTime, zip_time};

    #[test]
    fn times_are_those_of_the_format() {
        for (seconds, date, time) in [
            (0, 33, 0),
            (315_532_800, 33, 0),
            (315_532_800 + 86_400 + 3_662, 34, (1 << 11) | (1 << 5) | 1),
        ] {
            let made = zip_time(&BuildTime(seconds)).unwrap();
            assert_eq!((made.datepart(), made.timepart()), (date, time), "{seconds}");
        }
    }
}
