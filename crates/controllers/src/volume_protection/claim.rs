//! Finalizer of PersistentVolumeClaims that pods use, and their condition `Unused`.

use std::sync::Arc;

use kevel_api::status::StatusError;
use kevel_api::time::Time;
use kevel_api::value::Value;
use kevel_controller_runtime::{Backoff, Client, InformerEvent, WorkQueue, run};
use kevel_features::Feature;
use kevel_store::cache::At;

use crate::context::ControllerContext;
use crate::descriptor::ControllerLoop;
use crate::finalizer::{FinalizerNeed, need, write};
use crate::lister::CacheLister;
use crate::object::{condition, is_controlled_by, is_deleted, name, namespace, split, texts, uid};
use crate::unavailable::Unavailable;

const NAME: &str = "persistentvolumeclaim-protection-controller";
const FINALIZER: &str = "kubernetes.io/pvc-protection";
/// Condition that says since when no pod uses a claim.
const UNUSED: &str = "Unused";

struct ProtectedClaims {
    client: Client,
    claims: CacheLister,
    pods: CacheLister,
    queue: Arc<WorkQueue>,
    /// Whether the condition `Unused` is maintained.
    tells_unused: bool,
}

pub(crate) fn build(context: &ControllerContext) -> Result<ControllerLoop, Unavailable> {
    let queue = context.queue("pvcprotection", Backoff::default());
    let this = Arc::new(ProtectedClaims {
        client: context.client("pvc-protection-controller"),
        claims: CacheLister::new(context.storage("", "persistentvolumeclaims")?),
        pods: CacheLister::new(context.storage("", "pods")?),
        queue: queue.clone(),
        tells_unused: context.feature(Feature::PersistentVolumeClaimUnusedSinceTime),
    });
    let heard = this.clone();
    let claims = this.claims.informer().for_each(move |claim| {
        if heard.claims.tree(claim).is_ok_and(|claim| heard.concerns(&claim)) {
            heard.queue.add(claim.key());
        }
    });
    let heard = this.clone();
    let pods = this.pods.informer().run(move |event| heard.hear_pod(&event));
    let reconcile = move |key: String| {
        let this = this.clone();
        async move { this.reconcile(&key).await.map_err(|error| error.to_string()) }
    };
    Ok(Box::pin(async move {
        tokio::join!(claims, pods, run(queue, NAME, 1, reconcile));
    }))
}

impl ProtectedClaims {
    fn concerns(&self, claim: &Value) -> bool {
        let lacks_condition = self.tells_unused && condition(claim, UNUSED).is_none();
        lacks_condition || need(claim, FINALIZER).is_some()
    }

    fn hear_pod(&self, event: &InformerEvent<'_>) {
        match *event {
            InformerEvent::Delete(pod) => {
                self.pods.tree(pod).iter().for_each(|pod| self.queue_claims(pod, true));
            }
            InformerEvent::Apply(pod, before) => {
                let Ok(pod) = self.pods.tree(pod) else { return };
                self.queue_claims(&pod, false);
                let before = before.and_then(|before| self.pods.tree(before).ok());
                if let Some(before) = before.filter(|before| uid(before) != uid(&pod)) {
                    self.queue_claims(&before, true);
                }
            }
            InformerEvent::Init => {}
            // Pods may have gone unheard.
            InformerEvent::InitDone => {
                for claim in self.claims.snapshot().range("", None) {
                    if self.claims.tree(claim).is_ok_and(|claim| self.concerns(&claim)) {
                        self.queue.add(claim.key());
                    }
                }
            }
        }
    }

    /// Queues the claims of a pod, unless the pod is one that keeps them in use.
    fn queue_claims(&self, pod: &Value, deleted: bool) {
        let is_scheduled = !pod.str_at(&["spec", "nodeName"]).is_empty();
        if !self.tells_unused && !deleted && !is_terminated(pod) && is_scheduled {
            return;
        }
        let volumes = pod.list_at(&["spec", "volumes"]).iter();
        for (claim, _) in volumes.filter_map(|volume| claim_of(pod, volume)) {
            self.queue.add(&format!("{}/{claim}", namespace(pod)));
        }
    }

