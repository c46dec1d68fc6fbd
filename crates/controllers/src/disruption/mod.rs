//! Status of PodDisruptionBudgets, and the condition `DisruptionTarget` of pods that were not deleted after all.

mod scale;
mod stale;
mod status;

use std::sync::Arc;

use kevel_api::selector::label::LabelSelector;
use kevel_api::status::StatusError;
use kevel_api::time::Time;
use kevel_api::value::Value;
use kevel_controller_runtime::{Backoff, Client, InformerEvent, WorkQueue, run};
use kevel_store::cache::Object;
use tokio::sync::mpsc;

use self::scale::{Scales, scaled};
use self::stale::StaleDisruptions;
use self::status::{BudgetCounts, disrupted_pods, fail_safe, selector_text};
use crate::context::ControllerContext;
use crate::delay::Delays;
use crate::descriptor::ControllerLoop;
use crate::lister::CacheLister;
use crate::object::{is_deleted, is_true, name, namespace, regarding, split};
use crate::reconcile_error::ReconcileError;
use crate::recorder::{EventKind, EventRecorder};
use crate::unavailable::Unavailable;

const NAME: &str = "disruption-controller";
/// Seconds within which a pod of `disruptedPods` must be marked for deletion (upstream: `DeletionTimeout`).
const DELETION_SECONDS: i64 = 120;
/// Pods with several budgets that wait for their Event; further ones get none.
const MAX_TOLD: usize = 256;

struct Budgets {
    client: Client,
    budgets: CacheLister,
    pods: CacheLister,
    scales: Scales,
    recorder: EventRecorder,
    queue: Arc<WorkQueue>,
    recheck: Arc<Delays>,
}

/// Selector of a budget, read once.
struct BudgetSelector(Option<LabelSelector>);

pub(crate) fn build(context: &ControllerContext) -> Result<ControllerLoop, Unavailable> {
    let queue = context.queue("disruption", Backoff::default());
    let recheck = Delays::new(context.clock().clone(), queue.clone());
    let pods = CacheLister::new(context.storage("", "pods")?);
    let this = Arc::new(Budgets {
        client: context.client(NAME),
        budgets: CacheLister::new(context.storage("policy", "poddisruptionbudgets")?),
        pods: pods.clone(),
        scales: Scales::new(context, NAME)?,
        recorder: context.recorder(NAME, "controllermanager"),
        queue: queue.clone(),
        recheck: recheck.clone(),
    });
    let stale = StaleDisruptions::new(context, NAME, pods);
    let heard = queue.clone();
    let budgets = this.budgets.informer().for_each(move |budget| heard.add(budget.key()));
    let (heard, heard_stale) = (this.clone(), stale.clone());
    let (several, told) = mpsc::channel(MAX_TOLD);
    let pods = this.pods.informer().run(move |event| match event {
        InformerEvent::Apply(pod, _) => {
            heard.queue_budget(pod, &several);
            heard_stale.hear(pod);
        }
        InformerEvent::Delete(pod) => heard.queue_budget(pod, &several),
        InformerEvent::Init => {}
        // Pods may have gone unheard.
        InformerEvent::InitDone => {
            let snapshot = heard.budgets.snapshot();
            snapshot.range("", None).for_each(|budget| heard.queue.add(budget.key()));
        }
    });
    let tell = this.clone().tell_several(told);
    let reconcile = move |key: String| {
        let this = this.clone();
        async move { this.reconcile(&key).await.map_err(|error| error.to_string()) }
    };
    Ok(Box::pin(async move {
        let work = run(queue, NAME, 1, reconcile);
        tokio::join!(budgets, pods, tell, recheck.run(), stale.run(), work);
    }))
}

impl Budgets {
    fn selector(&self, budget: &Object) -> Option<Arc<BudgetSelector>> {
        let read = |budget: &Value| {
            BudgetSelector(LabelSelector::from_value(budget.at(&["spec", "selector"])).ok())
        };
        self.budgets.facts(budget, read).ok()
    }

    /// Queues the budget of a pod; of several, the first.
    fn queue_budget(&self, pod: &Arc<Object>, several: &mpsc::Sender<(Arc<Object>, String)>) {
        let snapshot = self.budgets.snapshot();
        let prefix = format!("{}/", pod.namespace());
        let mut matching = snapshot.range(&prefix, None).filter(|budget| {
            kevel_compute::charge(1);
            let selector = self.selector(budget);
            selector.is_some_and(|it| it.0.as_ref().is_some_and(|it| it.selects(&**pod)))
        });
        let Some(first) = matching.next() else { return };
        self.queue.add(first.key());
        if matching.next().is_some() {
            let _ = several.try_send((pod.clone(), first.name().to_owned()));
        }
    }

    async fn tell_several(self: Arc<Self>, mut told: mpsc::Receiver<(Arc<Object>, String)>) {
        while let Some((pod, budget)) = told.recv().await {
            let Ok(tree) = self.pods.tree(&pod) else { continue };
            let message = format!(
                "Pod {:?}/{:?} matches multiple PodDisruptionBudgets.  Chose {budget:?} arbitrarily.",
                pod.namespace(),
                pod.name(),
            );
            let pod = regarding("v1", "Pod", &tree);
            let reason = "MultiplePodDisruptionBudgets";
            self.recorder.event(&pod, EventKind::Warning, reason, &message).await;
        }
        std::future::pending().await
    }

