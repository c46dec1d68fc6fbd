//! No cluster IP and no node port is given to two Services, whichever servers are asked, and when all is quiet those that
//! are taken are those that Services have.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use kevel_api::builtin;
use kevel_codec::{base64, protobuf};
use kevel_store::Engine as _;
use kevel_store::etcd::{self, Etcd};
use kevel_test_support::{Client, Replica, Replicas};
use serde_json::{Value, json};

/// Number of Services that are created; `KEVEL_SERVICE_CREATIONS` overrides it.
const CREATIONS: usize = 600;
/// Number of concurrent workers.
const WORKERS: usize = 12;
/// Most Services of a worker at a time.
const LIVE: usize = 12;
/// Networks and ports are few: what is given back is soon taken again.
const FLAGS: &[&str] =
    &["--service-cluster-ip-range=10.96.0.0/24", "--service-node-port-range=30000-30199"];
const FIRST_PORT: usize = 30000;

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn addresses_and_ports_are_given_once() {
    let Some(replicas) = Replicas::new().await else { return };
    let servers = replicas.start_all(3, FLAGS).await;
    let given = std::env::var("KEVEL_SERVICE_CREATIONS").ok();
    let creations = given.map_or(CREATIONS, |number| number.parse().unwrap());
    let load = Arc::new(Load {
        clients: servers.iter().map(|server| server.admin.clone()).collect(),
        left: AtomicUsize::new(creations),
        ..Load::default()
    });
    let started = kevel_clock::monotonic_now();
    let workers = (0..WORKERS).map(|worker| tokio::spawn(load.clone().work(worker)));
    for worker in workers.collect::<Vec<_>>() {
        worker.await.unwrap();
    }
    let counts = load.counts.lock().unwrap().clone();
    println!("{creations} creations in {:?}: {counts:?}", started.elapsed());
    // Each of what can happen has happened.
    for what in ["201 ClusterIP", "201 NodePort", "200 delete", "200 patch", "409 create"] {
        assert!(counts.contains_key(what), "no {what}: {counts:?}");
    }
    for server in &servers {
        check_addresses(server).await;
    }
    let endpoints = vec![replicas.etcd.endpoint.clone()];
    let options = etcd::Options { endpoints, compaction_interval: None, ..Default::default() };
    let store = Etcd::connect(options).await.unwrap();
    assert_eq!(taken_ports(&store).await, ports_of_services(&servers[0].admin).await);
    for server in servers {
        server.stop().await;
    }
}

/// State that all workers share.
#[derive(Default)]
struct Load {
    clients: Vec<Client>,
    left: AtomicUsize,
    /// Owner of each address and port, from the response that assigns it until its release is requested.
    held: Mutex<HashMap<String, String>>,
    counts: Mutex<BTreeMap<String, usize>>,
}

impl Load {
    async fn work(self: Arc<Self>, worker: usize) {
        let mut dice = Dice(0x9e37_79b9 + worker as u64);
        let mut live: Vec<Value> = Vec::new();
        while self
            .left
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| n.checked_sub(1))
            .is_ok()
        {
            if live.len() == LIVE {
                let service = live.swap_remove(dice.below(LIVE));
                self.delete(&mut dice, &service).await;
            }
            // Two workers have the same names.
            let name = format!("s{}-{}", worker / 2, dice.below(4 * LIVE));
            live.extend(self.create(&mut dice, &name).await);
            if dice.below(8) == 0 && !live.is_empty() {
                let place = dice.below(live.len());
                live[place] = self.drop_ports(&mut dice, &live[place]).await;
            }
        }
    }

    async fn create(&self, dice: &mut Dice, name: &str) -> Option<Value> {
        let ty = ["ClusterIP", "NodePort"][dice.below(2)];
        let mut spec = json!({"type": ty, "ports": [{"name": "a", "port": 80}]});
        if dice.below(4) == 0 {
            // By name, which another may have.
            spec["clusterIP"] = format!("10.96.0.{}", 10 + dice.below(240)).into();
        }
        if dice.below(4) == 0 {
            spec["ports"].as_array_mut().unwrap().push(json!({"name": "b", "port": 81}));
        }
        let service = json!({"metadata": {"name": name}, "spec": spec});
        let (code, made) = self.client(dice).post(SERVICES, &service).await;
        match code {
            201 => self.count(&format!("201 {ty}")),
            409 => self.count("409 create"),
            422 if spec["clusterIP"].is_string() => self.count("422 taken"),
            _ => panic!("{code} {made}"),
        }
        if code != 201 {
            return None;
        }
        for what in given_to(&made) {
            let before = self.held.lock().unwrap().insert(what.clone(), name.to_owned());
            assert_eq!(before, None, "{what} was given to {name} as well");
        }
        Some(made)
    }

    async fn delete(&self, dice: &mut Dice, service: &Value) {
        self.give_back(given_to(service));
        let name = service["metadata"]["name"].as_str().unwrap();
        self.client(dice).delete(&format!("{SERVICES}/{name}")).await;
        self.count("200 delete");
    }

    /// Makes a Service one without node ports.
    async fn drop_ports(&self, dice: &mut Dice, service: &Value) -> Value {
        self.give_back(ports(service).map(|port| port.to_string()).collect());
        let path = format!("{SERVICES}/{}", service["metadata"]["name"].as_str().unwrap());
        let headers = [("content-type", "application/merge-patch+json")];
        let patch = json!({"spec": {"type": "ClusterIP"}}).to_string();
        let (code, changed) = self.client(dice).send("PATCH", &path, &headers, &patch).await;
        assert_eq!(code, 200, "{changed}");
        self.count("200 patch");
        changed
    }

    fn give_back(&self, given: Vec<String>) {
        let mut held = self.held.lock().unwrap();
        for what in given {
            assert!(held.remove(&what).is_some(), "{what} was not held");
        }
    }

    fn client(&self, dice: &mut Dice) -> &Client {
        &self.clients[dice.below(self.clients.len())]
    }

    fn count(&self, what: &str) {
        *self.counts.lock().unwrap().entry(what.to_owned()).or_default() += 1;
    }
}

