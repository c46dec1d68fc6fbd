//! Control plane on loopback ports: its programs, flags and folder.

use std::fs;
use std::hash::{BuildHasher, RandomState};
use std::io::ErrorKind;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::client::{Client, Request};
use crate::namespaces::{self, Namespaces};
use crate::process::Process;
use crate::store::StoreKind;
use crate::{Result, credentials, node};

/// Time limit for a program to become ready.
const READY_LIMIT: Duration = Duration::from_secs(120);

/// An API server implementation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Server {
    /// The real kube-apiserver, on etcd.
    Reference,
    /// Kevel, the server of this project.
    Kevel,
}

/// A component beside the API server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Component {
    /// The real kube-controller-manager.
    Controllers,
    /// The real kube-scheduler.
    Scheduler,
    /// Simulated nodes, which do not run containers.
    Nodes,
    /// A real node, with containers.
    Node,
}

/// A control plane: its folder, its ports and its processes.
#[derive(Debug)]
pub struct ControlPlane {
    /// Folder with credentials, data, logs and the state of running processes.
    pub folder: PathBuf,
    /// Port of the API server.
    pub port: u16,
    etcd_port: u16,
    /// Running processes, the server first.
    pub processes: Vec<Process>,
    /// Additional flags of the API server.
    pub flags: Vec<String>,
    /// Additional flags of the controller manager.
    pub component_flags: Vec<String>,
    /// Whether each server has its own hostname, by which servers are identified.
    pub hostnames: bool,
    /// Program of Kevel, if it is not the default one.
    pub program: Option<PathBuf>,
    /// Whether etcd syncs to disk.
    durable: bool,
}

impl Server {
    /// Both servers.
    pub const ALL: [Server; 2] = [Server::Reference, Server::Kevel];

    /// Name on the command line and in file names.
    pub fn name(self) -> &'static str {
        match self {
            Server::Reference => "reference",
            Server::Kevel => "kevel",
        }
    }

    /// Server by name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|server| server.name() == name)
    }

    /// Folder of the control plane that `up` starts.
    pub fn folder(self) -> PathBuf {
        cache().join("run").join(self.name())
    }

    /// Path of the program.
    pub fn program(self) -> PathBuf {
        match self {
            Server::Reference => built("reference-apiserver"),
            Server::Kevel => match std::env::var_os("KEVEL_APISERVER") {
                Some(path) => path.into(),
                None => tree().join("target/release/kube-apiserver"),
            },
        }
    }
}

impl Component {
    /// All components.
    pub const ALL: [Component; 4] =
        [Component::Controllers, Component::Scheduler, Component::Nodes, Component::Node];

    /// Name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Component::Controllers => "controllers",
            Component::Scheduler => "scheduler",
            Component::Nodes => "nodes",
            Component::Node => "node",
        }
    }

    /// Component by name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|component| component.name() == name)
    }
}

impl ControlPlane {
    /// Prepares an empty control plane with credentials and ports, without processes. The folder is cleared.
    pub fn prepare(folder: &Path) -> Result<Self> {
        // Inside namespaces, the folder was cleared when they were made.
        if !namespaces::is_inside() {
            ControlPlane::clear(folder)?;
        }
        fs::create_dir_all(folder)?;
        let (port, etcd_port) = (free_port()?, free_port()?);
        credentials::write(&folder.join("pki"), port)?;
        Ok(ControlPlane::new(folder, port, etcd_port, Vec::new()))
    }

    fn new(folder: &Path, port: u16, etcd_port: u16, processes: Vec<Process>) -> Self {
        ControlPlane {
            folder: folder.to_owned(),
            port,
            etcd_port,
            processes,
            flags: Vec::new(),
            component_flags: Vec::new(),
            hostnames: false,
            program: None,
            durable: true,
        }
    }

