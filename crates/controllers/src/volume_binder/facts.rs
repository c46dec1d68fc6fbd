//! Facts of volumes and claims.

use kevel_api::quantity::{Format, Quantity};
use kevel_api::value::Value;

use crate::object::{is_deleted, name, namespace, uid};

pub(super) const BIND_COMPLETED: &str = "pv.kubernetes.io/bind-completed";
pub(super) const BOUND_BY_CONTROLLER: &str = "pv.kubernetes.io/bound-by-controller";
pub(super) const PROVISIONED_BY: &str = "pv.kubernetes.io/provisioned-by";
pub(super) const MIGRATED_TO: &str = "pv.kubernetes.io/migrated-to";
pub(super) const PROVISIONER: &str = "volume.kubernetes.io/storage-provisioner";
pub(super) const BETA_PROVISIONER: &str = "volume.beta.kubernetes.io/storage-provisioner";
pub(super) const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";
pub(super) const PRE_RESIZE_CAPACITY: &str = "volume.alpha.kubernetes.io/pre-resize-capacity";
const BETA_CLASS: &str = "volume.beta.kubernetes.io/storage-class";

/// Annotation of an object.
pub(super) fn annotation<'a>(object: &'a Value, key: &str) -> Option<&'a str> {
    object.at(&["metadata", "annotations", key]).and_then(Value::as_str)
}

/// Name of the StorageClass of a volume or claim; empty if it has none.
pub(super) fn class_of(object: &Value) -> &str {
    annotation(object, BETA_CLASS).unwrap_or_else(|| object.str_at(&["spec", "storageClassName"]))
}

/// Whether a claim says its class, were it an empty one.
pub(super) fn has_class(claim: &Value) -> bool {
    annotation(claim, BETA_CLASS).is_some() || claim.at(&["spec", "storageClassName"]).is_some()
}

/// Reference to the claim of a volume.
pub(super) fn claim_ref(volume: &Value) -> Option<&Value> {
    volume.at(&["spec", "claimRef"])
}

/// Key of a claim reference.
pub(super) fn key_of(reference: &Value) -> String {
    format!("{}/{}", reference.str_at(&["namespace"]), reference.str_at(&["name"]))
}

/// Key of an object.
pub(super) fn key(object: &Value) -> String {
    format!("{}/{}", namespace(object), name(object))
}

/// Whether a volume is bound to a claim, or reserved for it (upstream: `IsVolumeBoundToClaim`).
pub(super) fn is_bound_to(volume: &Value, claim: &Value) -> bool {
    claim_ref(volume).is_some_and(|reference| {
        let of = reference.str_at(&["uid"]);
        key_of(reference) == key(claim) && (of.is_empty() || of == uid(claim))
    })
}

/// Capacity of a volume.
pub(super) fn capacity(volume: &Value) -> Quantity {
    quantity(volume.str_at(&["spec", "capacity", "storage"]))
}

/// Amount that a claim requests.
pub(super) fn requested(claim: &Value) -> Quantity {
    quantity(claim.str_at(&["spec", "resources", "requests", "storage"]))
}

fn quantity(text: &str) -> Quantity {
    text.parse().unwrap_or(Quantity::new(0, Format::DecimalSi))
}

fn volume_mode(object: &Value) -> &str {
    match object.str_at(&["spec", "volumeMode"]) {
        "" => "Filesystem",
        mode => mode,
    }
}

/// Whether a volume and a claim have different modes.
pub(super) fn differ_in_mode(claim: &Value, volume: &Value) -> bool {
    volume_mode(claim) != volume_mode(volume)
}

/// Whether a volume and a claim name different VolumeAttributesClasses.
pub(super) fn differ_in_attributes(claim: &Value, volume: &Value) -> bool {
    let class = |object: &Value| object.str_at(&["spec", "volumeAttributesClassName"]).to_owned();
    class(claim) != class(volume)
}

/// Whether a volume has all access modes of a claim.
pub(super) fn allows_access(claim: &Value, volume: &Value) -> bool {
    let modes = volume.list_at(&["spec", "accessModes"]);
    claim.list_at(&["spec", "accessModes"]).iter().all(|mode| modes.contains(mode))
}

/// Reason why a volume that a claim names does not fit (upstream: `checkVolumeSatisfyClaim`).
pub(super) fn misfit(volume: &Value, claim: &Value) -> Option<String> {
    if is_deleted(volume) {
        return Some(format!("the volume is marked for deletion {:?}", name(volume)));
    }
    let checks = [
        (capacity(volume) < requested(claim), "requested PV is too small"),
        (class_of(volume) != class_of(claim), "storageClassName does not match"),
        (differ_in_attributes(claim, volume), "volumeAttributesClassName does not match"),
        (differ_in_mode(claim, volume), "incompatible volumeMode"),
        (!allows_access(claim, volume), "incompatible accessMode"),
    ];
    checks.into_iter().find(|(fails, _)| *fails).map(|(_, why)| why.to_owned())
}
