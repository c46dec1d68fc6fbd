//! Official conformance tests, one by one with a time limit, against a running control plane.
//!
//! `conformance/e2e-reference.md` has the results of the reference in the same environment, with which other servers
//! are compared. With a real node it is `conformance/e2e-reference-node.md`.

mod table;

use std::collections::VecDeque;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::process::Command;
use tokio::sync::Mutex;

use crate::control_plane::{ControlPlane, Server, built, tree};
use crate::{Result, kubelet, namespaces};

pub use table::{Outcome, Table};

/// Time for a test to clean up after its limit, before its process is killed.
const CLEAN_UP: Duration = Duration::from_secs(20);

/// Tests to run, and options.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Seconds for each test, or twice the duration on the reference if that is more.
    pub limit: u64,
    /// Number of concurrent tests; those marked `[Serial]` run alone, after the others.
    pub jobs: usize,
    /// Skips tests that are in the table already.
    pub skip_done: bool,
    /// Includes tests that the reference does not pass, which say nothing about another server.
    pub all: bool,
    /// Includes tests that are not conformance tests.
    pub beyond: bool,
    /// Part of the names of the tests to run.
    pub focus: String,
}

/// Runs tests, writes the server's table after each, and prints the tests that only one of Kevel and the reference
/// passes. Returns whether Kevel passes all that the reference does.
pub async fn run(server: Server, plan: Plan) -> Result<bool> {
    let plane = ControlPlane::open(&server.folder())?;
    plane.check()?;
    let file = table_file(server);
    let table = Table::read(&file).unwrap_or_default();
    let tests = list(plan.beyond).await?;
    let reference = Table::read(&table_file(Server::Reference)).unwrap_or_default();
    let telling = |test: &String| {
        server == Server::Reference || plan.all || reference.passes(test) == Some(true)
    };
    let wanted = |test: &String| {
        test.contains(&plan.focus)
            && telling(test)
            && !(plan.skip_done && table.outcome(test).is_some())
    };
    let chosen: Vec<String> = tests.iter().filter(|test| wanted(test)).cloned().collect();
    println!("{} of {} tests", chosen.len(), tests.len());

    let (serial, parallel): (VecDeque<_>, VecDeque<_>) =
        chosen.into_iter().partition(|test| test.contains("[Serial]"));
    let kubeconfig = plane.kubeconfig().display().to_string();
    let run = Arc::new(Run { server, plan, kubeconfig, file, reference, table: Mutex::new(table) });
    for (tests, jobs) in [(parallel, run.plan.jobs), (serial, 1)] {
        run.all(tests, jobs.max(1)).await?;
    }
    let table = run.table.lock().await;
    println!("{}", table.summary());
    compare(&table, server)
}

struct Run {
    server: Server,
    plan: Plan,
    kubeconfig: String,
    file: PathBuf,
    reference: Table,
    table: Mutex<Table>,
}

impl Run {
    async fn all(self: &Arc<Self>, tests: VecDeque<String>, jobs: usize) -> Result<()> {
        let tests = Arc::new(Mutex::new(tests));
        let worker = |run: Arc<Run>, tests: Arc<Mutex<VecDeque<String>>>| async move {
            loop {
                let Some(test) = tests.lock().await.pop_front() else { return Ok(()) };
                let outcome = run.one(&test).await?;
                println!("{outcome} {test}");
                let mut table = run.table.lock().await;
                table.set(test, outcome);
                table.write(&run.file, run.server.name(), run.plan.limit, nodes())?;
            }
        };
        let workers: Vec<_> =
            (0..jobs).map(|_| tokio::spawn(worker(Arc::clone(self), Arc::clone(&tests)))).collect();
        for worker in workers {
            let ended: Result<()> = worker.await?;
            ended?;
        }
        Ok(())
    }

