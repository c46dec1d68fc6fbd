//! Services made on several servers at the same time: no address and no port is given twice, and when all is quiet those that
//! are taken are those that Services have.

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
/// How many ask at the same time.
const WORKERS: usize = 16;
/// How many Services each of them has at most: what is given back is soon taken again.
const LIVE: usize = 30;

/// Makes so many Services on so many servers of one etcd. Whether each address and port was given once.
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

/// Makes so many Services, and takes them away again. What was done; the error says what was given twice, or left.
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

/// A Service: its number, and what it was given.
struct Made(usize, Vec<String>);

struct Load {
    clients: Vec<Arc<Client>>,
    next: AtomicUsize,
    count: usize,
    /// What is somebody's, from the answer that says so until it is asked to be given back.
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

    /// By another server than the one that made it.
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

/// What a Service has that no other may have.
fn given_to(service: &Value) -> Vec<String> {
    let spec = &service["spec"];
    let ports = spec["ports"].as_array().into_iter().flatten();
    let ports = ports.filter_map(|port| port["nodePort"].as_u64()).filter(|port| *port != 0);
    let ip = spec["clusterIP"].as_str().unwrap_or_default().to_owned();
    ports.map(|port| port.to_string()).chain([ip]).collect()
}

/// The addresses that are taken are those of Services, and no two have the same.
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
