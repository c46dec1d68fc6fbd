//! `storage.k8s.io`

use kevel_api::value::Value;
use kevel_server::columns::Column;

use super::Kind;
use super::cell::{Shown, UNSET, cells, some_or_none};

pub(super) const KINDS: &[Kind] = &[
    Kind {
        plural: "csidrivers",
        definitions: &[
            Column::NAME,
            Column::boolean("AttachRequired", "storage.v1.CSIDriverSpec#attachRequired"),
            Column::boolean("PodInfoOnMount", "storage.v1.CSIDriverSpec#podInfoOnMount"),
            Column::boolean("StorageCapacity", "storage.v1.CSIDriverSpec#storageCapacity"),
            Column::text("TokenRequests", "storage.v1.CSIDriverSpec#tokenRequests"),
            Column::boolean("RequiresRepublish", "storage.v1.CSIDriverSpec#requiresRepublish"),
            Column::text("Modes", "storage.v1.CSIDriverSpec#volumeLifecycleModes"),
            Column::AGE,
        ],
        cells: csi_drivers,
        ..Kind::PLAIN
    },
    Kind {
        plural: "csinodes",
        definitions: &[
            Column::NAME,
            Column::integer("Drivers", "How many drivers the node has."),
            Column::AGE,
        ],
        cells: |o| cells![o.name(), o.count("spec.drivers"), o.age()],
        ..Kind::PLAIN
    },
    Kind {
        plural: "storageclasses",
        definitions: &[
            Column::NAME,
            Column::text("Provisioner", "storage.v1.StorageClass#provisioner"),
            Column::text("ReclaimPolicy", "storage.v1.StorageClass#reclaimPolicy"),
            Column::text("VolumeBindingMode", "storage.v1.StorageClass#volumeBindingMode"),
            Column::text("AllowVolumeExpansion", "storage.v1.StorageClass#allowVolumeExpansion"),
            Column::AGE,
        ],
        cells: storage_classes,
        ..Kind::PLAIN
    },
    Kind {
        plural: "volumeattachments",
        definitions: &[
            Column::NAME,
            Column::name("Attacher", "storage.v1.VolumeAttachmentSpec#attacher"),
            Column::text("PV", "storage.v1.VolumeAttachmentSource#persistentVolumeName"),
            Column::text("Node", "storage.v1.VolumeAttachmentSpec#nodeName"),
            Column::boolean("Attached", "storage.v1.VolumeAttachmentStatus#attached"),
            Column::AGE,
        ],
        cells: volume_attachments,
        ..Kind::PLAIN
    },
    Kind {
        plural: "volumeattributesclasses",
        definitions: &[
            Column::NAME,
            Column::text("DriverName", "storage.v1.VolumeAttributesClass#driverName"),
            Column::AGE,
        ],
        cells: |o| cells![o.name(), o.text("driverName"), o.age()],
        ..Kind::PLAIN
    },
];

fn csi_drivers(o: &Shown<'_>) -> Vec<Value> {
    let spec = o.at("spec");
    let tokens = match spec.at("tokenRequests").is_set() {
        true => spec.joined("tokenRequests", "audience", ","),
        false => UNSET.into(),
    };
    cells![
        o.name(),
        spec.flag_or("attachRequired", true),
        spec.flag("podInfoOnMount"),
        spec.flag("storageCapacity"),
        tokens,
        spec.flag("requiresRepublish"),
        some_or_none(spec.joined("volumeLifecycleModes", "", ",")),
        o.age(),
    ]
}

fn storage_classes(o: &Shown<'_>) -> Vec<Value> {
    let marked = |annotation: &str| o.annotation(annotation).as_text() == "true";
    let default = marked("storageclass.kubernetes.io/is-default-class")
        || marked("storageclass.beta.kubernetes.io/is-default-class");
    cells![
        if default { format!("{} (default)", o.name()) } else { o.name().into() },
        o.text("provisioner"),
        o.set_or("reclaimPolicy", "Delete"),
        o.set_or("volumeBindingMode", "Immediate"),
        o.flag("allowVolumeExpansion"),
        o.age(),
    ]
}

fn volume_attachments(o: &Shown<'_>) -> Vec<Value> {
    cells![
        o.name(),
        o.text("spec.attacher"),
        o.text("spec.source.persistentVolumeName"),
        o.text("spec.nodeName"),
        o.flag("status.attached"),
        o.age(),
    ]
}
