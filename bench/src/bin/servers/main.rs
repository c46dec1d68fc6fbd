//! The same load against the reference and Kevel, phase by phase in turn, on this machine.
//!
//! `cargo run --release -p kevel-bench --bin servers [-- --pods N --watchers N --rounds N --write]`
//!
//! CPU time of the server's processes per operation is the figure that counts: it hardly depends on
//! what else the machine does. The reference's includes etcd's. `--write` renews RESULTS.md,
//! results.json and results.svg. Needs what `conformance/build` makes, and a release build of Kevel.

mod report;

use kevel_bench::load::{Measurement, Target};
use kevel_bench::phases::{Phase, Sizes};
use kevel_conformance::Result;
use kevel_conformance::control_plane::{ControlPlane, Server, cache};

#[tokio::main]
async fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let sizes = Sizes {
        pods: kevel_bench::option(&arguments, "--pods", 5000)?,
        watchers: kevel_bench::option(&arguments, "--watchers", 500)?,
        rounds: kevel_bench::option(&arguments, "--rounds", 2)?,
    };
    let mut rounds = Vec::new();
    for round in 0..sizes.rounds {
        println!("round {} of {}", round + 1, sizes.rounds);
        rounds.push(run(sizes).await?);
    }
    let results = report::Results::new(sizes, rounds);
    print!("{}", results.table());
    if arguments.iter().any(|argument| argument == "--write") {
        results.write()?;
    }
    Ok(())
}

/// One round on fresh servers: measurements of the reference and of Kevel, pairwise.
async fn run(sizes: Sizes) -> Result<Vec<[Measurement; 2]>> {
    let mut planes = Vec::new();
    let mut targets = Vec::new();
    let mut all = vec![];
    let mut started = Vec::new();
    for server in Server::ALL {
        let folder = cache().join("run").join(format!("bench-{}", server.name()));
        let mut plane = ControlPlane::prepare(&folder)?;
        let took = plane.start_server(server, server == Server::Reference).await?;
        started.push(Measurement::start(took));
        targets.push(Target::new(&plane)?);
        planes.push(plane);
    }
    let measured = async {
        all.push(pair(started)?);
        for phase in Phase::all(sizes) {
            let mut pair_of = Vec::new();
            for target in &targets {
                pair_of.push(phase.run(target).await?);
            }
            let [reference, kevel] = pair(pair_of)?;
            println!("  {:24} {reference} | {kevel}", phase.name);
            all.push([reference, kevel]);
        }
        Ok(all)
    }
    .await;
    for plane in &mut planes {
        plane.stop_all()?;
    }
    measured
}

fn pair(measurements: Vec<Measurement>) -> Result<[Measurement; 2]> {
    measurements.try_into().map_err(|_| "two servers, two measurements".into())
}
