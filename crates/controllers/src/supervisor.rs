//! Runs the selected controllers, while no kube-controller-manager does, and no other server on the same store.

use std::sync::Arc;
use std::time::Duration;

use kevel_component::signals::Signal;
use kevel_compute::Metered;
use kevel_controller_runtime::{Informer, LeaderElector, WorkQueues};
use kevel_registry::admission::Plugin;
use kevel_registry::storage::{Storage, local_key};
use kevel_server::lifecycle::RequestGroup;
use kevel_store::cache::At;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::CONTROLLERS;
use crate::context::{ControllerContext, ControllersConfig, MetricSets};
use crate::descriptor::{self, Descriptor, DescriptorError};
use crate::election;
use crate::lease::{Handover, LEASE, LeaseAdmission, remaining};
use crate::names;
use crate::selection::ControllerSelection;

/// Longest that requests of stopped controllers are waited for. With [`election::RENEW_DEADLINE`] it is less than
/// [`election::LEASE_DURATION`]: controllers have ended before another server's can begin.
const DRAIN_LIMIT: Duration = Duration::from_secs(4);
/// Wait after controllers were stopped by a write of the lease, until the store is asked whether it succeeded.
const WRITE_LIMIT: Duration = Duration::from_secs(5);

const _: () = assert!(
    election::RENEW_DEADLINE.as_millis() + DRAIN_LIMIT.as_millis()
        < election::LEASE_DURATION.as_millis()
);

/// Admission step and controllers of a server: the first is built before the second can be.
#[derive(Debug, Default)]
pub struct ControllersBuilder {
    handover: Arc<Handover>,
}

impl ControllersBuilder {
    /// Admission step that lets a kube-controller-manager take over.
    pub fn admission(&self, clock: kevel_clock::Clock) -> Arc<dyn Plugin> {
        Arc::new(LeaseAdmission { handover: self.handover.clone(), clock })
    }

    /// Supervisor of the selected controllers.
    pub fn supervisor(
        &self,
        config: ControllersConfig,
        selection: &ControllerSelection,
    ) -> Result<Supervisor, DescriptorError> {
        descriptor::check()?;
        let queues = Arc::new(WorkQueues::new(&config.metrics));
        let (config, metric_sets) = (Arc::new(config), Arc::<MetricSets>::default());
        let context = ControllerContext::new(
            config.clone(),
            queues.clone(),
            metric_sets.clone(),
            RequestGroup::default(),
        );
        let mut selected = Vec::new();
        let mut off = Vec::new();
        for descriptor in CONTROLLERS {
            let known = names::find(descriptor.name);
            if !known.is_some_and(|known| selection.enables(known)) {
                off.push((descriptor.name, "not selected by --controllers".to_owned()));
                continue;
            }
            if let Some(gate) = descriptor.gate.filter(|gate| !context.feature(*gate)) {
                off.push((descriptor.name, format!("feature gate {gate} is off")));
                continue;
            }
            // Built to learn whether it can run here, and dropped: it starts later, and more than once.
            match (descriptor.build)(&context) {
                Ok(_) => selected.push(descriptor),
                Err(why) => off.push((descriptor.name, why.to_string())),
            }
        }
        let leases = config.storages.get("coordination.k8s.io", "leases").cloned();
        let handover = self.handover.clone();
        let election = config.shared_by.as_ref().map(|id| election::elector(&config.client, id));
        Ok(Supervisor { config, queues, metric_sets, selected, off, leases, handover, election })
    }
}

/// Supervisor of the selected controllers.
pub struct Supervisor {
    config: Arc<ControllersConfig>,
    queues: Arc<WorkQueues>,
    metric_sets: Arc<MetricSets>,
    selected: Vec<&'static Descriptor>,
    /// Controllers that do not run, with the reason.
    off: Vec<(&'static str, String)>,
    leases: Option<Arc<Storage>>,
    handover: Arc<Handover>,
    /// Election among the servers on the same store, if there may be others.
    election: Option<LeaderElector>,
}

impl std::fmt::Debug for Supervisor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Supervisor").field(&self.selected).finish()
    }
}

/// Controllers that run.
struct RunningControllers {
    tasks: JoinSet<()>,
    requests: RequestGroup,
}

