//! Controller of the Service `default/kubernetes`, by which pods find the API server, and of its endpoints.

use std::net::IpAddr;
use std::time::Duration;

use kevel_api::status::reason;
use kevel_api::value::{Map, Value};
use kevel_component::signals::Signal;
use kevel_controller_runtime::Client;

use super::reconciler::{Reconciler, ServerAddress};
use crate::system_namespaces;

const NAMESPACE: &str = "default";
const PATH: &str = "/api/v1/namespaces/default/services";
const NAME: &str = "kubernetes";
/// Port of the Service.
const PORT: i64 = 443;
/// Interval between reconciliations.
const INTERVAL: Duration = Duration::from_secs(10);
/// Time for which a starting server waits for the Service before it becomes ready without it.
const FIRST_SERVICE: Duration = Duration::from_secs(5);
/// Delay between attempts to create the Service at start: no address can be allocated before the first repair.
const AGAIN: Duration = Duration::from_millis(20);

/// Options of the Service `default/kubernetes`.
#[derive(Clone, Copy, Debug)]
pub struct KubernetesServiceOptions {
    /// Address at which clients reach this server (`--advertise-address`).
    pub public_ip: IpAddr,
    /// Port at which clients reach this server.
    pub public_port: u16,
    /// Cluster IP of the Service.
    pub service_ip: IpAddr,
    /// Node port of the Service; 0 for none.
    pub node_port: i64,
}

/// Controller of the Service and its endpoints.
#[derive(Clone, Debug)]
pub struct KubernetesService {
    client: Client,
    options: KubernetesServiceOptions,
    reconciler: Reconciler,
    stopped: Signal,
}

impl KubernetesService {
    /// Makes a controller that maintains the endpoints by the given reconciler.
    pub fn new(client: Client, options: KubernetesServiceOptions, reconciler: Reconciler) -> Self {
        let stopped = Signal::new("KubernetesServiceStopped");
        KubernetesService { client, options, reconciler, stopped }
    }

    /// Removes the endpoint that a previous process at this address left behind: this server is not ready yet.
    pub async fn remove_stale(&self) {
        if let Err(error) = self.reconciler.remove(&self.client, self.server(), false).await {
            tracing::error!(error, "error removing old endpoints from kubernetes service");
        }
    }

    /// Creates the Service before the server is ready, so that no client can take its name or address.
    pub async fn ensure_service(&self) {
        let made = async {
            let mut turns = tokio::time::interval(AGAIN);
            loop {
                turns.tick().await;
                match self.create_service_if_needed().await {
                    Ok(()) => return,
                    Err(error) => tracing::debug!(error, "kubernetes service cannot be made yet"),
                }
            }
        };
        if tokio::time::timeout(FIRST_SERVICE, made).await.is_err() {
            tracing::error!("unable to create the kubernetes service; trying on");
        }
    }

    /// Reconciles Service and endpoints until stopped.
    pub async fn keep(self) {
        let stopped = self.stopped.wait();
        let keep = async {
            let mut turns = tokio::time::interval(INTERVAL);
            loop {
                turns.tick().await;
                if let Err(error) = self.sync().await {
                    tracing::error!(error, "unable to sync kubernetes service");
                }
            }
        };
        tokio::select! {
            () = keep => {}
            () = stopped => {}
        }
    }

    /// Stops, and removes this server from the endpoints, so that clients no longer connect to it.
    pub async fn stop(&self) {
        self.stopped.signal();
        let removed = self.reconciler.remove(&self.client, self.server(), true);
        match tokio::time::timeout(2 * INTERVAL, removed).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => {
                tracing::error!(error, "unable to remove endpoints from kubernetes service");
            }
            Err(_) => tracing::warn!("removing endpoints timed out"),
        }
    }

    async fn sync(&self) -> Result<(), String> {
        self.create_service_if_needed().await?;
        self.reconciler.reconcile(&self.client, self.server()).await
    }

    async fn create_service_if_needed(&self) -> Result<(), String> {
        match self.client.get(&format!("{PATH}/{NAME}")).await {
            Ok(_) => return Ok(()),
            Err(error) if error.reason() == reason::NOT_FOUND => {}
            Err(error) => return Err(error.to_string()),
        }
        system_namespaces::ensure(&self.client, NAMESPACE).await.map_err(|e| e.to_string())?;
        match self.client.create(PATH, &self.service()).await {
            Err(error) if error.reason() != reason::ALREADY_EXISTS => Err(error.to_string()),
            _ => Ok(()),
        }
    }

    fn server(&self) -> ServerAddress {
        ServerAddress { ip: self.options.public_ip, port: self.options.public_port }
    }

    fn service(&self) -> Value {
        let mut port = Map::from_iter([
            ("name", Value::from("https")),
            ("protocol", Value::from("TCP")),
            ("port", Value::Int(PORT)),
            ("targetPort", Value::Int(self.options.public_port.into())),
        ]);
        let exposed = self.options.node_port > 0;
        if exposed {
            port.insert("nodePort", Value::Int(self.options.node_port));
        }
        let labels = Map::from_iter([
            ("component", Value::from("apiserver")),
            ("provider", Value::from("kubernetes")),
        ]);
        let metadata = Map::from_iter([
            ("name", Value::from(NAME)),
            ("namespace", Value::from(NAMESPACE)),
            ("labels", Value::Map(labels)),
        ]);
        let spec = Map::from_iter([
            ("ports", Value::List([Value::Map(port)].into_iter().collect())),
            ("clusterIP", Value::from(self.options.service_ip.to_string().as_str())),
            ("ipFamilyPolicy", Value::from("SingleStack")),
            ("sessionAffinity", Value::from("None")),
            ("type", Value::from(if exposed { "NodePort" } else { "ClusterIP" })),
        ]);
        Value::Map(Map::from_iter([
            ("apiVersion", Value::from("v1")),
            ("kind", Value::from("Service")),
            ("metadata", Value::Map(metadata)),
            ("spec", Value::Map(spec)),
        ]))
    }
}
