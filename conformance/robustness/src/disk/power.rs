//! Power loss at every sync: the store is opened on each possible disk state, and must have all acknowledged writes.

use std::collections::BTreeMap;
use std::path::Path;

use super::driver::{ACKS, STORE};
use super::image::{Disk, LOSSES, Lost, Record, next_record};
use super::verify::{Said, verify};
use super::{drive, folder, shim};
use crate::dice::Dice;

/// Sizes of values in bytes: small ones, and some large enough for a checkpoint of the log meanwhile.
const SMALL: usize = 1000;
const LARGE: usize = 200_000;
/// Interval of tried syncs with large values: each of those disks has tens of megabytes.
const LARGE_STRIDE: usize = 16;
/// Interval of tried syncs after a failed sync: there is a run for each of them.
const AFTER_FAILURE_STRIDE: usize = 12;

/// Loses power at every `stride`-th sync of a number of writes. Returns whether all checks passed.
pub async fn power(seed: u64, writes: usize, stride: usize, large: bool) -> Result<bool, String> {
    let base = folder()?;
    let Some(shim) = shim(base.path())? else { return Ok(true) };
    let small = lose(&shim, base.path(), seed, writes, SMALL, stride).await?;
    let failed = lose_after_failure(&shim, base.path(), seed, writes, stride).await?;
    let large =
        !large || lose(&shim, base.path(), seed, writes, LARGE, stride * LARGE_STRIDE).await?;
    Ok(small && failed && large)
}

/// Recorded run of the driver.
fn record(
    shim: &Path,
    base: &Path,
    writes: usize,
    size: usize,
    fails: Option<String>,
) -> Result<Vec<u8>, String> {
    let (written, trace) = (base.join("written"), base.join("trace"));
    let _ = std::fs::remove_dir_all(&written);
    let _ = std::fs::remove_file(&trace);
    std::fs::create_dir_all(&written).map_err(|error| error.to_string())?;
    let mut variables = vec![("KEVEL_SHIM_TRACE", trace.display().to_string())];
    variables.extend(fails.map(|fails| ("KEVEL_SHIM_FAIL", fails)));
    let output = drive(shim, &written, writes, size, &variables)?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    std::fs::read(&trace).map_err(|error| error.to_string())
}

async fn lose(
    shim: &Path,
    base: &Path,
    seed: u64,
    writes: usize,
    size: usize,
    stride: usize,
) -> Result<bool, String> {
    let trace = record(shim, base, writes, size, None)?;
    println!("power: seed {seed}, {writes} writes of {size} bytes, a loss at every {stride}. sync");
    let mut losses = Losses::new(base, seed);
    let (syncs, said) = losses.walk(&trace, stride).await?;
    if !losses.finds_lies(&trace, &Said::read(&said)).await? {
        losses.broken.push("a disk that takes syncs for nothing loses nothing".to_owned());
    }
    let acknowledged = Said::read(&said).acknowledged.len();
    println!("  {syncs} syncs, {acknowledged} acknowledged writes");
    Ok(losses.verdict())
}

/// Loses power after a failed sync, whose data are lost: no later sync writes them to the disk.
async fn lose_after_failure(
    shim: &Path,
    base: &Path,
    seed: u64,
    writes: usize,
    stride: usize,
) -> Result<bool, String> {
    let mut losses = Losses::new(base, seed);
    let (mut failing, mut last) = (0, 1);
    println!("power: seed {seed}, {writes} writes, a sync fails, and a loss after that");
    while failing < last {
        let n = failing + 1;
        let trace = record(shim, base, writes, SMALL, Some(format!("sync:{n}:eio:1")))?;
        losses.case = format!("sync:{n}:eio:1, ");
        last = losses.walk(&trace, stride * AFTER_FAILURE_STRIDE).await?.0;
        failing += 1;
    }
    println!("  {failing} syncs failed, each in a run of its own");
    Ok(losses.verdict())
}

/// Disk states that were opened.
#[derive(Debug, Default)]
struct Losses {
    /// Description of the run.
    case: String,
    folder: std::path::PathBuf,
    dice: Dice,
    opened: BTreeMap<String, usize>,
    broken: Vec<String>,
}

impl Losses {
    fn new(base: &Path, seed: u64) -> Losses {
        Losses { folder: base.join("lost"), dice: Dice::of(seed, 2), ..Losses::default() }
    }

    /// Prints the results; returns whether all checks passed.
    fn verdict(&self) -> bool {
        println!("  disks opened: {:?}", self.opened);
        match self.broken.first() {
            None => println!("PASS\n"),
            Some(first) => println!("FAIL: {}, the first:\n  {first}", self.broken.len()),
        }
        for broken in self.broken.iter().skip(1).take(20) {
            println!("  {broken}");
        }
        self.broken.is_empty()
    }

    /// Loses power at every `stride`-th sync of a trace and at its end. Returns the number of syncs, and the driver's
    /// output.
    async fn walk(&mut self, trace: &[u8], stride: usize) -> Result<(usize, String), String> {
        let (mut disk, mut rest, mut said, mut syncs) = (Disk::default(), trace, String::new(), 0);
        while let Some((record, more)) = next_record(rest) {
            rest = more;
            match &record {
                Record::Write { path, data, .. } if *path == ACKS => {
                    said.push_str(&String::from_utf8_lossy(data));
                    continue;
                }
                Record::Sync { .. } | Record::SyncFolder => {
                    if syncs % stride.max(1) == 0 {
                        self.all(&disk, &said, syncs).await?;
                    }
                    syncs += 1;
                }
                _ => {}
            }
            disk.apply(record);
        }
        self.all(&disk, &said, syncs).await?;
        Ok((syncs, said))
    }

    /// Whether the check detects loss: on a disk that ignores syncs, it must.
    async fn finds_lies(&mut self, trace: &[u8], said: &Said) -> Result<bool, String> {
        let (mut disk, mut rest) = (Disk::that_lies(), trace);
        while let Some((record, more)) = next_record(rest) {
            disk.apply(record);
            rest = more;
        }
        let _ = std::fs::remove_dir_all(&self.folder);
        let written = disk.write(&self.folder, Lost::All, &mut self.dice);
        written.map_err(|error| error.to_string())?;
        Ok(verify(&self.folder.join(STORE), said).await.is_err())
    }

    /// Checks all possible disk states at this moment.
    async fn all(&mut self, disk: &Disk<'_>, said: &str, sync: usize) -> Result<(), String> {
        let said = Said::read(said);
        for lost in LOSSES {
            let _ = std::fs::remove_dir_all(&self.folder);
            disk.write(&self.folder, lost, &mut self.dice).map_err(|error| error.to_string())?;
            *self.opened.entry(format!("{lost:?}")).or_default() += 1;
            if let Err(why) = verify(&self.folder.join(STORE), &said).await {
                self.broken.push(format!("{}before sync {sync}, lost {lost:?}: {why}", self.case));
            }
        }
        Ok(())
    }
}
