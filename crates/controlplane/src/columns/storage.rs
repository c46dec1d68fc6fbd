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
            Column::boolean("AttachRequired", "Whether volumes are attached before use."),
            Column::boolean("PodInfoOnMount", "Whether it is told about the pod."),
            Column::boolean("StorageCapacity", "Whether it says how much room it has."),
            Column::text("TokenRequests", "For whom it wants tokens."),
            Column::boolean("RequiresRepublish", "Whether it is called again and again."),
            Column::text("Modes", "What its volumes are."),
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
            Column::text("Provisioner", "Who makes the volumes."),
            Column::text("ReclaimPolicy", "What becomes of volumes when their claim is gone."),
            Column::text("VolumeBindingMode", "When volumes are bound."),
            Column::text("AllowVolumeExpansion", "Whether volumes can grow."),
            Column::AGE,
        ],
        cells: storage_classes,
        ..Kind::PLAIN
    },
    Kind {
        plural: "volumeattachments",
        definitions: &[
            Column::NAME,
            Column::name("Attacher", "Who attaches the volume."),
            Column::text("PV", "The volume."),
            Column::text("Node", "The node that it is attached to."),
            Column::boolean("Attached", "Whether it is attached."),
            Column::AGE,
        ],
        cells: volume_attachments,
        ..Kind::PLAIN
    },
    Kind {
        plural: "volumeattributesclasses",
        definitions: &[Column::NAME, Column::text("DriverName", "Whose volumes."), Column::AGE],
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
