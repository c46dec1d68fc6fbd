//! Expected results of tests on Kevel: `conformance/integration/expected.txt`, a line per test.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::path::PathBuf;

use super::output::{TestOutcome, TestOutcomes, TestStatus, shortened};
use super::results::belongs;
use crate::Result;
use crate::control_plane::tree;

/// Longest printed part of a message, in characters.
const SHOWN: usize = 400;
/// Comment at the top of the file.
const HEADER: &str = "\
# Kubernetes' own integration tests, how each ends on Kevel: PACKAGE TEST VERDICT[: REASON]. Read README.md first.
#   pass        it passes on Kevel, and so on the reference
#   differs     it passes on the reference and not on Kevel
#   neither     it passes on neither: not made for a server in another process
#   in-process  it is skipped: it changes in its own process what no flag can say
#   unstable    it passes or not, by chance
# Where subtests are listed, others of the same test pass. `conformance integration --record PACKAGE` writes lines.
";

/// Expected result of a test or subtest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expectation {
    /// The test passes.
    Pass,
    /// The reference passes the test, Kevel does not, for this reason.
    Differs(String),
    /// Neither server passes the test, for this reason.
    Neither(String),
    /// The test is skipped, for this reason.
    InProcess(String),
    /// The test passes by chance, for this reason.
    Unstable(String),
}

/// Expectations by package and test.
#[derive(Debug, Default)]
pub struct Expectations(BTreeMap<(String, String), Expectation>);

/// An unexpected result of a test.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Surprise {
    /// The test or subtest.
    pub test: String,
    /// Result, and what to change in the file.
    pub text: String,
    failed: bool,
}

impl Expectation {
    /// Expectation of a verdict in the file.
    fn parse(verdict: &str, reason: &str) -> Option<Self> {
        let reason = reason.to_owned();
        match verdict {
            "pass" => Some(Expectation::Pass),
            "differs" => Some(Expectation::Differs(reason)),
            "neither" => Some(Expectation::Neither(reason)),
            "in-process" => Some(Expectation::InProcess(reason)),
            "unstable" => Some(Expectation::Unstable(reason)),
            _ => None,
        }
    }

    fn parts(&self) -> (&'static str, &str) {
        match self {
            Expectation::Pass => ("pass", ""),
            Expectation::Differs(reason) => ("differs", reason),
            Expectation::Neither(reason) => ("neither", reason),
            Expectation::InProcess(reason) => ("in-process", reason),
            Expectation::Unstable(reason) => ("unstable", reason),
        }
    }

    /// Verdict in the file.
    pub fn verdict(&self) -> &'static str {
        self.parts().0
    }
}

impl Expectations {
    /// Reads the file.
    pub fn read() -> Result<Self> {
        let text = fs::read_to_string(file())?;
        Self::parse(&text)
    }

    /// Writes the lines of a package. Others stay as they are in the file by now: a run takes long, and they may have been
    /// changed.
    pub fn write(&self, package: &str) -> Result<()> {
        let mut file_now = Self::read()?;
        file_now.take_package(package, self);
        let new = file().with_extension("new");
        fs::write(&new, file_now.to_string())?;
        Ok(fs::rename(new, file())?)
    }

    fn take_package(&mut self, package: &str, from: &Self) {
        self.0.retain(|(other, _), _| other != package);
        let own = from.0.iter().filter(|((other, _), _)| other == package);
        self.0.extend(own.map(|(name, expectation)| (name.clone(), expectation.clone())));
    }

    fn parse(text: &str) -> Result<Self> {
        let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
        let parse = |line: &str| {
            let (entry, reason) = line.split_once(": ").unwrap_or((line, ""));
            let mut words = entry.split(' ');
            let (package, test, verdict) = (words.next()?, words.next()?, words.next()?);
            let expectation = Expectation::parse(verdict, reason)?;
            Some(((package.to_owned(), test.to_owned()), expectation))
        };
        let all = lines.map(|line| parse(line).ok_or_else(|| format!("expected.txt: {line}")));
        Ok(Expectations(all.collect::<std::result::Result<_, _>>()?))
    }

    /// Packages with tests in the file.
    pub fn packages(&self) -> Vec<String> {
        let mut names: Vec<String> = self.0.keys().map(|(package, _)| package.clone()).collect();
        names.dedup();
        names
    }

    /// Expected result of a test or subtest, if it is listed.
    pub fn of(&self, package: &str, test: &str) -> Option<&Expectation> {
        self.0.get(&(package.to_owned(), test.to_owned()))
    }

