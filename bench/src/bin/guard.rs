//! Guard on speed: the working tree's server beside the last measured one, in one run.
//!
//! `cargo run --release -p kevel-bench --bin guard -- --base PROGRAM [--new PROGRAM --rounds N --pods N --watchers N]`
//!
//! Each round starts three fresh servers, the base twice and the new one, and puts the same phases of load on them in
//! turn. The figure of a phase is the median of its rounds. The base beside itself says how far figures differ by chance:
//! a phase fails if the new server is dearer by more than [`ALLOWED`] beyond that.

use std::path::PathBuf;

use kevel_bench::load::{Measurement, Target};
use kevel_bench::phases::{Phase, Sizes};
use kevel_conformance::Result;
use kevel_conformance::control_plane::{ControlPlane, Server, cache, tree};

/// Share by which a change may make a hot path dearer.
const ALLOWED: f64 = 0.03;

/// The three servers of a round.
const SERVERS: [&str; 3] = ["base", "base-again", "new"];

/// Costs of a phase, of each server in each round.
struct Row {
    name: &'static str,
    unit: &'static str,
    costs: [Vec<f64>; 3],
}

#[tokio::main]
async fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let sizes = Sizes {
        pods: kevel_bench::option(&arguments, "--pods", 5000)?,
        watchers: kevel_bench::option(&arguments, "--watchers", 200)?,
        rounds: kevel_bench::option(&arguments, "--rounds", 5)?,
    };
    let program = |name: &str| {
        let place = arguments.iter().position(|argument| argument == name)?;
        arguments.get(place + 1).map(PathBuf::from)
    };
    let base = program("--base").ok_or("--base: the program of the last measured commit")?;
    let new = program("--new").unwrap_or_else(|| tree().join("target/release/kube-apiserver"));
    let programs = [base.clone(), base, new];
    let mut rows: Vec<Row> = Vec::new();
    for round in 0..sizes.rounds {
        println!("round {} of {}", round + 1, sizes.rounds);
        measure(sizes, &programs, round, &mut rows).await?;
    }
    let failed = print(&rows);
    if failed > 0 {
        return Err(format!("{failed} phases are dearer by more than 3 % beyond chance").into());
    }
    Ok(())
}

/// One round on fresh servers. The order of the servers changes from round to round.
async fn measure(
    sizes: Sizes,
    programs: &[PathBuf; 3],
    round: usize,
    rows: &mut Vec<Row>,
) -> Result<()> {
    let mut planes = Vec::new();
    let mut started = Vec::new();
    for (name, program) in SERVERS.iter().zip(programs) {
        let folder = cache().join("run").join(format!("guard-{name}"));
        let mut plane = ControlPlane::prepare(&folder)?;
        plane.program = Some(program.clone());
        started.push(Measurement::start(plane.start_server(Server::Kevel, false).await?));
        planes.push(plane);
    }
    let measured = async {
        let targets = planes.iter().map(Target::new).collect::<Result<Vec<_>>>()?;
        started.iter().enumerate().for_each(|(server, one)| add(rows, server, one));
        for phase in Phase::all(sizes) {
            for turn in 0..SERVERS.len() {
                let server = (turn + round) % SERVERS.len();
                let one = phase.run(&targets[server]).await?;
                add(rows, server, &one);
            }
        }
        Ok(())
    }
    .await;
    for plane in &mut planes {
        plane.stop_all()?;
    }
    measured
}

fn add(rows: &mut Vec<Row>, server: usize, one: &Measurement) {
    if one.unit.is_empty() {
        return;
    }
    let place = rows.iter().position(|row| row.name == one.name).unwrap_or_else(|| {
        rows.push(Row { name: one.name, unit: one.unit, costs: Default::default() });
        rows.len() - 1
    });
    rows[place].costs[server].push(one.cost);
}

/// Prints the table; the number of phases that fail.
fn print(rows: &[Row]) -> usize {
    println!("| phase | base | new | change | base beside itself | |");
    println!("| --- | ---: | ---: | ---: | ---: | --- |");
    let mut failed = 0;
    for row in rows {
        let [base, again, new] = [0, 1, 2].map(|server| median(&row.costs[server]));
        let both = median(&[row.costs[0].as_slice(), row.costs[1].as_slice()].concat());
        let (chance, change) = ((again / base - 1.0).abs(), new / both - 1.0);
        let verdict = if change > ALLOWED + chance { "dearer" } else { "" };
        failed += usize::from(!verdict.is_empty());
        println!(
            "| {} | {both:.1} {unit} | {new:.1} {unit} | {:+.1} % | {:.1} % | {verdict} |",
            row.name,
            change * 100.0,
            chance * 100.0,
            unit = row.unit
        );
    }
    failed
}

fn median(costs: &[f64]) -> f64 {
    let mut costs = costs.to_vec();
    costs.sort_by(f64::total_cmp);
    costs.get(costs.len() / 2).copied().unwrap_or(f64::NAN)
}
