//! Persistent volumes and the claims to them.

use kevel_api::value::Value;
use kevel_server::columns::Column;

use super::Kind;
use super::cell::{Part, Shown, UNSET, cells};

pub(super) const KINDS: &[Kind] = &[
    Kind {
        plural: "persistentvolumes",
        definitions: &[
            Column::NAME,
            Column::text("Capacity", "core.v1.PersistentVolumeSpec#capacity"),
            Column::text("Access Modes", "core.v1.PersistentVolumeSpec#accessModes"),
            Column::text(
                "Reclaim Policy",
                "core.v1.PersistentVolumeSpec#persistentVolumeReclaimPolicy",
            ),
            Column::text("Status", "core.v1.PersistentVolumeStatus#phase"),
            Column::text("Claim", "core.v1.PersistentVolumeSpec#claimRef"),
            Column::text("StorageClass", "The class that it belongs to."),
            Column::text("VolumeAttributesClass", "The attributes class that it belongs to."),
            Column::text("Reason", "core.v1.PersistentVolumeStatus#reason"),
            Column::AGE,
            Column::text("VolumeMode", "core.v1.PersistentVolumeSpec#volumeMode").wide(),
        ],
        cells: persistent_volumes,
        ..Kind::PLAIN
    },
    Kind {
        plural: "persistentvolumeclaims",
        definitions: &[
            Column::NAME,
            Column::text("Status", "core.v1.PersistentVolumeClaimStatus#phase"),
            Column::text("Volume", "core.v1.PersistentVolumeClaimSpec#volumeName"),
            Column::text("Capacity", "core.v1.PersistentVolumeClaimStatus#capacity"),
            Column::text("Access Modes", "core.v1.PersistentVolumeClaimStatus#accessModes"),
            Column::text("StorageClass", "The class of volume that is wanted."),
            Column::text("VolumeAttributesClass", "The attributes class that is wanted."),
            Column::AGE,
            Column::text("VolumeMode", "core.v1.PersistentVolumeClaimSpec#volumeMode").wide(),
        ],
        cells: persistent_volume_claims,
        ..Kind::PLAIN
    },
];

fn persistent_volumes(o: &Shown<'_>) -> Vec<Value> {
    let claim = o.at("spec.claimRef");
    let claim = match claim.is_set() {
        true => format!("{}/{}", claim.text("namespace"), claim.text("name")),
        false => String::new(),
    };
    cells![
        o.name(),
        storage(o.at("spec.capacity")),
        access_modes(o.at("spec")),
        o.text("spec.persistentVolumeReclaimPolicy"),
        phase(o),
        claim,
        class(o),
        o.set_or("spec.volumeAttributesClassName", UNSET),
        o.text("status.reason"),
        o.age(),
        o.set_or("spec.volumeMode", UNSET),
    ]
}

fn persistent_volume_claims(o: &Shown<'_>) -> Vec<Value> {
    let volume = o.text("spec.volumeName");
    let (capacity, modes) = match volume {
        "" => (String::new(), String::new()),
        _ => (storage(o.at("status.capacity")), access_modes(o.at("status"))),
    };
    cells![
        o.name(),
        phase(o),
        volume,
        capacity,
        modes,
        class(o),
        o.set_or("spec.volumeAttributesClassName", UNSET),
        o.age(),
        o.set_or("spec.volumeMode", UNSET),
    ]
}

fn storage(capacity: Part<'_>) -> String {
    capacity.at("storage").written().unwrap_or_else(|| "0".into())
}

fn phase<'a>(o: &Shown<'a>) -> &'a str {
    if o.is_deleted() { "Terminating" } else { o.text("status.phase") }
}

/// The annotation is older than the field and still wins.
fn class<'a>(o: &Shown<'a>) -> &'a str {
    let annotation = o.annotation("volume.beta.kubernetes.io/storage-class");
    if annotation.is_set() { annotation.as_text() } else { o.text("spec.storageClassName") }
}

fn access_modes(part: Part<'_>) -> String {
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
