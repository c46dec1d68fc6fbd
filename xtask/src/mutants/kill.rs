//! Tests of the planted sources, with and without a fault.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::MutantsError;
use super::list::{Fate, FaultList, PlantedFault, TestName};
use super::tree::Tree;

/// Limit on the time of a test that is to fail: one that hangs has noticed the fault.
const ONE_TEST: Duration = Duration::from_secs(120);
/// Limit on the time of all tests of a target.
const ALL_TESTS: Duration = Duration::from_secs(900);
/// Pause between two looks at a process.
const PAUSE: Duration = Duration::from_millis(20);

/// The outcome of a fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KillVerdict {
    /// Its test fails.
    Killed,
    /// It had no test, and this one fails.
    Found(TestName),
    /// All that was run passes.
    Survived,
    /// Its test is not there, or fails without a fault.
    Unusable(String),
}

/// A built target: its package and name, and the program.
#[derive(Debug)]
struct TestProgram {
    package: String,
    /// `lib`, or the name of an integration test.
    name: String,
    program: PathBuf,
    /// The folder that its tests run in.
    folder: PathBuf,
}

/// The tests that were built.
#[derive(Debug)]
pub struct Tests {
    targets: Vec<TestProgram>,
}

/// Reason for which a test cannot tell anything about a fault.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnusableError {
    /// No such test program.
    #[error("there is no {0}")]
    NoTarget(TestName),
    /// The test fails by itself.
    #[error("{0} fails without a fault")]
    Fails(String),
    /// No such test, or one that does not end in time.
    #[error("there is no test {0}, or it does not end")]
    NoTest(TestName),
}

/// The end of a run.
struct TestRun {
    passed: bool,
    timed_out: bool,
    output: String,
}

impl TestRun {
    /// Names of tests with this result.
    fn tests(&self, result: &str) -> impl Iterator<Item = &str> {
        let lines = self.output.lines().filter_map(|line| line.strip_prefix("test "));
        lines.filter_map(move |line| line.strip_suffix(result)?.strip_suffix(" ... "))
    }
}

impl Tests {
    /// Builds the targets that are needed, once for all faults.
    pub fn build(
        tree: &Tree,
        needed: BTreeMap<String, Option<Vec<String>>>,
    ) -> Result<Self, MutantsError> {
        if needed.is_empty() {
            return Ok(Tests { targets: Vec::new() });
        }
        let mut cargo = Command::new("cargo");
        cargo.args(["test", "--no-run", "--locked", "--message-format=json-render-diagnostics"]);
        cargo.arg("--target-dir").arg(&tree.target).current_dir(&tree.folder);
        // What the cargo that started this command says is about another package, and some build scripts go by it.
        for (name, _) in std::env::vars_os() {
            let name = name.to_string_lossy();
            if ["CARGO_PKG_", "CARGO_MANIFEST_", "CARGO_BIN_", "CARGO_CRATE_"]
                .iter()
                .any(|prefix| name.starts_with(prefix))
            {
                cargo.env_remove(&*name);
            }
        }
        for package in needed.keys() {
            cargo.args(["-p", package]);
        }
        if needed.values().all(Option::is_some) {
            let names: BTreeSet<&String> = needed.values().flatten().flatten().collect();
            for name in names {
                match name.as_str() {
                    "lib" => cargo.arg("--lib"),
                    name => cargo.args(["--test", name]),
                };
            }
        }
        let output = cargo.stderr(Stdio::inherit()).output();
        let output = output.map_err(MutantsError::at("cargo".as_ref()))?;
        if !output.status.success() {
            return Err(MutantsError::Build);
        }
        let mut targets = Vec::new();
        for line in String::from_utf8_lossy(&output.stdout).lines() {
            targets.extend(target(&serde_json::from_str(line).map_err(MutantsError::Cargo)?));
        }
        Ok(Tests { targets })
    }

