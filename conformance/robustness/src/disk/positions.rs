//! Faults at every position: the first disk write fails, then the second, and so on; the same for syncs, truncations
//! and reads.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::driver::{ACKS, STORE};
use super::verify::{Said, verify};
use super::{drive, folder, shim};

/// Failing call, error, and number of failures (0: permanent).
const FAULTS: &[(&str, &str, u32)] = &[
    ("write", "enospc", 1),
    ("write", "enospc", 0),
    ("write", "eio", 1),
    ("write", "short", 1),
    ("sync", "eio", 1),
    ("sync", "eio", 0),
    ("truncate", "eio", 1),
    // SQLite takes EIO for a damaged file, and any other error for a failing disk.
    ("read", "eio", 1),
    ("read", "estale", 1),
];
/// Size of a value in bytes.
const SIZE: usize = 1000;
/// Number of concurrent runs.
const WORKERS: usize = 2;

/// Results of all runs.
#[derive(Debug, Default)]
struct Tally {
    runs: BTreeMap<String, usize>,
    acknowledged: usize,
    broken: Vec<String>,
}

/// Tries every `stride`-th position of a number of writes, from the `first` on. Returns whether all runs passed.
pub async fn positions(writes: usize, stride: usize, first: usize) -> Result<bool, String> {
    let base = folder()?;
    let Some(shim) = shim(base.path())? else { return Ok(true) };
    let counts = count(&shim, base.path(), writes)?;
    println!(
        "disk: {writes} writes of the store are {counts:?} calls; every {stride}. of them fails, from the {first}. on"
    );
    let mut cases: Vec<(String, bool)> = Vec::new();
    for (what, how, times) in FAULTS {
        let last = counts.get(*what).copied().unwrap_or_default();
        for n in (first..=last).step_by(stride.max(1)) {
            cases.push((format!("{what}:{n}:{how}:{times}"), *times == 1));
        }
    }
    let (cases, next) = (Arc::new(cases), Arc::new(AtomicUsize::new(0)));
    let tally = Arc::new(Mutex::new(Tally::default()));
    let mut workers = tokio::task::JoinSet::new();
    for worker in 0..WORKERS {
        let (cases, next, tally) = (cases.clone(), next.clone(), tally.clone());
        let (shim, folder) = (shim.clone(), base.path().join(format!("worker-{worker}")));
        workers.spawn(async move {
            while let Some((case, passes)) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
                let outcome = try_case(&shim, &folder, writes, case, *passes).await;
                let mut tally = tally.lock().unwrap_or_else(PoisonError::into_inner);
                let kind = kind_of(case);
                *tally.runs.entry(kind).or_default() += 1;
                match outcome {
                    Ok(acknowledged) => tally.acknowledged += acknowledged,
                    Err(why) => tally.broken.push(format!("{case}: {why}")),
                }
            }
        });
    }
    workers.join_all().await;
    let tally = tally.lock().unwrap_or_else(PoisonError::into_inner);
    for (kind, runs) in &tally.runs {
        println!("  {kind:<24} {runs} positions");
    }
    println!("  acknowledged in all      {}", tally.acknowledged);
    match tally.broken.first() {
        None => println!("PASS\n"),
        Some(first) => {
            println!("FAIL: {} of {}, the first:\n  {first}", tally.broken.len(), cases.len())
        }
    }
    for broken in tally.broken.iter().skip(1).take(20) {
        println!("  {broken}");
    }
    Ok(tally.broken.is_empty())
}

/// `write:17:enospc:1` without the number.
fn kind_of(case: &str) -> String {
    let words: Vec<&str> = case.split(':').collect();
    match words[..] {
        [what, _, how, "0"] => format!("{what} {how} for good"),
        [what, _, how, _] => format!("{what} {how}"),
        _ => case.to_owned(),
    }
}

/// Number of calls of each kind without faults.
fn count(shim: &Path, base: &Path, writes: usize) -> Result<BTreeMap<String, usize>, String> {
    let (folder, counts) = (base.join("count"), base.join("counts"));
    std::fs::create_dir_all(&folder).map_err(|error| error.to_string())?;
    let variables = [("KEVEL_SHIM_COUNT", counts.display().to_string())];
    let output = drive(shim, &folder, writes, SIZE, &variables)?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    let text = std::fs::read_to_string(&counts).map_err(|error| error.to_string())?;
    let pairs = text.lines().filter_map(|line| line.split_once(' '));
    Ok(pairs.filter_map(|(name, n)| Some((name.to_owned(), n.parse().ok()?))).collect())
}

/// Runs one case; returns the number of acknowledged writes.
async fn try_case(
    shim: &Path,
    folder: &Path,
    writes: usize,
    case: &str,
    passes: bool,
) -> Result<usize, String> {
    let _ = std::fs::remove_dir_all(folder);
    std::fs::create_dir_all(folder).map_err(|error| error.to_string())?;
    let variables = [("KEVEL_SHIM_FAIL", case.to_owned())];
    let output = drive(shim, folder, writes, SIZE, &variables)?;
    let said = std::fs::read_to_string(folder.join(ACKS)).unwrap_or_default();
    let said = Said::read(&said);
    verify(&folder.join(STORE), &said).await?;
    // After a single failed call, the store recovers by itself.
    let printed = String::from_utf8_lossy(&output.stdout);
    if passes && !printed.contains("failed in the end: 0") {
        let why = String::from_utf8_lossy(&output.stderr);
        return Err(format!("it does not go on: {printed}{why}"));
    }
    Ok(said.acknowledged.len())
}