    /// Replaces the expectations of a test and its subtests.
    pub fn set(&mut self, package: &str, test: &str, now: BTreeMap<String, Expectation>) {
        self.0.retain(|(other, name), _| other != package || !belongs(name, test));
        self.0.extend(now.into_iter().map(|(name, it)| ((package.to_owned(), name), it)));
    }

    /// Tests of a package, without subtests.
    pub fn tests(&self, package: &str) -> impl Iterator<Item = &str> {
        let own = self.0.keys().filter(move |(other, _)| other == package);
        own.map(|(_, test)| test.as_str()).filter(|test| !test.contains('/'))
    }

    fn listed_subtests(&self, package: &str, test: &str) -> Vec<&str> {
        let listed = self.0.keys().filter(|(other, _)| other == package);
        let listed = listed.map(|(_, name)| name.as_str());
        listed.filter(|name| *name != test && belongs(name, test)).collect()
    }

    /// Differences between the results of a test and the expectations.
    pub fn surprises(&self, package: &str, test: &str, outcomes: &TestOutcomes) -> Vec<Surprise> {
        let Some(outcome) = outcomes.get(test) else {
            return vec![Surprise::stale(test, "did not run")];
        };
        let (status, failed) = (outcome.status.name(), outcome.status.is_failure());
        match self.of(package, test) {
            None => vec![Surprise::stale(test, "is not in expected.txt: --record")],
            Some(Expectation::Unstable(_)) => Vec::new(),
            Some(Expectation::Pass) if failed => failures(test, outcomes),
            Some(Expectation::Pass) if outcome.status == TestStatus::Pass => Vec::new(),
            Some(Expectation::InProcess(_)) if outcome.status == TestStatus::Skip => Vec::new(),
            Some(Expectation::InProcess(_)) if failed => failures(test, outcomes),
            Some(Expectation::Differs(_) | Expectation::Neither(_)) if failed => {
                self.surprises_of_subtests(package, test, outcomes)
            }
            Some(expected) => {
                let text = format!("ended with {status}, not {}: --record", expected.verdict());
                vec![Surprise::stale(test, &text)]
            }
        }
    }

    /// Differences for a test that is expected to fail: if some of its subtests are listed, only those may fail.
    fn surprises_of_subtests(
        &self,
        package: &str,
        test: &str,
        outcomes: &TestOutcomes,
    ) -> Vec<Surprise> {
        let listed = self.listed_subtests(package, test);
        if listed.is_empty() {
            return Vec::new();
        }
        let mut found = failures(test, outcomes);
        found.retain(|surprise| !listed.contains(&surprise.test.as_str()));
        for subtest in listed {
            let outcome = outcomes.get(subtest);
            if !outcome.is_some_and(|outcome| outcome.status.is_failure()) {
                let end = outcome.map_or("did not run", |outcome| outcome.status.name());
                found.push(Surprise::stale(subtest, &format!("{end}: --record")));
            }
        }
        found
    }
}

impl fmt::Display for Expectations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{HEADER}")?;
        let mut last = "";
        for ((package, test), expectation) in &self.0 {
            if package != last {
                writeln!(f)?;
            }
            last = package;
            match expectation.parts() {
                (verdict, "") => writeln!(f, "{package} {test} {verdict}")?,
                (verdict, reason) => writeln!(f, "{package} {test} {verdict}: {reason}")?,
            }
        }
        Ok(())
    }
}

impl Surprise {
    /// Makes a difference that means that the file is out of date.
    pub fn stale(test: &str, text: &str) -> Self {
        Surprise { test: test.to_owned(), text: text.to_owned(), failed: false }
    }

    /// Whether another run may end otherwise: a failure can be caused by a busy machine.
    pub fn may_be_chance(&self) -> bool {
        self.failed
    }
}

/// Failed tests without failed subtests.
pub fn failed_leaves(outcomes: &TestOutcomes) -> impl Iterator<Item = (&str, &TestOutcome)> {
    let failed = outcomes.iter().filter(|(_, outcome)| outcome.status.is_failure());
    let names: Vec<&str> = failed.map(|(name, _)| name.as_str()).collect();
    let leaf = |name: &str| !names.iter().any(|other| *other != name && belongs(other, name));
    let leaves: Vec<_> = names.iter().copied().filter(|name| leaf(name)).collect();
    leaves.into_iter().filter_map(|name| Some((name, outcomes.get(name)?)))
}

