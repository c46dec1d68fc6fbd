//! Condition `DisruptionTarget` of pods that were not deleted after all.

use std::sync::Arc;

use kevel_api::status::StatusError;
use kevel_api::time::Time;
use kevel_api::value::Value;
use kevel_controller_runtime::{Backoff, Client, WorkQueue, run};
use kevel_store::cache::Object;

use crate::context::ControllerContext;
use crate::delay::Delays;
use crate::lister::CacheLister;
use crate::object::{condition, is_deleted, split};
use crate::pod::{DISRUPTION_TARGET, PodCondition, is_terminal, path};

/// Seconds after which the condition of a pod that is not being deleted is stale.
const STALE_SECONDS: i64 = 120;

/// Resets the condition of pods when it is stale.
pub(super) struct StaleDisruptions {
    name: &'static str,
    client: Client,
    pods: CacheLister,
    queue: Arc<WorkQueue>,
    delays: Arc<Delays>,
}

impl StaleDisruptions {
    pub fn new(context: &ControllerContext, name: &'static str, pods: CacheLister) -> Arc<Self> {
        let queue = context.queue("stale_pod_disruption", Backoff::default());
        let delays = Delays::new(context.clock().clone(), queue.clone());
        Arc::new(StaleDisruptions { name, client: context.client(name), pods, queue, delays })
    }

    /// Hears of a pod.
    pub fn hear(&self, pod: &Object) {
        // Most pods have no such condition, and are not decoded.
        let text = DISRUPTION_TARGET.as_bytes();
        let may = pod.wire().is_ok_and(|wire| wire.windows(text.len()).any(|part| part == text));
        let tree = may.then(|| self.pods.tree(pod).ok()).flatten();
        if let Some(until) = tree.and_then(|pod| stale_from(&pod))
            && !self.delays.add_at(pod.key(), until)
        {
            self.queue.add(pod.key());
        }
    }

    pub async fn run(self: Arc<Self>) {
        let (queue, delays, name) = (self.queue.clone(), self.delays.clone(), self.name);
        let reconcile = move |key: String| {
            let this = self.clone();
            async move { this.reconcile(&key).await.map_err(|error| error.to_string()) }
        };
        tokio::join!(delays.run(), run(queue, name, 1, reconcile));
    }

    async fn reconcile(&self, key: &str) -> Result<(), StatusError> {
        let (space, name) = split(key);
        let Some(mut pod) = self.pods.get(space, name)? else { return Ok(()) };
        let Some(until) = stale_from(&pod) else { return Ok(()) };
        if self.delays.add_at(key, until) {
            return Ok(());
        }
        let now = Time::now(self.client.clock()).to_string();
        let cleared =
            PodCondition { of: DISRUPTION_TARGET, status: "False", reason: "", message: "" };
        let (cleared, _) = cleared.on(&pod, &now);
        let conditions = pod.make_list(&["status"], "conditions");
        let known =
            conditions.iter_mut().find(|known| known.str_at(&["type"]) == DISRUPTION_TARGET);
        if let Some(known) = known {
            *known = cleared.into();
        }
        self.client.update(&format!("{}/status", path(&pod)), &pod).await.map(drop)
    }
}

/// Time from which on the condition of a pod is stale, if it has one that can be.
fn stale_from(pod: &Value) -> Option<Time> {
    let target = condition(pod, DISRUPTION_TARGET)?;
    let may = !is_deleted(pod)
        && target.str_at(&["status"]) == "True"
        && target.str_at(&["reason"]) != "TerminationByKubelet"
        && !is_terminal(pod);
    let since: Option<Time> = target.str_at(&["lastTransitionTime"]).parse().ok();
    let since = since.map_or(0, |since| since.seconds);
    may.then(|| Time { seconds: since.saturating_add(STALE_SECONDS) })
}
