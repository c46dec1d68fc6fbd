//! Replicas of one cluster: several servers in the test's process, on one etcd, with the same keys.

use std::path::PathBuf;

use kube_apiserver::options::ServerRunOptions;
use kube_apiserver::server::{self, RunningServer};
use tempfile::TempDir;

use crate::client::Client;
use crate::etcd::{EtcdServer, flags_on_etcd};
use crate::until;

/// An etcd, and the state that its servers share. Servers are started one by one.
#[derive(Debug)]
pub struct Replicas {
    /// The etcd of all servers.
    pub etcd: EtcdServer,
    /// Folder with keys (`pki`) and files of the test.
    pub folder: TempDir,
    config: kube::Config,
}

/// One of the servers of a cluster.
#[derive(Debug)]
pub struct Replica {
    /// The server.
    pub server: RunningServer,
    /// Client of the administrator at this server.
    pub admin: Client,
    /// Client configuration of the administrator for this server.
    pub config: kube::Config,
}

impl Replicas {
    /// Starts an etcd, and makes keys. Without an etcd program the running test is skipped.
    pub async fn new() -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let etcd = EtcdServer::start(folder.path())?;
        let maker = kevel::Server::builder().data_dir(folder.path()).flag("--storage=memory");
        let maker = maker.start().await.unwrap();
        let mut config = maker.client_config().await.unwrap();
        // Tests check failures, so the client must not retry.
        config.default_retry = false;
        maker.stop().await.unwrap();
        Some(Replicas { etcd, folder, config })
    }

    /// Starts a number of servers with these flags.
    pub async fn start_all(&self, number: usize, flags: &[&str]) -> Vec<Replica> {
        let names: Vec<String> = (0..number).map(|number| format!("replica-{number}")).collect();
        let started = names.iter().map(|name| self.start(name, flags));
        futures_util::future::join_all(started).await
    }

    /// Starts a server with this hostname and these flags; returns when it is ready.
    pub async fn start(&self, hostname: &str, flags: &[&str]) -> Replica {
        let mut arguments = flags_on_etcd(&self.pki(), &self.etcd.endpoint);
        arguments.push("--bind-address=127.0.0.1".to_owned());
        arguments.extend(flags.iter().map(|flag| (*flag).to_owned()));
        let mut options = ServerRunOptions::default();
        options.parse(arguments).unwrap();
        let mut options = options.complete().unwrap();
        assert_eq!(options.validate(), Vec::<String>::new());
        if !options.flags.given.has("secure_port") {
            options.flags.secure_serving.secure_port = 0;
        }
        hostname.clone_into(&mut options.hostname);
        let server = server::prepare(options).await.unwrap().start().await.unwrap();
        let mut config = self.config.clone();
        config.cluster_url =
            format!("https://127.0.0.1:{}", server.address.port()).parse().unwrap();
        let admin = Client::new(config.clone());
        until(async || admin.get("/readyz").await.0 == 200).await;
        until(async || admin.get("/api/v1/namespaces/default").await.0 == 200).await;
        Replica { server, admin, config }
    }

    /// Folder of the keys.
    pub fn pki(&self) -> PathBuf {
        self.folder.path().join("pki")
    }
}

impl Replica {
    /// Stops the server gracefully.
    pub async fn stop(self) {
        let Replica { server, admin, .. } = self;
        drop(admin);
        server.stop().await.unwrap();
    }
}
