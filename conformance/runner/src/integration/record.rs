//! Recording of expectations: tests that Kevel does not pass are run on the reference.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::AGAIN;
use super::expected::{Expectation, Expectations, failed_leaves};
use super::output::{TestOutcomes, TestStatus, shortened};
use super::package::PackageRun;
use super::results::PackageResults;
use crate::Result;

/// Longest part of a message that serves as the reason until a better one is written, in characters.
const REASON: usize = 160;
/// Limit on listed subtests of a test. More mean that the test covers a missing feature.
const LISTED: usize = 60;

/// Renews the expectations of tests that ran on Kevel. A test that Kevel passes needs no other evidence; for another
/// one, its line in the file is trusted, and the reference is asked if there is none.
pub async fn record(
    kevel: &Arc<PackageRun>,
    reference: &Arc<PackageRun>,
    tests: &[String],
    results: &mut PackageResults,
    expectations: &mut Expectations,
) -> Result<()> {
    let package = kevel.package().name();
    let mut theirs = PackageResults::open(reference.folder())?;
    for test in tests {
        let ended = |results: &PackageResults| results.of_test(test).get(test).map(|o| o.status);
        let known = match expectations.of(package, test) {
            Some(Expectation::Differs(_)) => Some(TestStatus::Pass),
            Some(Expectation::Neither(_)) => Some(TestStatus::Fail),
            _ => None,
        };
        if ended(results).is_some_and(TestStatus::is_failure) && known.is_none() {
            // One server and one test at a time, and more than once, lest the machine was too busy.
            let one = std::slice::from_ref(test);
            for _ in 0..AGAIN {
                reference.all(one, &mut theirs).await?;
                // A test that uses up its time once does so again, for minutes.
                if ended(&theirs) != Some(TestStatus::Fail) {
                    break;
                }
            }
            for _ in 0..AGAIN {
                let failed = ended(results).is_some_and(TestStatus::is_failure);
                if failed && ended(&theirs) == Some(TestStatus::Pass) {
                    kevel.all(one, results).await?;
                }
            }
        }
        let asked = theirs.of_test(test);
        let on_reference = |name: &str| known.or_else(|| asked.get(name).map(|it| it.status));
        let now = expected(test, &results.of_test(test), on_reference);
        expectations.set(package, test, with_known_reasons(now, package, expectations));
    }
    Ok(())
}

/// Expectations of a test and its subtests, from their results on Kevel and on the reference.
fn expected(
    test: &str,
    ours: &TestOutcomes,
    on_reference: impl Fn(&str) -> Option<TestStatus>,
) -> BTreeMap<String, Expectation> {
    let of = |name: &str| {
        let outcome = ours.get(name)?;
        // A subtest has the reason of its test.
        let reason = || if name == test { reason(&outcome.lines) } else { String::new() };
        Some(match (outcome.status, on_reference(name)) {
            (TestStatus::Pass, _) => Expectation::Pass,
            (TestStatus::Skip, _) | (_, Some(TestStatus::Skip)) => Expectation::InProcess(reason()),
            (_, Some(TestStatus::Pass)) => Expectation::Differs(reason()),
            _ => Expectation::Neither(reason()),
        })
    };
    let mut all: BTreeMap<_, _> = of(test).map(|it| (test.to_owned(), it)).into_iter().collect();
    // After a timeout, other subtests would fail next time.
    if ours.get(test).is_some_and(|outcome| outcome.status == TestStatus::Fail) {
        let leaves: Vec<&str> = failed_leaves(ours).map(|(name, _)| name).collect();
        let some_pass = ours.values().any(|outcome| outcome.status == TestStatus::Pass);
        if some_pass && leaves.len() <= LISTED {
            let subtests = leaves.into_iter().filter(|name| *name != test);
            all.extend(subtests.filter_map(|name| Some((name.to_owned(), of(name)?))));
        }
    }
    all
}

/// Last message, without its source location.
fn reason(lines: &[String]) -> String {
    let line = lines.last().map_or("", String::as_str);
    let message = line.split_once(".go:").and_then(|(_, rest)| rest.split_once(": "));
    shortened(message.map_or(line, |(_, message)| message), REASON).trim().to_owned()
}

/// Keeps reasons in the file while the verdict stays.
fn with_known_reasons(
    mut now: BTreeMap<String, Expectation>,
    package: &str,
    known: &Expectations,
) -> BTreeMap<String, Expectation> {
    for (name, expectation) in &mut now {
        match known.of(package, name) {
            Some(old) if old.verdict() == expectation.verdict() => *expectation = old.clone(),
            _ => {}
        }
    }
    now
}

#[cfg(test)]
mod tests {
    use super::super::output::TestOutcome;
    use super::*;

    fn outcomes(ends: &[(&str, TestStatus)]) -> TestOutcomes {
        let lines = vec!["a_test.go:7: a message".to_owned()];
        let outcome = |status| TestOutcome { status, seconds: 1.0, lines: lines.clone() };
        ends.iter().map(|(name, status)| ((*name).to_owned(), outcome(*status))).collect()
    }

    #[test]
    fn failed_subtests_are_listed_beside_passing_ones() {
        use TestStatus::{Fail, Pass};
        let ours = outcomes(&[
            ("TestA", Fail),
            ("TestA/both", Fail),
            ("TestA/one", Fail),
            ("TestA/two", Pass),
        ]);
        let on_reference = |name: &str| Some(if name == "TestA/both" { Fail } else { Pass });
        let found = expected("TestA", &ours, on_reference);
        let expected = [
            ("TestA".to_owned(), Expectation::Differs("a message".to_owned())),
            ("TestA/both".to_owned(), Expectation::Neither(String::new())),
            ("TestA/one".to_owned(), Expectation::Differs(String::new())),
        ];
        assert_eq!(found, BTreeMap::from(expected));
    }

    #[test]
    fn subtests_of_timed_out_tests_are_not_listed() {
        use TestStatus::{Pass, Timeout};
        let ours = outcomes(&[("TestA", Timeout), ("TestA/one", Timeout), ("TestA/two", Pass)]);
        let found = super::expected("TestA", &ours, |_| None);
        let expected = [("TestA".to_owned(), Expectation::Neither("a message".to_owned()))];
        assert_eq!(found, BTreeMap::from(expected));
    }
}
