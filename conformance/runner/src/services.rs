//! Services created on several servers concurrently: no address or port is allocated twice, and at the end the
//! allocated ones are exactly those of Services.

use std::collections::{BTreeSet, HashSet, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::Result;
use crate::client::{Client, Request};
use crate::control_plane::{ControlPlane, Server, cache, free_port};

const SERVICES: &str = "/api/v1/namespaces/default/services";
const ADDRESSES: &str = "/apis/networking.k8s.io/v1/ipaddresses";
/// Number of concurrent workers.
const WORKERS: usize = 16;
/// Limit on the Services of each worker, so that released addresses are soon reused.
const LIVE: usize = 30;

/// Creates Services on several servers of one etcd. Returns whether each address and port was allocated once.
pub async fn run(server: Server, servers: usize, count: usize) -> Result<bool> {
    let mut plane = ControlPlane::prepare(&cache().join("run/services"))?;
    let result = on_servers(&mut plane, server, servers, count).await;
    plane.stop_all()?;
    println!("{}", result?);
    Ok(true)
}

async fn on_servers(
    plane: &mut ControlPlane,
    server: Server,
    servers: usize,
    count: usize,
) -> Result<String> {
    let mut clients = Vec::new();
    for number in 0..servers {
        let port = free_port()?;
        plane.start_replica(server, &format!("replica-{number}"), port, true).await?;
        clients.push(Arc::new(plane.client_of(port, 2)?));
    }
    make(&clients, count).await
}

/// Creates Services, and deletes them again. Returns a summary; the error names what was allocated twice, or leaked.
pub async fn make(clients: &[Arc<Client>], count: usize) -> Result<String> {
    let begun = Instant::now();
    let load = Arc::new(Load {
        clients: clients.to_vec(),
        next: AtomicUsize::new(0),
        count,
        held: Mutex::default(),
        given: AtomicUsize::new(0),
    });
    let mut workers = JoinSet::new();
    for _ in 0..WORKERS {
        workers.spawn(load.clone().work());
    }
    let live: Result<Vec<VecDeque<Made>>> = workers.join_all().await.into_iter().collect();
    let live = live?;
    for client in clients {
        taken_are_had(client).await?;
    }
    for made in live.iter().flatten() {
        load.delete(made).await?;
    }
    for client in clients {
        taken_are_had(client).await?;
    }
    let (given, took) = (load.given.load(Ordering::Relaxed), begun.elapsed());
    Ok(format!(
        "{count} Services made on {} servers in {took:.0?}: {given} addresses and ports, none given twice",
        clients.len()
    ))
}

/// A Service: its number, and its allocated address and ports.
struct Made(usize, Vec<String>);

struct Load {
    clients: Vec<Arc<Client>>,
    next: AtomicUsize,
    count: usize,
    /// Allocated values, from the answer until the deletion is requested.
    held: Mutex<HashSet<String>>,
    given: AtomicUsize,
}

impl Load {
    async fn work(self: Arc<Self>) -> Result<VecDeque<Made>> {
        let mut live = VecDeque::new();
        loop {
            let number = self.next.fetch_add(1, Ordering::Relaxed);
            if number >= self.count {
                return Ok(live);
            }
            if live.len() == LIVE
                && let Some(oldest) = live.pop_front()
            {
                self.delete(&oldest).await?;
            }
            live.push_back(self.create(number).await?);
        }
    }

    async fn create(&self, number: usize) -> Result<Made> {
        let kind = ["ClusterIP", "NodePort"][number / self.clients.len() % 2];
        let spec = json!({"type": kind, "ports": [{"port": 80}]});
        let service = json!({"metadata": {"name": name(number)}, "spec": spec});
        let made = self.client(number).json(Request::post(SERVICES, &service)).await?;
        let given = given_to(&made);
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        for what in &given {
            self.given.fetch_add(1, Ordering::Relaxed);
            if !held.insert(what.clone()) {
                return Err(format!("{what} was given to {} as well", name(number)).into());
            }
        }
        Ok(Made(number, given))
    }

    /// Deletes through another server than the one that created it.
    async fn delete(&self, Made(number, given): &Made) -> Result<()> {
        {
            let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
            for what in given {
                held.remove(what);
            }
        }
        let path = format!("{SERVICES}/{}", name(*number));
        self.client(number + 1).json(Request::delete(path)).await.map(drop)
    }

    fn client(&self, number: usize) -> &Client {
        &self.clients[number % self.clients.len()]
    }
}

fn name(number: usize) -> String {
    format!("s{number}")
}

/// Unique values of a Service.
fn given_to(service: &Value) -> Vec<String> {
    let spec = &service["spec"];
    let ports = spec["ports"].as_array().into_iter().flatten();
    let ports = ports.filter_map(|port| port["nodePort"].as_u64()).filter(|port| *port != 0);
    let ip = spec["clusterIP"].as_str().unwrap_or_default().to_owned();
    ports.map(|port| port.to_string()).chain([ip]).collect()
}

/// Checks that the allocated addresses are those of Services, and unique.
async fn taken_are_had(client: &Client) -> Result<()> {
    let items = async |path: &str| -> Result<Vec<Value>> {
        let list = client.json(Request::get(path)).await?;
        Ok(list["items"].as_array().cloned().unwrap_or_default())
    };
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let had: Vec<String> = items("/api/v1/services").await?.iter().flat_map(given_to).collect();
    let once: BTreeSet<String> = had.iter().cloned().collect();
    let taken = items(ADDRESSES).await?;
    let taken: BTreeSet<String> = taken.iter().map(|ip| text(&ip["metadata"]["name"])).collect();
    let addresses: BTreeSet<String> =
        once.iter().filter(|what| what.contains('.')).cloned().collect();
    match had.len() == once.len() && addresses == taken {
        true => Ok(()),
        false => Err(format!("Services have {had:?}, and taken is {taken:?}").into()),
    }
}
