//! Faults that each test reaches, kept in `target/mutants/reach.txt` for as long as its program stays the same:
//!
//! ```text
//! = /…/target/debug/deps/kevel_store-0123456789abcdef 1763464000000000000 52428800
//! cache::tests::name 12 ok kevel-store:3 kevel-store:17
//! ```
//!
//! A program has its path, time of change and size; a test its name, milliseconds, result without a fault, and faults.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, UNIX_EPOCH};

use super::MutantsError;
use super::kill::ONE_TEST;
use super::program::{RunSetting, TestProgram};
use super::tree::Tree;

/// A test that was run alone and without a fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TracedTest {
    pub name: String,
    pub time: Duration,
    pub passed: bool,
    /// Faults, `PACKAGE NUMBER`.
    faults: BTreeSet<String>,
}

impl TracedTest {
    /// Whether the test passes, and its code with a fault is run.
    pub fn may_kill(&self, fault: &str) -> bool {
        self.passed && self.faults.contains(fault)
    }
}

/// The traced tests of all programs.
#[derive(Debug)]
pub struct ReachMap {
    folder: PathBuf,
    /// By program.
    traced: BTreeMap<String, Vec<TracedTest>>,
}

impl ReachMap {
    /// The map that an earlier run has left.
    pub fn read(tree: &Tree) -> Self {
        let folder = tree.target.join("mutants");
        let text = std::fs::read_to_string(folder.join("reach.txt")).unwrap_or_default();
        ReachMap { folder, traced: parse(&text) }
    }

    /// Tests of a program.
    pub fn of(&self, program: &TestProgram) -> &[TracedTest] {
        self.traced.get(&identity(&program.program)).map_or(&[], Vec::as_slice)
    }

    /// Runs the tests of programs that are not known yet.
    pub fn trace(&mut self, programs: &[&TestProgram]) -> Result<(), MutantsError> {
        for program in programs {
            let identity = identity(&program.program);
            if self.traced.contains_key(&identity) {
                continue;
            }
            let tests: Vec<&String> = program.tests.iter().collect();
            println!("{} {}: tracing {} tests", program.package, program.name, tests.len());
            let traced = in_parallel(tests, |number, name| {
                let file = self.folder.join(format!("trace.{number}"));
                let traced = trace(program, name, &file);
                let _ = std::fs::remove_file(&file);
                traced
            });
            for test in traced.iter().filter(|test| !test.passed) {
                eprintln!("{} fails without a fault", program.test(&test.name));
            }
            // What another build has left behind is not needed any more.
            self.traced.retain(|known, _| is_there(known));
            self.traced.insert(identity, traced);
            self.write()?;
        }
        Ok(())
    }

    fn write(&self) -> Result<(), MutantsError> {
        let path = self.folder.join("reach.txt");
        std::fs::write(&path, render(&self.traced)).map_err(MutantsError::at(&path))
    }
}

/// Runs one test without a fault.
fn trace(program: &TestProgram, name: &str, file: &Path) -> TracedTest {
    let setting = RunSetting { fault: "", trace: Some(file) };
    let run = program.run(setting, &[name], ONE_TEST);
    let reached = std::fs::read_to_string(file).unwrap_or_default();
    let faults = reached.lines().map(str::to_owned).collect();
    TracedTest { name: name.to_owned(), time: run.time, passed: run.passed, faults }
}

/// A program's path, time of change and size.
fn identity(program: &Path) -> String {
    let metadata = std::fs::metadata(program);
    let size = metadata.as_ref().map_or(0, std::fs::Metadata::len);
    let changed = metadata.and_then(|metadata| metadata.modified()).ok();
    let changed = changed.and_then(|time| time.duration_since(UNIX_EPOCH).ok());
    format!("{} {} {size}", program.display(), changed.unwrap_or_default().as_nanos())
}

/// Whether a program is still the same.
fn is_there(known: &str) -> bool {
    known.split(' ').next().is_some_and(|path| identity(path.as_ref()) == known)
}

fn render(traced: &BTreeMap<String, Vec<TracedTest>>) -> String {
    let mut text = String::new();
    for (program, tests) in traced {
        let _ = writeln!(text, "= {program}");
        for TracedTest { name, time, passed, faults } in tests {
            let result = if *passed { "ok" } else { "failed" };
            let _ = write!(text, "{name} {} {result}", time.as_millis());
            for fault in faults {
                let _ = write!(text, " {}", fault.replace(' ', ":"));
            }
            text.push('\n');
        }
    }
    text
}

fn parse(text: &str) -> BTreeMap<String, Vec<TracedTest>> {
    let mut traced: BTreeMap<String, Vec<TracedTest>> = BTreeMap::new();
    let mut program = String::new();
    for line in text.lines() {
        match line.strip_prefix("= ") {
            Some(identity) => {
                program = identity.to_owned();
                traced.entry(program.clone()).or_default();
            }
            None => traced.entry(program.clone()).or_default().extend(parse_test(line)),
        }
    }
    traced
}

fn parse_test(line: &str) -> Option<TracedTest> {
    let mut words = line.split(' ');
    let name = words.next()?.to_owned();
    let time = Duration::from_millis(words.next()?.parse().ok()?);
    let passed = words.next()? == "ok";
    let faults = words.map(|fault| fault.replace(':', " ")).collect();
    Some(TracedTest { name, time, passed, faults })
}

/// The results of a function for all items, in their order; as many at a time as there are processors.
pub fn in_parallel<T: Send, R: Send>(
    items: Vec<T>,
    function: impl Fn(usize, T) -> R + Sync,
) -> Vec<R> {
    let waiting = Mutex::new(items.into_iter().enumerate());
    let next = || waiting.lock().unwrap_or_else(PoisonError::into_inner).next();
    let results = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                while let Some((number, item)) = next() {
                    let result = function(number, item);
                    results.lock().unwrap_or_else(PoisonError::into_inner).push((number, result));
                }
            });
        }
    });
    let mut results = results.into_inner().unwrap_or_else(PoisonError::into_inner);
    results.sort_by_key(|(number, _)| *number);
    results.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn maps_are_written_as_they_are_read() {
        let text = "= /a/b-1 12 34\nx::y 5 ok kevel-a:1 kevel-b:22\nz 70 failed\n= /a/c-2 1 2\n";
        let traced = parse(text);
        assert_eq!(render(&traced), text);
        let tests = &traced["/a/b-1 12 34"];
        assert!(tests[0].may_kill("kevel-b 22") && !tests[0].may_kill("kevel-b 2"));
        assert_eq!((tests[1].passed, tests[1].time), (false, Duration::from_millis(70)));
        assert_eq!(traced["/a/c-2 1 2"], []);
    }

    #[test]
    fn changed_programs_are_traced_again() {
        let program = std::env::current_exe().unwrap();
        let known = identity(&program);
        assert!(is_there(&known));
        assert!(!is_there(&format!("{known}0")));
    }

    #[test]
    fn results_keep_the_order_of_the_items() {
        let doubled = in_parallel((0..100).collect(), |number, item: usize| {
            assert_eq!(number, item);
            item * 2
        });
        assert!(doubled.into_iter().eq((0..100).map(|item| item * 2)));
    }
}
