//! A run: a server with traffic and watchers, scheduled faults, and the checks of the recorded history.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use kevel_test_support::wire::Version as HttpVersion;
use tokio::task::JoinSet;

use crate::api::{self, Target};
use crate::check::{self, Checked, Violation};
use crate::client::Clients;
use crate::disk;
use crate::faults::{Kind, Planned};
use crate::history::{History, HistoryClock, Operation, Outcome, Request};
use crate::injector::{Injector, Storage};
use crate::server::Server;
use crate::stored;
use crate::traffic::{Traffic, value};
use crate::watcher::{self, Goal, Watcher};

/// Parameters of a run.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Seed of all random choices.
    pub seed: u64,
    /// Number of clients.
    pub clients: usize,
    /// Number of watchers.
    pub watchers: usize,
    /// Number of objects.
    pub keys: usize,
    /// Pause of each client after an operation.
    pub pause: Duration,
    /// Scheduled faults.
    pub faults: Vec<Planned>,
    /// Lowest number of answered operations per second: fewer prove nothing.
    pub min_rate: f64,
    /// Number of etcd members; 0 for the embedded store.
    pub members: usize,
    /// Whether each member has a network namespace.
    pub namespaces: bool,
    /// Program of the server.
    pub program: PathBuf,
    /// Folder of histories that violate a guarantee.
    pub output: PathBuf,
}

/// Results of a run.
#[derive(Debug)]
pub struct Summary {
    /// Recorded history.
    pub history: History,
    /// Violated guarantees.
    pub violations: Vec<Violation>,
    /// Numbers of checks.
    pub checked: Checked,
    /// Duration of the traffic.
    pub took: Duration,
    /// Answered operations per second.
    pub rate: f64,
}

/// Number of the client of the last writes.
const LAST_CLIENT: usize = 1_000_000;
/// Time limit of the last writes.
const LAST_WRITES: Duration = Duration::from_secs(60);

/// Runs a plan. An error means that it could not be carried out: something did not start or restart.
pub async fn run(plan: &Plan) -> Result<Summary, String> {
    let folder = tempfile::Builder::new().prefix("kevel-robustness").tempdir();
    let folder = folder.map_err(|error| error.to_string())?;
    let shim = match plan.faults.iter().any(|planned| matches!(planned.kind, Kind::Disk(_))) {
        true => {
            Some(disk::shim(folder.path())?.ok_or("there is no C compiler for the failing disk")?)
        }
        false => None,
    };
    let mut storage =
        Storage::start(plan.members, &folder.path().join("etcd"), plan.namespaces).await?;
    let (mut server, target) = start(plan, folder.path(), &mut storage).await?;
    api::make_namespace(&target).await?;
    let clock = HistoryClock::start();
    let traffic = Arc::new(Traffic {
        clock,
        seed: plan.seed,
        keys: Traffic::keys(plan.keys),
        stop: AtomicBool::new(false),
        answered: AtomicU64::new(0),
        pause: plan.pause,
    });
    let (goal, watchers) = watch(plan, &traffic, &target).await?;
    let began = Instant::now();
    let (mut processes, mut clients) = (Clients::default(), JoinSet::new());
    for _ in 0..plan.clients {
        clients.spawn(processes.start(traffic.clone(), folder.path(), target.port));
    }
    let mut history = History::default();
    let (server_mut, storage_mut, shim) = (&mut server, &mut storage, shim.as_deref());
    let clients_ref = &processes;
    let injector =
        Injector { clock, server: server_mut, storage: storage_mut, clients: clients_ref, shim };
    let injected = injector.all(&plan.faults, &mut history).await;
    traffic.stop.store(true, Ordering::Relaxed);
    let took = began.elapsed();
    while let Some(operations) = clients.join_next().await {
        history.operations.extend(operations.map_err(|error| error.to_string())??);
    }
    let mut violations = Vec::new();
    let injected = match injected {
        Ok(()) => last_writes(&traffic, &target, &mut history).await,
        Err(error) => Err(error),
    };
    if let Err(error) = injected {
        violations.push(Violation::new("the server comes back", error));
    } else {
        let last = last_revisions(&history);
        let _ = goal.send(Some(Arc::new(last)));
        for (watched, arrived) in watchers.join_all().await {
            if !arrived {
                let what = format!("{} has not seen the last writes", watched.name);
                violations.push(Violation::new("a watcher comes to know everything", what));
            }
            history.watchers.push(watched);
        }
        stop(&mut server, &mut storage, &mut history, &mut violations).await?;
    }
    if server.log().contains("panicked") {
        violations
            .push(Violation::new("the server does not panic", crate::server::tail(&server.log())));
    }
    eprintln!("{} operations are checked", history.operations.len());
    let (broken, checked) = check::all(&history);
    violations.extend(broken);
    let rate = traffic.answered.load(Ordering::Relaxed) as f64 / took.as_secs_f64();
    if rate < plan.min_rate {
        let what = format!("{rate:.1} operations per second, not {}", plan.min_rate);
        violations.push(Violation::new("a run has traffic", what));
    }
    if !violations.is_empty() {
        keep(plan, &history, &server)?;
    }
    Ok(Summary { history, violations, checked, took, rate })
}

