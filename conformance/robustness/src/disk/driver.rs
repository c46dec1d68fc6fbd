//! Driver process: a few writers on a few keys, with compaction, and a close and reopening in the middle.
//!
//! Prints attempts and acknowledgements to a file beside the store, a line each, before and after: `try KEY VALUE`,
//! `ack REVISION KEY VALUE`. A value of `-` is a deletion.

use std::fs::File;
use std::io::Write as _;
use std::path::Path;

use kevel_store::embedded::{Embedded, Options};
use kevel_store::{Engine, Error, Revision};

/// Store, below the folder.
pub const STORE: &str = "db";
/// File of attempts and acknowledgements, below the folder.
pub const ACKS: &str = "acks";
/// Number of keys that are written.
const KEYS: usize = 12;
/// Number of concurrent writes, which the store puts into one transaction.
const AT_ONCE: usize = 3;
/// Attempts to open a store.
const OPENINGS: usize = 3;
/// Number of consecutive failures after which the disk counts as permanently broken.
const BROKEN: usize = 12;

/// Writes until it has written enough or the disk is broken. Fails if the store does not recover although the disk
/// does.
pub async fn drive(folder: &Path, writes: usize, size: usize) -> Result<(), String> {
    let acks = File::options().create(true).append(true).open(folder.join(ACKS));
    let mut driver = Driver { acks: acks.map_err(|error| error.to_string())?, size, failed: 0 };
    let mut store = open(folder)?;
    let (turns, mut turn) = (writes.div_ceil(AT_ONCE), 0);
    // A failure at the end is retried a few times: a transient fault must not be the last result.
    while turn < turns || (1..BROKEN).contains(&driver.failed) {
        let batch = (0..AT_ONCE).map(|place| driver.prepare(turn * AT_ONCE + place));
        let batch: Vec<(String, usize)> = batch.collect();
        let mut done = Vec::new();
        for (key, number) in &batch {
            done.push(driver.plan(&store, key, *number).await);
        }
        let [a, b, c] = <[Option<Step>; AT_ONCE]>::try_from(done).map_err(|_| "not so many")?;
        let (a, b, c) = tokio::join!(write(&store, a), write(&store, b), write(&store, c));
        for outcome in [a, b, c].into_iter().flatten() {
            driver.note(outcome)?;
        }
        if driver.failed >= BROKEN {
            break;
        }
        if turn % 16 == 15 {
            let current = store.current_revision().await.unwrap_or_default();
            let _ = store.compact(Revision(current.0.saturating_sub(20))).await;
        }
        if turn == turns / 2 {
            store.close().await;
            drop(store);
            store = open(folder)?;
        }
        turn += 1;
    }
    store.close().await;
    println!("failed in the end: {}", driver.failed);
    Ok(())
}

fn open(folder: &Path) -> Result<Embedded, String> {
    let options = Options { compaction_interval: None, ..Options::default() };
    let mut opened = Embedded::open(&folder.join(STORE), options.clone());
    for _ in 1..OPENINGS {
        match &opened {
            Err(Error::Unavailable(_) | Error::Invalid(_) | Error::Corrupt(_)) => {
                opened = Embedded::open(&folder.join(STORE), options.clone());
            }
            _ => break,
        }
    }
    opened.map_err(|error| format!("cannot open: {error}"))
}

/// A planned write.
struct Step {
    key: String,
    /// New value; `None` to delete.
    value: Option<String>,
    /// Expected revision; `None` to create.
    expected: Option<Revision>,
}

struct Driver {
    acks: File,
    size: usize,
    /// Number of consecutive failures.
    failed: usize,
}

impl Driver {
    fn prepare(&self, number: usize) -> (String, usize) {
        (format!("/registry/things/{}", number * 7 % KEYS), number)
    }

    /// Plans a write of a key; `None` if the key cannot be read.
    async fn plan(&mut self, store: &Embedded, key: &str, number: usize) -> Option<Step> {
        let current = match store.get(key.as_bytes(), None).await {
            Ok(read) => read.entry,
            Err(_) => {
                self.failed += 1;
                return None;
            }
        };
        let expected = current.map(|entry| entry.mod_revision);
        let deletes = expected.is_some() && number % 11 == 10;
        let value = (!deletes).then(|| format!("{number}"));
        let shown = value.as_deref().unwrap_or("-");
        self.acks.write_all(format!("try {key} {shown}\n").as_bytes()).ok()?;
        let value = value.map(|value| value + &" ".repeat(self.size));
        Some(Step { key: key.to_owned(), value, expected })
    }

    fn note(&mut self, outcome: (Step, Result<Revision, Error>)) -> Result<(), String> {
        let (step, outcome) = outcome;
        match outcome {
            Ok(revision) => {
                self.failed = 0;
                let value = step.value.as_deref().unwrap_or("-").trim_end();
                let line = format!("ack {revision} {} {value}\n", step.key);
                self.acks.write_all(line.as_bytes()).map_err(|error| error.to_string())
            }
            Err(error) => {
                self.failed += 1;
                eprintln!("{}: {error}", step.key);
                Ok(())
            }
        }
    }
}

async fn write(store: &Embedded, step: Option<Step>) -> Option<(Step, Result<Revision, Error>)> {
    let step = step?;
    let key = step.key.as_bytes();
    let outcome = match (&step.value, step.expected) {
        (Some(value), None) => store.create(key, value.clone().into(), None).await,
        (Some(value), Some(expected)) => {
            store.update(key, value.clone().into(), expected, None).await
        }
        (None, expected) => store.delete(key, expected.unwrap_or_default()).await,
    };
    Some((step, outcome))
}
