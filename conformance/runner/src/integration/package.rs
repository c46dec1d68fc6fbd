//! Package of tests: its names, and its run against a server.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::fs;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use regex_lite::Regex;
use tokio::process::Command;
use tokio::task::JoinSet;

use super::IntegrationPlan;
use super::controllers;
use super::module::GoModule;
use super::output::{self, TestOutcomes};
use super::process_group::ProcessGroup;
use super::results::PackageResults;
use crate::Result;
use crate::control_plane::{Server, cache, etcd_program, free_port};

/// Package of apiextensions-apiserver, whose tests are in another module.
const APIEXTENSIONS: &str = "apiextensions";
/// Packages whose tests share a machine-wide resource: sockets of the abstract namespace.
const ONE_BY_ONE: [&str; 1] = ["controlplane/transformation"];
/// Time for a test's process to end after the time limit.
const CLEAN_UP: Duration = Duration::from_secs(15);
/// Time limit for etcd to listen.
const ETCD_LIMIT: Duration = Duration::from_secs(60);
/// Quota for objects that tests leave behind, as in Kubernetes' own runs of these tests.
const ETCD_QUOTA: &str = "--quota-backend-bytes=8589934592";

/// A folder of tests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GoPackage {
    name: String,
    /// Folder of the tests: the name without a suffix.
    tests: String,
    /// Names of the controllers that the server runs, not the tests' process.
    controllers: Option<&'static str>,
}

/// Packages of these names.
pub fn packages_of(names: &[String]) -> Result<Vec<GoPackage>> {
    names.iter().map(|name| GoPackage::new(name.trim_matches('/'))).collect()
}

impl GoPackage {
    fn new(name: &str) -> Result<Self> {
        let (tests, controllers) = controllers::of_package(name)?;
        Ok(GoPackage { name: name.to_owned(), tests: tests.to_owned(), controllers })
    }

    /// Name: the folder under `test/integration`, after `apiextensions` for those of apiextensions-apiserver; with
    /// `+controllers` if the server runs the controllers of the tests.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Folder in the module.
    fn folder(&self) -> String {
        match self.tests.strip_prefix(APIEXTENSIONS) {
            Some(rest) if rest.is_empty() || rest.starts_with('/') => {
                format!("apiextensions-apiserver/test/integration{rest}")
            }
            _ => format!("kubernetes/test/integration/{}", self.tests),
        }
    }

    fn import_path(&self) -> String {
        format!("k8s.io/{}", self.folder())
    }
}

/// Tests of a package, ready to run on a server.
#[derive(Debug)]
pub struct PackageRun {
    package: GoPackage,
    module: Arc<GoModule>,
    /// Program of the tests.
    program: PathBuf,
    /// Program of the server.
    server: PathBuf,
    /// Etcd, which ends with the run.
    _etcd: ProcessGroup,
    etcd_url: String,
    folder: PathBuf,
    jobs: usize,
    limit: u64,
}

impl PackageRun {
    /// Builds the tests and starts an etcd for them.
    pub async fn prepare(
        module: &Arc<GoModule>,
        package: GoPackage,
        server: Server,
        plan: &IntegrationPlan,
    ) -> Result<Arc<Self>> {
        let program = module.test_program(&package.tests, &package.import_path()).await?;
        let jobs = match ONE_BY_ONE.contains(&package.name()) {
            true => 1,
            false => plan.jobs.max(1),
        };
        let folder = run_folder(server, &package)?;
        let (etcd, etcd_url) = start_etcd(&folder).await?;
        let run = PackageRun {
            package,
            module: Arc::clone(module),
            program,
            server: server_program(server)?,
            _etcd: etcd,
            etcd_url,
            folder,
            jobs,
            limit: plan.limit,
        };
        Ok(Arc::new(run))
    }

    /// The package.
    pub fn package(&self) -> &GoPackage {
        &self.package
    }

    /// Folder of the results.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Names of the package's tests that match.
    pub async fn tests(&self, wanted: Option<&Regex>) -> Result<Vec<String>> {
        let mut command = self.command(&self.folder, &self.folder);
        let output = command.arg("-test.list=^Test").stdout(Stdio::piped()).output().await?;
        let text = String::from_utf8_lossy(&output.stdout);
        let listed = text.lines().filter(|line| line.starts_with("Test") && !line.contains(' '));
        let wanted = |test: &&str| wanted.is_none_or(|wanted| wanted.is_match(test));
        let tests: Vec<String> = listed.filter(wanted).map(str::to_owned).collect();
        match output.status.success() {
            true => Ok(tests),
            false => Err(format!("{}: tests cannot be listed", self.package.name).into()),
        }
    }

    /// Runs tests, several at a time, and records their results.
    pub async fn all(
        self: &Arc<Self>,
        tests: &[String],
        results: &mut PackageResults,
    ) -> Result<()> {
        let mut left: VecDeque<String> = tests.iter().cloned().collect();
        let mut running = JoinSet::new();
        loop {
            while running.len() < self.jobs
                && let Some(test) = left.pop_front()
            {
                let run = Arc::clone(self);
                running.spawn(async move {
                    let outcomes = run.one(&test).await;
                    (test, outcomes)
                });
            }
            let Some(ended) = running.join_next().await else { return Ok(()) };
            let (test, outcomes) = ended?;
            let outcomes = outcomes?;
            if let Some(outcome) = outcomes.get(&test) {
                let (status, name) = (outcome.status.name(), &self.package.name);
                println!("{name} {test}: {status} {:.1} s", outcome.seconds);
            }
            results.set(&test, outcomes)?;
        }
    }

