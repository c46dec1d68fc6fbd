//! Tests of the planted sources, with and without a fault.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::MutantsError;
use super::list::{Fate, FaultList, PlantedFault, TestName};
use super::program::{NeededTargets, RunSetting, TestProgram, build, package_of};
use super::reach::{ReachMap, TracedTest, in_parallel};
use super::tree::Tree;

/// Limit on the time of a test: one that hangs has noticed the fault.
pub const ONE_TEST: Duration = Duration::from_secs(120);
/// Limit on the time of all tests of a target.
const ALL_TESTS: Duration = Duration::from_secs(900);
/// Time that tests get in any case before they are said to hang.
const SPARE: Duration = Duration::from_secs(20);
/// Time that tests get before they are said to hang, in times of that without a fault.
const SLOWER: u32 = 10;
/// Limit on the tests of a package that are run with an untried fault, in the time that they take without it, one after
/// the other: a fault at the heart of the server is reached by all of them, and a test for it should be found sooner.
const SEARCHED: Duration = Duration::from_secs(90);
/// Number of the tests that are run first with an untried fault.
const FIRST_BATCH: usize = 4;
/// Growth of the batches after that.
const LARGER: usize = 4;

/// The outcome of a fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KillVerdict {
    /// Its test fails.
    Killed,
    /// It had no test, or its test has moved, and this one fails.
    Found(TestName),
    /// So many tests run the code, and all pass.
    Survived(usize),
    /// Its test is not there, or fails without a fault.
    Unusable(String),
}

/// The tests that were built.
#[derive(Debug)]
pub struct Tests {
    programs: Vec<TestProgram>,
    reach: ReachMap,
}

/// Reason for which a test cannot tell anything about a fault.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnusableError {
    /// The test fails by itself.
    #[error("{0} fails without a fault")]
    Fails(TestName),
    /// No such test.
    #[error("there is no test {0}")]
    NoTest(TestName),
}

/// A test of a list that is there, or several.
#[derive(Debug)]
struct KillingTest<'p> {
    program: &'p TestProgram,
    names: Vec<&'p str>,
    /// The new name of a test that has moved.
    moved: Option<TestName>,
    /// Time that it takes without a fault.
    time: Duration,
}

type KillingTests<'p> = BTreeMap<TestName, Result<KillingTest<'p>, UnusableError>>;

impl Tests {
    /// Builds the targets that are needed, once for all faults.
    pub fn build(
        tree: &Tree,
        packages: &BTreeSet<&String>,
        needed: &NeededTargets,
    ) -> Result<Self, MutantsError> {
        Ok(Tests { programs: build(tree, packages, needed)?, reach: ReachMap::read(tree) })
    }

    /// Tries the chosen faults of a list.
    pub fn judge(
        &mut self,
        owner: &str,
        list: &FaultList,
        chosen: impl Fn(&PlantedFault) -> bool,
    ) -> Result<Vec<(usize, KillVerdict)>, MutantsError> {
        let package = package_of(owner);
        let chosen: Vec<_> = list.faults.iter().enumerate().filter(|(_, f)| chosen(f)).collect();
        let (mut known, mut untried) = (Vec::new(), Vec::new());
        for (index, fault) in chosen {
            let on = format!("{package} {}", index + 1);
            match &fault.fate {
                Fate::KilledBy(test) => known.push((index, on, test)),
                Fate::Survives(_) => {}
                Fate::Unknown => untried.push((index, on)),
            }
        }
        let killing = self.check(known.iter().map(|(_, _, test)| *test));
        let mut verdicts =
            in_parallel(known, |_, (index, on, test)| (index, kill(&on, test, &killing)));
        verdicts.extend(self.search(&list.packages, untried)?);
        verdicts.sort_by_key(|(index, _)| *index);
        Ok(verdicts)
    }

    /// Looks for tests of untried faults, package by package.
    fn search(
        &mut self,
        packages: &[String],
        untried: Vec<(usize, String)>,
    ) -> Result<Vec<(usize, KillVerdict)>, MutantsError> {
        let (mut found, mut survived) = (Vec::new(), Vec::new());
        survived.extend(untried.into_iter().map(|(index, on)| (index, on, 0)));
        for package in packages {
            if survived.is_empty() {
                break;
            }
            let programs = self.programs.iter().filter(|program| program.package == *package);
            let programs: Vec<_> = programs.collect();
            self.reach.trace(&programs)?;
            let reach = &self.reach;
            let tried = in_parallel(survived, |_, (index, on, before)| {
                let verdict = find(&on, reach, &programs);
                (index, on, before, verdict)
            });
            survived = Vec::new();
            for (index, on, before, verdict) in tried {
                match verdict {
                    KillVerdict::Survived(tests) => survived.push((index, on, before + tests)),
                    verdict => found.push((index, verdict)),
                }
            }
        }
        let survived = survived.into_iter();
        found.extend(survived.map(|(index, _, tests)| (index, KillVerdict::Survived(tests))));
        Ok(found)
    }

