//! Planted faults: does a test notice when a line is wrong?
//!
//! `xtask/mutants/CRATE.txt` lists faults of one line each, and the test that fails with it ([`list`]). All of them are
//! planted at once into a copy of the sources below `target/mutants/tree`: an expression `E` becomes `(if fault(N) { FAULTY }
//! else { E })`, where the environment variable `KEVEL_FAULT` says which fault is on ([`plant`]). So one build serves all
//! faults, and a fault costs no more than the run of one test ([`kill`]).
//!
//! The command fails if an expression is not found any more, if a test fails without a fault, or passes with it. For faults
//! without a test, all tests of the packages that their list names are run once, alone and without a fault, to learn which
//! faults they reach ([`reach`]); then each fault is tried with the tests that reach it, one package after the other.
//! `--write` puts what was found into the list.

mod kill;
mod list;
mod plant;
mod program;
mod reach;
mod tree;

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Instant;

use kill::{KillVerdict, Tests};
use list::{Fate, FaultList, PlantedFault, TestName};
use program::NeededTargets;

/// A failed run.
#[derive(Debug, thiserror::Error)]
pub enum MutantsError {
    #[error("{}: {source}", path.display())]
    Unreadable { path: PathBuf, source: io::Error },
    #[error("{file}, line {line}: {why}")]
    Malformed { file: String, line: usize, why: String },
    #[error("no list xtask/mutants/{0}.txt")]
    NoList(String),
    #[error("{0} faults do not fit the sources: see above")]
    Misplaced(usize),
    #[error("the planted sources do not build: see above")]
    Build,
    #[error("cargo says nothing that can be read: {0}")]
    Cargo(serde_json::Error),
    #[error("{0} faults survive, or have no test that works: see above")]
    Survived(usize),
}

impl MutantsError {
    fn at(path: &Path) -> impl FnOnce(io::Error) -> MutantsError {
        let path = path.to_owned();
        move |source| MutantsError::Unreadable { path, source }
    }
}

/// Arguments of the command.
#[derive(Debug, Default)]
struct MutantsArguments<'a> {
    /// Only look whether the faults fit the sources.
    check: bool,
    /// Put the tests that were found into the lists.
    write: bool,
    /// Only faults that have a test.
    known: bool,
    /// Only faults that have no test yet.
    untried: bool,
    /// Only faults whose name or file contains this.
    only: Option<&'a str>,
    crates: Vec<&'a str>,
}