    async fn one(&self, test: &str) -> Result<TestOutcomes> {
        let folder = self.folder.join(test);
        if folder.exists() {
            fs::remove_dir_all(&folder)?;
        }
        fs::create_dir_all(&folder)?;
        let scratch = Scratch::new()?;
        let file = folder.join("output.txt");
        let out = fs::File::create(&file)?;
        let mut command = self.command(&folder, &scratch.0);
        command
            .args(["-test.v=test2json", &format!("-test.run=^{test}$")])
            .arg(format!("-test.timeout={}s", self.limit))
            .stdout(out.try_clone()?)
            .stderr(out);
        let begun = Instant::now();
        let mut group = ProcessGroup::spawn(&mut command)?;
        let ended = group.wait(Duration::from_secs(self.limit) + CLEAN_UP).await?;
        // Ends servers that the test did not stop, before their folders are removed.
        drop(group);
        let text = fs::read(&file)?;
        let seconds = begun.elapsed().as_secs_f64();
        Ok(output::parse(&String::from_utf8_lossy(&text), test, seconds, ended.is_none()))
    }

    /// Command of the tests' program with the environment for the shim and the tests, and a folder for temporary files.
    fn command(&self, logs: &Path, scratch: &Path) -> Command {
        let mut command = Command::new(&self.program);
        command
            .current_dir(self.module.folder().join(self.package.folder()))
            .env("KUBE_APISERVER_BIN", &self.server)
            .env("KUBE_INTEGRATION_ETCD_URL", &self.etcd_url)
            .env("KUBE_INTEGRATION_LOGS", logs)
            .env("KUBE_INTEGRATION_FIXTURES", self.folder.join("fixtures"))
            .env("TMPDIR", scratch)
            .env("PATH", path_with_etcd())
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .kill_on_drop(true);
        if let Some(controllers) = self.package.controllers {
            command.env(controllers::VARIABLE, controllers);
        }
        command
    }
}

fn server_program(server: Server) -> Result<PathBuf> {
    let program = server.program();
    let there = program.is_file();
    there.then_some(program).ok_or_else(|| format!("{} is not built", server.name()).into())
}

/// Folder of a package on a server: results, output of each test, logs of servers.
fn run_folder(server: Server, package: &GoPackage) -> Result<PathBuf> {
    let folder = cache().join("run/integration").join(server.name()).join(&package.name);
    fs::create_dir_all(folder.join("fixtures"))?;
    Ok(folder)
}

/// Folder for a test's temporary files, removed with it. Its path is short, because tests make Unix sockets there.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Result<Self> {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("kint{}-{count}", std::process::id()));
        fs::create_dir_all(&folder)?;
        Ok(Scratch(folder))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // A folder that remains does no harm.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Starts an empty etcd on free ports; returns its address too.
async fn start_etcd(folder: &Path) -> Result<(ProcessGroup, String)> {
    let data = folder.join("etcd");
    if data.exists() {
        fs::remove_dir_all(&data)?;
    }
    let program = etcd_program().ok_or("no etcd")?;
    let port = free_port()?;
    let client = format!("http://127.0.0.1:{port}");
    let peer = format!("http://127.0.0.1:{}", free_port()?);
    let mut command = Command::new(program);
    command
        .arg(format!("--data-dir={}", data.display()))
        .arg(format!("--listen-client-urls={client}"))
        .arg(format!("--advertise-client-urls={client}"))
        .arg(format!("--listen-peer-urls={peer}"))
        .arg(format!("--initial-advertise-peer-urls={peer}"))
        .arg(format!("--initial-cluster=default={peer}"))
        // Nothing outlives a run.
        .args(["--unsafe-no-fsync", "--log-level=error", ETCD_QUOTA])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(fs::File::create(folder.join("etcd.log"))?)
        .kill_on_drop(true);
    let mut group = ProcessGroup::spawn(&mut command)?;
    let limit = Instant::now() + ETCD_LIMIT;
    while TcpStream::connect(("127.0.0.1", port)).is_err() {
        let ended = group.wait(Duration::from_millis(20)).await?.is_some();
        if ended || Instant::now() > limit {
            return Err(format!("etcd does not start: {}/etcd.log", folder.display()).into());
        }
    }
    Ok((group, client))
}

/// `PATH` with the folder of etcd first, because some tests start an etcd themselves.
fn path_with_etcd() -> OsString {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let etcd = etcd_program().and_then(|program| Some(program.parent()?.to_owned()));
    let folders = etcd.into_iter().chain(std::env::split_paths(&path));
    std::env::join_paths(folders).unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_are_found_in_their_modules() {
        let names =
            ["apiextensions", "apiextensions/conversion", "apiserver/apply", "quota+controllers"];
        let names = names.map(str::to_owned);
        let packages = packages_of(&names).unwrap();
        let paths = packages.iter().map(GoPackage::import_path);
        let expected = [
            "k8s.io/apiextensions-apiserver/test/integration",
            "k8s.io/apiextensions-apiserver/test/integration/conversion",
            "k8s.io/kubernetes/test/integration/apiserver/apply",
            "k8s.io/kubernetes/test/integration/quota",
        ];
        assert_eq!(paths.collect::<Vec<_>>(), expected);
    }
}
