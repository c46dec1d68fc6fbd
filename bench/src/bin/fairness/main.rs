//! Is one greedy client able to take the API away from others? The same floods against the reference and
//! Kevel, phase by phase in turn, on this machine.
//!
//! `cargo run --release -p kevel-bench --bin fairness [-- --pods N --clients N --kubelets N --seconds N --write]`
//!
//! The flood comes from a process of its own that gets what others leave of the processors, so that what is measured is
//! how a server divides itself and not how this machine divides its cores between clients. `--write` renews
//! FAIRNESS.md, fairness.json and fairness.svg. Needs what `conformance/build` makes, and a release build of Kevel.

mod flood;
mod measure;
mod report;
mod setup;

use std::time::Duration;

use kevel_conformance::Result;
use kevel_conformance::control_plane::{ControlPlane, Server, cache};

use flood::{Flood, Flooding};
use measure::{Measurement, measure};

/// Size of the benchmark.
#[derive(Clone, Copy, Debug)]
pub struct Sizes {
    /// Number of pods in the lists.
    pub pods: usize,
    /// Number of clients that flood the server.
    pub clients: usize,
    /// Number of simulated kubelets that renew their leases.
    pub kubelets: usize,
    /// Duration of each phase in seconds.
    pub seconds: u64,
}

/// A phase: who floods, and whether kubelets renew their leases meanwhile.
#[derive(Clone, Copy, Debug)]
pub struct Phase {
    /// Name of the phase.
    pub name: &'static str,
    /// The flood, if there is one.
    pub flood: Option<Flood>,
    /// Whether kubelets renew their leases.
    pub kubelets: bool,
}

const PHASES: [Phase; 5] = [
    Phase { name: "alone", flood: None, kubelets: false },
    Phase { name: "lists of all Pods", flood: Some(Flood::Lists), kubelets: false },
    Phase { name: "the same, with kubelets", flood: Some(Flood::Lists), kubelets: true },
    Phase { name: "anonymous requests", flood: Some(Flood::Anonymous), kubelets: false },
    Phase { name: "watches of all Pods", flood: Some(Flood::Watches), kubelets: false },
];
/// A flood is under way, and seats are borrowed as they will be, before anything is measured.
const RISE: Duration = Duration::from_secs(12);

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    if arguments.first().is_some_and(|first| first == flood::COMMAND) {
        return runtime.block_on(flood::run(&arguments));
    }
    let sizes = Sizes {
        pods: option(&arguments, "--pods", 2000)?,
        clients: option(&arguments, "--clients", 300)?,
        kubelets: option(&arguments, "--kubelets", 200)?,
        seconds: option(&arguments, "--seconds", 20)? as u64,
    };
    let rows = runtime.block_on(run(sizes))?;
    let results = report::Results { sizes, rows };
    print!("{}", results.table());
    if arguments.iter().any(|argument| argument == "--write") {
        results.write()?;
    }
    Ok(())
}

fn option(arguments: &[String], name: &str, default: usize) -> Result<usize> {
    let Some(place) = arguments.iter().position(|argument| argument == name) else {
        return Ok(default);
    };
    let value = arguments.get(place + 1).ok_or_else(|| format!("{name} needs a number"))?;
    value.parse().map_err(|_| format!("{name}: not a number: {value}").into())
}

/// All phases on fresh servers: measurements of the reference and of Kevel, pairwise.
async fn run(sizes: Sizes) -> Result<Vec<(Phase, [Measurement; 2])>> {
    let mut planes = Vec::new();
    for server in Server::ALL {
        let folder = cache().join("run").join(format!("fairness-{}", server.name()));
        let mut plane = ControlPlane::prepare(&folder)?;
        plane.flags.push(setup::users(&folder, sizes)?);
        plane.start_server(server, server == Server::Reference).await?;
        planes.push(plane);
    }
    let measured = phases(&planes, sizes).await;
    for plane in &mut planes {
        plane.stop_all()?;
    }
    measured
}

async fn phases(planes: &[ControlPlane], sizes: Sizes) -> Result<Vec<(Phase, [Measurement; 2])>> {
    for plane in planes {
        setup::fill(&plane.client(4)?, sizes).await?;
    }
    let mut rows = Vec::new();
    for phase in PHASES {
        let mut pair = Vec::new();
        for plane in planes {
            let flooding = match phase.flood {
                Some(flood) => Some(Flooding::start(plane, flood, sizes.clients)?),
                None => None,
            };
            if flooding.is_some() {
                tokio::time::sleep(RISE).await;
            }
            let mut measurement = measure(plane, phase, sizes).await?;
            if let Some(flooding) = flooding {
                measurement.flood = flooding.stop()?;
            }
            plane.check()?;
            pair.push(measurement);
        }
        let pair: [Measurement; 2] = pair.try_into().map_err(|_| "two servers")?;
        let [reference, kevel] = &pair;
        println!("  {:26} {reference} | {kevel}", phase.name);
        rows.push((phase, pair));
    }
    Ok(rows)
}