async fn start(
    plan: &Plan,
    folder: &Path,
    storage: &mut Storage,
) -> Result<(Server, Target), String> {
    let (mut server, target) = Server::start(&plan.program, folder, Vec::new()).await?;
    let Some(flags) = storage.flags(folder) else { return Ok((server, target)) };
    // A server on etcd uses the keys that one without flags has made.
    server.kill().await?;
    Server::start(&plan.program, folder, flags).await
}

/// Starts the watchers, and waits until each has begun: the reference history depends on them.
async fn watch(
    plan: &Plan,
    traffic: &Arc<Traffic>,
    target: &Target,
) -> Result<
    (
        tokio::sync::watch::Sender<Option<Arc<BTreeMap<String, u64>>>>,
        JoinSet<(crate::history::Watched, bool)>,
    ),
    String,
> {
    let (goal, _) = tokio::sync::watch::channel(None);
    let mut watchers = JoinSet::new();
    let begun = Arc::new(AtomicU64::new(0));
    for number in 0..plan.watchers.max(watcher::KINDS) {
        let watcher = Watcher::new(number, traffic.clone(), target.clone(), begun.clone());
        let goal: Goal = goal.subscribe();
        watchers.spawn(watcher.run(goal));
    }
    let wanted = watchers.len() as u64;
    let all = async {
        while begun.load(Ordering::Relaxed) < wanted {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let begun = tokio::time::timeout(LAST_WRITES, all).await;
    begun.map_err(|_| "the watchers cannot begin".to_owned())?;
    Ok((goal, watchers))
}

/// Writes every object once more, as a final state that every watcher has to see.
async fn last_writes(
    traffic: &Traffic,
    target: &Target,
    history: &mut History,
) -> Result<(), String> {
    let deadline = Instant::now() + LAST_WRITES;
    let mut connection = None;
    for key in &traffic.keys {
        for attempt in 0.. {
            if Instant::now() > deadline {
                return Err(format!("{key} cannot be written any more"));
            }
            let Some(client) = &mut connection else {
                connection = target.connect(HttpVersion::Http2).await;
                tokio::time::sleep(Duration::from_millis(10)).await;
                continue;
            };
            let number = history.operations.len() as u64;
            let (key, value) = (key.clone(), value(LAST_CLIENT, number, true));
            let request = match attempt % 2 {
                0 => Request::Update { key, value, expected: None },
                _ => Request::Create { key, value },
            };
            let start = traffic.clock.now();
            let outcome = api::perform(client, &request).await;
            let end = traffic.clock.now();
            let done = matches!(outcome, Outcome::Object(_));
            if matches!(outcome, Outcome::Unknown(_) | Outcome::Refused(_)) {
                connection = None;
            }
            history.operations.push(Operation {
                client: LAST_CLIENT,
                request,
                start,
                end,
                outcome,
            });
            if done {
                break;
            }
        }
    }
    Ok(())
}

/// Revisions of the last writes.
fn last_revisions(history: &History) -> BTreeMap<String, u64> {
    let last = history.operations.iter().filter(|operation| operation.client == LAST_CLIENT);
    let revisions = last.filter_map(|operation| match &operation.outcome {
        Outcome::Object(version) => Some((operation.request.key()?.to_owned(), version.revision)),
        _ => None,
    });
    revisions.collect()
}

/// Stops the server, and reads the history of the store.
async fn stop(
    server: &mut Server,
    storage: &mut Storage,
    history: &mut History,
    violations: &mut Vec<Violation>,
) -> Result<(), String> {
    server.terminate().await?;
    let stored = match storage {
        Storage::Embedded => stored::embedded(&server.store(), history).await,
        Storage::Etcd(cluster) => stored::etcd(&cluster.endpoints(), history).await,
    };
    if let Err(error) = stored {
        violations.push(Violation::new("the store is whole", error));
    }
    Ok(())
}

fn keep(plan: &Plan, history: &History, server: &Server) -> Result<(), String> {
    let folder = &plan.output;
    let write = |name: String, text: String| std::fs::write(folder.join(name), text);
    std::fs::create_dir_all(folder)
        .and_then(|()| write(format!("history-{}.txt", plan.seed), history.to_string()))
        .and_then(|()| write(format!("server-{}.log", plan.seed), server.log()))
        .map_err(|error| format!("cannot write to {}: {error}", folder.display()))
}
