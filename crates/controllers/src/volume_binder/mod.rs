//! Binding of PersistentVolumeClaims to PersistentVolumes, and phases of both.

mod claim;
mod facts;
mod matching;
mod provision;
mod volume;
mod writes;

use std::sync::Arc;

use kevel_api::value::Value;
use kevel_controller_runtime::{Backoff, Client, InformerEvent, WorkQueue, run};
use kevel_store::cache::{At, Object};

use self::facts::{BIND_COMPLETED, annotation, claim_ref, key_of};
use crate::context::ControllerContext;
use crate::descriptor::ControllerLoop;
use crate::lister::CacheLister;
use crate::object::regarding;
use crate::reconcile_error::ReconcileError;
use crate::recorder::{EventKind, EventRecorder};
use crate::unavailable::Unavailable;

const NAME: &str = "persistentvolume-binder-controller";
const ACCOUNT: &str = "persistent-volume-binder";

/// The controller. One worker binds claims, so that two claims do not race for a volume.
struct Binder {
    client: Client,
    claims: CacheLister,
    volumes: CacheLister,
    classes: CacheLister,
    pods: CacheLister,
    recorder: EventRecorder,
    claim_queue: Arc<WorkQueue>,
    volume_queue: Arc<WorkQueue>,
}

/// Key of the claim that a volume is bound to or reserved for; empty if there is none.
struct ClaimKey(String);

pub(crate) fn build(context: &ControllerContext) -> Result<ControllerLoop, Unavailable> {
    let lister = |group, plural| context.storage(group, plural).map(CacheLister::new);
    let claim_queue = context.queue("claims", Backoff::default());
    let volume_queue = context.queue("volumes", Backoff::default());
    let this = Arc::new(Binder {
        client: context.client(ACCOUNT),
        claims: lister("", "persistentvolumeclaims")?,
        volumes: lister("", "persistentvolumes")?,
        classes: lister("storage.k8s.io", "storageclasses")?,
        pods: lister("", "pods")?,
        recorder: context.recorder(ACCOUNT, "persistentvolume-controller"),
        claim_queue: claim_queue.clone(),
        volume_queue: volume_queue.clone(),
    });
    let heard = this.clone();
    let claims = this.claims.informer().run(move |event| heard.hear_claim(&event));
    let heard = this.clone();
    let volumes = this.volumes.informer().run(move |event| heard.hear_volume(&event));
    let heard = this.clone();
    let classes = this.classes.informer().for_each(move |_| heard.queue_unbound());
    let heard = this.clone();
    let pods = this.pods.informer().run(move |event| {
        if let InformerEvent::Apply(pod, None) = event {
            heard.hear_new_pod(pod);
        }
    });
    let of_volumes = this.clone();
    let sync_volume = move |name: String| {
        let this = of_volumes.clone();
        async move { this.sync_volume(&name).await.map_err(|error| error.to_string()) }
    };
    let sync_claim = move |key: String| {
        let this = this.clone();
        async move { this.sync_claim(&key).await.map_err(|error| error.to_string()) }
    };
    Ok(Box::pin(async move {
        let work = run(claim_queue, NAME, 1, sync_claim);
        tokio::join!(claims, volumes, classes, pods, work, run(volume_queue, NAME, 1, sync_volume));
    }))
}

impl Binder {
    fn hear_claim(&self, event: &InformerEvent<'_>) {
        let (claim, before) = match *event {
            InformerEvent::Apply(claim, before) => {
                self.claim_queue.add(claim.key());
                (claim, before)
            }
            InformerEvent::Delete(claim) => (claim, None),
            InformerEvent::Init => return,
            // Claims may have gone unheard.
            InformerEvent::InitDone => {
                let snapshot = self.volumes.snapshot();
                snapshot.range("", None).for_each(|volume| self.volume_queue.add(volume.name()));
                return;
            }
        };
        for claim in [Some(claim), before].into_iter().flatten() {
            let Ok(tree) = self.claims.tree(claim) else { continue };
            let volume = tree.str_at(&["spec", "volumeName"]);
            if !volume.is_empty() {
                self.volume_queue.add(volume);
            }
        }
        for volume in self.volumes.snapshot().range("", None) {
            kevel_compute::charge(1);
            if self.claim_of(volume).is_some_and(|key| key.0 == claim.key()) {
                self.volume_queue.add(volume.name());
            }
        }
    }

    fn hear_volume(&self, event: &InformerEvent<'_>) {
        let volume = match *event {
            InformerEvent::Apply(volume, _) => {
                self.volume_queue.add(volume.name());
                volume
            }
            InformerEvent::Delete(volume) => volume,
            InformerEvent::Init => return,
            InformerEvent::InitDone => {
                let snapshot = self.claims.snapshot();
                snapshot.range("", None).for_each(|claim| self.claim_queue.add(claim.key()));
                return;
            }
        };
        match self.claim_of(volume) {
            Some(claim) if !claim.0.is_empty() => self.claim_queue.add(&claim.0),
            _ => self.queue_unbound(),
        }
    }

    fn claim_of(&self, volume: &Object) -> Option<Arc<ClaimKey>> {
        let read = |volume: &Value| ClaimKey(claim_ref(volume).map(key_of).unwrap_or_default());
        self.volumes.facts(volume, read).ok()
    }

    /// Queues all claims that are not bound: a volume or a class may fit now.
    fn queue_unbound(&self) {
        for claim in self.claims.snapshot().range("", None) {
            kevel_compute::charge(1);
            let tree = self.claims.tree(claim);
            if tree.is_ok_and(|claim| annotation(&claim, BIND_COMPLETED).is_none()) {
                self.claim_queue.add(claim.key());
            }
        }
    }

    /// Queues the unbound claims of a new pod: they may wait for it.
    fn hear_new_pod(&self, pod: &Object) {
        for name in self.pods.tree(pod).iter().flat_map(claims_of) {
            let key = format!("{}/{name}", pod.namespace());
            if self.claims.snapshot().get(&key).is_some() {
                self.claim_queue.add(&key);
            }
        }
    }

    /// Volumes as they are now: not those of an event that other writes have followed.
    async fn volumes_now(&self) -> Result<Vec<Value>, ReconcileError> {
        let snapshot = self.volumes.snapshot_at(At::Consistent).await?;
        let volumes = snapshot.range("", None).map(|volume| self.volumes.tree(volume));
        Ok(volumes.collect::<Result<_, _>>()?)
    }

    async fn tell_claim(&self, claim: &Value, of: EventKind, reason: &'static str, message: &str) {
        let regarding = regarding("v1", "PersistentVolumeClaim", claim);
        self.recorder.event(&regarding, of, reason, message).await;
    }

    async fn tell_volume(
        &self,
        volume: &Value,
        of: EventKind,
        reason: &'static str,
        message: &str,
    ) {
        let regarding = regarding("v1", "PersistentVolume", volume);
        self.recorder.event(&regarding, of, reason, message).await;
    }
}

/// Names of the claims of a pod.
fn claims_of(pod: &Value) -> Vec<String> {
    let volumes = pod.list_at(&["spec", "volumes"]).iter();
    let claims = volumes.filter_map(|it| crate::volume_protection::claim::claim_of(pod, it));
    claims.map(|(claim, _)| claim).collect()
}
