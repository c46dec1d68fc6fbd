//! Cost of small requests on large state:
//! `cargo run --release -p kevel-bench --bin hostile-state [-- --bin PROGRAM --short --slack N --only TEXT --output FILE]`.
//!
//! A user who has nothing but a namespace fills it with the largest objects of every kind that are accepted, and sends
//! small requests then, one at a time and eight at a time. A request may take a second of the server's CPU and 64 MiB;
//! `/livez`, a handshake or another user's get may wait 100 ms (times `--slack`, for machines that are busy). Prints a
//! table in Markdown, into `--output` too, and exits with 1 where a row is over.
//!
//! `--short` fills a tenth, for a debug build and CI; `--only` chooses rows by a text in their names. `--bin` is the
//! program (default: `KEVEL_APISERVER`, or that of `cargo build --release`).

mod attack;
mod bindings;
mod fill;
mod rows;
mod sweep;
mod table;
mod watches;
mod world;

use std::path::PathBuf;
use std::process::ExitCode;

use kevel_conformance::Result;
use kevel_conformance::control_plane::{ControlPlane, Server, cache};

use table::{CostLimits, CostTable};
use world::HostileCluster;

/// Command line.
struct Settings {
    program: Option<PathBuf>,
    short: bool,
    slack: usize,
    only: String,
    output: Option<PathBuf>,
}

#[tokio::main]
async fn main() -> ExitCode {
    match run().await {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            println!("{error}");
            ExitCode::FAILURE
        }
    }
}

async fn run() -> Result<bool> {
    let settings = settings()?;
    let mut table = CostTable::new(CostLimits::new(settings.slack));
    let mut names: Vec<&str> = rows::ROWS.iter().map(|row| row.name).collect();
    names.extend([bindings::NAME, watches::NAME, sweep::NAME]);
    for name in names.into_iter().filter(|name| name.contains(&settings.only)) {
        row(name, &settings, &mut table).await?;
    }
    println!("{table}");
    if let Some(file) = &settings.output {
        std::fs::write(file, format!("{table}\n"))?;
    }
    Ok(table.over() == 0)
}

/// A row has a server of its own: what one leaves behind is none of the next one's state.
async fn row(name: &str, settings: &Settings, table: &mut CostTable) -> Result<()> {
    let folder = cache().join("run").join(format!("hostile-state-{}", std::process::id()));
    let mut plane = ControlPlane::prepare(&folder)?;
    plane.program.clone_from(&settings.program);
    plane.flags = world::flags(&folder)?;
    plane.start_server(Server::Kevel, false).await?;
    let result = attack(name, settings, &plane, table).await;
    let alive = plane.check();
    plane.stop_all()?;
    if let Err(error) = alive.and(result) {
        // A server that ends, or a fill that fails, is a row that is over, not the end of the others.
        table.failed(name, &error.to_string());
    }
    Ok(std::fs::remove_dir_all(&folder)?)
}

async fn attack(
    name: &str,
    settings: &Settings,
    plane: &ControlPlane,
    table: &mut CostTable,
) -> Result<()> {
    let world = HostileCluster::prepare(plane, settings.short).await?;
    match rows::ROWS.iter().find(|row| row.name == name) {
        Some(row) => rows::run(row, &world, table).await,
        None if name == bindings::NAME => bindings::run(&world, table).await,
        None if name == watches::NAME => watches::run(&world, table).await,
        None => sweep::run(&world, table).await,
    }
}

fn settings() -> Result<Settings> {
    let all: Vec<String> = std::env::args().skip(1).collect();
    let value = |name: &str| {
        let place = all.iter().position(|argument| argument == name);
        place.and_then(|place| all.get(place + 1)).cloned()
    };
    // The server runs in a folder of its own.
    let program = value("--bin").map(std::path::absolute).transpose()?;
    Ok(Settings {
        program,
        short: all.iter().any(|argument| argument == "--short"),
        slack: kevel_bench::option(&all, "--slack", 1)?,
        only: value("--only").unwrap_or_default(),
        output: value("--output").map(PathBuf::from),
    })
}