/// A difference for each of them, with its last message or that of the test.
fn failures(test: &str, outcomes: &TestOutcomes) -> Vec<Surprise> {
    let failure = |(name, outcome): (&str, &TestOutcome)| {
        let line = outcome.lines.last().or_else(|| outcomes.get(test)?.lines.last());
        let line = shortened(line.map_or("", String::as_str), SHOWN);
        let text = format!("{} {line}", outcome.status.name()).trim_end().to_owned();
        Surprise { test: name.to_owned(), text, failed: true }
    };
    failed_leaves(outcomes).map(failure).collect()
}

fn file() -> PathBuf {
    tree().join("conformance/integration/expected.txt")
}

#[cfg(test)]
mod tests {
    use super::*;

    const EXPECTED: &str = "
a TestDiffers differs: no CBOR: alpha
a TestInProcess in-process: AuditBackend
a TestNeither neither
a TestPart differs: a reason
a TestPart/two differs
a TestPasses pass
a TestUnstable unstable: a race

a/b TestOther pass
";

    fn outcomes(ends: &[(&str, TestStatus)]) -> TestOutcomes {
        let outcome = |status| TestOutcome { status, seconds: 1.0, lines: Vec::new() };
        ends.iter().map(|(name, status)| ((*name).to_owned(), outcome(*status))).collect()
    }

    /// `test: text` of each difference.
    fn surprises(test: &str, ends: &[(&str, TestStatus)]) -> Vec<String> {
        let expectations = Expectations::parse(EXPECTED).unwrap();
        let found = expectations.surprises("a", test, &outcomes(ends));
        found.iter().map(|surprise| format!("{}: {}", surprise.test, surprise.text)).collect()
    }

    #[test]
    fn file_reads_back_as_written() {
        let expectations = Expectations::parse(EXPECTED).unwrap();
        assert_eq!(expectations.to_string(), format!("{HEADER}{EXPECTED}"));
        assert_eq!(expectations.packages(), ["a", "a/b"]);
        assert!(Expectations::parse("a TestA perhaps").is_err());
    }

    #[test]
    fn recording_a_package_keeps_lines_of_others() {
        let mut in_file =
            Expectations::parse("a TestOld pass\na/b TestB neither: new words").unwrap();
        let recorded = Expectations::parse("a TestNew pass\na/b TestB neither: old words").unwrap();
        in_file.take_package("a", &recorded);
        let expected = format!("{HEADER}\na TestNew pass\n\na/b TestB neither: new words\n");
        assert_eq!(in_file.to_string(), expected);
    }

    #[test]
    fn tests_that_end_as_expected_are_no_surprise() {
        use TestStatus::{Fail, Pass, Skip, Timeout};
        let part = [("TestPart", Fail), ("TestPart/one", Pass), ("TestPart/two", Fail)];
        assert!(surprises("TestPart", &part).is_empty());
        for (test, end) in [
            ("TestDiffers", Fail),
            ("TestDiffers", Timeout),
            ("TestInProcess", Skip),
            ("TestNeither", Fail),
            ("TestPasses", Pass),
            ("TestUnstable", Pass),
            ("TestUnstable", Fail),
        ] {
            assert!(surprises(test, &[(test, end)]).is_empty(), "{test}");
        }
    }

    #[test]
    fn failures_and_unexpected_passes_are_surprises() {
        use TestStatus::{Fail, Pass, Skip};
        let new = [("TestPart", Fail), ("TestPart/one", Fail), ("TestPart/two", Pass)];
        let expected = ["TestPart/one: fail", "TestPart/two: pass: --record"];
        assert_eq!(surprises("TestPart", &new), expected);
        for (test, end, expected) in [
            ("TestDiffers", Pass, "TestDiffers: ended with pass, not differs: --record"),
            ("TestInProcess", Pass, "TestInProcess: ended with pass, not in-process: --record"),
            ("TestInProcess", Fail, "TestInProcess: fail"),
            ("TestNeither", Pass, "TestNeither: ended with pass, not neither: --record"),
            ("TestNew", Pass, "TestNew: is not in expected.txt: --record"),
            ("TestPasses", Fail, "TestPasses: fail"),
            ("TestPasses", Skip, "TestPasses: ended with skip, not pass: --record"),
        ] {
            assert_eq!(surprises(test, &[(test, end)]), [expected]);
        }
    }
}
