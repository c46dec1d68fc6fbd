//! Kind VolumeAttachment: validation.

use kevel_api::name;
use kevel_features::{Feature, Gated, drop_gated};
use kevel_registry::strategy::{RESET_ALL_BUT_STATUS, STATUS_METADATA};

use crate::columns;
use crate::kind::{Kind, MetadataChecks};
use crate::persistent_volume::{self, VolumeContext};
use crate::pod::volume_source;
use crate::rules::Rules;
use crate::validation::{Field, IMMUTABLE};

/// `volumeattachments`
pub static VOLUME_ATTACHMENT: Kind = Kind {
    returns_deleted_object: true,
    kept_by_status: &STATUS_METADATA,
    reset_by_status: RESET_ALL_BUT_STATUS,
    allow_unconditional_update: false,
    columns: columns::storage::VOLUME_ATTACHMENT,
    rules: Rules {
        validate_create: check,
        validate_update: check_update,
        prepare_for_status_update: |attachment, old, capabilities| {
            drop_gated(attachment, Some(old), ERROR_CODES, &capabilities.features);
        },
        validate_status_update: check_update,
        ..Rules::NONE
    },
    metadata_checks: MetadataChecks::Meta,
    ..Kind::new("storage.k8s.io", "volumeattachments")
};

/// Error codes, which a feature lets in each by itself.
const ERROR_CODES: &[Gated] = &[
    Gated::new(&[Feature::MutableCSINodeAllocatableCount], &["status.attachError.errorCode"]),
    Gated::new(&[Feature::MutableCSINodeAllocatableCount], &["status.detachError.errorCode"]),
];

/// Limits on the total size of a driver's metadata and on the length of an error message.
const MAX_METADATA: usize = 256 << 10;
const MAX_MESSAGE: usize = 1024;

fn check_update(attachment: Field, old: Field) {
    check(attachment);
    let spec = attachment.at("spec");
    if !spec.same(&old.at("spec")) {
        spec.invalid(IMMUTABLE);
    }
}

fn check(attachment: Field) {
    let (spec, status) = (attachment.at("spec"), attachment.at("status"));
    volume_source::csi_driver_name(spec.at("attacher"));
    source(spec.at("source"));
    spec.at("nodeName").object_name(name::name_is_dns_subdomain);
    metadata(status.at("attachmentMetadata"));
    error(status.at("attachError"));
    error(status.at("detachError"));
    let volume = spec.at("source");
    let volume = volume.at("persistentVolumeName");
    if volume.is_set() {
        volume.object_name(name::name_is_dns_subdomain);
    }
}

fn source(source: Field) {
    const ONE: &str = "must specify exactly one of inlineVolumeSpec and persistentVolumeName";
    let (inline, name) = (source.at("inlineVolumeSpec"), source.at("persistentVolumeName"));
    match (inline.is_set(), name.is_set()) {
        (false, false) => source.required(ONE),
        (true, true) => source.forbidden(ONE),
        (true, false) => persistent_volume::spec(inline, "", VolumeContext::Inline, false),
        (false, true) => {
            name.must("must specify non empty persistentVolumeName");
        }
    }
}

fn metadata(metadata: Field) {
    let size: usize = metadata.entries().map(|(key, value)| key.len() + value.len()).sum();
    if size > MAX_METADATA {
        metadata.too_long(MAX_METADATA);
    }
}

fn error(error: Field) {
    // The reference reports the limit of the metadata.
    if error.at("message").len() > MAX_MESSAGE {
        error.at("message").too_long(MAX_METADATA);
    }
    let code = error.at("errorCode");
    if code.int() < 0 {
        code.in_range(0, i64::from(i32::MAX));
    }
}

#[cfg(test)]
mod tests {
    use kevel_features::FeatureSet;

    use super::*;
    use crate::capabilities::Capabilities;
    use crate::rules::cases::value;

    #[test]
    fn gate_lets_error_codes_into_the_status() {
        const CODE: [&str; 3] = ["status", "attachError", "errorCode"];
        let status = |error: &str| value(&format!(r#"{{"status": {{"attachError": {error}}}}}"#));
        let (coded, bare) = (status(r#"{"message": "m", "errorCode": 8}"#), status("{}"));
        for (old, gate, kept) in [(&bare, false, false), (&coded, false, true), (&bare, true, true)]
        {
            let features =
                FeatureSet::default().with(Feature::MutableCSINodeAllocatableCount, gate);
            let capabilities = Capabilities { features, ..Capabilities::default() };
            let mut new = coded.clone();
            (VOLUME_ATTACHMENT.rules.prepare_for_status_update)(&mut new, old, &capabilities);
            assert_eq!(new.at(&CODE).is_some(), kept, "{old:?} {gate}");
        }
    }
}
