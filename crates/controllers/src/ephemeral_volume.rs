//! Claims of pods' generic ephemeral volumes.

use std::sync::Arc;

use kevel_api::value::{Map, Value};
use kevel_controller_runtime::{Backoff, Client, InformerEvent, WorkQueue, run};
use kevel_store::cache::Object;

use crate::context::ControllerContext;
use crate::descriptor::ControllerLoop;
use crate::lister::CacheLister;
use crate::object::{is_controlled_by, is_deleted, name, namespace, regarding, split, texts, uid};
use crate::reconcile_error::ReconcileError;
use crate::recorder::{EventKind, EventRecorder};
use crate::unavailable::Unavailable;

const NAME: &str = "ephemeral-volume-controller";
/// Workers (upstream: `ConcurrentEphemeralVolumeSyncs`).
const WORKERS: usize = 5;
/// Text that the JSON of a pod with such a volume has.
const FIELD: &[u8] = b"\"ephemeral\"";

struct EphemeralVolumes {
    client: Client,
    pods: CacheLister,
    claims: CacheLister,
    recorder: EventRecorder,
    queue: Arc<WorkQueue>,
}

pub(crate) fn build(context: &ControllerContext) -> Result<ControllerLoop, Unavailable> {
    let queue = context.queue("ephemeral_volume", Backoff::default());
    let this = Arc::new(EphemeralVolumes {
        client: context.client(NAME),
        pods: CacheLister::new(context.storage("", "pods")?),
        claims: CacheLister::new(context.storage("", "persistentvolumeclaims")?),
        recorder: context.recorder(NAME, "ephemeral_volume"),
        queue: queue.clone(),
    });
    let heard = this.clone();
    let pods = this.pods.informer().run(move |event| {
        // The volumes of a pod never change.
        if let InformerEvent::Apply(pod, None) = event {
            heard.queue_pod(pod, |_, _| true);
        }
    });
    let heard = this.clone();
    let claims = this.claims.informer().run(move |event| {
        if let InformerEvent::Delete(claim) = event {
            heard.hear_deleted(claim);
        }
    });
    let reconcile = move |key: String| {
        let this = this.clone();
        async move { this.reconcile(&key).await.map_err(|error| error.to_string()) }
    };
    Ok(Box::pin(async move {
        tokio::join!(pods, claims, run(queue, NAME, WORKERS, reconcile));
    }))
}

fn claim_name(pod: &Value, volume: &Value) -> String {
    format!("{}-{}", name(pod), volume.str_at(&["name"]))
}

impl EphemeralVolumes {
    /// Queues a pod with an ephemeral volume that concerns.
    fn queue_pod(&self, pod: &Object, concerns: impl Fn(&Value, &Value) -> bool) {
        let may = pod.wire().is_ok_and(|wire| wire.windows(FIELD.len()).any(|part| part == FIELD));
        let Some(tree) = may.then(|| self.pods.tree(pod).ok()).flatten() else { return };
        let mut volumes = tree.list_at(&["spec", "volumes"]).iter();
        let is_ephemeral = |volume: &Value| volume.at(&["ephemeral"]).is_some();
        if !is_deleted(&tree) && volumes.any(|it| is_ephemeral(it) && concerns(&tree, it)) {
            self.queue.add(pod.key());
        }
    }

    /// Queues the pod of a claim that was deleted: it is made again.
    fn hear_deleted(&self, claim: &Object) {
        let snapshot = self.pods.snapshot();
        for pod in snapshot.range(&format!("{}/", claim.namespace()), None) {
            kevel_compute::charge(1);
            if claim.name().starts_with(pod.name()) {
                self.queue_pod(pod, |tree, volume| claim_name(tree, volume) == claim.name());
            }
        }
    }

    async fn reconcile(&self, key: &str) -> Result<(), ReconcileError> {
        let (space, pod_name) = split(key);
        let pod = self.pods.get(space, pod_name)?;
        let Some(pod) = pod.filter(|pod| !is_deleted(pod)) else { return Ok(()) };
        for volume in pod.list_at(&["spec", "volumes"]) {
            let Some(ephemeral) = volume.at(&["ephemeral"]) else { continue };
            if let Err(error) = self.make_claim(&pod, volume, ephemeral).await {
                let message = format!("ephemeral volume {}: {error}", volume.str_at(&["name"]));
                let regarding = regarding("v1", "Pod", &pod);
                let of = EventKind::Warning;
                self.recorder.event(&regarding, of, "FailedBinding", &message).await;
                return Err(ReconcileError::Objects(format!("pod {key}, {message}")));
            }
        }
        Ok(())
    }

    async fn make_claim(
        &self,
        pod: &Value,
        volume: &Value,
        ephemeral: &Value,
    ) -> Result<(), ReconcileError> {
        let (space, claim) = (namespace(pod), claim_name(pod, volume));
        if let Some(known) = self.claims.get(space, &claim)? {
            let message = format!(
                "PVC {space}/{claim} was not created for pod {space}/{} (pod is not owner)",
                name(pod)
            );
            let is_own = is_controlled_by(&known, pod);
            return if is_own { Ok(()) } else { Err(ReconcileError::Objects(message)) };
        }
        let template = |path: &[&str]| ephemeral.at(&["volumeClaimTemplate"])?.at(path).cloned();
        let mut metadata = texts([("name", &claim)]);
        for field in ["annotations", "labels"] {
            if let Some(value) = template(&["metadata", field]) {
                metadata.insert(field, value);
            }
        }
        let mut owner =
            texts([("apiVersion", "v1"), ("kind", "Pod"), ("name", name(pod)), ("uid", uid(pod))]);
        owner.insert("controller", true.into());
        owner.insert("blockOwnerDeletion", true.into());
        let owners = Value::List([Value::Map(owner)].into_iter().collect());
        metadata.insert("ownerReferences", owners);
        let spec = template(&["spec"]).unwrap_or_default();
        let object = Map::from_iter([("metadata", Value::Map(metadata)), ("spec", spec)]);
        let path = format!("/api/v1/namespaces/{space}/persistentvolumeclaims");
        let created = self.client.create(&path, &object.into()).await;
        created
            .map(drop)
            .map_err(|error| ReconcileError::Objects(format!("create PVC {claim}: {error}")))
    }
}
