//! Coordinated leader election: the server chooses the holder of a Lease among its LeaseCandidates, and deletes
//! expired candidates.

use std::sync::Arc;
use std::time::Duration;

use kevel_api::status::{StatusError, reason};
use kevel_api::time::MicroTime;
use kevel_api::value::{Map, Value};
use kevel_controller_runtime::{Backoff, Client, Informer, WorkQueue, run};
use kevel_registry::storage::{Storage, local_key};

use super::election::{Candidate, Step, has_expired, holder, is_pending, lease_has_expired, step};

/// Interval of reconciliations of a lease whose holder is right or whose candidates were pinged.
const REQUEUE: Duration = Duration::from_secs(5);
/// Lease duration in seconds within which the elected candidate has to acquire the lease.
const LEASE_SECONDS: i64 = 5;
const COLLECT_INTERVAL: Duration = Duration::from_secs(30 * 60);

/// Controller that elects the holders of leases.
#[derive(Clone, Debug)]
pub struct LeaderElectionController {
    client: Client,
    leases: Arc<Storage>,
    candidates: Arc<Storage>,
}

impl LeaderElectionController {
    /// Name of the controller, and of the lease of the server that runs it.
    pub const NAME: &str = "leader-election-controller";

    /// Makes a controller of these leases and candidates.
    pub fn new(client: Client, leases: Arc<Storage>, candidates: Arc<Storage>) -> Self {
        LeaderElectionController { client, leases, candidates }
    }

    /// Runs until dropped.
    pub async fn run(self) {
        for storage in [&self.leases, &self.candidates] {
            if let Err(error) = storage.cache.loaded().await {
                tracing::error!(%error, "Elections do not begin");
                return;
            }
        }
        let queue = WorkQueue::new(Backoff::default());
        let heard = queue.clone();
        let leases =
            Informer::new(self.leases.cache.clone()).for_each(move |lease| heard.add(lease.key()));
        let (heard, storage) = (queue.clone(), self.candidates.clone());
        let candidates = Informer::new(self.candidates.cache.clone()).for_each(move |object| {
            let Ok(candidate) = storage.tree(object) else { return };
            if !is_pending(&candidate) {
                let lease = candidate.str_at(&["spec", "leaseName"]);
                heard.add(&local_key(object.namespace(), lease));
            }
        });
        let collect = self.clone().collect();
        let (this, again) = (Arc::new(self), queue.clone());
        let reconcile = move |key: String| {
            let (this, queue) = (this.clone(), again.clone());
            async move {
                let looked = this.reconcile(&key).await;
                if looked.as_ref().map_or(true, |look_again| *look_again) {
                    queue.add_after(&key, REQUEUE);
                }
                if let Err(error) = looked {
                    tracing::error!(key, error, "Failed to reconcile election step");
                }
                Ok::<(), std::convert::Infallible>(())
            }
        };
        tokio::join!(leases, candidates, collect, run(queue, Self::NAME, 1, reconcile));
    }

    fn now(&self) -> MicroTime {
        MicroTime::now(self.client.clock())
    }

    /// Reconciles a lease; true if it must be reconciled again.
    async fn reconcile(&self, key: &str) -> Result<bool, String> {
        let (namespace, name) = key.split_once('/').unwrap_or(("", key));
        let now = self.now();
        let candidates = self.of_lease(namespace, name, now);
        if candidates.is_empty() {
            return Ok(false);
        }
        let lease = self.leases.cache.latest().get(key).cloned();
        let lease = lease.map(|lease| self.leases.tree(&lease));
        match step(lease.transpose()?.as_ref(), &candidates, now)? {
            Step::Nothing => {}
            Step::Ask(asked) => {
                for candidate in asked {
                    self.ask(candidate, now).await.map_err(|error| error.to_string())?;
                }
            }
            Step::Elect { strategy, holder } => {
                let elected = self.elect(namespace, name, strategy, holder).await;
                elected.map_err(|error| error.to_string())?;
            }
        }
        Ok(true)
    }

