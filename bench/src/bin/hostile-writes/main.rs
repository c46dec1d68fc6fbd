//! Cost of hostile writes to a running server:
//! `cargo run --release -p kevel-bench --bin hostile-writes [-- --every N --only TEXT --senders N]`.
//!
//! Sends objects of 3 MiB that are made to be expensive, of every kind and with every verb, one at a
//! time, as a user who has nothing but a namespace (as an administrator where a kind has none). None
//! may take the server more than a second of CPU or keep `/livez` or a handshake waiting for more than
//! 100 ms; memory and answers have limits too. Then the worst of them are sent by many at once, while
//! `/livez` has to go on. Exits with 1 where something is over.
//!
//! `--every N` takes each Nth of the generated cases (all that are made by hand are sent always),
//! `--only` those that have a text in their names, `--senders` how many send at once.
//! `KEVEL_APISERVER` says which program is measured; a debug build is slower than what is allowed.

mod base;
mod crafted;
mod fill;
mod generated;
mod measure;
mod world;

use std::process::ExitCode;
use std::time::Duration;

use kevel_conformance::Result;
use kevel_conformance::client::Request;
use kevel_conformance::control_plane::{ControlPlane, Server, cache};

use measure::{Cost, Probe};
use world::World;

/// The most that one request may take: CPU time of the server, memory above what it rests at, the
/// answer. A tree of 3 MiB of `{}` takes ten times as much alone, and a write has two or three at a
/// time: what was there, what is to be there, what is stored.
const MOST_CPU: Duration = Duration::from_secs(1);
const MOST_MEMORY_MIB: f64 = 512.0;
const MOST_ANSWER: usize = 8 << 20;
/// Longest delay of other clients meanwhile, for `/livez` and for a handshake.
const MOST_WAIT: Duration = Duration::from_millis(100);
/// Attempts at a case that is over a limit: the machine may have been busy.
const TRIES: usize = 3;
/// Number of the worst cases that are sent at once, and their duration.
const WORST: usize = 16;
const STORM: Duration = Duration::from_secs(20);

/// A request that is made to be expensive.
pub struct Case {
    /// Name of the case in the results.
    pub name: String,
    /// Made when it is sent: all of them together have gigabytes.
    pub request: Box<dyn Fn() -> Request + Send + Sync>,
    /// Cleanup after the case.
    pub after: Undo,
}

impl std::fmt::Debug for Case {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.name)
    }
}

/// Cleanup of a case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Undo {
    /// Nothing was made.
    Nothing,
    /// An object at a path.
    Delete(String),
    /// A change of one of the objects that are there from the start.
    Restore(usize),
}

struct Arguments {
    every: usize,
    only: String,
    senders: usize,
}

#[tokio::main]
async fn main() -> ExitCode {
    match run().await {
        Ok(0) => ExitCode::SUCCESS,
        Ok(over) => {
            println!("{over} over the limits");
            ExitCode::FAILURE
        }
        Err(error) => {
            println!("{error}");
            ExitCode::FAILURE
        }
    }
}

async fn run() -> Result<usize> {
    let arguments = arguments()?;
    let folder = cache().join("run").join(format!("hostile-writes-{}", std::process::id()));
    let mut plane = ControlPlane::prepare(&folder)?;
    plane.start_server(Server::Kevel, false).await?;
    let result = attack(&plane, &arguments).await;
    let alive = plane.check();
    plane.stop_all()?;
    alive?;
    if result.is_ok() {
        std::fs::remove_dir_all(&folder)?;
    }
    result
}

async fn attack(plane: &ControlPlane, arguments: &Arguments) -> Result<usize> {
    let world = World::prepare(plane).await?;
    let probe = Probe::new(plane)?;
    let mut cases = crafted::cases(&world);
    let generated = generated::cases(&world);
    println!("{} cases made by hand, {} generated", cases.len(), generated.len());
    cases.extend(generated.into_iter().step_by(arguments.every));
    cases.retain(|case| case.name.contains(&arguments.only));
    let mut costs = Vec::new();
    let mut over = 0;
    for case in &cases {
        let cost = measure(&world, &probe, case).await?;
        if cost.is_over() {
            over += 1;
            println!("{cost}  {} OVER", case.name);
        }
        costs.push((cost, case));
    }
    costs.sort_by_key(|(cost, _)| std::cmp::Reverse(cost.cpu));
    println!("the most expensive of {}:", costs.len());
    for (cost, case) in costs.iter().take(WORST) {
        println!("{cost}  {}", case.name);
    }
    let worst: Vec<&Case> = costs.iter().take(WORST).map(|(_, case)| *case).collect();
    Ok(over + storm(&world, &probe, &worst, arguments.senders).await?)
}

/// Sends a case until it is within the limits, a few times at most.
async fn measure(world: &World, probe: &Probe, case: &Case) -> Result<Cost> {
    let mut least: Option<Cost> = None;
    for _ in 0..TRIES {
        let cost = probe.measure(&world.client, (case.request)()).await?;
        world.undo(&case.after).await?;
        let cost = least.map_or(cost, |least| least.min(cost));
        if !cost.is_over() {
            return Ok(cost);
        }
        least = Some(cost);
    }
    least.ok_or_else(|| "nothing was measured".into())
}

/// Many senders at once; how many limits were passed.
async fn storm(world: &World, probe: &Probe, worst: &[&Case], senders: usize) -> Result<usize> {
    if senders == 0 || worst.is_empty() {
        return Ok(0);
    }
    let requests: Vec<Request> = worst.iter().map(|case| (case.request)()).collect();
    let waits = probe.storm(&world.client, requests, senders, STORM).await?;
    println!("{senders} senders for {STORM:?}: {waits}");
    Ok(usize::from(waits.is_over()))
}

fn arguments() -> Result<Arguments> {
    let all: Vec<String> = std::env::args().skip(1).collect();
    let option = |name: &str| -> Option<&String> {
        all.iter().position(|argument| argument == name).and_then(|place| all.get(place + 1))
    };
    let number = |name: &str, default: usize| match option(name) {
        None => Ok(default),
        Some(text) => text.parse().map_err(|_| format!("{name}: not a number: {text}")),
    };
    Ok(Arguments {
        every: number("--every", 1)?.max(1),
        only: option("--only").cloned().unwrap_or_default(),
        senders: number("--senders", 8)?,
    })
}
