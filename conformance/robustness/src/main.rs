//! Robustness suite: traffic over HTTPS while the server is killed, stopped and restarted, while etcd fails, and while
//! the disk fails; then all observations of clients and watchers are checked against the guarantees. See
//! `conformance/README.md`.

mod api;
mod check;
mod client;
mod dice;
mod disk;
mod etcd;
mod faults;
mod history;
mod injector;
mod options;
mod record;
mod report;
mod run;
mod server;
mod stored;
mod traffic;
mod watcher;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use crate::faults::Kind;
use crate::options::{Options, USAGE};
use crate::run::Plan;

fn main() -> ExitCode {
    let options = match Options::parse(std::env::args().skip(1)) {
        Ok(options) => options,
        Err(error) => {
            eprintln!("{error}\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    let runtime = match tokio::runtime::Runtime::new() {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::FAILURE;
        }
    };
    match runtime.block_on(command(&options)) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("FAIL: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Runs a command; returns whether all checks passed.
async fn command(options: &Options) -> Result<bool, String> {
    match options.command.as_str() {
        "short" => short(options).await,
        "embedded" => traffic(options, 0, options.faults.unwrap_or(100)).await,
        "etcd" if !etcd::Cluster::possible() => Ok(true),
        "etcd" if options.namespaces && skipped(etcd::Network::impossible()) => Ok(true),
        "etcd" => traffic(options, options.members, options.faults.unwrap_or(100)).await,
        "disk" => {
            disk::positions(options.faults.unwrap_or(200), options.stride, options.first).await
        }
        "power" => {
            disk::power(options.seed, options.faults.unwrap_or(200), options.stride, true).await
        }
        disk::DRIVER => drive(options).await,
        client::CLIENT => {
            let (words, pause) = (&options.words, options.pause);
            client::run(words, options.seed, options.keys, pause).await.map(|()| true)
        }
        other => Err(format!("there is no {other}\n{USAGE}")),
    }
}

/// Reports a missing requirement of a run.
fn skipped(need: Option<&str>) -> bool {
    need.inspect(|need| kevel_test_support::skip(need)).is_some()
}

/// Runs a short version of everything.
async fn short(options: &Options) -> Result<bool, String> {
    let options = Options { min_rate: SHORT_RATE, ..options.clone() };
    let mut held = traffic(&options, 0, 9).await?;
    if etcd::Cluster::possible() {
        held &= traffic(&options, 1, 7).await?;
    }
    held &= disk::positions(30, 4, 1).await?;
    held &= disk::power(options.seed, 30, 2, false).await?;
    Ok(held)
}

/// Lowest number of operations per second on a busy machine.
const SHORT_RATE: f64 = 5.0;

/// Runs the driver process on a simulated disk.
async fn drive(options: &Options) -> Result<bool, String> {
    let [folder, writes, size] = options.words.as_slice() else {
        return Err("driver FOLDER WRITES SIZE".to_owned());
    };
    let number = |word: &str| word.parse::<usize>().map_err(|error| error.to_string());
    disk::driver::drive(Path::new(folder), number(writes)?, number(size)?).await.map(|()| true)
}

async fn traffic(options: &Options, members: usize, count: usize) -> Result<bool, String> {
    let kinds = kinds(options, members)?;
    let plan = Plan {
        seed: options.seed,
        clients: options.clients,
        watchers: options.watchers,
        keys: options.keys,
        pause: Duration::from_millis(options.pause),
        faults: faults::schedule(options.seed, &kinds, count, members),
        min_rate: options.min_rate,
        members,
        namespaces: options.namespaces,
        program: program()?,
        output: options.output.clone(),
    };
    println!("{}", report::plan(&plan));
    let summary = run::run(&plan).await?;
    println!("{}", report::summary(&plan, &summary));
    Ok(summary.violations.is_empty())
}

/// Kinds of faults by their names on the command line.
const KINDS: &[(&str, Kind)] = &[
    ("kill", Kind::Kill),
    ("pause", Kind::Pause),
    ("terminate", Kind::Terminate),
    ("client-kill", Kind::ClientKill),
    ("etcd-kill", Kind::EtcdKill),
    ("etcd-leader", Kind::EtcdKillLeader),
    ("etcd-pause", Kind::EtcdPause),
    ("etcd-partition", Kind::EtcdPartition),
    ("etcd-unplug", Kind::EtcdUnplug),
    ("etcd-slow-disk", Kind::EtcdSlowDisk),
    ("etcd-compact", Kind::EtcdCompact),
    ("etcd-defragment", Kind::EtcdDefragment),
];

/// Failpoints in the server's code (`crates/store/src/failpoint.rs`), with the highest number of passes before the
/// server dies there.
const FAILPOINTS: &[(&str, u64)] = &[
    ("store/before-commit", 200),
    ("store/after-commit", 200),
    ("store/before-publish", 150),
    ("store/before-answer", 150),
    ("store/compacting", 2),
    ("store/sweeping", 5),
    ("store/checkpoint", 1),
    ("cache/loading", 60),
    ("cache/heard", 150),
];

fn kinds(options: &Options, members: usize) -> Result<Vec<Kind>, String> {
    let possible = |name: &str| match name {
        "etcd-leader" => members > 1,
        "etcd-partition" => members > 1 && !options.namespaces,
        "etcd-unplug" => members > 1 && options.namespaces,
        // Requires strace, so only on request.
        "etcd-slow-disk" => members > 0 && options.kinds.iter().any(|kind| kind == name),
        name => members > 0 || !name.starts_with("etcd"),
    };
    let known = KINDS.iter().filter(|(name, _)| possible(name));
    if options.kinds.is_empty() {
        return Ok(known.map(|(_, kind)| kind.clone()).collect());
    }
    let mut chosen = Vec::new();
    for wanted in &options.kinds {
        if wanted == "failpoints" {
            // Failpoints are armed at the start of the server: it has to end before.
            chosen.push(Kind::Kill);
            chosen.extend(FAILPOINTS.iter().map(|(name, most)| Kind::Failpoint(name, *most)));
            continue;
        }
        if wanted == "disk" && members == 0 {
            chosen.extend([Kind::Kill, Kind::Disk(String::new())]);
            continue;
        }
        let found = known.clone().find(|(name, _)| name == wanted);
        chosen.push(found.ok_or_else(|| format!("{wanted} cannot be had here"))?.1.clone());
    }
    Ok(chosen)
}

/// Path of the server program.
fn program() -> Result<PathBuf, String> {
    let named = std::env::var_os("KEVEL_APISERVER").map(PathBuf::from);
    let built =
        ["release", "debug"].map(|kind| PathBuf::from(format!("target/{kind}/kube-apiserver")));
    let found = named.into_iter().chain(built).find(|file| file.is_file());
    found.ok_or_else(|| "there is no target/debug/kube-apiserver: cargo build".to_owned())
}