    async fn reconcile(&self, key: &str) -> Result<(), StatusError> {
        let (space, claim_name) = split(key);
        let Some(claim) = self.claims.get(space, claim_name)? else { return Ok(()) };
        let path = format!("/api/v1/namespaces/{space}/persistentvolumeclaims/{claim_name}");
        if self.tells_unused && !is_deleted(&claim) {
            let is_used = self.is_used(&claim, references).await?;
            self.tell_unused(&path, &claim, is_used).await?;
        }
        match need(&claim, FINALIZER) {
            Some(FinalizerNeed::Remove) if self.is_used(&claim, blocks_deletion).await? => Ok(()),
            Some(need) => write(&self.client, &path, claim, FINALIZER, need).await,
            None => Ok(()),
        }
    }

    /// Whether a pod uses a claim: among those that the store has now, since one may not be heard of yet.
    async fn is_used(
        &self,
        claim: &Value,
        uses: fn(&Value, &Value) -> bool,
    ) -> Result<bool, StatusError> {
        let prefix = format!("{}/", namespace(claim));
        for pod in self.pods.snapshot_at(At::Consistent).await?.range(&prefix, None) {
            kevel_compute::charge(1);
            if uses(&self.pods.tree(pod)?, claim) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    async fn tell_unused(
        &self,
        path: &str,
        claim: &Value,
        is_used: bool,
    ) -> Result<(), StatusError> {
        let known = condition(claim, UNUSED).map(|known| known.str_at(&["status"]) == "True");
        if known == Some(!is_used) {
            return Ok(());
        }
        let (status, reason, message) = if is_used {
            ("False", "PodUsingPVC", "A pod is currently referencing this PVC")
        } else {
            ("True", "NoPodsUsingPVC", "No pods are currently referencing this PVC")
        };
        let now = Time::now(self.client.clock()).to_string();
        let told = texts([
            ("type", UNUSED),
            ("status", status),
            ("reason", reason),
            ("message", message),
            ("lastTransitionTime", &now),
        ]);
        let mut claim = claim.clone();
        let conditions = claim.make_list(&["status"], "conditions");
        match conditions.iter_mut().find(|known| known.str_at(&["type"]) == UNUSED) {
            Some(known) => *known = told.into(),
            None => conditions.push(told.into()),
        }
        self.client.update(&format!("{path}/status"), &claim).await.map(drop)
    }
}

/// Name of the claim of a pod's volume, and whether the claim was made for the pod.
pub(crate) fn claim_of(pod: &Value, volume: &Value) -> Option<(String, bool)> {
    match volume.at(&["persistentVolumeClaim"]) {
        Some(claim) => Some((claim.str_at(&["claimName"]).to_owned(), false)),
        None if volume.at(&["ephemeral"]).is_some() => {
            Some((format!("{}-{}", name(pod), volume.str_at(&["name"])), true))
        }
        None => None,
    }
}

/// Whether a pod with this state keeps a claim from its deletion: the kubelet may use it.
fn blocks_deletion(pod: &Value, claim: &Value) -> bool {
    let is_scheduled = !pod.str_at(&["spec", "nodeName"]).is_empty();
    let grace = pod.at(&["metadata", "deletionGracePeriodSeconds"]);
    let is_shut_down = is_deleted(pod) && grace.is_some_and(|grace| grace.as_int() == Some(0));
    is_scheduled && names(pod, claim, !is_shut_down)
}

/// Whether a pod that has not ended names a claim.
fn references(pod: &Value, claim: &Value) -> bool {
    !is_terminated(pod) && names(pod, claim, true)
}

fn names(pod: &Value, claim: &Value, ephemeral: bool) -> bool {
    let volumes = pod.list_at(&["spec", "volumes"]).iter();
    volumes.filter_map(|volume| claim_of(pod, volume)).any(|(claim_name, is_own)| {
        claim_name == name(claim) && (!is_own || ephemeral && is_controlled_by(claim, pod))
    })
}

/// Whether the containers of a pod have ended (upstream: `IsPodTerminated`).
fn is_terminated(pod: &Value) -> bool {
    let has_ended = ["Succeeded", "Failed"].contains(&pod.str_at(&["status", "phase"]));
    let runs = |status: &Value| {
        ["terminated", "waiting"].iter().all(|state| status.at(&["state", state]).is_none())
    };
    let statuses = pod.list_at(&["status", "containerStatuses"]);
    has_ended || is_deleted(pod) && !statuses.iter().any(runs)
}
