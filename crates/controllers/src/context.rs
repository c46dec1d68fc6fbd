//! Context that controllers are built from.

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use kevel_api::status::StatusError;
use kevel_api::value::Value;
use kevel_clock::Clock;
use kevel_controller_runtime::{Backoff, Client, WorkQueue, WorkQueues};
use kevel_features::Feature;
use kevel_registry::resource::Resources;
use kevel_registry::storage::Storage;
use kevel_registry::storages::Storages;
use kevel_server::lifecycle::RequestGroup;
use kevel_server::metrics::Metrics;

use crate::recorder::EventRecorder;
use crate::unavailable::Unavailable;

/// Configuration of the controllers by the server.
pub struct ControllersConfig {
    /// Client of the whole server, aggregated APIs and discovery included.
    pub client: Client,
    /// Storages of the built-in resources.
    pub storages: Storages,
    /// Tables of all served resources; those of custom resources change while the server runs.
    pub tables: Vec<Arc<Resources>>,
    /// Metrics of the server.
    pub metrics: Arc<Metrics>,
    /// CA bundle (PEM) by which clients verify the server, if it is known.
    pub root_ca: Option<String>,
    /// Certificate and key (PEM) of the server's own CA, if it has one.
    pub ca: Option<CertificateAuthority>,
    /// Signs tokens of service accounts with these claims, if the server has the key for that.
    pub token_signer: Option<TokenSigner>,
    /// Whether a feature gate is on.
    pub feature: Arc<dyn Fn(Feature) -> bool + Send + Sync>,
    /// Time between the deletion of a namespace and that of its content: other servers hear of the deletion meanwhile,
    /// and objects on their way are stored.
    pub namespace_deletion_delay: Duration,
    /// ID of this server where others share its store: one of them runs the controllers at a time. `None` if it has a
    /// store of its own.
    pub shared_by: Option<String>,
}

impl std::fmt::Debug for ControllersConfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ControllersConfig")
    }
}

/// Signs a token with claims.
pub type TokenSigner = Arc<dyn Fn(&Value) -> Result<String, StatusError> + Send + Sync>;

/// Certificate and key of a CA (PEM).
#[derive(Clone)]
pub struct CertificateAuthority {
    /// The certificate.
    pub certificate: String,
    /// The private key.
    pub key: String,
}

impl std::fmt::Debug for CertificateAuthority {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("CertificateAuthority")
    }
}

/// Sets of metrics of controllers, by type: controllers that are built again go on with theirs.
#[derive(Debug, Default)]
pub(crate) struct MetricSets(Mutex<HashMap<TypeId, Arc<dyn Any + Send + Sync>>>);
/// Context that a controller is built from (upstream: `ControllerContext`). It lasts while the controllers run: after
/// they were stopped, its clients send nothing.
pub struct ControllerContext {
    config: Arc<ControllersConfig>,
    queues: Arc<WorkQueues>,
    metric_sets: Arc<MetricSets>,
    requests: RequestGroup,
}

impl std::fmt::Debug for ControllerContext {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ControllerContext")
    }
}

impl ControllerContext {
    pub(crate) fn new(
        config: Arc<ControllersConfig>,
        queues: Arc<WorkQueues>,
        metric_sets: Arc<MetricSets>,
        requests: RequestGroup,
    ) -> Self {
        ControllerContext { config, queues, metric_sets, requests }
    }

    /// Client as a service account in `kube-system`.
    pub fn client(&self, account: &str) -> Client {
        self.config.client.as_controller(account).stopped_with(self.requests.clone())
    }

    /// Client as the user of a controller manager itself.
    pub fn root_client(&self, controller: &str) -> Client {
        let client = self.config.client.as_controller_manager(controller);
        client.stopped_with(self.requests.clone())
    }

    /// Storage of a built-in resource that the controller cannot do without.
    pub fn storage(
        &self,
        group: &'static str,
        plural: &'static str,
    ) -> Result<Arc<Storage>, Unavailable> {
        let storage = self.config.storages.get(group, plural);
        storage.cloned().ok_or(Unavailable::NotServed { group, plural })
    }

    /// Work queue that is measured under the reference's name of it.
    pub fn queue(&self, name: &'static str, backoff: Backoff) -> Arc<WorkQueue> {
        self.queues.queue(name, backoff)
    }

    /// Recorder of Events, as a service account, with the component that is shown as their source.
    pub fn recorder(&self, account: &str, component: &'static str) -> EventRecorder {
        EventRecorder::new(self.client(account), component)
    }

    /// Tables of all served resources.
    pub fn tables(&self) -> &[Arc<Resources>] {
        &self.config.tables
    }

    /// Clock of the server.
    pub fn clock(&self) -> &Clock {
        self.config.client.clock()
    }

    /// Metrics of the server.
    pub fn metrics(&self) -> &Arc<Metrics> {
        &self.config.metrics
    }

    /// Metrics of a controller, registered the first time that it is built.
    pub(crate) fn metric_set<T: Send + Sync + 'static>(&self, new: fn(&Metrics) -> T) -> Arc<T> {
        let mut sets = self.metric_sets.0.lock().unwrap_or_else(PoisonError::into_inner);
        let known = sets.get(&TypeId::of::<T>()).cloned().and_then(|set| set.downcast().ok());
        known.unwrap_or_else(|| {
            let set = Arc::new(new(&self.config.metrics));
            sets.insert(TypeId::of::<T>(), set.clone());
            set
        })
    }

    /// Whether a feature gate is on.
    pub fn feature(&self, gate: Feature) -> bool {
        (self.config.feature)(gate)
    }

    /// CA bundle (PEM) by which clients verify the server.
    pub fn root_ca(&self) -> Result<String, Unavailable> {
        self.config.root_ca.clone().ok_or(Unavailable::NoAuthority)
    }

    /// Certificate and key of the server's own CA.
    pub fn ca(&self) -> Result<CertificateAuthority, Unavailable> {
        self.config.ca.clone().ok_or(Unavailable::NoAuthority)
    }

    /// Signs tokens of service accounts.
    pub fn token_signer(&self) -> Result<TokenSigner, Unavailable> {
        self.config.token_signer.clone().ok_or(Unavailable::NoSigningKey)
    }

    /// Time between the deletion of a namespace and that of its content.
    pub fn namespace_deletion_delay(&self) -> Duration {
        self.config.namespace_deletion_delay
    }
}