    /// Ends the processes of a folder and removes it.
    pub fn clear(folder: &Path) -> Result<()> {
        ControlPlane::end(folder)?;
        match fs::remove_dir_all(folder) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(error.into()),
            _ => Ok(()),
        }
    }

    /// Ends the processes of a folder, if there are any.
    pub fn end(folder: &Path) -> Result<()> {
        if let Some(namespaces) = Namespaces::open(&folder.join("node")) {
            return namespaces.end();
        }
        match ControlPlane::open(folder) {
            // A node's processes ended with its namespaces; their process IDs mean nothing outside.
            Ok(mut plane) if !folder.join("node").exists() => plane.stop_all(),
            _ => Ok(()),
        }
    }

    /// Control plane that an earlier command started in a folder.
    pub fn open(folder: &Path) -> Result<Self> {
        let missing = |_| format!("nothing is up in {}: conformance up", folder.display());
        let state = fs::read(folder.join("state.json")).map_err(missing)?;
        let state: Value = serde_json::from_slice(&state)?;
        let port = |name: &str| state[name].as_u64().and_then(|port| port.try_into().ok());
        let processes = state["processes"].as_array().into_iter().flatten();
        let own = port("port").ok_or("a state file without a port")?;
        let etcd = port("etcdPort").ok_or("a state file without a port of etcd")?;
        Ok(ControlPlane::new(folder, own, etcd, processes.filter_map(Process::from_json).collect()))
    }

    /// Starts an API server, with etcd before it if needed, and waits until it is ready. Returns the start time of the
    /// API server.
    pub async fn start_server(&mut self, server: Server, etcd: bool) -> Result<Duration> {
        self.start_replica(server, server.name(), self.port, etcd).await
    }

    /// Starts a server for a comparison of answers: Kevel on a store, the reference on etcd. Nothing outlives such an
    /// etcd, so that it need not sync to disk.
    pub async fn start_fresh(&mut self, server: Server, store: StoreKind) -> Result<Duration> {
        self.durable = false;
        self.start_server(server, server == Server::Reference || store == StoreKind::Etcd).await
    }

    /// Starts one of several servers of this control plane, with a name and a port of its own.
    pub async fn start_replica(
        &mut self,
        server: Server,
        name: &str,
        port: u16,
        etcd: bool,
    ) -> Result<Duration> {
        if etcd && !self.processes.iter().any(|process| process.name == "etcd") {
            let program = etcd_program().ok_or("no etcd: conformance/build etcd, or KEVEL_ETCD")?;
            self.spawn("etcd", &program, self.etcd_flags())?;
            self.until("etcd", async |plane| plane.etcd_listens()).await?;
        }
        let own = self.program.clone().filter(|_| server == Server::Kevel);
        let program = own.unwrap_or_else(|| server.program());
        let mut flags = self.server_flags(port);
        flags.extend(self.flags.iter().cloned());
        if etcd {
            flags.push(format!("--etcd-servers={}", self.etcd_url()));
        } else {
            flags.push(format!("--data-dir={}", self.folder.join("data").display()));
            // Controllers are a component beside the server, as for the reference, unless they are asked for.
            let asked = self.flags.iter().any(|flag| flag.starts_with("--controllers="));
            let none = (!asked && knows_controllers(&program)).then(|| "--controllers=".to_owned());
            flags.extend(none);
        }
        let begun = Instant::now();
        match self.hostnames {
            false => self.spawn(name, &program, flags)?,
            true => {
                let named = ["--uts", "sh", "-c", r#"hostname "$0" && exec "$@""#, name];
                let mut arguments = named.map(String::from).to_vec();
                arguments.push(program.display().to_string());
                arguments.extend(flags);
                self.spawn(name, Path::new("unshare"), arguments)?;
            }
        }
        let client = self.client_of(port, 1)?;
        self.until(name, async |_| {
            client.send(Request::get("/readyz")).await.is_ok_and(|answer| answer.code == 200)
        })
        .await?;
        Ok(begun.elapsed())
    }

    /// Starts a component beside a ready API server.
    pub async fn start(&mut self, component: Component) -> Result<()> {
        let kubeconfig = |user: &str| self.pki(&format!("{user}.kubeconfig"));
        match component {
            Component::Controllers => {
                let mut flags = component_flags(&kubeconfig("controller-manager"))?;
                flags.extend([
                    format!("--root-ca-file={}", self.pki("ca.crt")),
                    format!("--cluster-signing-cert-file={}", self.pki("ca.crt")),
                    format!("--cluster-signing-key-file={}", self.pki("ca.key")),
                    format!(
                        "--service-account-private-key-file={}",
                        self.pki("service-account.key")
                    ),
                    "--use-service-account-credentials=true".to_owned(),
                    "--controllers=*,bootstrap-signer-controller,token-cleaner-controller"
                        .to_owned(),
                ]);
                flags.extend(self.component_flags.iter().cloned());
                self.spawn("controllers", &built("kube-controller-manager"), flags)
            }
            Component::Scheduler => {
                let flags = component_flags(&kubeconfig("scheduler"))?;
                self.spawn("scheduler", &built("kube-scheduler"), flags)
            }
            Component::Nodes => {
                let folder = self.folder.display().to_string();
                let program = std::env::current_exe()?;
                self.spawn("nodes", &program, vec!["nodes".to_owned(), folder])
            }
            Component::Node => node::start(self).await,
        }
    }

    /// Stops one program.
    pub fn stop(&mut self, name: &str) -> Result<()> {
        for process in self.processes.iter().filter(|process| process.name == name) {
            process.stop();
        }
        self.processes.retain(|process| process.name != name);
        self.save()
    }

    /// Kills one program (SIGKILL).
    pub fn kill(&mut self, name: &str) -> Result<()> {
        for process in self.processes.iter().filter(|process| process.name == name) {
            process.kill();
        }
        self.processes.retain(|process| process.name != name);
        self.save()
    }

    /// Stops everything, in reverse order of the start.
    pub fn stop_all(&mut self) -> Result<()> {
        for process in std::mem::take(&mut self.processes).iter().rev() {
            process.stop();
        }
        self.save()
    }

    /// Fails if a started process has ended; the error has the end of its log.
    pub fn check(&self) -> Result<()> {
        match self.processes.iter().find(|process| !process.is_alive()) {
            None => Ok(()),
            Some(ended) => Err(format!("{} has ended:\n{}", ended.name, ended.last_words()).into()),
        }
    }

    /// Client of the administrator, with a number of connections.
    pub fn client(&self, connections: usize) -> Result<Client> {
        self.client_of(self.port, connections)
    }

    /// Client of the administrator at one of several servers.
    pub fn client_of(&self, port: u16, connections: usize) -> Result<Client> {
        Client::new(&self.folder.join("pki"), port, connections)
    }

    /// Kubeconfig of the administrator.
    pub fn kubeconfig(&self) -> PathBuf {
        self.folder.join("pki/admin.kubeconfig")
    }

    /// Starts a program that [`ControlPlane::stop`] ends.
    pub fn spawn(&mut self, name: &str, program: &Path, flags: Vec<String>) -> Result<()> {
        let process = Process::spawn(name, program, &flags, &self.folder)?;
        self.processes.push(process);
        self.save()
    }

    /// Waits for a program to be ready; fails if any process ends.
    pub async fn until(&self, name: &str, ready: impl AsyncFn(&Self) -> bool) -> Result<()> {
        let limit = Instant::now() + READY_LIMIT;
        while !ready(self).await {
            self.check()?;
            if Instant::now() > limit {
                return Err(format!("{name} is not ready after {READY_LIMIT:?}").into());
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        Ok(())
    }

    /// URL of the etcd for clients.
    pub fn etcd_url(&self) -> String {
        format!("http://127.0.0.1:{}", self.etcd_port)
    }

    fn etcd_listens(&self) -> bool {
        std::net::TcpStream::connect(("127.0.0.1", self.etcd_port)).is_ok()
    }

    fn save(&self) -> Result<()> {
        let processes: Vec<Value> = self.processes.iter().map(Process::to_json).collect();
        let state = json!({"port": self.port, "etcdPort": self.etcd_port, "processes": processes});
        // Written atomically: other commands read it at any time.
        let (new, file) = (self.folder.join("state.json.new"), self.folder.join("state.json"));
        fs::write(&new, state.to_string())?;
        Ok(fs::rename(new, file)?)
    }

    /// Path of a file among the credentials.
    pub fn pki(&self, file: &str) -> String {
        self.folder.join("pki").join(file).display().to_string()
    }

    fn etcd_flags(&self) -> Vec<String> {
        let client = self.etcd_url();
        let mut flags = vec![
            format!("--data-dir={}", self.folder.join("etcd").display()),
            format!("--listen-client-urls={client}"),
            format!("--advertise-client-urls={client}"),
            "--listen-peer-urls=http://127.0.0.1:0".to_owned(),
            "--log-level=warn".to_owned(),
        ];
        if !self.durable {
            flags.push("--unsafe-no-fsync".to_owned());
        }
        flags
    }

    /// Flags common to both servers.
    fn server_flags(&self, port: u16) -> Vec<String> {
        let mut flags = vec![
            format!("--secure-port={port}"),
            format!("--tls-cert-file={}", self.pki("server.crt")),
            format!("--tls-private-key-file={}", self.pki("server.key")),
            format!("--client-ca-file={}", self.pki("ca.crt")),
            format!("--requestheader-client-ca-file={}", self.pki("ca.crt")),
            "--requestheader-allowed-names=front-proxy".to_owned(),
            "--requestheader-username-headers=X-Remote-User".to_owned(),
            "--requestheader-group-headers=X-Remote-Group".to_owned(),
            "--requestheader-extra-headers-prefix=X-Remote-Extra-".to_owned(),
            format!("--proxy-client-cert-file={}", self.pki("front-proxy.crt")),
            format!("--proxy-client-key-file={}", self.pki("front-proxy.key")),
            "--service-account-issuer=https://kubernetes.default.svc".to_owned(),
            format!("--service-account-key-file={}", self.pki("service-account.pub")),
            format!("--service-account-signing-key-file={}", self.pki("service-account.key")),
            "--service-cluster-ip-range=10.96.0.0/16".to_owned(),
            "--allow-privileged=true".to_owned(),
        ];
        flags.extend(match namespaces::is_inside() {
            true => self.node_flags(),
            false => {
                vec!["--bind-address=127.0.0.1".to_owned(), "--authorization-mode=RBAC".to_owned()]
            }
        });
        flags
    }

    /// Flags of a server with a real node: pods reach the server, and the server reaches the kubelet.
    fn node_flags(&self) -> Vec<String> {
        vec![
            format!("--advertise-address={}", namespaces::ADDRESS),
            "--bind-address=0.0.0.0".to_owned(),
            "--authorization-mode=Node,RBAC".to_owned(),
            "--enable-admission-plugins=NodeRestriction".to_owned(),
            "--enable-bootstrap-token-auth=true".to_owned(),
            "--kubelet-preferred-address-types=InternalIP".to_owned(),
            format!("--kubelet-certificate-authority={}", self.pki("ca.crt")),
            format!("--kubelet-client-certificate={}", self.pki("kubelet-client.crt")),
            format!("--kubelet-client-key={}", self.pki("kubelet-client.key")),
        ]
    }
}

/// Whether a server has controllers; one that a benchmark compares with may be from before them.
fn knows_controllers(program: &Path) -> bool {
    let help = std::process::Command::new(program).arg("--help").output();
    help.is_ok_and(|help| String::from_utf8_lossy(&help.stdout).contains("--controllers"))
}

/// Flags common to controller manager and scheduler.
fn component_flags(kubeconfig: &str) -> Result<Vec<String>> {
    Ok(vec![
        format!("--kubeconfig={kubeconfig}"),
        format!("--authentication-kubeconfig={kubeconfig}"),
        format!("--authorization-kubeconfig={kubeconfig}"),
        "--bind-address=127.0.0.1".to_owned(),
        format!("--secure-port={}", free_port()?),
        "--leader-elect=false".to_owned(),
    ])
}

/// Folder outside of the tree for built programs and control planes.
pub fn cache() -> PathBuf {
    match (std::env::var_os("KEVEL_CACHE"), std::env::var_os("HOME")) {
        (Some(cache), _) => cache.into(),
        (None, home) => PathBuf::from(home.unwrap_or_default()).join(".cache/kevel"),
    }
}

/// Path of a program that `conformance/build` makes.
pub fn built(program: &str) -> PathBuf {
    cache().join("bin").join(program)
}

/// Path of the etcd that `conformance/build` makes, or of an installed one.
pub fn etcd_program() -> Option<PathBuf> {
    let own = built("etcd");
    if own.is_file() { Some(own) } else { kevel_test_support::program("etcd") }
}

/// Path of the repository.
pub fn tree() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// An unused port below the range of outgoing connections, because it is used only later.
pub fn free_port() -> Result<u16> {
    let random = || 20_000 + (RandomState::new().hash_one(()) % 12_000) as u16;
    let free = |port: &u16| TcpListener::bind(("0.0.0.0", *port)).is_ok();
    std::iter::repeat_with(random).take(1000).find(free).ok_or_else(|| "no port is free".into())
}