const SERVICES: &str = "/api/v1/namespaces/default/services";

/// The addresses that Services have are those that are taken, for those Services.
async fn check_addresses(server: &Replica) {
    let mut had = BTreeMap::new();
    for service in items(&server.admin, "/api/v1/services").await {
        let metadata = &service["metadata"];
        let name = format!("{}/{}", metadata["namespace"], metadata["name"]);
        let ip = service["spec"]["clusterIP"].as_str().unwrap().to_owned();
        let before = had.insert(ip, name);
        assert_eq!(before, None, "{service}");
    }
    let mut taken = BTreeMap::new();
    for address in items(&server.admin, "/apis/networking.k8s.io/v1/ipaddresses").await {
        let parent = &address["spec"]["parentRef"];
        let name = format!("{}/{}", parent["namespace"], parent["name"]);
        taken.insert(address["metadata"]["name"].as_str().unwrap().to_owned(), name);
    }
    assert_eq!(had, taken);
}

async fn ports_of_services(admin: &Client) -> BTreeSet<u64> {
    let services = items(admin, "/api/v1/services").await;
    let all: Vec<u64> = services.iter().flat_map(ports).collect();
    let once: BTreeSet<u64> = all.iter().copied().collect();
    assert_eq!(all.len(), once.len(), "{all:?}");
    once
}

/// The ports that the store says are taken: a bitmap, the last byte first.
async fn taken_ports(store: &Etcd) -> BTreeSet<u64> {
    let entry = store.get(b"/registry/ranges/servicenodeports", None).await.unwrap().entry;
    let stored = entry.unwrap().value;
    let schema = builtin::schema("", "v1", "RangeAllocation").unwrap();
    let allocation = protobuf::decode_object(&stored).unwrap().decode(schema).unwrap();
    let mut bytes = Vec::new();
    base64::decode_into(allocation.str_at(&["data"]), &mut bytes).unwrap();
    bytes.reverse();
    let is_set = |at: &usize| bytes.get(at / 8).is_some_and(|byte| byte >> (at % 8) & 1 == 1);
    (0..8 * bytes.len()).filter(is_set).map(|at| (FIRST_PORT + at) as u64).collect()
}

async fn items(admin: &Client, path: &str) -> Vec<Value> {
    let (code, mut list) = admin.get(path).await;
    assert_eq!(code, 200, "{list}");
    serde_json::from_value(list["items"].take()).unwrap()
}

/// Addresses and ports of a Service that no other may have.
fn given_to(service: &Value) -> Vec<String> {
    let ip = service["spec"]["clusterIP"].as_str().unwrap().to_owned();
    ports(service).map(|port| port.to_string()).chain([ip]).collect()
}

fn ports(service: &Value) -> impl Iterator<Item = u64> + '_ {
    let ports = service["spec"]["ports"].as_array().into_iter().flatten();
    ports.filter_map(|port| port["nodePort"].as_u64()).filter(|port| *port != 0)
}

/// Numbers that look like chance and are the same each time.
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % limit
    }
}