    /// Runs tests without a fault; why those that are no good are none.
    fn check<'t>(&self, tests: impl Iterator<Item = &'t TestName>) -> KillingTests<'_> {
        let (mut checked, mut by_program) = (BTreeMap::new(), BTreeMap::<_, Vec<_>>::new());
        for test in tests.collect::<BTreeSet<_>>() {
            match resolve(&self.programs, test) {
                Some(killing) => {
                    by_program.entry(&killing.program.program).or_default().push((test, killing));
                }
                None => {
                    checked.insert(test.clone(), Err(UnusableError::NoTest(test.clone())));
                }
            }
        }
        for tests in by_program.into_values() {
            let Some(program) = tests.first().map(|(_, killing)| killing.program) else { continue };
            let names = tests.iter().flat_map(|(_, killing)| killing.names.iter().copied());
            let names: Vec<&str> = names.collect::<BTreeSet<_>>().into_iter().collect();
            let run = program.run(RunSetting::default(), &names, ALL_TESTS);
            let passed: BTreeSet<&str> = match run.passed {
                true => names.into_iter().collect(),
                false => run.tests("ok").collect(),
            };
            for (test, killing) in tests {
                let failed = killing.names.iter().find(|name| !passed.contains(**name));
                let usable = match failed {
                    Some(name) => Err(UnusableError::Fails(program.test(name))),
                    None => Ok(KillingTest { time: run.time, ..killing }),
                };
                checked.insert(test.clone(), usable);
            }
        }
        checked
    }
}

/// A test that fails with a fault: of those that run its code, the quickest first.
fn find(on: &str, reach: &ReachMap, programs: &[&TestProgram]) -> KillVerdict {
    let mut reaching: Vec<_> = programs
        .iter()
        .map(|program| {
            let traced = reach.of(program).iter();
            let mut tests: Vec<_> = traced.filter(|test| test.may_kill(on)).collect();
            tests.sort_by_key(|test| test.time);
            (*program, tests)
        })
        .collect();
    reaching.sort_by_key(|(_, tests)| total(tests));
    let (mut count, mut time) = (0, Duration::ZERO);
    for (program, tests) in &reaching {
        for batch in batches(tests) {
            if time > SEARCHED {
                break;
            }
            if let Some(killer) = killer(on, program, batch) {
                return KillVerdict::Found(program.test(killer));
            }
            count += batch.len();
            time += total(batch);
        }
    }
    KillVerdict::Survived(count)
}

/// Whether the test of a fault fails with it.
fn kill(on: &str, test: &TestName, killing: &KillingTests<'_>) -> KillVerdict {
    match killing.get(test) {
        None => KillVerdict::Unusable(UnusableError::NoTest(test.clone()).to_string()),
        Some(Err(why)) => KillVerdict::Unusable(why.to_string()),
        Some(Ok(KillingTest { program, names, moved, time })) => {
            let setting = RunSetting { fault: on, trace: None };
            match (program.run(setting, names, limit(*time)).passed, moved) {
                (true, _) => KillVerdict::Survived(names.len()),
                (false, Some(moved)) => KillVerdict::Found(moved.clone()),
                (false, None) => KillVerdict::Killed,
            }
        }
    }
}

/// The first of these tests that fails with a fault, with the others and alone.
fn killer<'t>(on: &str, program: &TestProgram, tests: &[&'t TracedTest]) -> Option<&'t str> {
    let setting = RunSetting { fault: on, trace: None };
    let names: Vec<&str> = tests.iter().map(|test| test.name.as_str()).collect();
    let run = program.run(setting, &names, limit(total(tests)));
    if run.passed {
        return None;
    }
    let failed: BTreeSet<&str> = run.tests("FAILED").collect();
    let passed: BTreeSet<&str> = run.tests("ok").collect();
    let mut suspects: Vec<_> =
        tests.iter().filter(|test| !passed.contains(test.name.as_str())).collect();
    // Those that hang, or bring the program down, have no result.
    suspects.sort_by_key(|test| !failed.contains(test.name.as_str()));
    let killer = suspects
        .into_iter()
        .find(|test| !program.run(setting, &[&test.name], limit(test.time)).passed)?;
    Some(&killer.name)
}

