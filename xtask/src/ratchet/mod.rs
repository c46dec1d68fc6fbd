//! Ratchets: figures of the sources that may fall and must not rise.
//!
//! Each ratchet has a committed file of figures per crate (`xtask/ratchets/NAME.txt`). A rise fails and prints every
//! hit of the crate; `--write` renews the file after a fall, and never raises a figure. A crate that the file does not
//! know starts from 0: a new crate is closed from the beginning.

mod baseline;
mod errors;
mod items;
mod modules;
mod sizes;
mod source;
mod words;

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use baseline::{Baseline, Key};
use source::Crate;

/// A failed ratchet.
#[derive(Debug, thiserror::Error)]
pub enum RatchetError {
    #[error("{}: {source}", path.display())]
    Unreadable { path: PathBuf, source: io::Error },
    #[error("line {line} is not `crate measure number`")]
    Malformed { line: usize },
    #[error("no ratchet {0}: words, errors or crates")]
    Unknown(String),
    #[error("{0} figures have risen: see above")]
    Risen(usize),
}

/// A place that is counted.
#[derive(Clone, Debug)]
pub struct Hit {
    /// `path:line`.
    pub position: String,
    pub text: String,
}

/// All that is counted, by crate and measure.
#[derive(Debug, Default)]
pub struct Hits {
    found: BTreeMap<Key, Vec<Hit>>,
    /// Figures without places.
    plain: BTreeMap<Key, usize>,
}

impl Hits {
    fn add(&mut self, owner: &str, measure: &str, hit: Hit) {
        self.found.entry((owner.to_owned(), measure.to_owned())).or_default().push(hit);
    }

    fn set(&mut self, owner: &str, measure: &str, count: usize) {
        self.plain.insert((owner.to_owned(), measure.to_owned()), count);
    }

    fn counts(&self) -> BTreeMap<Key, usize> {
        let found = self.found.iter().map(|(key, hits)| (key.clone(), hits.len()));
        found.chain(self.plain.clone()).collect()
    }
}

/// A ratchet: its name, what its file says at the top, and how it counts.
struct Ratchet {
    name: &'static str,
    about: &'static str,
    measure: fn(&[Crate]) -> Hits,
    summary: fn(&[Crate]) -> String,
}

const RATCHETS: [Ratchet; 3] = [
    Ratchet {
        name: "words",
        about: "doc comments that begin with a question word, pronouns, type names with several meanings, long test names",
        measure: words::measure,
        summary: words::share,
    },
    Ratchet {
        name: "errors",
        about: "results whose error is a text, a newtype of one, `dyn Error` or anyhow",
        measure: errors::measure,
        summary: errors::marks,
    },
    Ratchet {
        name: "crates",
        about: "lines and public items of crates over 20,000 lines, top-level modules in cycles",
        measure: sizes::measure,
        summary: sizes::table,
    },
];

/// Whether these are arguments of a ratchet.
pub fn takes(arguments: &[&str]) -> bool {
    matches!(arguments, [] | ["--write"] | ["--list", _])
}

/// Compares the sources with the file of a ratchet; `["--write"]` renews it, `["--list", CRATE]` prints a crate's hits.
pub fn run(name: &str, arguments: &[&str]) -> Result<(), RatchetError> {
    let ratchet = RATCHETS.iter().find(|ratchet| ratchet.name == name);
    let ratchet = ratchet.ok_or_else(|| RatchetError::Unknown(name.to_owned()))?;
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap_or(Path::new("."));
    let unreadable =
        |path: &Path, source| RatchetError::Unreadable { path: path.to_owned(), source };
    let crates = source::crates(root).map_err(|error| unreadable(root, error))?;
    let hits = (ratchet.measure)(&crates);
    if let ["--list", owner] = arguments {
        print_hits(&hits, |(name, _)| name == owner);
        return Ok(());
    }
    let today = Baseline {
        counts: hits.counts(),
        crates: crates.iter().map(|owner| owner.name.clone()).collect(),
    };
    let path = root.join("xtask/ratchets").join(format!("{name}.txt"));
    let before = match std::fs::read_to_string(&path) {
        Ok(text) => Baseline::parse(&text)?,
        // The first file has today's figures.
        Err(error) if error.kind() == io::ErrorKind::NotFound && arguments == ["--write"] => {
            return write(ratchet, &path, &today);
        }
        Err(error) => return Err(unreadable(&path, error)),
    };
    println!("{}", (ratchet.summary)(&crates));
    totals(&today);
    if arguments == ["--write"] {
        write(ratchet, &path, &before.lowered(&today))?;
    }
    compare(name, &before, &today, &hits)
}

fn write(ratchet: &Ratchet, path: &Path, figures: &Baseline) -> Result<(), RatchetError> {
    let Ratchet { name, about, .. } = ratchet;
    let head = format!("# cargo xtask {name}: {about}. May fall, must not rise.\n");
    let unwritable = |source| RatchetError::Unreadable { path: path.to_owned(), source };
    std::fs::write(path, figures.text(&head)).map_err(unwritable)
}

fn compare(
    name: &str,
    before: &Baseline,
    today: &Baseline,
    hits: &Hits,
) -> Result<(), RatchetError> {
    let changes = before.changes(today);
    for ((owner, measure), before, now) in &changes.fallen {
        println!("fallen: {owner} {measure} {before} -> {now} (cargo xtask {name} --write)");
    }
    for (key, before, now) in &changes.risen {
        print_hits(hits, |other| other == key);
        println!("RISEN: {} {} {before} -> {now}", key.0, key.1);
    }
    match changes.risen.len() {
        0 => Ok(()),
        risen => Err(RatchetError::Risen(risen)),
    }
}

/// The sum of each measure over all crates.
fn totals(today: &Baseline) {
    let mut totals: BTreeMap<&str, usize> = BTreeMap::new();
    for ((_, measure), count) in &today.counts {
        *totals.entry(measure).or_default() += count;
    }
    totals.iter().for_each(|(measure, total)| println!("{measure}: {total}"));
}

fn print_hits(hits: &Hits, wanted: impl Fn(&Key) -> bool) {
    for (key, hits) in hits.found.iter().filter(|(key, _)| wanted(key)) {
        for hit in hits {
            println!("{}: {} {}: {}", hit.position, key.0, key.1, hit.text);
        }
    }
}
