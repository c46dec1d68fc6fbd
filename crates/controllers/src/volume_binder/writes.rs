//! Writes of volumes and claims.

use kevel_api::quantity::Quantity;
use kevel_api::value::{Map, Value};

use super::Binder;
use super::facts::{
    BIND_COMPLETED, BOUND_BY_CONTROLLER, PRE_RESIZE_CAPACITY, annotation, claim_ref, is_bound_to,
    key, key_of,
};
use crate::object::{name, namespace, texts, uid};
use crate::reconcile_error::ReconcileError;

impl Binder {
    /// Updates a claim, or a subresource such as `/status`.
    pub(super) async fn write_claim(
        &self,
        claim: &Value,
        subresource: &str,
    ) -> Result<Value, ReconcileError> {
        let (space, claim_name) = (namespace(claim), name(claim));
        let path =
            format!("/api/v1/namespaces/{space}/persistentvolumeclaims/{claim_name}{subresource}");
        Ok(self.client.update(&path, claim).await?)
    }

    /// Updates a volume, or a subresource such as `/status`.
    pub(super) async fn write_volume(
        &self,
        volume: &Value,
        subresource: &str,
    ) -> Result<Value, ReconcileError> {
        let path = format!("/api/v1/persistentvolumes/{}{subresource}", name(volume));
        Ok(self.client.update(&path, volume).await?)
    }

    /// Binds a volume and a claim to each other: first the volume, which two claims may want.
    pub(super) async fn bind(&self, volume: Value, claim: Value) -> Result<(), ReconcileError> {
        let volume = self.bind_volume(volume, &claim).await?;
        let volume = self.set_volume_phase(volume, "Bound", "").await?;
        let claim = self.bind_claim(claim, &volume).await?;
        self.set_claim_phase(claim, "Bound", Some(&volume)).await.map(drop)
    }

    async fn bind_volume(&self, mut volume: Value, claim: &Value) -> Result<Value, ReconcileError> {
        let is_reserved = is_bound_to(&volume, claim);
        let is_same = claim_ref(&volume).is_some_and(|reference| {
            key_of(reference) == key(claim) && reference.str_at(&["uid"]) == uid(claim)
        });
        if is_same {
            return Ok(volume);
        }
        let reference = texts([
            ("apiVersion", "v1"),
            ("kind", "PersistentVolumeClaim"),
            ("namespace", namespace(claim)),
            ("name", name(claim)),
            ("uid", uid(claim)),
            ("resourceVersion", claim.str_at(&["metadata", "resourceVersion"])),
        ]);
        volume.make_map(&["spec"]).insert("claimRef", reference.into());
        if !is_reserved && annotation(&volume, BOUND_BY_CONTROLLER).is_none() {
            let annotations = volume.make_map(&["metadata", "annotations"]);
            annotations.insert(BOUND_BY_CONTROLLER, "yes".into());
        }
        self.write_volume(&volume, "").await
    }

    async fn bind_claim(&self, mut claim: Value, volume: &Value) -> Result<Value, ReconcileError> {
        let is_named = claim.str_at(&["spec", "volumeName"]) == name(volume);
        if is_named && annotation(&claim, BIND_COMPLETED).is_some() {
            return Ok(claim);
        }
        if !is_named {
            claim.make_map(&["spec"]).insert("volumeName", name(volume).into());
        }
        let annotations = claim.make_map(&["metadata", "annotations"]);
        if !is_named {
            annotations.insert(BOUND_BY_CONTROLLER, "yes".into());
        }
        annotations.insert(BIND_COMPLETED, "yes".into());
        self.write_claim(&claim, "").await
    }

    /// Sets the phase of a volume; returns the volume as it is then.
    pub(super) async fn set_volume_phase(
        &self,
        mut volume: Value,
        phase: &str,
        message: &str,
    ) -> Result<Value, ReconcileError> {
        if volume.str_at(&["status", "phase"]) == phase {
            return Ok(volume);
        }
        let status = volume.make_map(&["status"]);
        status.insert("phase", phase.into());
        status.remove("message");
        if !message.is_empty() {
            status.insert("message", message.into());
        }
        self.write_volume(&volume, "/status").await
    }

    /// Sets the phase of a claim, and its volume's capacity and access modes; returns the updated claim.
    pub(super) async fn set_claim_phase(
        &self,
        mut claim: Value,
        phase: &str,
        volume: Option<&Value>,
    ) -> Result<Value, ReconcileError> {
        let before = claim.at(&["status"]).cloned();
        let was = claim.str_at(&["status", "phase"]).to_owned();
        let status = claim.make_map(&["status"]);
        status.insert("phase", phase.into());
        match volume {
            None => {
                for field in ["accessModes", "capacity", "currentVolumeAttributesClassName"] {
                    status.remove(field);
                }
            }
            Some(volume) => fill(status, &was, phase, volume)?,
        }
        if claim.at(&["status"]) == before.as_ref() {
            return Ok(claim);
        }
        self.write_claim(&claim, "/status").await
    }
}

/// Fills the status of a bound claim from its volume.
fn fill(status: &mut Map, was: &str, phase: &str, volume: &Value) -> Result<(), ReconcileError> {
    if let Some(modes) = volume.at(&["spec", "accessModes"]) {
        status.insert("accessModes", modes.clone());
    }
    if was == phase {
        return Ok(());
    }
    let Some(capacity) = volume.at(&["spec", "capacity", "storage"]) else {
        let message = format!("PersistentVolume {:?} is without a storage capacity", name(volume));
        return Err(ReconcileError::Objects(message));
    };
    let before_resize = annotation(volume, PRE_RESIZE_CAPACITY);
    let before_resize = before_resize.map(|text| match text.parse::<Quantity>() {
        Ok(_) => text.into(),
        Err(_) => capacity.clone(),
    });
    let known = status.get("capacity").and_then(|known| known.at(&["storage"])).cloned();
    match before_resize {
        Some(amount) => {
            let capacity = status.entry_or_insert_with("capacity", || Map::new().into());
            capacity.make_map(&[]).insert("storage", amount);
        }
        None if known.as_ref() != Some(capacity) => {
            let all = volume.at(&["spec", "capacity"]).cloned().unwrap_or_default();
            status.insert("capacity", all);
        }
        None => {}
    }
    if (was, phase) == ("Pending", "Bound") {
        match volume.at(&["spec", "volumeAttributesClassName"]) {
            Some(class) => status.insert("currentVolumeAttributesClassName", class.clone()),
            None => status.remove("currentVolumeAttributesClassName"),
        };
    }
    Ok(())
}