    async fn one(&self, test: &str) -> Result<Outcome> {
        let begun = Instant::now();
        let taken = self.reference.outcome(test).map_or(0, |outcome| outcome.seconds);
        let limit = self.plan.limit.max(2 * taken * u64::from(self.server != Server::Reference));
        let child = Command::new(built("e2e.test"))
            .arg(format!("--kubeconfig={}", self.kubeconfig))
            .arg("--provider=skeleton")
            .arg(format!("--kubectl-path={}", built("kubectl").display()))
            .arg(format!(
                "--num-nodes={}",
                if namespaces::is_inside() { 1 } else { kubelet::NODES }
            ))
            .arg(format!("--ginkgo.focus={}$", escape(test)))
            .arg(format!("--ginkgo.timeout={limit}s"))
            .args(["--ginkgo.grace-period=5s", "--ginkgo.no-color", "--disable-log-dump"])
            .args(["--node-schedulable-timeout=10s", "--system-pods-startup-timeout=10s"])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let whole = Duration::from_secs(limit) + CLEAN_UP;
        let ended = tokio::time::timeout(whole, child.wait_with_output()).await;
        let seconds = begun.elapsed().as_secs();
        let Ok(output) = ended else { return Ok(Outcome::new("timeout", seconds, "")) };
        let output = output?;
        let text = String::from_utf8_lossy(&output.stdout);
        if text.contains("BeforeSuite node failed") {
            return Err(format!("the suite does not begin: {}", reason(&text)).into());
        }
        let result = match output.status.success() {
            true if text.contains("Ran 0 of") => "absent",
            true => "pass",
            false if text.contains("[TIMEDOUT]") => "timeout",
            false => "fail",
        };
        Ok(Outcome::new(result, seconds, if result == "pass" { "" } else { reason(&text) }))
    }
}

/// Names of all conformance tests, or of all tests.
async fn list(beyond: bool) -> Result<Vec<String>> {
    let output = Command::new(built("e2e.test")).arg("--list-tests").output().await?;
    let text = String::from_utf8_lossy(&output.stdout);
    // A line is a source location, then the name.
    let name = |line: &str| {
        let name = line.split_once(": ").map_or(line, |(_, name)| name).trim();
        (name.starts_with("[sig-") && (beyond || name.contains("[Conformance]")))
            .then(|| name.to_owned())
    };
    let mut names: Vec<String> = text.lines().filter_map(name).collect();
    names.sort();
    Ok(names)
}

/// First failure message of a test: neither a heading with a time, nor a location.
fn reason(text: &str) -> &str {
    let said = |line: &&str| !line.starts_with('[') && !line.starts_with("in ");
    let failed = |line| {
        str::strip_prefix(line, "[FAILED] ").or_else(|| str::strip_prefix(line, "[TIMEDOUT] "))
    };
    text.lines().map(str::trim).filter_map(failed).find(said).unwrap_or_default()
}

fn escape(test: &str) -> String {
    let special = |letter: &char| r"\.+*?()|[]{}^$".contains(*letter);
    test.chars()
        .flat_map(|letter| special(&letter).then_some('\\').into_iter().chain([letter]))
        .collect()
}

/// Prints the tests that only one server passes.
fn compare(table: &Table, server: Server) -> Result<bool> {
    if server == Server::Reference {
        return Ok(true);
    }
    let reference = Table::read(&table_file(Server::Reference))?;
    let lost = reference.passed_only_here(table);
    let won = table.passed_only_here(&reference);
    lost.iter().for_each(|test| println!("only the reference passes: {test}"));
    won.iter().for_each(|test| println!("only {} passes: {test}", server.name()));
    println!("{} that the reference passes, {} lost", reference.count("pass"), lost.len());
    Ok(lost.is_empty())
}

fn table_file(server: Server) -> PathBuf {
    let node = if namespaces::is_inside() { "-node" } else { "" };
    tree().join(format!("conformance/e2e-{}{node}.md", server.name()))
}

/// Nodes that the tests find, in words.
fn nodes() -> &'static str {
    match namespaces::is_inside() {
        true => "a real node (kubelet, kube-proxy, containerd)",
        false => {
            "pretended nodes (no containers run, so tests that look into one cannot pass for anybody)"
        }
    }
}
