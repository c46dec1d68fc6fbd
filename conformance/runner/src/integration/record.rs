//! Expectations, renewed: the reference is asked about tests that Kevel does not pass.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::expected::{Expectation, Expectations, failed_leaves};
use super::output::{TestOutcomes, TestStatus, shortened};
use super::package::PackageRun;
use super::results::PackageResults;
use crate::Result;

/// Characters of a message that stands for a reason until a better one is written.
const REASON: usize = 160;
/// Subtests of a test that are listed. More say that the test is of a feature that is missing.
const LISTED: usize = 60;

/// Renews the expectations of tests that ran on Kevel. A test that Kevel passes needs no other evidence.
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
        if ended(results).is_some_and(TestStatus::is_failure) {
            let one = std::slice::from_ref(test);
            reference.all(one, &mut theirs).await?;
            let new = !matches!(expectations.of(package, test), Some(Expectation::Differs(_)));
            if new && ended(&theirs) == Some(TestStatus::Pass) {
                // Alone, lest the machine was too busy.
                kevel.all(one, results).await?;
            }
        }
        let now = expected(test, &results.of_test(test), &theirs.of_test(test));
        expectations.set(package, test, with_known_reasons(now, package, expectations));
    }
    Ok(())
}

/// Expectations of a test and its subtests, from its ends on Kevel and on the reference.
fn expected(
    test: &str,
    ours: &TestOutcomes,
    theirs: &TestOutcomes,
) -> BTreeMap<String, Expectation> {
    let of = |name: &str| {
        let (ours, theirs) = (ours.get(name)?, theirs.get(name));
        // A subtest's is that of its test.
        let own = |lines| if name == test { reason(lines) } else { String::new() };
        let reason = || own(&ours.lines);
        Some(match (ours.status, theirs.map(|outcome| outcome.status)) {
            (TestStatus::Pass, _) => Expectation::Pass,
            (TestStatus::Skip, _) | (_, Some(TestStatus::Skip)) => Expectation::InProcess(reason()),
            (_, Some(TestStatus::Pass)) => Expectation::Differs(reason()),
            _ => Expectation::Neither(theirs.map_or_else(reason, |it| own(&it.lines))),
        })
    };
    let mut all: BTreeMap<_, _> = of(test).map(|it| (test.to_owned(), it)).into_iter().collect();
    // Of a test that was ended, the same subtests do not fail next time.
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

/// The last message, without the place in the source.
fn reason(lines: &[String]) -> String {
    let line = lines.last().map_or("", String::as_str);
    let message = line.split_once(".go:").and_then(|(_, rest)| rest.split_once(": "));
    shortened(message.map_or(line, |(_, message)| message), REASON).trim().to_owned()
}

/// Reasons that are in the file stay while the verdict does.
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