impl<'a> MutantsArguments<'a> {
    fn parse(arguments: &[&'a str]) -> Option<Self> {
        let mut parsed = MutantsArguments::default();
        let mut rest = arguments.iter();
        while let Some(argument) = rest.next() {
            match *argument {
                "--check" => parsed.check = true,
                "--write" => parsed.write = true,
                "--known" => parsed.known = true,
                "--untried" => parsed.untried = true,
                "--only" => parsed.only = Some(rest.next()?),
                flag if flag.starts_with('-') => return None,
                name => parsed.crates.push(name),
            }
        }
        Some(parsed)
    }

    fn chooses(&self, fault: &PlantedFault) -> bool {
        let named = |text: &str| fault.name.contains(text) || fault.file.contains(text);
        let unknown = fault.fate == Fate::Unknown;
        self.only.is_none_or(named) && !(self.known && unknown) && (unknown || !self.untried)
    }
}

/// Whether these are arguments of the command.
pub fn takes(arguments: &[&str]) -> bool {
    MutantsArguments::parse(arguments).is_some()
}

/// Plants the faults, and lets their tests find them.
pub fn run(arguments: &[&str]) -> Result<(), MutantsError> {
    let arguments = MutantsArguments::parse(arguments).unwrap_or_default();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap_or(Path::new("."));
    let mut lists = FaultList::read_all(root)?;
    if let Some(unknown) = arguments.crates.iter().find(|name| !lists.contains_key(**name)) {
        return Err(MutantsError::NoList((*unknown).to_owned()));
    }
    let tree = tree::Tree::at(root);
    let misplaced = tree.plant(root, &lists)?;
    if !misplaced.is_empty() {
        misplaced.iter().for_each(|why| eprintln!("{why}"));
        return Err(MutantsError::Misplaced(misplaced.len()));
    }
    let count: usize = lists.values().map(|list| list.faults.len()).sum();
    println!("{count} faults planted in {} crates", lists.len());
    if arguments.check {
        return Ok(());
    }
    let mut failed = 0;
    let mut table = Vec::new();
    let wanted = |name: &str| arguments.crates.is_empty() || arguments.crates.contains(&name);
    let packages = lists.values().flat_map(|list| &list.packages).collect();
    let needed = needed(&lists, &arguments, &wanted);
    let mut tests = Tests::build(&tree, &packages, &needed)?;
    for (name, list) in lists.iter_mut().filter(|(name, _)| wanted(name)) {
        let began = Instant::now();
        let verdicts = tests.judge(name, list, |fault| arguments.chooses(fault))?;
        failed += report(name, list, &verdicts);
        if arguments.write {
            fill_in(list, &verdicts);
            list.write(root, name)?;
        }
        table.push((name.clone(), FaultTally::of(list), began.elapsed().as_secs()));
    }
    print_survivors(lists.iter().filter(|(name, _)| wanted(name)));
    print_table(&table);
    match failed {
        0 => Ok(()),
        failed => Err(MutantsError::Survived(failed)),
    }
}

/// The test targets that are needed: by package, the names of targets; none for all of them.
fn needed(
    lists: &BTreeMap<String, FaultList>,
    arguments: &MutantsArguments<'_>,
    wanted: &dyn Fn(&str) -> bool,
) -> NeededTargets {
    let mut needed = NeededTargets::new();
    for (_, list) in lists.iter().filter(|(name, _)| wanted(name)) {
        for fault in list.faults.iter().filter(|fault| arguments.chooses(fault)) {
            match &fault.fate {
                Fate::KilledBy(TestName { package, target, .. }) => {
                    let targets = needed.entry(package.clone()).or_insert(Some(Vec::new()));
                    if let Some(targets) = targets.as_mut().filter(|known| !known.contains(target))
                    {
                        targets.push(target.clone());
                    }
                }
                Fate::Survives(_) => {}
                Fate::Unknown => {
                    needed.extend(list.packages.iter().map(|package| (package.clone(), None)));
                }
            }
        }
    }
    needed
}

/// Prints the faults that no test noticed, and returns their number.
fn report(name: &str, list: &FaultList, verdicts: &[(usize, KillVerdict)]) -> usize {
    let mut failed = 0;
    for (index, verdict) in verdicts {
        let Some(fault) = list.faults.get(*index) else { continue };
        let what = format!("{name} {}, {}: {}", index + 1, fault.file, fault.name);
        match verdict {
            KillVerdict::Killed => {}
            KillVerdict::Found(test) => println!("{what}\n  killed by: {test}"),
            KillVerdict::Survived(0) => {
                failed += 1;
                eprintln!("{what}\n  SURVIVED: no test reaches it");
            }
            KillVerdict::Survived(tests) => {
                failed += 1;
                eprintln!("{what}\n  SURVIVED {tests} tests");
            }
            KillVerdict::Unusable(why) => {
                failed += 1;
                eprintln!("{what}\n  {why}");
            }
        }
    }
    failed
}

fn fill_in(list: &mut FaultList, verdicts: &[(usize, KillVerdict)]) {
    for (index, verdict) in verdicts {
        if let (Some(fault), KillVerdict::Found(test)) = (list.faults.get_mut(*index), verdict) {
            fault.fate = Fate::KilledBy(test.clone());
        }
    }
}

/// Prints the faults that no test can see, with the reasons that the lists give.
fn print_survivors<'l>(lists: impl Iterator<Item = (&'l String, &'l FaultList)>) {
    for (name, list) in lists {
        for fault in &list.faults {
            if let Fate::Survives(why) = &fault.fate {
                println!("{name}, {}: {}\n  survives: {why}", fault.file, fault.name);
            }
        }
    }
}

/// Counts of faults, by their fate.
#[derive(Clone, Copy, Debug, Default)]
struct FaultTally {
    killed: usize,
    survive: usize,
    untried: usize,
}

impl FaultTally {
    fn of(list: &FaultList) -> Self {
        let mut tally = FaultTally::default();
        list.faults.iter().for_each(|fault| match fault.fate {
            Fate::KilledBy(_) => tally.killed += 1,
            Fate::Survives(_) => tally.survive += 1,
            Fate::Unknown => tally.untried += 1,
        });
        tally
    }

    /// Share of the faults that were tried, in percent.
    fn rate(self) -> usize {
        self.killed * 100 / (self.killed + self.survive).max(1)
    }

    fn add(&mut self, other: FaultTally) {
        self.killed += other.killed;
        self.survive += other.survive;
        self.untried += other.untried;
    }
}

fn print_table(table: &[(String, FaultTally, u64)]) {
    println!("{:<14} killed survive untried  rate seconds", "crate");
    let print = |name: &str, tally: FaultTally, seconds: u64| {
        let FaultTally { killed, survive, untried } = tally;
        let rate = tally.rate();
        println!("{name:<14} {killed:6} {survive:7} {untried:7} {rate:4}% {seconds:7}");
    };
    let (mut all, mut time) = (FaultTally::default(), 0);
    for (name, tally, seconds) in table {
        print(name, *tally, *seconds);
        all.add(*tally);
        time += seconds;
    }
    print("all", all, time);
}
