//! Work on a volume.

use kevel_api::value::Value;

use super::Binder;
use super::facts::{
    BOUND_BY_CONTROLLER, MIGRATED_TO, PROVISIONED_BY, annotation, claim_ref, differ_in_mode, key_of,
};
use crate::object::{name, uid};
use crate::reconcile_error::ReconcileError;
use crate::recorder::EventKind;

/// Fields of volumes with a plug-in in the controller manager that has no deleter.
const WITHOUT_DELETER: [&str; 2] = ["hostPath", "nfs"];

impl Binder {
    pub(super) async fn sync_volume(&self, volume_name: &str) -> Result<(), ReconcileError> {
        let Some(volume) = self.volumes.get_now("", volume_name).await? else { return Ok(()) };
        let reference = claim_ref(&volume).filter(|it| !it.str_at(&["uid"]).is_empty());
        let Some(reference) = reference else {
            return self.set_volume_phase(volume, "Available", "").await.map(drop);
        };
        let (space, claim_name) = (reference.str_at(&["namespace"]), reference.str_at(&["name"]));
        let claim = self.claims.get_now(space, claim_name).await?;
        let claim = claim.filter(|claim| uid(claim) == reference.str_at(&["uid"]));
        let Some(claim) = claim else { return self.release(volume).await };
        match claim.str_at(&["spec", "volumeName"]) {
            "" if differ_in_mode(&claim, &volume) => {
                let why = "due to incompatible volumeMode.";
                let (claim_name, of) = (name(&claim), EventKind::Warning);
                let message = format!(
                    "Cannot bind PersistentVolume to requested PersistentVolumeClaim {claim_name:?} {why}"
                );
                self.tell_volume(&volume, of, "VolumeMismatch", &message).await;
                let message = format!(
                    "Cannot bind PersistentVolume {volume_name:?} to requested PersistentVolumeClaim {why}"
                );
                self.tell_claim(&claim, of, "VolumeMismatch", &message).await;
                Ok(())
            }
            "" => {
                self.claim_queue.add(&key_of(reference));
                Ok(())
            }
            bound if bound == volume_name => {
                self.set_volume_phase(volume, "Bound", "").await.map(drop)
            }
            _ => {
                let is_provisioned = annotation(&volume, PROVISIONED_BY).is_some();
                if is_provisioned && reclaim_policy(&volume) == "Delete" {
                    return self.release(volume).await;
                }
                self.unbind(volume).await
            }
        }
    }

    /// Marks a volume without its claim as released, and reclaims it.
    async fn release(&self, volume: Value) -> Result<(), ReconcileError> {
        let phase = volume.str_at(&["status", "phase"]);
        let volume = if ["Released", "Failed"].contains(&phase) {
            volume
        } else {
            self.set_volume_phase(volume, "Released", "").await?
        };
        if annotation(&volume, MIGRATED_TO).is_some_and(|driver| !driver.is_empty()) {
            return Ok(());
        }
        match reclaim_policy(&volume) {
            "Retain" => Ok(()),
            "Recycle" => {
                let message = "No recycler plugin found for the volume!";
                self.fail(volume, "VolumeFailedRecycle", message).await
            }
            "Delete" => match without_deleter(&volume) {
                Some(message) => self.fail(volume, "VolumeFailedDelete", &message).await,
                None => Ok(()),
            },
            _ => {
                let message = "Volume has unrecognized PersistentVolumeReclaimPolicy";
                self.fail(volume, "VolumeUnknownReclaimPolicy", message).await
            }
        }
    }

    async fn fail(
        &self,
        volume: Value,
        reason: &'static str,
        message: &str,
    ) -> Result<(), ReconcileError> {
        if volume.str_at(&["status", "phase"]) == "Failed" {
            return Ok(());
        }
        let volume = self.set_volume_phase(volume, "Failed", message).await?;
        self.tell_volume(&volume, EventKind::Warning, reason, message).await;
        Ok(())
    }

    /// Frees a volume whose claim is bound to another one.
    async fn unbind(&self, mut volume: Value) -> Result<(), ReconcileError> {
        if annotation(&volume, BOUND_BY_CONTROLLER).is_some() {
            volume.make_map(&["spec"]).remove("claimRef");
            volume.make_map(&["metadata", "annotations"]).remove(BOUND_BY_CONTROLLER);
        } else {
            volume.make_map(&["spec", "claimRef"]).remove("uid");
        }
        let volume = self.write_volume(&volume, "").await?;
        self.set_volume_phase(volume, "Available", "").await.map(drop)
    }
}

fn reclaim_policy(volume: &Value) -> &str {
    volume.str_at(&["spec", "persistentVolumeReclaimPolicy"])
}

/// Error about a volume that this controller would have to delete itself; `None` if an external provisioner does it.
fn without_deleter(volume: &Value) -> Option<String> {
    match annotation(volume, PROVISIONED_BY) {
        Some(plugin) if plugin.starts_with("kubernetes.io/") => {
            return Some(format!("no volume plugin matched name: {plugin}"));
        }
        Some(plugin) if !plugin.is_empty() => return None,
        _ => {}
    }
    if annotation(volume, MIGRATED_TO).is_some() || volume.at(&["spec", "csi"]).is_some() {
        return None;
    }
    let known = WITHOUT_DELETER.iter().any(|field| volume.at(&["spec", field]).is_some());
    let why = if known { "no deletable volume plugin matched" } else { "no volume plugin matched" };
    Some(format!("error getting deleter volume plugin for volume {:?}: {why}", name(volume)))
}
