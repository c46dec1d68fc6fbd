//! `kube-apiserver check`: manifests are checked offline, with the messages of a cluster.
//!
//! A server without a port is started in the process, on a store in memory. InputDocuments are sent to it as kubectl sends
//! them, in an order in which what others depend on comes first.

mod arguments;
mod cluster;
mod definitions;
mod document;
mod files;
mod finding;
mod locate;
mod order;
mod output;
mod policies;
mod report;
mod run;
mod split;

use std::io::{self, Write as _};
use std::process::ExitCode;
use std::sync::Arc;

use kevel_compute::with_stack;

use self::arguments::{CheckArguments, CheckUsageError};
use self::cluster::{CheckCluster, ClusterError};
use self::document::InputDocuments;
use self::files::{FileError, ManifestFile, read_all};
use self::report::FindingReport;
use crate::server;

const USAGE: &str = "\
Usage:
  kube-apiserver check -f FILES|DIR|- [flags]      check manifests without a cluster, with the messages that a cluster
                                                   has for kubectl apply --dry-run=server --validate=strict

Flags:
  -f, --filename FILES|DIR|-    files, directories with all below them, or standard input; may be repeated
      --crds FILES|DIR          CustomResourceDefinitions that the cluster has; those among the files need no flag
  -n, --namespace NAME          namespace of objects that name none; default default
  -o, --output FORMAT           text, json, github (workflow commands) or sarif (2.1.0)
      --validate HOW            unknown and duplicate fields: strict (errors), warn or ignore
      --kubernetes-version X    check as Kubernetes 1.X does; the same as --emulated-version
      --skip KINDS              kinds that are not checked: KIND or VERSION/KIND, with commas
      --ignore-missing-schemas  do not check objects of unknown kinds
      --warnings-as-errors      treat warnings as errors

The server's flags --admission-control-config-file, --disable-admission-plugins, --emulated-version,
--enable-admission-plugins, --feature-gates, --runtime-config, --service-cluster-ip-range and --service-node-port-range say
what the cluster is like.

Namespaces that are not among the files are made as they are needed. Webhooks and everything else that needs a network are
not called, and the summary says so.

Exits with 0 if a cluster takes everything, 1 if not, and 2 if the arguments are wrong or a file cannot be read.
";

/// Flags of the usage, in their long form.
const USAGE_FLAGS: [&str; 10] = [
    "--filename",
    "--crds",
    "--namespace",
    "--output",
    "--validate",
    "--kubernetes-version",
    "--skip",
    "--ignore-missing-schemas",
    "--warnings-as-errors",
    "--help",
];

/// Exit code for wrong arguments, and for files that cannot be read.
const WRONG_ARGUMENTS: u8 = 2;

/// Reason why nothing can be checked.
#[derive(Debug, thiserror::Error)]
enum CheckError {
    #[error("{0}\nSee `kube-apiserver check --help`.")]
    Usage(#[from] CheckUsageError),
    #[error(transparent)]
    File(#[from] FileError),
    #[error(transparent)]
    Cluster(#[from] ClusterError),
    #[error("cannot start: {0}")]
    Runtime(#[from] io::Error),
    #[error("cannot start a thread")]
    Thread,
}

/// Runs the command on the arguments after `check`.
pub fn main(arguments: impl IntoIterator<Item = String>) -> ExitCode {
    let checked = CheckArguments::parse(arguments).map_err(CheckError::from).and_then(|parsed| {
        // A reader that closes the pipe has read enough.
        if parsed.help {
            let _ = io::stdout().write_all(USAGE.as_bytes());
            return Ok(ExitCode::SUCCESS);
        }
        let format = parsed.output;
        let report = check(parsed)?;
        let _ = io::stdout().write_all(&format.write(&report));
        Ok(if report.is_clean() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    });
    checked.unwrap_or_else(|error| {
        eprintln!("Error: {error}");
        ExitCode::from(WRONG_ARGUMENTS)
    })
}

fn check(arguments: CheckArguments) -> Result<FindingReport, CheckError> {
    let given = read_all(&arguments.definitions)?;
    let checked = read_all(&arguments.files)?;
    let names: Vec<Arc<str>> =
        checked.iter().chain(&given).map(|file| file.name.as_str().into()).collect();
    let files = checked.len();
    let raise = arguments.warnings_are_errors;
    let runtime = server::runtime()?;
    let work = || runtime.block_on(run(&arguments, given, checked));
    let report = with_stack(server::STACK, work);
    runtime.shutdown_background();
    let mut report = report.ok_or(CheckError::Thread)??;
    report.files = files;
    report.locate(&names);
    if raise {
        report.raise_warnings();
    }
    Ok(report)
}

async fn run(
    arguments: &CheckArguments,
    given: Vec<ManifestFile>,
    checked: Vec<ManifestFile>,
) -> Result<FindingReport, CheckError> {
    let cluster = CheckCluster::start(&arguments.server).await?;
    let (given, checked) = (InputDocuments::read(given), InputDocuments::read(checked));
    Ok(run::check(&cluster, arguments, given, checked).await)
}
