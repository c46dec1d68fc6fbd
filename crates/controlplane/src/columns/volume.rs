//! Columns of PersistentVolume and PersistentVolumeClaim.

use kevel_registry::columns::Column;

use super::cell::{FieldValue, Shown, UNSET};
use super::{Columns, columns};

pub(crate) const PERSISTENT_VOLUME: Columns = columns!(
    |o| where {
        let claim = o.at("spec.claimRef");
        let claim = match claim.is_set() {
            true => format!("{}/{}", claim.text("namespace"), claim.text("name")),
            false => String::new(),
        };
    }
    Column::NAME => o.name(),
    Column::text("Capacity", "core.v1.PersistentVolumeSpec#capacity") =>
        storage(o.at("spec.capacity")),
    Column::text("Access Modes", "core.v1.PersistentVolumeSpec#accessModes") =>
        access_modes(o.at("spec")),
    Column::text("Reclaim Policy", "core.v1.PersistentVolumeSpec#persistentVolumeReclaimPolicy") =>
        o.text("spec.persistentVolumeReclaimPolicy"),
    Column::text("Status", "core.v1.PersistentVolumeStatus#phase") => phase(o),
    Column::text("Claim", "core.v1.PersistentVolumeSpec#claimRef") => claim,
    Column::text("StorageClass", "The class that it belongs to.") => class(o),
    Column::text("VolumeAttributesClass", "The attributes class that it belongs to.") =>
        o.set_or("spec.volumeAttributesClassName", UNSET),
    Column::text("Reason", "core.v1.PersistentVolumeStatus#reason") => o.text("status.reason"),
    Column::AGE => o.age(),
    Column::text("VolumeMode", "core.v1.PersistentVolumeSpec#volumeMode").wide() =>
        o.set_or("spec.volumeMode", UNSET),
);

pub(crate) const PERSISTENT_VOLUME_CLAIM: Columns = columns!(
    |o| where {
        let volume = o.text("spec.volumeName");
        let (capacity, modes) = match volume {
            "" => (String::new(), String::new()),
            _ => (storage(o.at("status.capacity")), access_modes(o.at("status"))),
        };
    }
    Column::NAME => o.name(),
    Column::text("Status", "core.v1.PersistentVolumeClaimStatus#phase") => phase(o),
    Column::text("Volume", "core.v1.PersistentVolumeClaimSpec#volumeName") => volume,
    Column::text("Capacity", "core.v1.PersistentVolumeClaimStatus#capacity") => capacity,
    Column::text("Access Modes", "core.v1.PersistentVolumeClaimStatus#accessModes") => modes,
    Column::text("StorageClass", "The class of volume that is wanted.") => class(o),
    Column::text("VolumeAttributesClass", "The attributes class that is wanted.") =>
        o.set_or("spec.volumeAttributesClassName", UNSET),
    Column::AGE => o.age(),
    Column::text("VolumeMode", "core.v1.PersistentVolumeClaimSpec#volumeMode").wide() =>
        o.set_or("spec.volumeMode", UNSET),
);

fn storage(capacity: FieldValue<'_>) -> String {
    capacity.at("storage").written().unwrap_or_else(|| "0".into())
}

fn phase<'a>(o: &Shown<'a>) -> &'a str {
    if o.is_deleted() { "Terminating" } else { o.text("status.phase") }
}

/// Name of the StorageClass. The deprecated annotation takes precedence over the field.
fn class<'a>(o: &Shown<'a>) -> &'a str {
    let annotation = o.annotation("volume.beta.kubernetes.io/storage-class");
    if annotation.is_set() { annotation.as_text() } else { o.text("spec.storageClassName") }
}

fn access_modes(part: FieldValue<'_>) -> String {
    const SHORT: [(&str, &str); 4] = [
        ("ReadWriteOnce", "RWO"),
        ("ReadOnlyMany", "ROX"),
        ("ReadWriteMany", "RWX"),
        ("ReadWriteOncePod", "RWOP"),
    ];
    let has = |mode: &str| part.each("accessModes").any(|m| m.as_text() == mode);
    let modes = SHORT.iter().filter(|(mode, _)| has(mode)).map(|(_, short)| *short);
    modes.collect::<Vec<_>>().join(",")
}
