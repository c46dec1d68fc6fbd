//! Test programs of the planted sources.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::MutantsError;
use super::list::TestName;
use super::tree::Tree;

/// Pause between two looks at a process.
const PAUSE: Duration = Duration::from_millis(10);
/// Limit on the time of a program that only lists its tests.
const LISTING: Duration = Duration::from_secs(60);

/// A built target: its package and name, and the program.
#[derive(Debug)]
pub struct TestProgram {
    pub package: String,
    /// `lib`, or the name of an integration test.
    pub name: String,
    pub program: PathBuf,
    /// The folder that its tests run in.
    folder: PathBuf,
    /// Full names of its tests.
    pub tests: BTreeSet<String>,
}

/// The environment of a run.
#[derive(Clone, Copy, Debug, Default)]
pub struct RunSetting<'a> {
    /// The fault that is on, `PACKAGE NUMBER`.
    pub fault: &'a str,
    /// The file that takes the faults that are reached.
    pub trace: Option<&'a Path>,
}

/// The end of a run.
#[derive(Debug, Default)]
pub struct TestRun {
    pub passed: bool,
    pub time: Duration,
    output: String,
}

impl TestRun {
    /// Names of tests with this result.
    pub fn tests(&self, result: &str) -> impl Iterator<Item = &str> {
        let lines = self.output.lines().filter_map(|line| line.strip_prefix("test "));
        lines.filter_map(move |line| line.strip_suffix(result)?.strip_suffix(" ... "))
    }
}

/// Targets of packages: by package, the names of targets; none for all of them.
pub type NeededTargets = BTreeMap<String, Option<Vec<String>>>;

/// Builds the targets that are needed, once for all faults. `packages` are those of all lists: features do not depend
/// on the choice, so that no crate is built again for another.
pub fn build(
    tree: &Tree,
    packages: &BTreeSet<&String>,
    needed: &NeededTargets,
) -> Result<Vec<TestProgram>, MutantsError> {
    if needed.is_empty() {
        return Ok(Vec::new());
    }
    let known = known_targets(tree)?;
    let mut cargo = cargo(tree);
    cargo.args(["test", "--no-run", "--locked", "--message-format=json-render-diagnostics"]);
    cargo.arg("--target-dir").arg(&tree.target);
    for package in packages {
        cargo.args(["-p", package]);
    }
    let targets = needed.iter().flat_map(|(package, targets)| {
        let known = known.get(package).into_iter().flatten();
        // A test whose target is gone is looked for in the others.
        let all_known =
            |targets: &&Vec<String>| targets.iter().all(|name| known.clone().any(|k| k == name));
        match targets.as_ref().filter(all_known) {
            Some(targets) => targets.iter().collect::<Vec<_>>(),
            None => known.collect(),
        }
    });
    for name in targets.collect::<BTreeSet<_>>() {
        match name.as_str() {
            "lib" => cargo.arg("--lib"),
            name => cargo.args(["--test", name]),
        };
    }
    let mut programs = Vec::new();
    for line in output_of(cargo)?.lines() {
        programs.extend(program(&serde_json::from_str(line).map_err(MutantsError::Cargo)?));
    }
    for program in &mut programs {
        program.tests = program.list();
    }
    Ok(programs)
}

/// Names of the targets with tests, by package.
fn known_targets(tree: &Tree) -> Result<BTreeMap<String, BTreeSet<String>>, MutantsError> {
    let mut cargo = cargo(tree);
    cargo.args(["metadata", "--no-deps", "--offline", "--format-version", "1"]);
    let metadata: Value = serde_json::from_str(&output_of(cargo)?).map_err(MutantsError::Cargo)?;
    let mut known: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for package in metadata["packages"].as_array().into_iter().flatten() {
        let Some(name) = package["name"].as_str() else { continue };
        let targets = package["targets"].as_array().into_iter().flatten();
        known.insert(name.to_owned(), targets.filter_map(target_name).collect());
    }
    Ok(known)
}

/// A run of cargo in the planted sources.
fn cargo(tree: &Tree) -> Command {
    let mut cargo = Command::new("cargo");
    cargo.current_dir(&tree.folder);
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
    cargo
}

