//! Work on a claim.

use kevel_api::value::Value;

use super::Binder;
use super::facts::{
    BIND_COMPLETED, BOUND_BY_CONTROLLER, SELECTED_NODE, annotation, claim_ref, class_of, has_class,
    is_bound_to, key, key_of, misfit,
};
use super::matching::best_match;
use crate::object::{name, namespace, split, uid};
use crate::reconcile_error::ReconcileError;
use crate::recorder::EventKind;

impl Binder {
    pub(super) async fn sync_claim(&self, claim_key: &str) -> Result<(), ReconcileError> {
        let (space, claim_name) = split(claim_key);
        let Some(claim) = self.claims.get_now(space, claim_name).await? else { return Ok(()) };
        if annotation(&claim, BIND_COMPLETED).is_some() {
            return self.sync_bound(&claim).await;
        }
        let volumes = self.volumes_now().await?;
        match claim.str_at(&["spec", "volumeName"]) {
            "" => self.sync_unbound(claim, &volumes).await,
            wanted => {
                let volume = volumes.iter().find(|volume| name(volume) == wanted);
                self.sync_reserved(&claim, volume).await
            }
        }
    }

    /// Finds a volume for a claim that names none.
    async fn sync_unbound(&self, claim: Value, volumes: &[Value]) -> Result<(), ReconcileError> {
        let class = self.classes.get("", class_of(&claim))?;
        let waits = |class: &Value| class.str_at(&["volumeBindingMode"]) == "WaitForFirstConsumer";
        let delayed = class.as_ref().is_some_and(waits);
        if let Some(volume) = best_match(&claim, volumes, delayed)? {
            return self.bind(volume.clone(), claim).await;
        }
        if !has_class(&claim) && self.assign_default_class(&claim).await? {
            return Ok(());
        }
        if delayed && annotation(&claim, SELECTED_NODE).is_none() {
            self.tell_waiting(&claim).await?;
        } else if !class_of(&claim).is_empty() {
            return self.provision(&claim, class.as_ref()).await;
        } else {
            let message =
                "no persistent volumes available for this claim and no storage class is set";
            self.tell_claim(&claim, EventKind::Normal, "FailedBinding", message).await;
        }
        self.set_claim_phase(claim, "Pending", None).await.map(drop)
    }

    /// Binds a claim to the volume that it names, if that is there and fits.
    async fn sync_reserved(
        &self,
        claim: &Value,
        volume: Option<&Value>,
    ) -> Result<(), ReconcileError> {
        let Some(volume) = volume else { return self.set_pending(claim).await };
        let volume_name = name(volume);
        let Some(reference) = claim_ref(volume) else {
            let Some(why) = misfit(volume, claim) else {
                return self.bind(volume.clone(), claim.clone()).await;
            };
            let message = format!("Cannot bind to requested volume {volume_name:?}: {why}");
            self.tell_claim(claim, EventKind::Warning, "VolumeMismatch", &message).await;
            return self.set_pending(claim).await;
        };
        if is_bound_to(volume, claim) {
            return self.bind(volume.clone(), claim.clone()).await;
        }
        let message = format!("volume {volume_name:?} already bound to a different claim.");
        self.tell_claim(claim, EventKind::Warning, "FailedBinding", &message).await;
        if annotation(claim, BOUND_BY_CONTROLLER).is_none() {
            return self.set_pending(claim).await;
        }
        Err(ReconcileError::Objects(format!(
            "invalid binding of claim {:?} to volume {volume_name:?}: volume already claimed by {:?}",
            key(claim),
            key_of(reference),
        )))
    }

    async fn set_pending(&self, claim: &Value) -> Result<(), ReconcileError> {
        self.set_claim_phase(claim.clone(), "Pending", None).await.map(drop)
    }

    /// Checks a claim that was bound.
    async fn sync_bound(&self, claim: &Value) -> Result<(), ReconcileError> {
        let wanted = claim.str_at(&["spec", "volumeName"]);
        let volume = self.volumes.get_now("", wanted).await?;
        let (reason, message) = match volume {
            _ if wanted.is_empty() => (
                "ClaimLost",
                "Bound claim has lost reference to PersistentVolume. Data on the volume is lost!",
            ),
            None => (
                "ClaimLost",
                "Bound claim has lost its PersistentVolume. Data on the volume is lost!",
            ),
            Some(volume) => {
                let of = claim_ref(&volume).map(|reference| reference.str_at(&["uid"]));
                if of.is_none_or(|of| of == uid(claim)) {
                    return self.bind(volume, claim.clone()).await;
                }
                (
                    "ClaimMisbound",
                    "Two claims are bound to the same volume, this one is bound incorrectly",
                )
            }
        };
        if claim.str_at(&["status", "phase"]) == "Lost" {
            return Ok(());
        }
        let claim = self.set_claim_phase(claim.clone(), "Lost", None).await?;
        self.tell_claim(&claim, EventKind::Warning, reason, message).await;
        Ok(())
    }

    /// Gives a claim without a class the default one; false if there is none.
    async fn assign_default_class(&self, claim: &Value) -> Result<bool, ReconcileError> {
        let mut classes = Vec::new();
        for class in self.classes.snapshot().range("", None) {
            let class = self.classes.tree(class)?;
            let marked = |annotated: &str| annotation(&class, annotated) == Some("true");
            if marked("storageclass.kubernetes.io/is-default-class")
                || marked("storageclass.beta.kubernetes.io/is-default-class")
            {
                let created = class.str_at(&["metadata", "creationTimestamp"]).to_owned();
                classes.push((std::cmp::Reverse(created), name(&class).to_owned()));
            }
        }
        let Some((_, default)) = classes.into_iter().min() else { return Ok(false) };
        let mut claim = claim.clone();
        claim.make_map(&["spec"]).insert("storageClassName", default.as_str().into());
        let written = self.write_claim(&claim, "").await;
        written.map(|_| true).map_err(|error| {
            let claim_key = key(&claim);
            ReconcileError::Objects(format!(
                "can't update PersistentVolumeClaim[{claim_key:?}]: {error}"
            ))
        })
    }

    /// Records an Event with the reason why a claim of a delayed-binding class waits.
    async fn tell_waiting(&self, claim: &Value) -> Result<(), ReconcileError> {
        let mut pods = Vec::new();
        for pod in self.pods.snapshot().range(&format!("{}/", namespace(claim)), None) {
            kevel_compute::charge(1);
            let pod = self.pods.tree(pod)?;
            let waits =
                pod.str_at(&["spec", "nodeName"]).is_empty() && !crate::pod::is_terminal(&pod);
            if waits && super::claims_of(&pod).iter().any(|used| used == name(claim)) {
                pods.push(name(&pod).to_owned());
            }
        }
        let (reason, message) = match pods.as_slice() {
            [] => (
                "WaitForFirstConsumer",
                "waiting for first consumer to be created before binding".to_owned(),
            ),
            [pod] => ("WaitForPodScheduled", format!("waiting for pod {pod} to be scheduled")),
            pods => (
                "WaitForPodScheduled",
                format!("waiting for pods {} to be scheduled", pods.join(",")),
            ),
        };
        self.tell_claim(claim, EventKind::Normal, reason, &message).await;
        Ok(())
    }
}
