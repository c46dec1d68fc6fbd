//! Local etcd cluster, whose members can be killed, stopped and partitioned.

mod network;
mod proxy;

use std::net::{Ipv4Addr, SocketAddrV4};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use kevel_test_support::{free_port, program};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

pub use self::network::Network;
use self::proxy::{Cut, Proxy};
use crate::faults::Kind;

/// Time limit for all members to become healthy.
const RECOVERY: Duration = Duration::from_secs(40);
/// Longest time in which the others elect another leader: a partition lasts longer.
const ELECTION: Duration = Duration::from_millis(1000);
/// Shortest time that a cable is unplugged: longer than the timeout of a request to an unresponsive member.
const UNPLUGGED: Duration = Duration::from_secs(11);
/// Duration of a sync on a slow disk: longer than a heartbeat, about the election timeout.
const SLOW_SYNC: Duration = Duration::from_millis(800);
/// Time limit of an answer.
const PATIENCE: Duration = Duration::from_secs(20);

/// Members of one cluster, killed when dropped.
#[derive(Debug)]
pub struct Cluster {
    members: Vec<Member>,
    /// Partition: the member that the others cannot reach.
    cut: tokio::sync::watch::Sender<Cut>,
    _proxies: Vec<Proxy>,
    /// Network of the members, if they have their own. Dropped after them.
    network: Option<Arc<Network>>,
}

#[derive(Debug)]
struct Member {
    number: usize,
    program: PathBuf,
    arguments: Vec<String>,
    /// Client address.
    client: SocketAddrV4,
    network: Option<Arc<Network>>,
    child: Option<Child>,
}

/// Listening addresses of a member, and the address by which peers reach it.
#[derive(Debug)]
struct Place {
    client: SocketAddrV4,
    peer: SocketAddrV4,
    outside: SocketAddrV4,
}

impl Place {
    /// Place on free local ports, behind a proxy.
    fn here() -> Place {
        let free = || SocketAddrV4::new(Ipv4Addr::LOCALHOST, free_port());
        Place { client: free(), peer: free(), outside: free() }
    }

    /// Place at an address of its own.
    fn at(address: Ipv4Addr) -> Place {
        let peer = SocketAddrV4::new(address, 2380);
        Place { client: SocketAddrV4::new(address, 2379), peer, outside: peer }
    }
}

/// Path of etcd: the one of `conformance/build`, or an installed one.
fn etcd() -> Option<PathBuf> {
    let home = std::env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
    let built = home.join(".cache/kevel/bin/etcd");
    match std::env::var_os("KEVEL_ETCD").is_none() && built.is_file() {
        true => Some(built),
        false => program("etcd"),
    }
}

impl Cluster {
    /// Whether there is an etcd program; reports if not.
    pub fn possible() -> bool {
        etcd().is_some()
    }

    /// Starts members, in network namespaces if `apart`, and waits until they are healthy.
    pub async fn start(count: usize, folder: &Path, apart: bool) -> Result<Cluster, String> {
        let program = etcd().ok_or("there is no etcd")?;
        let network = apart.then(|| Network::create(count).map(Arc::new)).transpose()?;
        let (cut, watch) = tokio::sync::watch::channel(Cut::default());
        let places: Vec<Place> = match &network {
            Some(network) => (0..count).map(|n| Place::at(network.address_of(n))).collect(),
            None => std::iter::repeat_with(Place::here).take(count).collect(),
        };
        let all: Vec<String> = places
            .iter()
            .enumerate()
            .map(|(number, place)| format!("m{number}=http://{}", place.outside))
            .collect();
        let (mut members, mut proxies) = (Vec::new(), Vec::new());
        for (number, Place { client, peer, outside }) in places.into_iter().enumerate() {
            // Local members reach each other through proxies, which can be closed.
            if network.is_none() {
                let (outside, peer) = (outside.port(), peer.port());
                proxies.push(Proxy::start(number, outside, peer, watch.clone()).await?);
            }
            let client_url = format!("http://{client}");
            let arguments = vec![
                format!("--name=m{number}"),
                format!("--data-dir={}", folder.join(number.to_string()).display()),
                format!("--listen-client-urls={client_url}"),
                format!("--advertise-client-urls={client_url}"),
                format!("--listen-peer-urls=http://{peer}"),
                format!("--initial-advertise-peer-urls=http://{outside}"),
                format!("--initial-cluster={}", all.join(",")),
                "--heartbeat-interval=50".to_owned(),
                "--election-timeout=500".to_owned(),
                // Data that a killed process has written persist; only a power cut could lose them.
                "--unsafe-no-fsync".to_owned(),
                "--log-level=error".to_owned(),
            ];
            let (program, network) = (program.clone(), network.clone());
            let mut member = Member { number, program, arguments, client, network, child: None };
            member.spawn()?;
            members.push(member);
        }
        let cluster = Cluster { members, cut, _proxies: proxies, network };
        cluster.well().await?;
        let ids = cluster.ids().await?;
        cluster.cut.send_modify(|cut| cut.ids = ids);
        Ok(cluster)
    }