/// The tests of a list's entry: by its name, or by the end of it where its target or module is not there any more.
fn resolve<'p>(programs: &'p [TestProgram], test: &TestName) -> Option<KillingTest<'p>> {
    let of_package = || programs.iter().filter(|program| program.package == test.package);
    let named = |program: &'p TestProgram| -> Vec<&'p str> {
        match program.tests.get(&test.name) {
            Some(name) => vec![name],
            None => program.tests.iter().filter(|n| n.contains(&test.name)).map(|n| &**n).collect(),
        }
    };
    if let Some(program) = of_package().find(|program| program.name == test.target) {
        let names = named(program);
        if !names.is_empty() {
            return Some(KillingTest { program, names, moved: None, time: Duration::ZERO });
        }
    }
    let mut end = test.name.as_str();
    loop {
        let is_named =
            |name: &str| name.strip_suffix(end).is_some_and(|s| s.is_empty() || s.ends_with("::"));
        let mut found = of_package()
            .flat_map(|program| program.tests.iter().map(move |name| (program, name.as_str())))
            .filter(|(_, name)| is_named(name));
        match (found.next(), found.next()) {
            (Some((program, name)), None) => {
                let moved = Some(program.test(name));
                return Some(KillingTest {
                    program,
                    names: vec![name],
                    moved,
                    time: Duration::ZERO,
                });
            }
            (Some(_), Some(_)) => return None,
            (None, _) => end = end.split_once("::")?.1,
        }
    }
}

/// Time of tests without a fault.
fn total(tests: &[&TracedTest]) -> Duration {
    tests.iter().map(|test| test.time).sum()
}

/// Time after which tests are said to hang that take so long without a fault.
fn limit(time: Duration) -> Duration {
    (SPARE + time * SLOWER).min(ONE_TEST.max(time * 3))
}

/// Growing batches.
fn batches<T>(mut rest: &[T]) -> impl Iterator<Item = &[T]> {
    let mut size = FIRST_BATCH;
    std::iter::from_fn(move || {
        let (batch, after) = rest.split_at(size.min(rest.len()));
        (rest, size) = (after, size * LARGER);
        (!batch.is_empty()).then_some(batch)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(target: &str, name: &str) -> TestName {
        TestName { package: "kevel-a".into(), target: target.into(), name: name.into() }
    }

    #[test]
    fn moved_tests_are_found_by_the_end_of_their_names() {
        let programs = [
            TestProgram::of_tests("kevel-a", "lib", &["x::tests::one", "x::tests::one_more", "z"]),
            TestProgram::of_tests("kevel-a", "all", &["watch::lists::two", "three", "y::z"]),
            TestProgram::of_tests("kevel-b", "all", &["four"]),
        ];
        for (test, expected, moved) in [
            (name("lib", "x::tests::one"), &["x::tests::one"][..], None),
            (name("lib", "tests::one"), &["x::tests::one", "x::tests::one_more"], None),
            (name("watch", "lists::two"), &["watch::lists::two"], Some("all")),
            (name("lib", "old::three"), &["three"], Some("all")),
            // Of two that end alike, neither is taken for the test; nor is that of another package.
            (name("gone", "z"), &[], None),
            (name("all", "four"), &[], None),
        ] {
            let found = resolve(&programs, &test);
            let names = found.as_ref().map_or(&[][..], |found| &found.names);
            assert_eq!(names, expected, "{test}");
            let target = found.and_then(|found| found.moved).map(|moved| moved.target);
            assert_eq!(target.as_deref(), moved, "{test}");
        }
    }

    #[test]
    fn batches_grow_and_leave_out_no_test() {
        let tests: Vec<usize> = (0..30).collect();
        let sizes: Vec<usize> = batches(&tests).map(<[_]>::len).collect();
        assert_eq!(sizes, [4, 16, 10]);
        assert!(batches(&tests).flatten().eq(&tests));
    }

    #[test]
    fn slow_tests_get_more_time_than_the_limit() {
        for (seconds, expected) in [(0, 20), (1, 30), (10, 120), (60, 180)] {
            let limit = limit(Duration::from_secs(seconds));
            assert_eq!(limit, Duration::from_secs(expected), "{seconds}");
        }
    }
}
