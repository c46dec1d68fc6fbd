//! Possible disk states after a power loss: synced data are there; of other data, any part or none.

use std::collections::BTreeMap;
use std::path::Path;

use crate::dice::Dice;

/// Unit that a disk writes atomically.
const SECTOR: usize = 512;

/// A record of the shim's trace.
#[derive(Debug, PartialEq, Eq)]
pub enum Record<'a> {
    /// Bytes are written to a file.
    Write { path: &'a str, at: usize, data: &'a [u8] },
    /// A file is truncated or extended.
    Truncate { path: &'a str, length: usize },
    /// A file is synced.
    Sync { path: &'a str },
    /// A sync of a file fails.
    FailedSync { path: &'a str },
    /// A folder is synced.
    SyncFolder,
    /// A file is created.
    Create { path: &'a str },
    /// A file is removed.
    Remove { path: &'a str },
}

/// Next record of a trace, and the rest. `None` at its end, or if the record is incomplete.
pub fn next_record(trace: &[u8]) -> Option<(Record<'_>, &[u8])> {
    let end = trace.iter().position(|byte| *byte == b'\n')?;
    let line = std::str::from_utf8(trace.get(..end)?).ok()?;
    let rest = trace.get(end + 1..)?;
    let words: Vec<&str> = line.split(' ').collect();
    Some(match words[..] {
        ["W", path, at, length] => {
            let (at, length) = (at.parse().ok()?, length.parse().ok()?);
            let (data, rest) = rest.split_at_checked(length)?;
            (Record::Write { path, at, data }, rest)
        }
        ["T", path, length] => (Record::Truncate { path, length: length.parse().ok()? }, rest),
        ["S", path] => (Record::Sync { path }, rest),
        ["F", path] => (Record::FailedSync { path }, rest),
        ["D", _] => (Record::SyncFolder, rest),
        ["C", path] => (Record::Create { path }, rest),
        ["U", path] => (Record::Remove { path }, rest),
        _ => return None,
    })
}

/// Loss of data that were not synced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lost {
    /// All is lost.
    All,
    /// The disk image has every write.
    Nothing,
    /// Random writes are lost.
    Some,
    /// The last write of each file is cut.
    Torn,
    /// Random sectors are lost.
    Sectors,
}

/// All kinds of loss.
pub const LOSSES: [Lost; 5] = [Lost::All, Lost::Nothing, Lost::Some, Lost::Torn, Lost::Sectors];

#[derive(Debug, Clone)]
enum Pending<'a> {
    Write(usize, &'a [u8]),
    Truncate(usize),
}

#[derive(Debug, Default)]
struct File<'a> {
    durable: Vec<u8>,
    pending: Vec<Pending<'a>>,
}

/// A disk, with synced and unsynced data.
#[derive(Debug, Default)]
pub struct Disk<'a> {
    files: Vec<File<'a>>,
    /// Whether it ignores syncs, as the worst disks do.
    lies: bool,
    names: BTreeMap<&'a str, usize>,
    durable_names: BTreeMap<&'a str, usize>,
}

impl<'a> Disk<'a> {
    /// Makes a disk that ignores syncs.
    pub fn that_lies() -> Disk<'a> {
        Disk { lies: true, ..Disk::default() }
    }

    /// Applies a record.
    pub fn apply(&mut self, record: Record<'a>) {
        match record {
            Record::Write { path, at, data } => {
                self.file(path).pending.push(Pending::Write(at, data));
            }
            Record::Truncate { path, length } => {
                self.file(path).pending.push(Pending::Truncate(length));
            }
            Record::Sync { .. } if self.lies => {}
            Record::Sync { path } => {
                let file = self.file(path);
                for pending in std::mem::take(&mut file.pending) {
                    pending.apply(&mut file.durable);
                }
            }
            // Linux considers data of a failed sync written: no later sync retries them.
            Record::FailedSync { path } => {
                if let Some(place) = self.names.get(path) {
                    self.files[*place].pending.clear();
                }
            }
            Record::SyncFolder => self.durable_names = self.names.clone(),
            Record::Create { path } => {
                self.files.push(File::default());
                self.names.insert(path, self.files.len() - 1);
            }
            Record::Remove { path } => drop(self.names.remove(path)),
        }
    }

    fn file(&mut self, path: &'a str) -> &mut File<'a> {
        let files = &mut self.files;
        let place = *self.names.entry(path).or_insert_with(|| {
            files.push(File::default());
            files.len() - 1
        });
        &mut self.files[place]
    }

    /// Writes the files in a state after a power loss.
    pub fn write(&self, folder: &Path, lost: Lost, dice: &mut Dice) -> std::io::Result<()> {
        let old_names = match lost {
            Lost::All => true,
            Lost::Nothing => false,
            _ => dice.chance(50),
        };
        let names = if old_names { &self.durable_names } else { &self.names };
        for (path, place) in names {
            // SQLite recreates its shared memory.
            if path.ends_with("-shm") {
                continue;
            }
            let target = folder.join(path);
            if let Some(parent) = target.parent() {
                std::fs::create_dir_all(parent)?;
            }
            std::fs::write(target, self.files[*place].after(lost, dice))?;
        }
        Ok(())
    }
}

impl File<'_> {
    fn after(&self, lost: Lost, dice: &mut Dice) -> Vec<u8> {
        let mut content = self.durable.clone();
        let last = self.pending.len().saturating_sub(1);
        for (place, pending) in self.pending.iter().enumerate() {
            match (lost, pending) {
                (Lost::All, _) => {}
                (Lost::Nothing, _) => pending.apply(&mut content),
                (Lost::Some, _) if dice.chance(50) => {}
                (Lost::Torn, Pending::Write(at, data)) if place == last => {
                    let sectors = data.len().div_ceil(SECTOR) as u64;
                    let kept = (dice.roll(sectors + 1) as usize * SECTOR).min(data.len());
                    Pending::Write(*at, &data[..kept]).apply(&mut content);
                }
                (Lost::Sectors, Pending::Write(at, data)) => {
                    for (number, sector) in data.chunks(SECTOR).enumerate() {
                        if dice.chance(50) {
                            Pending::Write(at + number * SECTOR, sector).apply(&mut content);
                        }
                    }
                }
                _ => pending.apply(&mut content),
            }
        }
        content
    }
}

impl Pending<'_> {
    fn apply(&self, content: &mut Vec<u8>) {
        match self {
            Pending::Truncate(length) => content.resize(*length, 0),
            Pending::Write(at, data) => {
                let end = at + data.len();
                if content.len() < end && !data.is_empty() {
                    content.resize(end, 0);
                }
                if let Some(place) = content.get_mut(*at..end) {
                    place.copy_from_slice(data);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_synced_can_be_lost() {
        let trace = b"C a\nW a 0 3\nabcS a\nD .\nW a 2 2\nXYU a\n";
        let (mut disk, mut rest) = (Disk::default(), &trace[..]);
        let mut records = 0;
        while let Some((record, more)) = next_record(rest) {
            (rest, records) = (more, records + 1);
            disk.apply(record);
        }
        assert_eq!((records, rest), (6, &b""[..]));
        let file = &disk.files[0];
        let mut dice = Dice::of(1, 1);
        assert_eq!(file.after(Lost::All, &mut dice), b"abc");
        assert_eq!(file.after(Lost::Nothing, &mut dice), b"abXY");
        assert_eq!(disk.durable_names.len(), 1, "its removal is not synced");
        assert_eq!(disk.names.len(), 0);
    }
}
