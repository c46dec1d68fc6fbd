//! Columns of `storage.k8s.io`.

use kevel_registry::columns::Column;

use super::cell::{UNSET, some_or_none};
use super::{Columns, columns};

pub(crate) const CSI_DRIVER: Columns = columns!(
    |o| where {
        let spec = o.at("spec");
        let tokens = match spec.at("tokenRequests").is_set() {
            true => spec.joined("tokenRequests", "audience", ","),
            false => UNSET.into(),
        };
    }
    Column::NAME => o.name(),
    Column::boolean("AttachRequired", "storage.v1.CSIDriverSpec#attachRequired") =>
        spec.flag_or("attachRequired", true),
    Column::boolean("PodInfoOnMount", "storage.v1.CSIDriverSpec#podInfoOnMount") =>
        spec.flag("podInfoOnMount"),
    Column::boolean("StorageCapacity", "storage.v1.CSIDriverSpec#storageCapacity") =>
        spec.flag("storageCapacity"),
    Column::text("TokenRequests", "storage.v1.CSIDriverSpec#tokenRequests") => tokens,
    Column::boolean("RequiresRepublish", "storage.v1.CSIDriverSpec#requiresRepublish") =>
        spec.flag("requiresRepublish"),
    Column::text("Modes", "storage.v1.CSIDriverSpec#volumeLifecycleModes") =>
        some_or_none(spec.joined("volumeLifecycleModes", "", ",")),
    Column::AGE => o.age(),
);

pub(crate) const CSI_NODE: Columns = columns!(|o|
    Column::NAME => o.name(),
    Column::integer("Drivers", "How many drivers the node has.") => o.count("spec.drivers"),
    Column::AGE => o.age(),
);

pub(crate) const STORAGE_CLASS: Columns = columns!(
    |o| where {
        let marked = |annotation: &str| o.annotation(annotation).as_text() == "true";
        let default = marked("storageclass.kubernetes.io/is-default-class")
            || marked("storageclass.beta.kubernetes.io/is-default-class");
    }
    Column::NAME => if default { format!("{} (default)", o.name()) } else { o.name().into() },
    Column::text("Provisioner", "storage.v1.StorageClass#provisioner") => o.text("provisioner"),
    Column::text("ReclaimPolicy", "storage.v1.StorageClass#reclaimPolicy") =>
        o.set_or("reclaimPolicy", "Delete"),
    Column::text("VolumeBindingMode", "storage.v1.StorageClass#volumeBindingMode") =>
        o.set_or("volumeBindingMode", "Immediate"),
    Column::text("AllowVolumeExpansion", "storage.v1.StorageClass#allowVolumeExpansion") =>
        o.flag("allowVolumeExpansion"),
    Column::AGE => o.age(),
);

pub(crate) const VOLUME_ATTACHMENT: Columns = columns!(|o|
    Column::NAME => o.name(),
    Column::name("Attacher", "storage.v1.VolumeAttachmentSpec#attacher") => o.text("spec.attacher"),
    Column::text("PV", "storage.v1.VolumeAttachmentSource#persistentVolumeName") =>
        o.text("spec.source.persistentVolumeName"),
    Column::text("Node", "storage.v1.VolumeAttachmentSpec#nodeName") => o.text("spec.nodeName"),
    Column::boolean("Attached", "storage.v1.VolumeAttachmentStatus#attached") =>
        o.flag("status.attached"),
    Column::AGE => o.age(),
);

pub(crate) const VOLUME_ATTRIBUTES_CLASS: Columns = columns!(|o|
    Column::NAME => o.name(),
    Column::text("DriverName", "storage.v1.VolumeAttributesClass#driverName") =>
        o.text("driverName"),
    Column::AGE => o.age(),
);
