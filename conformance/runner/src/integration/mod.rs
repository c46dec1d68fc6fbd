//! Kubernetes' own integration tests (`test/integration` of k8s.io/kubernetes and of apiextensions-apiserver), which
//! start a server in their own process, run against a separate server program. `conformance/integration` has the Go
//! code that starts it instead, and `expected.txt` with the expected result of each test.

mod controllers;
mod expected;
mod go;
mod module;
mod output;
mod package;
mod process_group;
mod record;
mod results;
mod summary;

use std::sync::Arc;

use kevel_test_support::program;
use regex_lite::Regex;
use tokio::signal::unix::{SignalKind, signal};

use self::expected::Expectations;
use self::go::Go;
use self::module::GoModule;
use self::package::{PackageRun, packages_of};
use self::results::PackageResults;
use self::summary::RunSummary;
use crate::Result;
use crate::control_plane::{Server, etcd_program};

/// Packages of `--quick`: custom resources, with 80 tests that need the smallest build, as they link nothing of
/// k8s.io/kubernetes.
const QUICK: [&str; 1] = ["apiextensions"];
/// Number of further runs of a test with an unexpected result, alone: some measure times, and machines are busy.
const AGAIN: usize = 2;

/// Tests to run, and options.
#[derive(Clone, Debug)]
pub struct IntegrationPlan {
    /// Folders under `test/integration`, `apiextensions` for that of apiextensions-apiserver; all known ones if empty.
    pub packages: Vec<String>,
    /// Only the packages of [`QUICK`].
    pub quick: bool,
    /// Runs the tests that Kevel does not pass on the reference, and writes the expectations.
    pub record: bool,
    /// Only tests whose names match.
    pub tests: Option<String>,
    /// Number of concurrent tests.
    pub jobs: usize,
    /// Seconds for each test.
    pub limit: u64,
}

/// Runs the tests on Kevel. Returns whether each ended as expected.
pub async fn run(plan: IntegrationPlan) -> Result<bool> {
    let (Some(go), Some(_)) = (program("go"), etcd_program()) else { return Ok(true) };
    let (mut interrupt, mut terminate) =
        (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    // The tests' processes are not in the terminal's job: they end when they are dropped.
    tokio::select! {
        well = run_packages(plan, Go::new(go)) => well,
        _ = interrupt.recv() => Err("interrupted".into()),
        _ = terminate.recv() => Err("terminated".into()),
    }
}

async fn run_packages(plan: IntegrationPlan, go: Go) -> Result<bool> {
    let mut expectations = Expectations::read()?;
    let wanted = plan.tests.as_deref().map(Regex::new).transpose()?;
    let packages = match (plan.quick, plan.packages.is_empty()) {
        (true, _) => QUICK.map(str::to_owned).to_vec(),
        (false, false) => plan.packages.clone(),
        (false, true) => expectations.packages(),
    };
    let module = Arc::new(GoModule::prepare(&go).await?);
    let mut summary = RunSummary::default();
    for package in packages_of(&packages)? {
        let run = PackageRun::prepare(&module, package, Server::Kevel, &plan).await?;
        let tests = run.tests(wanted.as_ref()).await?;
        let mut results = PackageResults::open(run.folder())?;
        run.all(&tests, &mut results).await?;
        if plan.record {
            let package = run.package().clone();
            let reference = PackageRun::prepare(&module, package, Server::Reference, &plan).await?;
            record::record(&run, &reference, &tests, &mut results, &mut expectations).await?;
            expectations.write(run.package().name())?;
        } else {
            again(&run, &tests, &mut results, &expectations).await?;
        }
        let package = run.package().name();
        summary.add(package, &tests, &results, &expectations, wanted.is_none());
    }
    print!("{summary}");
    Ok(summary.is_well())
}

/// Runs tests with unexpected results again, one at a time.
async fn again(
    run: &Arc<PackageRun>,
    tests: &[String],
    results: &mut PackageResults,
    expectations: &Expectations,
) -> Result<()> {
    for _ in 0..AGAIN {
        let failed = |test: &&String| {
            let outcomes = results.of_test(test);
            let surprises = expectations.surprises(run.package().name(), test, &outcomes);
            surprises.iter().any(|surprise| surprise.may_be_chance())
        };
        let failed: Vec<String> = tests.iter().filter(failed).cloned().collect();
        for test in &failed {
            println!("{} {test}: again, alone", run.package().name());
            run.all(std::slice::from_ref(test), results).await?;
        }
    }
    Ok(())
}