impl Supervisor {
    /// Names of the controllers that this server runs, if it is not another's turn.
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        self.selected.iter().map(|descriptor| descriptor.name)
    }

    /// Election among the servers on the same store: [`run`](Self::run) ends when the lease is released.
    pub fn election(&self) -> Option<&LeaderElector> {
        self.election.as_ref()
    }

    /// Runs the controllers. Their roles must exist.
    pub async fn run(self) {
        let changed = watch::Sender::new(());
        let changes = changed.subscribe();
        let informer = self.leases.as_ref().map(|leases| {
            Informer::new(leases.cache.clone()).for_each(move |lease| {
                if (lease.namespace(), lease.name()) == LEASE {
                    changed.send_replace(());
                }
            })
        });
        let hear = async {
            match informer {
                Some(informer) => informer.await,
                None => std::future::pending().await,
            }
        };
        let work = async {
            match self.election.clone() {
                Some(elector) => {
                    tracing::info!("Controllers run while this server holds their lease");
                    elector.run(|over| self.alternate(changes.clone(), over)).await;
                }
                None => self.alternate(changes.clone(), Signal::new("ControllersOver")).await,
            }
        };
        tokio::select! {
            () = work => {}
            () = hear => {}
        }
    }

    /// Runs the controllers whenever no kube-controller-manager holds its lease, until `over`. They have ended when
    /// this returns.
    async fn alternate(&self, mut changes: watch::Receiver<()>, over: Signal) {
        let (mut started, mut held) = (false, false);
        while !over.is_signaled() {
            // Before the store is asked: a write of the lease that comes later stops what runs.
            self.handover.set_running(true);
            // Before the lease is read: a clock that is advanced meanwhile makes the wait shorter, not longer.
            let read = self.config.client.clock().moment();
            let lease = tokio::select! {
                lease = self.lease() => lease,
                () = over.wait() => break,
            };
            if let Some(left) = lease {
                self.handover.set_running(false);
                if !std::mem::replace(&mut held, true) {
                    tracing::info!(
                        "Controllers are off: a kube-controller-manager holds its lease"
                    );
                }
                tokio::select! {
                    () = self.config.client.clock().sleep_until(read + left) => {}
                    _ = changes.changed() => {}
                    () = over.wait() => {}
                }
                continue;
            }
            held = false;
            let mut running = self.start(!std::mem::replace(&mut started, true));
            let by_write = tokio::select! {
                () = self.handover.stop_requested() => true,
                () = self.taken(&mut changes) => false,
                () = running.failed() => false,
                () = over.wait() => false,
            };
            running.stop().await;
            self.handover.set_running(false);
            if by_write {
                tokio::select! {
                    () = tokio::time::sleep(WRITE_LIMIT) => {}
                    _ = changes.changed() => {}
                    () = over.wait() => {}
                }
            }
        }
        self.handover.set_running(false);
    }

    /// Remaining time of the lease of kube-controller-manager.
    async fn lease(&self) -> Option<Duration> {
        let leases = self.leases.as_ref()?;
        let snapshot = leases.cache.snapshot(At::Consistent).await;
        let snapshot = snapshot.unwrap_or_else(|_| leases.cache.latest());
        let lease = leases.tree(snapshot.get(&local_key(LEASE.0, LEASE.1))?).ok()?;
        remaining(&lease, self.config.client.clock())
    }

    /// Waits until the lease is taken, by another server's leave.
    async fn taken(&self, changes: &mut watch::Receiver<()>) {
        while self.lease().await.is_none() {
            if changes.changed().await.is_err() {
                return std::future::pending().await;
            }
        }
    }

    fn start(&self, tell: bool) -> RunningControllers {
        let requests = RequestGroup::default();
        let context = ControllerContext::new(
            self.config.clone(),
            self.queues.clone(),
            self.metric_sets.clone(),
            requests.clone(),
        );
        let mut tasks = JoinSet::new();
        for descriptor in &self.selected {
            match (descriptor.build)(&context) {
                Ok(controller) => {
                    tasks.spawn(Metered::task(controller, descriptor.name));
                }
                Err(why) => {
                    tracing::error!(controller = descriptor.name, "Controller cannot start: {why}");
                }
            }
        }
        if tell {
            let names: Vec<&str> = self.names().collect();
            let off = self.off.iter().map(|(name, why)| format!("{name}: {why}"));
            let off: Vec<String> = off.collect();
            tracing::info!(running = names.join(","), off = off.join("; "), "Controllers");
        } else {
            tracing::info!("Controllers run again: no kube-controller-manager holds its lease");
        }
        RunningControllers { tasks, requests }
    }
}

impl RunningControllers {
    /// Waits until a controller ends, which is an error.
    async fn failed(&mut self) {
        match self.tasks.join_next().await {
            None => std::future::pending().await,
            Some(Ok(())) => tracing::warn!("A controller has ended"),
            Some(Err(error)) if error.is_panic() => {
                std::panic::resume_unwind(error.into_panic());
            }
            Some(Err(_)) => {}
        }
    }

    /// Ends the controllers: no request begins, those under way end, then the tasks.
    async fn stop(mut self) {
        let left = self.requests.drain(DRAIN_LIMIT).await;
        if left > 0 {
            tracing::warn!(left, "Requests of controllers have not ended");
        }
        self.tasks.shutdown().await;
    }
}