    /// Tries the chosen faults of a list.
    pub fn judge(
        &self,
        owner: &str,
        list: &FaultList,
        chosen: impl Fn(&PlantedFault) -> bool,
    ) -> Vec<(usize, KillVerdict)> {
        let package = package_of(owner);
        let faults: Vec<_> = list.faults.iter().enumerate().filter(|(_, f)| chosen(f)).collect();
        let usable = self.check(faults.iter().filter_map(|(_, fault)| match &fault.fate {
            Fate::KilledBy(test) => Some(test),
            _ => None,
        }));
        let waiting = Mutex::new(faults.into_iter());
        let next = || waiting.lock().unwrap_or_else(PoisonError::into_inner).next();
        let verdicts = Mutex::new(Vec::new());
        std::thread::scope(|scope| {
            for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
                scope.spawn(|| {
                    while let Some((index, fault)) = next() {
                        let on = format!("{package} {}", index + 1);
                        let verdict = match &fault.fate {
                            Fate::KilledBy(test) => self.kill(&on, test, &usable),
                            Fate::Survives(_) => continue,
                            Fate::Unknown => self.find(&on, &list.packages),
                        };
                        let mut verdicts = verdicts.lock().unwrap_or_else(PoisonError::into_inner);
                        verdicts.push((index, verdict));
                    }
                });
            }
        });
        let mut verdicts = verdicts.into_inner().unwrap_or_else(PoisonError::into_inner);
        verdicts.sort_by_key(|(index, _)| *index);
        verdicts
    }

    fn target(&self, test: &TestName) -> Option<&TestProgram> {
        self.targets.iter().find(|t| t.package == test.package && t.name == test.target)
    }

    /// Runs tests without a fault; why those that are no good are none.
    fn check<'t>(
        &self,
        tests: impl Iterator<Item = &'t TestName>,
    ) -> BTreeMap<TestName, Result<(), UnusableError>> {
        let mut by_target: BTreeMap<(&str, &str), BTreeSet<&TestName>> = BTreeMap::new();
        for test in tests {
            by_target.entry((&test.package, &test.target)).or_default().insert(test);
        }
        let mut checked = BTreeMap::new();
        for tests in by_target.into_values() {
            let names: Vec<&str> = tests.iter().map(|test| test.name.as_str()).collect();
            let Some(target) = tests.first().and_then(|test| self.target(test)) else {
                checked.extend(
                    tests.into_iter().map(|t| (t.clone(), Err(UnusableError::NoTarget(t.clone())))),
                );
                continue;
            };
            let run = target.run("", &names, ALL_TESTS);
            for test in tests {
                let is_of = |name: &&str| name.contains(&test.name);
                let failed = run.tests("FAILED").find(is_of);
                let usable = match (failed, run.tests("ok").find(is_of)) {
                    (Some(name), _) => Err(UnusableError::Fails((*name).to_owned())),
                    (None, None) => Err(UnusableError::NoTest(test.clone())),
                    (None, Some(_)) => Ok(()),
                };
                checked.insert(test.clone(), usable);
            }
        }
        checked
    }

    /// Whether the test of a fault fails with it.
    fn kill(
        &self,
        on: &str,
        test: &TestName,
        usable: &BTreeMap<TestName, Result<(), UnusableError>>,
    ) -> KillVerdict {
        if let Some(Err(why)) = usable.get(test) {
            return KillVerdict::Unusable(why.to_string());
        }
        let Some(target) = self.target(test) else {
            return KillVerdict::Unusable(format!("there is no {test}"));
        };
        match target.run(on, &[&test.name], ONE_TEST).passed {
            true => KillVerdict::Survived,
            false => KillVerdict::Killed,
        }
    }

    /// The first test of some packages that fails with a fault.
    fn find(&self, on: &str, packages: &[String]) -> KillVerdict {
        for package in packages {
            let mut targets: Vec<_> =
                self.targets.iter().filter(|target| target.package == *package).collect();
            // The library's own tests are the quickest.
            targets.sort_by_key(|target| (target.name != "lib", &target.name));
            for target in targets {
                let run = target.run(on, &[], ALL_TESTS);
                if run.passed {
                    continue;
                }
                let name = run.tests("FAILED").next().map(str::to_owned);
                let (package, target) = (target.package.clone(), target.name.clone());
                return match name {
                    Some(name) => KillVerdict::Found(TestName { package, target, name }),
                    None if run.timed_out => {
                        KillVerdict::Unusable(format!("the tests of {package} {target} do not end"))
                    }
                    None => KillVerdict::Unusable(format!("{package} {target} dies")),
                };
            }
        }
        KillVerdict::Survived
    }
}

impl TestProgram {
    fn run(&self, on: &str, names: &[&str], limit: Duration) -> TestRun {
        let mut command = Command::new(&self.program);
        command.args(names).current_dir(&self.folder).env("KEVEL_FAULT", on);
        command.env("CARGO_MANIFEST_DIR", &self.folder).env("RUST_BACKTRACE", "0");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        let Ok(mut child) = command.spawn() else {
            return TestRun { passed: false, timed_out: false, output: String::new() };
        };
        let stdout = child.stdout.take();
        let reader = std::thread::spawn(move || {
            let mut output = Vec::new();
            if let Some(mut stdout) = stdout {
                let _ = stdout.read_to_end(&mut output);
            }
            String::from_utf8_lossy(&output).into_owned()
        });
        let (passed, timed_out) = wait(&mut child, limit);
        let output = reader.join().unwrap_or_default();
        TestRun { passed, timed_out, output }
    }
}

/// Waits for the end of a process, and ends it with all that it has started when its time is up.
fn wait(child: &mut Child, limit: Duration) -> (bool, bool) {
    let deadline = Instant::now() + limit;
    while Instant::now() < deadline {
        match child.try_wait() {
            Ok(None) => std::thread::sleep(PAUSE),
            Ok(Some(status)) => return (status.success(), false),
            Err(_) => break,
        }
    }
    let group = format!("-{}", child.id());
    let _ = Command::new("kill").args(["-KILL", "--", &group]).status();
    let _ = child.wait();
    (false, true)
}

/// The test program that a message of cargo tells of.
fn target(message: &Value) -> Option<TestProgram> {
    let program = message["executable"].as_str()?;
    if message["reason"] != "compiler-artifact" || message["profile"]["test"] != true {
        return None;
    }
    let kind = message["target"]["kind"].as_array()?.iter().filter_map(Value::as_str).next()?;
    let name = match kind {
        "lib" => "lib",
        "test" => message["target"]["name"].as_str()?,
        _ => return None,
    };
    let manifest = PathBuf::from(message["manifest_path"].as_str()?);
    let folder = manifest.parent()?.to_owned();
    let package = package_of(folder.file_name()?.to_str()?);
    let (name, program) = (name.to_owned(), PathBuf::from(program));
    Some(TestProgram { package, name, program, folder })
}

/// The package of a crate's folder.
fn package_of(folder: &str) -> String {
    match folder {
        "kevel" | "kube-apiserver" => folder.to_owned(),
        _ => format!("kevel-{folder}"),
    }
}