    async fn reconcile(&self, key: &str) -> Result<(), ReconcileError> {
        let (space, budget_name) = split(key);
        let Some(budget) = self.budgets.get(space, budget_name)? else { return Ok(()) };
        match self.try_sync(&budget).await {
            Ok(()) => Ok(()),
            Err(error) if error.is_conflict() => Err(error),
            Err(error) => {
                tracing::warn!(controller = NAME, key, %error, "Failed to sync PDB");
                let now = Time::now(self.client.clock()).to_string();
                Ok(self.write(fail_safe(&budget, &error.to_string(), &now)).await?)
            }
        }
    }

    async fn write(&self, budget: Value) -> Result<(), StatusError> {
        let (space, budget_name) = (namespace(&budget), name(&budget));
        let path =
            format!("/apis/policy/v1/namespaces/{space}/poddisruptionbudgets/{budget_name}/status");
        self.client.update(&path, &budget).await.map(drop)
    }

    async fn event(&self, budget: &Value, of: EventKind, reason: &'static str, message: &str) {
        let regarding = regarding("policy/v1", "PodDisruptionBudget", budget);
        self.recorder.event(&regarding, of, reason, message).await;
    }

    async fn try_sync(&self, budget: &Value) -> Result<(), ReconcileError> {
        let pods = match self.pods_of(budget) {
            Ok(pods) => pods,
            Err(error) => {
                let message = format!("Failed to get pods: {error}");
                self.event(budget, EventKind::Warning, "NoPods", &message).await;
                return Err(error);
            }
        };
        if pods.is_empty() {
            self.event(budget, EventKind::Normal, "NoPods", "No matching pods found").await;
        }
        let (expected, desired) = match self.expected(budget, &pods).await {
            Ok(counts) => counts,
            Err(error) => {
                let message = format!("Failed to calculate the number of expected pods: {error}");
                let reason = "CalculateExpectedPodCountFailed";
                self.event(budget, EventKind::Warning, reason, &message).await;
                return Err(error);
            }
        };
        let now = Time::now(self.client.clock());
        let disrupted = disrupted_pods(budget, &pods, now);
        for pod in &disrupted.overdue {
            let space = namespace(budget);
            let message =
                format!("Pod was expected by PDB {space}/{space} to be deleted but it wasn't");
            let pod = regarding("v1", "Pod", pod);
            self.recorder.event(&pod, EventKind::Warning, "NotDeleted", &message).await;
        }
        let is_healthy = |pod: &&Value| {
            !is_deleted(pod) && is_true(pod, "Ready") && !disrupted.hides(name(pod), now)
        };
        let healthy = i64::try_from(pods.iter().filter(is_healthy).count()).unwrap_or(i64::MAX);
        let counts = BudgetCounts { healthy, desired, expected };
        if let Some(written) = counts.write(budget, &disrupted.pods, &now.to_string()) {
            self.write(written).await?;
        }
        if let Some(until) = disrupted.recheck {
            let key = format!("{}/{}", namespace(budget), name(budget));
            // An entry ends after its second.
            if !self.recheck.add_at(&key, Time { seconds: until.seconds.saturating_add(1) }) {
                self.queue.add(&key);
            }
        }
        Ok(())
    }

    fn pods_of(&self, budget: &Value) -> Result<Vec<Value>, ReconcileError> {
        let selector = LabelSelector::from_value(budget.at(&["spec", "selector"]));
        let selector = selector.map_err(|error| ReconcileError::Objects(error.to_string()))?;
        let snapshot = self.pods.snapshot();
        let pods = snapshot.range(&format!("{}/", namespace(budget)), None);
        let selected = pods.filter(|pod| {
            kevel_compute::charge(1);
            selector.selects(&***pod)
        });
        selected.map(|pod| Ok(self.pods.tree(pod)?)).collect()
    }

    /// Numbers of pods that are expected, and that must be healthy.
    async fn expected(&self, budget: &Value, pods: &[Value]) -> Result<(i64, i64), ReconcileError> {
        let (max, min) =
            (budget.at(&["spec", "maxUnavailable"]), budget.at(&["spec", "minAvailable"]));
        let (value, is_max) = match (max, min) {
            (Some(max), _) => (max, true),
            (None, Some(Value::Int(min))) => {
                return Ok((i64::try_from(pods.len()).unwrap_or(i64::MAX), *min));
            }
            (None, Some(min)) => (min, false),
            (None, None) => return Ok((0, 0)),
        };
        let (expected, unmanaged) = self.scales.expected(pods).await?;
        let limit = scaled(value, expected)?;
        if unmanaged {
            let selector = selector_text(budget.at(&["spec", "selector"]));
            let message = format!(
                "Pods selected by this PodDisruptionBudget (selector: {selector}) were found to be \
                 unmanaged. As a result, the status of the PDB cannot be calculated correctly, which \
                 may result in undefined behavior. To account for these pods please set \
                 \".spec.minAvailable\" field of the PDB to an integer value.",
            );
            self.event(budget, EventKind::Warning, "UnmanagedPods", &message).await;
        }
        Ok((expected, if is_max { (expected - limit).max(0) } else { limit }))
    }
}
