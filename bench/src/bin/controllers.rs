//! Cost of the controllers inside the server beside kube-controller-manager's: idle, and for the deletion of a large
//! namespace.
//!
//! `cargo run --release -p kevel-bench --bin controllers [-- --objects N --idle SECONDS --rounds N]`
//!
//! The reference runs its controller manager without the controllers of workloads, which Kevel does not have, so that
//! both delete the same objects.

use std::time::{Duration, Instant};

use http::Method;
use kevel_bench::kinds;
use kevel_bench::load::{AFTERMATH, NAMESPACE, Target, prepare, requests};
use kevel_conformance::Result;
use kevel_conformance::client::{Client, Request};
use kevel_conformance::control_plane::{Component, ControlPlane, Server, cache};

/// Kinds in the namespace, the first of [`kinds::smallest`] without ResourceQuota, which counts the others.
const KINDS: usize = 20;
/// Controllers of the controller manager that make objects of others.
const WORKLOADS: &str = "--controllers=*,-deployment-controller,-replicaset-controller,\
    -statefulset-controller,-daemonset-controller,-job-controller,-cronjob-controller,\
    -replicationcontroller-controller,-horizontal-pod-autoscaler-controller";
/// Time limit for the namespace to end.
const PATIENCE: Duration = Duration::from_secs(600);
/// Interval of looks at the namespace.
const LOOK: Duration = Duration::from_millis(50);

#[derive(Clone, Copy)]
struct ControllerLoad {
    objects: usize,
    idle: usize,
}

/// A server with or without controllers.
struct Setup {
    name: &'static str,
    server: Server,
    controllers: bool,
}

const SETUPS: [Setup; 3] = [
    Setup {
        name: "reference, etcd, controller manager",
        server: Server::Reference,
        controllers: true,
    },
    Setup { name: "Kevel", server: Server::Kevel, controllers: true },
    Setup { name: "Kevel without controllers", server: Server::Kevel, controllers: false },
];

#[tokio::main]
async fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let sizes = ControllerLoad {
        objects: kevel_bench::option(&arguments, "--objects", 10_000)?,
        idle: kevel_bench::option(&arguments, "--idle", 30)?,
    };
    let rounds = kevel_bench::option(&arguments, "--rounds", 1)?;
    println!(
        "| | idle, CPU ms/s | idle, MiB | namespace of {} objects, s | CPU s |",
        sizes.objects
    );
    println!("| --- | ---: | ---: | ---: | ---: |");
    for _ in 0..rounds {
        for setup in &SETUPS {
            let folder = cache().join("run/controllers").join(setup.server.name());
            let mut plane = ControlPlane::prepare(&folder)?;
            let measured = measure(&mut plane, setup, sizes).await;
            plane.stop_all()?;
            println!("| {} | {} |", setup.name, measured?);
        }
    }
    Ok(())
}

/// Starts a server and measures it; the cells of its row.
async fn measure(plane: &mut ControlPlane, setup: &Setup, sizes: ControllerLoad) -> Result<String> {
    if setup.server == Server::Kevel && setup.controllers {
        plane.flags.push("--controllers=*".to_owned());
    }
    // The controller manager asks no more than 20 times a second otherwise.
    plane.component_flags =
        vec!["--kube-api-qps=1000".into(), "--kube-api-burst=2000".into(), WORKLOADS.into()];
    plane.start_server(setup.server, setup.server == Server::Reference).await?;
    if setup.server == Server::Reference {
        plane.start(Component::Controllers).await?;
    }
    let target = Target::new(plane)?;
    prepare(&target.client).await?;
    // What follows a start is over.
    tokio::time::sleep(Duration::from_secs(15)).await;
    let (cpu, idle) = (target.cpu_seconds(), Duration::from_secs(sizes.idle as u64));
    tokio::time::sleep(idle).await;
    let used = (target.cpu_seconds() - cpu) * 1e3 / idle.as_secs_f64();
    let memory = target.memory_mib("VmRSS:");
    if !setup.controllers {
        return Ok(format!("{used:.1} | {memory:.0} | does not end | "));
    }
    fill(&target, sizes.objects).await?;
    let (cpu, begun) = (target.cpu_seconds(), Instant::now());
    target.client.json(Request::new(Method::DELETE, NAMESPACE)).await?;
    ended(&target.client).await?;
    let took = begun.elapsed();
    tokio::time::sleep(AFTERMATH).await;
    let cpu = target.cpu_seconds() - cpu;
    Ok(format!("{used:.1} | {memory:.0} | {:.1} | {cpu:.2}", took.as_secs_f64()))
}

/// Fills the namespace with objects of [`KINDS`] kinds, and waits until controllers have settled.
async fn fill(target: &Target, objects: usize) -> Result<()> {
    let kinds = kinds::smallest();
    let kinds = kinds.iter().filter(|(_, plural, _)| *plural != "resourcequotas").take(KINDS);
    for (group, plural, content) in kinds {
        let base = if group.is_empty() {
            "/api/v1".to_owned()
        } else {
            format!("/apis/{group}/{}", version(group))
        };
        let create = |number: usize| {
            let mut object = content.clone();
            object["metadata"] = serde_json::json!({"name": format!("o-{number}")});
            Request::post(format!("{base}/namespaces/bench/{plural}"), &object)
        };
        requests(target, "fill", objects / KINDS, 16, &create).await?;
    }
    let (mut last, mut quiet) = (target.cpu_seconds(), 0);
    while quiet < 3 {
        tokio::time::sleep(Duration::from_secs(1)).await;
        let now = target.cpu_seconds();
        quiet = if now - last < 0.2 { quiet + 1 } else { 0 };
        last = now;
    }
    Ok(())
}

/// Version in which the kinds of a group are served.
fn version(group: &str) -> &'static str {
    if group == "autoscaling" { "v2" } else { "v1" }
}

/// Waits until the namespace is gone.
async fn ended(client: &Client) -> Result<()> {
    let limit = Instant::now() + PATIENCE;
    while client.send(Request::get(NAMESPACE)).await?.code != 404 {
        if Instant::now() > limit {
            return Err(format!("the namespace is still there after {PATIENCE:?}").into());
        }
        tokio::time::sleep(LOOK).await;
    }
    Ok(())
}
