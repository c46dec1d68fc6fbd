//! Lists of faults, `xtask/mutants/CRATE.txt`:
//!
//! ```text
//! tests: kevel-server kevel-controlplane
//!
//! src/deletion.rs: grace 0 ignores finalizers
//! - Some(0) if «!pending» => DeletionPlan::MarkAndRemove(object),
//! + true
//! killed by: kevel-server lib deletion::tests::deletions_equal_a_naive_model_in_every_combination
//! ```
//!
//! The first line names the packages whose tests are tried with a fault that has no test yet. A fault has the file, below
//! the crate's folder, and its name; the place (`-`), which must be in the file once, with the expression between `«` and
//! `»`, or all of it; and the faulty expression (`+`). Any white space stands for any other. Then comes the test that
//! fails with the fault (package, target, name), or `survives: REASON`, or nothing yet.

use std::collections::BTreeMap;
use std::fmt;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use super::MutantsError;

/// Faults of one crate.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FaultList {
    /// The lines before the first fault that are comments.
    head: Vec<String>,
    /// Packages whose tests are tried, in order.
    pub packages: Vec<String>,
    pub faults: Vec<PlantedFault>,
}

/// A fault of one line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlantedFault {
    /// Below the crate's folder.
    pub file: String,
    pub name: String,
    /// The place, with the expression marked.
    pub place: String,
    /// The faulty expression.
    pub faulty: String,
    pub fate: Fate,
}

/// The fate of a fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fate {
    /// This test fails with it.
    KilledBy(TestName),
    /// No test can see it, for a reason.
    Survives(String),
    /// Not tried yet.
    Unknown,
}

/// A line that does not belong to a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
enum LineError {
    #[error("not `killed by: PACKAGE TARGET NAME`")]
    NoTest,
    #[error("neither `-`, `+`, `killed by:` nor `survives:`")]
    Unknown,
}

/// A test, or several whose names contain the same.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TestName {
    pub package: String,
    /// `lib`, or the name of an integration test.
    pub target: String,
    pub name: String,
}

impl fmt::Display for TestName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.package, self.target, self.name)
    }
}

impl FaultList {
    /// The lists of all crates, by the crate's folder.
    pub fn read_all(root: &Path) -> Result<BTreeMap<String, FaultList>, MutantsError> {
        let folder = root.join("xtask/mutants");
        let mut lists = BTreeMap::new();
        for entry in std::fs::read_dir(&folder).map_err(MutantsError::at(&folder))? {
            let path = entry.map_err(MutantsError::at(&folder))?.path();
            let Some(name) = path.file_stem().and_then(|name| name.to_str()) else { continue };
            let text = std::fs::read_to_string(&path).map_err(MutantsError::at(&path))?;
            lists.insert(name.to_owned(), FaultList::parse(name, &text)?);
        }
        Ok(lists)
    }

    pub fn write(&self, root: &Path, name: &str) -> Result<(), MutantsError> {
        let path = path_of(root, name);
        std::fs::write(&path, self.to_string()).map_err(MutantsError::at(&path))
    }

    pub fn parse(name: &str, text: &str) -> Result<FaultList, MutantsError> {
        let mut list = FaultList::default();
        let mut open: Option<PlantedFault> = None;
        let lines = text.lines().enumerate();
        for (number, line) in lines.chain([(text.lines().count(), "")]) {
            let malformed = |why: &str| MutantsError::Malformed {
                file: format!("xtask/mutants/{name}.txt"),
                line: number + 1,
                why: why.to_owned(),
            };
            match &mut open {
                Some(fault) if line.is_empty() => {
                    if fault.place.is_empty() || fault.faulty.is_empty() {
                        return Err(malformed("a fault has a place (-) and an expression (+)"));
                    }
                    list.faults.extend(open.take());
                }
                Some(fault) => fault.add(line).map_err(|error| malformed(&error.to_string()))?,
                None if line.is_empty() => {}
                None if line.starts_with('#') => list.head.push(line.to_owned()),
                None => match line.strip_prefix("tests: ") {
                    Some(packages) => {
                        list.packages = packages.split_whitespace().map(str::to_owned).collect();
                    }
                    None => {
                        open = Some(PlantedFault::begin(line).ok_or(malformed("not `FILE: NAME`"))?)
                    }
                },
            }
        }
        Ok(list)
    }
}