fn output_of(mut cargo: Command) -> Result<String, MutantsError> {
    let output = cargo.stderr(Stdio::inherit()).output();
    let output = output.map_err(MutantsError::at("cargo".as_ref()))?;
    if !output.status.success() {
        return Err(MutantsError::Build);
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

impl TestProgram {
    /// Runs these tests, named in full.
    pub fn run(&self, setting: RunSetting<'_>, names: &[&str], limit: Duration) -> TestRun {
        let mut command = self.command();
        command.arg("--exact").args(names).env("KEVEL_FAULT", setting.fault);
        if let Some(trace) = setting.trace {
            command.env("KEVEL_FAULT_TRACE", trace);
        }
        run(command, limit)
    }

    /// A program that is not there, with these tests.
    #[cfg(test)]
    pub fn of_tests(package: &str, name: &str, tests: &[&str]) -> Self {
        TestProgram {
            package: package.to_owned(),
            name: name.to_owned(),
            program: PathBuf::from(format!("{package}-{name}")),
            folder: PathBuf::new(),
            tests: tests.iter().map(|name| (*name).to_owned()).collect(),
        }
    }

    /// The name of one of its tests.
    pub fn test(&self, name: &str) -> TestName {
        TestName { package: self.package.clone(), target: self.name.clone(), name: name.to_owned() }
    }

    fn list(&self) -> BTreeSet<String> {
        let mut command = self.command();
        command.args(["--list", "--format", "terse"]);
        let run = run(command, LISTING);
        let names = run.output.lines().filter_map(|line| line.strip_suffix(": test"));
        names.map(str::to_owned).collect()
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command.current_dir(&self.folder);
        command.env("CARGO_MANIFEST_DIR", &self.folder).env("RUST_BACKTRACE", "0");
        command
    }
}

/// Runs a program of tests, and ends it with all that it has started when its time is up.
fn run(mut command: Command, limit: Duration) -> TestRun {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    std::os::unix::process::CommandExt::process_group(&mut command, 0);
    let began = Instant::now();
    let Ok(mut child) = command.spawn() else {
        return TestRun::default();
    };
    let stdout = child.stdout.take();
    let reader = std::thread::spawn(move || {
        let mut output = Vec::new();
        if let Some(mut stdout) = stdout {
            let _ = stdout.read_to_end(&mut output);
        }
        String::from_utf8_lossy(&output).into_owned()
    });
    let passed = wait(&mut child, limit);
    let time = began.elapsed();
    let output = reader.join().unwrap_or_default();
    TestRun { passed, time, output }
}

/// Whether a process ends well and in time.
fn wait(child: &mut Child, limit: Duration) -> bool {
    let deadline = Instant::now() + limit;
    let mut passed = None;
    while passed.is_none() && Instant::now() < deadline {
        match child.try_wait() {
            Ok(None) => std::thread::sleep(PAUSE),
            Ok(Some(status)) => passed = Some(status.success()),
            Err(_) => break,
        }
    }
    if passed != Some(true) {
        // A test that fails may leave processes behind.
        let group = format!("-{}", child.id());
        let _ = Command::new("kill").args(["-KILL", "--", &group]).stderr(Stdio::null()).status();
        let _ = child.wait();
    }
    passed.unwrap_or(false)
}

/// The test program that a message of cargo tells of.
fn program(message: &Value) -> Option<TestProgram> {
    let program = PathBuf::from(message["executable"].as_str()?);
    if message["reason"] != "compiler-artifact" || message["profile"]["test"] != true {
        return None;
    }
    let name = target_name(&message["target"])?;
    let manifest = PathBuf::from(message["manifest_path"].as_str()?);
    let folder = manifest.parent()?.to_owned();
    let package = package_of(folder.file_name()?.to_str()?);
    Some(TestProgram { package, name, program, folder, tests: BTreeSet::new() })
}

/// The name of a target with tests.
fn target_name(target: &Value) -> Option<String> {
    let kind = target["kind"].as_array()?.iter().filter_map(Value::as_str).next()?;
    match kind {
        "lib" => Some("lib".to_owned()),
        "test" => target["name"].as_str().map(str::to_owned),
        _ => None,
    }
}

/// The package of a crate's folder.
pub fn package_of(folder: &str) -> String {
    match folder {
        "kevel" | "kube-apiserver" => folder.to_owned(),
        _ => format!("kevel-{folder}"),
    }
}