    /// Valid candidates of a lease.
    fn of_lease(&self, namespace: &str, lease: &str, now: MicroTime) -> Vec<Candidate> {
        let snapshot = self.candidates.cache.latest();
        let objects = snapshot.range(&format!("{namespace}/"), None);
        let objects = objects.filter_map(|object| self.candidates.tree(object).ok());
        objects
            .filter(|candidate| candidate.str_at(&["spec", "leaseName"]) == lease)
            .filter_map(|candidate| Candidate::new(candidate, now))
            .collect()
    }

    /// Pings a candidate, which answers by renewing.
    async fn ask(&self, candidate: &Candidate, now: MicroTime) -> Result<(), StatusError> {
        let mut asked = candidate.object.clone();
        asked.make_map(&["spec"]).insert("pingTime", Value::from(now.to_string().as_str()));
        self.client.update(&path_of(&asked), &asked).await.map(drop)
    }

    /// Sets the holder of a lease, or `preferredHolder` if another candidate holds it.
    async fn elect(
        &self,
        namespace: &str,
        name: &str,
        strategy: &str,
        chosen: Option<&str>,
    ) -> Result<(), StatusError> {
        let leases = format!("/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases");
        let path = format!("{leases}/{name}");
        let mut lease = match self.client.get(&path).await {
            Err(error) if error.reason() == reason::NOT_FOUND => {
                let metadata = Map::from_iter([("name", Value::from(name))]);
                let mut lease = Value::Map(Map::from_iter([("metadata", metadata.into())]));
                lease.make_map(&["spec"]).insert("strategy", Value::from(strategy));
                begin_term(&mut lease, chosen, self.now());
                tracing::info!(lease = name, namespace, holder = chosen, "Created lease");
                return self.client.create(&leases, &lease).await.map(drop);
            }
            found => found?,
        };
        let before = lease.clone();
        lease.make_map(&["spec"]).insert("strategy", Value::from(strategy));
        let old = holder(&lease).to_owned();
        if let Some(chosen) = chosen.filter(|chosen| *chosen != old) {
            if old.is_empty() || lease_has_expired(&lease, self.now()) {
                lease.make_map(&["spec"]).remove("preferredHolder");
                lease.make_map(&["spec"]).remove("acquireTime");
                begin_term(&mut lease, Some(chosen), self.now());
            } else {
                lease.make_map(&["spec"]).insert("preferredHolder", Value::from(chosen));
            }
            tracing::info!(
                lease = name,
                namespace,
                from = old,
                to = chosen,
                "Lease holder changed"
            );
        }
        if lease == before {
            return Ok(());
        }
        self.client.update(&path, &lease).await.map(drop)
    }

    /// Deletes expired candidates.
    async fn collect(self) {
        loop {
            let snapshot = self.candidates.cache.latest();
            for object in snapshot.range("", None) {
                let read = self.candidates.tree(object).ok();
                let gone = read.filter(|candidate| has_expired(candidate, self.now()));
                let Some(candidate) = gone else { continue };
                // A candidate that has renewed or changed meanwhile stays.
                match self.client.delete_seen(&path_of(&candidate), &candidate).await {
                    Err(error)
                        if ![reason::NOT_FOUND, reason::CONFLICT].contains(&error.reason()) =>
                    {
                        tracing::error!(%error, candidate = object.key(), "Error deleting lease");
                    }
                    _ => {}
                }
            }
            drop(snapshot);
            self.client.clock().sleep(COLLECT_INTERVAL).await;
        }
    }
}

/// Begins a term of a lease, with or without a holder.
fn begin_term(lease: &mut Value, holder: Option<&str>, now: MicroTime) {
    let spec = lease.make_map(&["spec"]);
    if let Some(holder) = holder {
        spec.insert("holderIdentity", Value::from(holder));
    }
    spec.insert("leaseDurationSeconds", Value::Int(LEASE_SECONDS));
    spec.insert("renewTime", Value::from(now.to_string().as_str()));
}

fn path_of(candidate: &Value) -> String {
    let [namespace, name] =
        ["namespace", "name"].map(|field| candidate.str_at(&["metadata", field]));
    format!("/apis/coordination.k8s.io/v1beta1/namespaces/{namespace}/leasecandidates/{name}")
}