    /// Client URLs of the members.
    pub fn endpoints(&self) -> Vec<String> {
        self.members.iter().map(|member| format!("http://{}", member.client)).collect()
    }

    /// Injects a fault, repairs it, and waits until all members are healthy.
    pub async fn fault(
        &mut self,
        kind: &Kind,
        member: usize,
        lasts: Duration,
    ) -> Result<(), String> {
        let number = match kind {
            Kind::EtcdKillLeader => self.leader().await.unwrap_or(member),
            _ => member % self.members.len().max(1),
        };
        let member = self.members.get_mut(number).ok_or("there is no such member")?;
        match kind {
            Kind::EtcdKill | Kind::EtcdKillLeader => {
                member.kill();
                tokio::time::sleep(lasts).await;
                member.spawn()?;
            }
            Kind::EtcdPause => {
                member.signal(Signal::STOP)?;
                tokio::time::sleep(lasts).await;
                member.signal(Signal::CONT)?;
            }
            Kind::EtcdPartition => {
                self.cut.send_modify(|cut| cut.member = Some(number));
                tokio::time::sleep(lasts + ELECTION).await;
                self.cut.send_modify(|cut| cut.member = None);
            }
            Kind::EtcdUnplug => {
                let network = self.network.as_ref().ok_or("there is no cable")?;
                network.plug(number, false)?;
                tokio::time::sleep(UNPLUGGED + lasts).await;
                network.plug(number, true)?;
            }
            Kind::EtcdSlowDisk => {
                let mut slowness = member.slow_down()?;
                tokio::time::sleep(lasts + ELECTION).await;
                slowness.end()?;
            }
            Kind::EtcdCompact => {
                let status = member.ask("/v3/maintenance/status", json!({})).await?;
                let revision = number_of(&status["header"]["revision"]).ok_or("no revision")?;
                let body = json!({"revision": revision.to_string(), "physical": true});
                // The server may have compacted as far already.
                let _ = member.ask("/v3/kv/compaction", body).await;
            }
            Kind::EtcdDefragment => {
                drop(member.ask("/v3/maintenance/defragment", json!({})).await?)
            }
            kind => return Err(format!("{kind} is none of etcd's")),
        }
        self.well().await
    }

    /// Waits until all members report that they are healthy.
    async fn well(&self) -> Result<(), String> {
        let all = async {
            for member in &self.members {
                while !member.is_well().await {
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
            }
        };
        let well = tokio::time::timeout(RECOVERY, all).await;
        well.map_err(|_| "etcd does not recover".to_owned())
    }

    /// Member IDs.
    async fn ids(&self) -> Result<Vec<u64>, String> {
        let mut ids = Vec::new();
        for member in &self.members {
            let status = member.ask("/v3/maintenance/status", json!({})).await?;
            ids.push(number_of(&status["header"]["member_id"]).ok_or("a member has no number")?);
        }
        Ok(ids)
    }

    /// Index of the leader, if it can be determined.
    async fn leader(&self) -> Option<usize> {
        let ids = self.cut.borrow().ids.clone();
        for member in &self.members {
            let Ok(status) = member.ask("/v3/maintenance/status", json!({})).await else {
                continue;
            };
            let leader = number_of(&status["leader"]);
            if let Some(place) = ids.iter().position(|id| Some(*id) == leader) {
                return Some(place);
            }
        }
        None
    }
}

impl Member {
    fn spawn(&mut self) -> Result<(), String> {
        let mut command = match &self.network {
            Some(network) => network.command(self.number),
            None => Command::new("env"),
        };
        // Either command execs the program, so that it is the process that is killed.
        command.arg(&self.program).args(&self.arguments).stdin(Stdio::null()).stdout(Stdio::null());
        let child = command.stderr(Stdio::null()).spawn();
        self.child = Some(child.map_err(|error| format!("etcd does not start: {error}"))?);
        Ok(())
    }

    fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    fn signal(&self, signal: Signal) -> Result<(), String> {
        let id = self.child.as_ref().and_then(|child| Pid::from_raw(child.id() as i32));
        let id = id.ok_or("the member is not running")?;
        kill_process(id, signal).map_err(|error| error.to_string())
    }

    /// Slows down each sync of the member.
    fn slow_down(&self) -> Result<Slowness, String> {
        let id = self.child.as_ref().ok_or("the member is not running")?.id();
        let delay = format!("inject=fsync,fdatasync:delay_enter={}", SLOW_SYNC.as_micros());
        let mut strace = Command::new("strace");
        strace.args(["-f", "-qq", "-o", "/dev/null", "-e", "trace=fsync,fdatasync", "-e", &delay]);
        let child = strace.args(["-p", &id.to_string()]).stderr(Stdio::null()).spawn();
        child.map(Slowness).map_err(|error| format!("strace does not start: {error}"))
    }

    async fn is_well(&self) -> bool {
        let answer = exchange(self.client, "GET /health HTTP/1.1", "").await;
        answer.is_ok_and(|answer| answer["health"] == "true")
    }

    async fn ask(&self, path: &str, body: Value) -> Result<Value, String> {
        exchange(self.client, &format!("POST {path} HTTP/1.1"), &body.to_string()).await
    }
}

/// Tracer that delays the syncs of a process, until it is dropped.
struct Slowness(Child);

impl Slowness {
    /// Detaches from the process; an error if the tracer had ended before.
    fn end(&mut self) -> Result<(), String> {
        let ended = self.0.try_wait().map_err(|error| error.to_string())?;
        match ended {
            Some(status) => Err(format!("strace: {status}")),
            None => Ok(()),
        }
    }
}

impl Drop for Slowness {
    fn drop(&mut self) {
        // On SIGTERM it detaches from the process: killed, it would leave the process stopped.
        if let Some(id) = Pid::from_raw(self.0.id() as i32) {
            let _ = kill_process(id, Signal::TERM);
        }
        let _ = self.0.wait();
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Sends one request on a new connection; returns the JSON of the answer.
async fn exchange(member: SocketAddrV4, head: &str, body: &str) -> Result<Value, String> {
    let whole = async {
        let mut stream = TcpStream::connect(member).await?;
        let length = body.len();
        let request = format!(
            "{head}\r\nHost: e\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{body}"
        );
        stream.write_all(request.as_bytes()).await?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await?;
        Ok::<_, std::io::Error>(answer)
    };
    let answer = tokio::time::timeout(PATIENCE, whole).await.map_err(|_| "etcd is silent")?;
    let answer = answer.map_err(|error| error.to_string())?;
    let text = String::from_utf8_lossy(&answer);
    if !text.starts_with("HTTP/1.1 200") {
        return Err(format!("etcd says {text}"));
    }
    // Chunked or not, the object is between the outer braces.
    let object = text.find('{').and_then(|from| text.get(from..=text.rfind('}')?));
    serde_json::from_str(object.unwrap_or("{}")).map_err(|error| error.to_string())
}

/// Number in a string, as in the JSON form of protobuf.
fn number_of(value: &Value) -> Option<u64> {
    value.as_str()?.parse().ok()
}
