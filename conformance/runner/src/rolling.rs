//! Rolling restart of three servers on one etcd behind a load balancer, with traffic by client-go
//! (`conformance/clientgo`): measures the effect on clients.

use std::collections::BTreeMap;
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use kevel_test_support::Relay;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};
use tokio::task::JoinHandle;

use crate::Result;
use crate::client::{Client, Request};
use crate::control_plane::{ControlPlane, Server, built, cache, free_port};

/// Shutdown flags. The delay lets the balancer notice a stopping server, however busy the machine is.
const FLAGS: [&str; 4] = [
    "--shutdown-delay-duration=3s",
    "--shutdown-send-retry-after=true",
    "--shutdown-watch-termination-grace-period=2s",
    "--goaway-chance=0.01",
];
/// Interval of the balancer's health checks.
const LOOK: Duration = Duration::from_millis(50);
/// Time limit of a health check.
const LOOK_LIMIT: Duration = Duration::from_secs(1);
const NAMES: [&str; 3] = ["a", "b", "c"];
/// Program of the traffic.
const LOAD: &str = "client-go-load";

/// Restarts every server a number of times. Returns whether no request failed, and no informer relisted or missed an
/// event.
pub async fn run(server: Server, rounds: usize) -> Result<bool> {
    let folder = cache().join("run").join(format!("rolling-{}", server.name()));
    let mut plane = ControlPlane::prepare(&folder)?;
    plane.flags.extend(FLAGS.map(String::from));
    let well = roll(&mut plane, server, rounds).await;
    plane.stop_all()?;
    well
}

async fn roll(plane: &mut ControlPlane, server: Server, rounds: usize) -> Result<bool> {
    let balancer = Balancer::start().await;
    for name in NAMES {
        start(plane, server, name, &balancer).await?;
    }
    let mut load = start_load(plane, balancer.relay.port).await?;
    for round in 1..=rounds {
        for name in NAMES {
            let stopped = tokio::task::block_in_place(|| plane.stop(name));
            balancer.remove(name);
            stopped?;
            start(plane, server, name, &balancer).await?;
        }
        println!("{}: round {round} of {rounds}, all restarted", server.name());
    }
    // The program ends when its standard input is closed.
    drop(load.stdin.take());
    Ok(load.wait().await?.success())
}

/// Starts a server, and waits until the balancer forwards to it.
async fn start(
    plane: &mut ControlPlane,
    server: Server,
    name: &str,
    balancer: &Balancer,
) -> Result<()> {
    let port = free_port()?;
    plane.start_replica(server, name, port, true).await?;
    balancer.add(name, port, plane.client_of(port, 1)?);
    plane.until("the balancer", async |_| balancer.leads_to(port)).await
}

/// Starts the traffic, and waits until its informers have synced. Prints its later output.
async fn start_load(plane: &ControlPlane, port: u16) -> Result<Child> {
    let program = built(LOAD);
    let mut load = Command::new(&program)
        .arg(plane.kubeconfig())
        .arg(format!("https://127.0.0.1:{port}"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(std::fs::File::create(plane.folder.join(format!("{LOAD}.log")))?)
        .kill_on_drop(true)
        .spawn()
        .map_err(|error| format!("{}: {error}: conformance/build {LOAD}", program.display()))?;
    let mut lines = BufReader::new(load.stdout.take().ok_or("no output")?).lines();
    let begun = lines.next_line().await?;
    if begun.as_deref() != Some("begun") {
        return Err(format!("{LOAD} has not begun: {begun:?}").into());
    }
    tokio::spawn(async move {
        while let Ok(Some(line)) = lines.next_line().await {
            println!("{line}");
        }
    });
    Ok(load)
}

/// TCP load balancer of the ready servers.
struct Balancer {
    relay: Arc<Relay>,
    servers: Arc<Mutex<BTreeMap<String, Backend>>>,
    looking: JoinHandle<()>,
}

struct Backend {
    port: u16,
    client: Arc<Client>,
    ready: bool,
}

impl Balancer {
    async fn start() -> Self {
        let relay = Arc::new(Relay::start().await);
        let servers = Arc::<Mutex<BTreeMap<String, Backend>>>::default();
        let looking = tokio::spawn({
            let (relay, servers) = (relay.clone(), servers.clone());
            async move {
                loop {
                    look(&relay, &servers).await;
                    tokio::time::sleep(LOOK).await;
                }
            }
        });
        Balancer { relay, servers, looking }
    }

    fn add(&self, name: &str, port: u16, client: Client) {
        let backend = Backend { port, client: Arc::new(client), ready: false };
        self.lock().insert(name.to_owned(), backend);
    }

    fn remove(&self, name: &str) {
        self.lock().remove(name);
    }

    fn leads_to(&self, port: u16) -> bool {
        self.lock().values().any(|backend| backend.port == port && backend.ready)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, Backend>> {
        self.servers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Balancer {
    fn drop(&mut self) {
        self.looking.abort();
    }
}

/// Checks every server's /readyz, and forwards to the ready ones.
async fn look(relay: &Relay, servers: &Mutex<BTreeMap<String, Backend>>) {
    let lock = || servers.lock().unwrap_or_else(PoisonError::into_inner);
    let clients: Vec<_> =
        lock().values().map(|backend| (backend.port, backend.client.clone())).collect();
    for (port, client) in clients {
        let answer = tokio::time::timeout(LOOK_LIMIT, client.send(Request::get("/readyz"))).await;
        let ready = matches!(answer, Ok(Ok(answer)) if answer.code == 200);
        for backend in lock().values_mut().filter(|backend| backend.port == port) {
            backend.ready = ready;
        }
    }
    let address = |backend: &Backend| ([127, 0, 0, 1], backend.port).into();
    let green = lock().values().filter(|backend| backend.ready).map(address).collect();
    relay.lead_to(green);
}