fn path_of(root: &Path, name: &str) -> PathBuf {
    root.join("xtask/mutants").join(format!("{name}.txt"))
}

impl fmt::Display for FaultList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = String::new();
        for line in &self.head {
            writeln!(text, "{line}")?;
        }
        writeln!(text, "tests: {}", self.packages.join(" "))?;
        for PlantedFault { file, name, place, faulty, fate } in &self.faults {
            writeln!(text, "\n{file}: {name}")?;
            place.lines().try_for_each(|line| writeln!(text, "- {line}"))?;
            faulty.lines().try_for_each(|line| writeln!(text, "+ {line}"))?;
            match fate {
                Fate::KilledBy(test) => writeln!(text, "killed by: {test}")?,
                Fate::Survives(why) => writeln!(text, "survives: {why}")?,
                Fate::Unknown => {}
            }
        }
        f.write_str(&text)
    }
}

impl PlantedFault {
    fn begin(line: &str) -> Option<Self> {
        let (file, name) = line.split_once(": ")?;
        let (place, faulty) = Default::default();
        let (file, name) = (file.to_owned(), name.to_owned());
        Some(PlantedFault { file, name, place, faulty, fate: Fate::Unknown })
    }

    fn add(&mut self, line: &str) -> Result<(), LineError> {
        let append = |text: &mut String, more: &str| {
            if !text.is_empty() {
                text.push('\n');
            }
            text.push_str(more);
        };
        if let Some(more) = line.strip_prefix("- ") {
            append(&mut self.place, more);
        } else if let Some(more) = line.strip_prefix("+ ") {
            append(&mut self.faulty, more);
        } else if let Some(test) = line.strip_prefix("killed by: ") {
            let mut words = test.splitn(3, ' ').map(str::to_owned);
            let (Some(package), Some(target), Some(name)) =
                (words.next(), words.next(), words.next())
            else {
                return Err(LineError::NoTest);
            };
            self.fate = Fate::KilledBy(TestName { package, target, name });
        } else if let Some(why) = line.strip_prefix("survives: ") {
            self.fate = Fate::Survives(why.to_owned());
        } else {
            return Err(LineError::Unknown);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIST: &str = "\
# Faults.
tests: kevel-a kevel

src/a.rs: a name: with a colon
- if «x == 1» {
+ true
killed by: kevel-a lib tests::some test

src/b.rs: two lines
- match x {
-     1 => «2»,
+ 3
survives: it is the same

src/b.rs: not tried
- a()
+ b()
";

    #[test]
    fn lists_are_written_as_they_are_read() {
        let list = FaultList::parse("a", LIST).unwrap();
        assert_eq!(list.to_string(), LIST);
        assert_eq!(list.packages, ["kevel-a", "kevel"]);
        let fates: Vec<_> = list.faults.iter().map(|fault| &fault.fate).collect();
        let name = TestName {
            package: "kevel-a".into(),
            target: "lib".into(),
            name: "tests::some test".into(),
        };
        let survives = Fate::Survives("it is the same".into());
        assert_eq!(fates, [&Fate::KilledBy(name), &survives, &Fate::Unknown]);
        assert_eq!(list.faults[1].place, "match x {\n    1 => «2»,");
    }

    #[test]
    fn malformed_lists_name_the_line() {
        for (text, line) in [
            ("nothing\n", 1),
            ("tests: a\n\na.rs: n\n- x\n", 5),
            ("a.rs: n\n- x\n+ y\nkilled by: a\n", 4),
            ("a.rs: n\nx\n", 2),
        ] {
            match FaultList::parse("a", text) {
                Err(MutantsError::Malformed { line: found, .. }) => {
                    assert_eq!(found, line, "{text}")
                }
                other => panic!("{text}: {other:?}"),
            }
        }
    }
}
