//! Kind PersistentVolume: strategy and validation.

use kevel_api::name;
use kevel_api::time::Time;
use kevel_api::value::{Map, Value};
use kevel_api::warning::WarningList;
use kevel_features::{Feature, Gated, drop_gated};

use crate::capabilities::Capabilities;
use crate::columns;
use crate::kind::{Kind, MetadataChecks};
use crate::node_labels;
use crate::persistent_volume_claim::valid_size;
use crate::pod::node_selector;
use crate::pod::volume_source as source;
use crate::rules::Rules;
use crate::validation::{Field, IMMUTABLE, NOT_POSITIVE, errors};

pub static KIND: Kind = Kind {
    returns_deleted_object: true,
    columns: columns::volume::PERSISTENT_VOLUME,
    rules: Rules {
        prepare_for_create,
        validate_create: |volume| {
            check(volume, false);
            mount_options(volume);
        },
        prepare_for_update: |volume, old, capabilities| {
            drop_gated(volume, Some(old), GATED, &capabilities.features);
        },
        validate_update,
        prepare_for_status_update,
        warnings: |volume, _| warnings(volume),
        ..Rules::NONE
    },
    metadata_checks: MetadataChecks::MetaTwice,
    ..Kind::new("", "persistentvolumes")
};

const MOUNT_OPTIONS: &str = "volume.beta.kubernetes.io/mount-options";

/// Warnings about deprecated annotations and fields.
fn warnings(volume: &Value) -> Vec<String> {
    const ANNOTATIONS: [(&str, &str); 2] = [
        (
            "volume.beta.kubernetes.io/storage-class",
            "deprecated since v1.8; use \"storageClassName\" attribute instead",
        ),
        (MOUNT_OPTIONS, "deprecated since v1.31; use \"mountOptions\" attribute instead"),
    ];
    const PLUGINS: [(&str, &str, &str); 6] = [
        ("cephfs", "cephfs", "deprecated in v1.28, non-functional in v1.31+"),
        (
            "photonPersistentDisk",
            "photonPersistentDisk",
            "deprecated in v1.11, non-functional in v1.16+",
        ),
        ("scaleIO", "scaleIO", "deprecated in v1.16, non-functional in v1.22+"),
        ("storageos", "storageOS", "deprecated in v1.22, non-functional in v1.25+"),
        ("glusterfs", "glusterfs", "deprecated in v1.25, non-functional in v1.26+"),
        ("rbd", "rbd", "deprecated in v1.28, non-functional in v1.31+"),
    ];
    let mut out = WarningList::default();
    errors(volume, |volume| {
        let (notes, spec) = (volume.down("metadata.annotations"), volume.at("spec"));
        for (key, why) in ANNOTATIONS.iter().filter(|(key, _)| notes.key(key).is_set()) {
            out.add_with(|| format!("{}: {why}", notes.key(key).path()));
        }
        let policy = spec.at("persistentVolumeReclaimPolicy");
        if policy.str() == "Recycle" {
            let why = "The Recycle reclaim policy is deprecated. Instead, the recommended approach is \
                       to use dynamic provisioning.";
            out.add_with(|| format!("{}: {why}", policy.path()));
        }
        for term in spec.down(REQUIRED_TERMS).items() {
            node_labels::term(term, false, &mut out);
        }
        for (field, called, why) in PLUGINS.iter().filter(|(field, ..)| spec.at(field).is_set()) {
            let _ = field;
            out.add_with(|| format!("{}: {why}", spec.at(called).path()));
        }
    });
    out.into_said()
}

/// A volume source: field, name in the error about a second source, name in paths otherwise, and check.
type PersistentVolumeSource = (&'static str, &'static str, &'static str, fn(Field));

const SOURCES: &[PersistentVolumeSource] = &[
    ("hostPath", "hostPath", "hostPath", source::host_path),
    ("gcePersistentDisk", "gcePersistentDisk", "persistentDisk", source::gce_persistent_disk),
    (
        "awsElasticBlockStore",
        "awsElasticBlockStore",
        "awsElasticBlockStore",
        source::aws_elastic_block_store,
    ),
    ("glusterfs", "glusterfs", "glusterfs", glusterfs),
    ("flocker", "flocker", "flocker", source::flocker),
    ("nfs", "nfs", "nfs", source::nfs),
    ("rbd", "rbd", "rbd", source::rbd),
    ("quobyte", "quobyte", "quobyte", source::quobyte),
    ("cephfs", "cephFS", "cephfs", |f| {
        f.at("monitors").must("");
    }),
    ("iscsi", "iscsi", "iscsi", |_| {}),
    ("cinder", "cinder", "cinder", |f| {
        f.at("volumeID").must("");
        secret(f);
    }),
    ("fc", "fc", "fc", source::fc),
    ("flexVolume", "flexVolume", "flexVolume", source::flex_volume),
    ("azureFile", "azureFile", "azureFile", azure_file),
    ("vsphereVolume", "vsphereVolume", "vsphereVolume", |f| {
        f.at("volumePath").must("");
    }),
    ("photonPersistentDisk", "photonPersistentDisk", "photonPersistentDisk", |f| {
        f.at("pdID").must("");
    }),
    ("portworxVolume", "portworxVolume", "portworxVolume", |f| {
        f.at("volumeID").must("");
    }),
    ("azureDisk", "azureDisk", "azureDisk", source::azure_disk),
    ("scaleIO", "scaleIO", "scaleIO", source::scale_io),
    ("local", "local", "local", |f| {
        if f.at("path").must("") {
            f.at("path").no_backsteps();
        }
    }),
    ("storageos", "storageos", "storageos", |f| {
        f.at("volumeName").must_form("", name::is_dns1123_label);
        if !f.at("volumeNamespace").is_empty() {
            f.at("volumeNamespace").form(name::is_dns1123_label);
        }
        secret(f);
    }),
    ("csi", "csi", "csi", csi),
];

const REQUIRED_TERMS: &str = "nodeAffinity.required.nodeSelectorTerms";

/// Fields of the spec that only a feature lets in.
const GATED: &[Gated] =
    &[Gated::new(&[Feature::VolumeAttributesClass], &["spec.volumeAttributesClassName"])];

/// Message for a changed class while the feature is off.
pub const ATTRIBUTES_CLASS_OFF: &str =
    "update is forbidden when the VolumeAttributesClass feature gate is disabled";

fn prepare_for_create(volume: &mut Value, capabilities: &Capabilities) {
    drop_gated(volume, None, GATED, &capabilities.features);
    let Some(volume) = volume.as_map_mut() else { return };
    let now = Time::now(&capabilities.clock).to_string();
    let status = [("phase", "Pending".into()), ("lastPhaseTransitionTime", now.as_str().into())];
    volume.insert("status", Map::from_iter(status).into());
}

/// Sets `lastPhaseTransitionTime` when the phase changes.
fn prepare_for_status_update(volume: &mut Value, old: &Value, capabilities: &Capabilities) {
    let since = "lastPhaseTransitionTime";
    let (phase, before) = (["status", "phase"], old.at(&["status", since]).cloned());
    let same = volume.str_at(&phase) == old.str_at(&phase);
    let Some(status) = volume.at_mut(&["status"]).and_then(Value::as_map_mut) else { return };
    let said = status.get(since);
    let time = match (same, said) {
        (true, None) => before,
        (false, said) if said.is_none() || said == before.as_ref() => {
            Some(Time::now(&capabilities.clock).to_string().as_str().into())
        }
        _ => return,
    };
    if let Some(time) = time {
        status.insert(since, time);
    }
}

fn check(volume: Field, any_values: bool) {
    let metadata = volume.at("metadata");
    spec(volume.at("spec"), metadata.at("name").str(), VolumeContext::Standalone, any_values);
}

/// Checks the mount-options annotation, which only some volume sources support.
fn mount_options(volume: Field) {
    const WITH_OPTIONS: [&str; 13] = [
        "gcePersistentDisk",
        "awsElasticBlockStore",
        "glusterfs",
        "nfs",
        "rbd",
        "quobyte",
        "iscsi",
        "cinder",
        "cephfs",
        "azureFile",
        "vsphereVolume",
        "azureDisk",
        "photonPersistentDisk",
    ];
    let (notes, spec) = (volume.down("metadata.annotations"), volume.at("spec"));
    let allowed = WITH_OPTIONS.iter().any(|source| spec.at(source).is_set());
    if notes.at(MOUNT_OPTIONS).is_set() && !allowed {
        notes.at(MOUNT_OPTIONS).forbidden("may not specify mount options for this volume type");
    }
}

/// Context of a PersistentVolumeSpec.
#[derive(Clone, Copy, PartialEq)]
pub enum VolumeContext {
    Standalone,
    /// Inline in a VolumeAttachment.
    Inline,
}

pub fn spec(spec: Field, volume: &str, context: VolumeContext, any_values: bool) {
    let inline = context == VolumeContext::Inline;
    let capacity = spec.at("capacity");
    if inline {
        let why = "may not be specified in the context of inline volumes";
        if spec.at("claimRef").is_set() {
            spec.at("claimRef").forbidden(why);
        }
        if !capacity.is_empty() {
            capacity.forbidden(why);
        }
        if spec.at("csi").is_absent() {
            spec.at("csi").required("has to be specified in the context of inline volumes");
        }
    }
    let modes = spec.at("accessModes");
    modes.must("");
    access_modes(modes);
    if !inline {
        capacity.must("");
        if capacity.key("storage").is_absent() || capacity.len() > 1 {
            capacity.unsupported_as(capacity.bad_value(), &["storage"]);
        }
        for (_, size) in capacity.entries() {
            valid_size(size);
            if size.quantity().is_some_and(|amount| amount.signum() <= 0) {
                size.invalid_as(size.quantity_text(), NOT_POSITIVE);
            }
        }
    }
    let policy = spec.at("persistentVolumeReclaimPolicy");
    match (policy.str(), inline) {
        ("", _) | ("Retain", true) => {}
        (_, true) => policy.forbidden("may only be Retain in the context of inline volumes"),
        (_, false) => policy.one_of(&["Delete", "Recycle", "Retain"]),
    }
    node_affinity(spec.at("nodeAffinity"), inline, any_values);
    sources(spec, volume);
    let root = spec.at("hostPath").at("path").str();
    if spec.at("hostPath").is_set() && is_root(root) && policy.str() == "Recycle" {
        policy.forbidden("may not be 'recycle' for a hostPath mount of '/'");
    }
    let class = spec.at("storageClassName");
    match (class.is_empty(), inline) {
        (true, _) => {}
        (_, true) => class.forbidden("may not be specified in the context of inline volumes"),
        (_, false) => class.object_name(name::name_is_dns_subdomain),
    }
    let mode = spec.at("volumeMode");
    match inline {
        true if mode.is_set() && mode.str() != "Filesystem" => mode.forbidden(
            "may not specify volumeMode other than Filesystem in the context of inline volumes",
        ),
        true => {}
        false => volume_mode(mode),
    }
    let class = spec.at("volumeAttributesClassName");
    if class.is_set() && !inline {
        if class.must("an empty string is disallowed") {
            class.object_name(name::name_is_dns_subdomain);
        }
        if spec.at("csi").is_absent() {
            spec.at("csi").required("has to be specified when using volumeAttributesClassName");
        }
    }
}

/// True if Go's `path.Clean` makes the path the root.
fn is_root(path: &str) -> bool {
    let mut depth = 0_i32;
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => depth = (depth - 1).max(0),
            _ => depth += 1,
        }
    }
    path.starts_with('/') && depth == 0
}

fn node_affinity(affinity: Field, inline: bool, any_values: bool) {
    if affinity.is_absent() {
        return;
    }
    if inline {
        return affinity.forbidden("may not be specified in the context of inline volumes");
    }
    let required = affinity.at("required");
    match required.is_set() {
        true => node_selector(required, any_values),
        false => required.required("must specify required node constraints"),
    }
}

fn sources(spec: Field, volume: &str) {
    let mut found = false;
    for (name, second, first, check) in SOURCES {
        let source = spec.at(name);
        if source.is_absent() {
            continue;
        }
        if found && *name != "flexVolume" {
            spec.at(second).forbidden("may not specify more than 1 volume type");
            continue;
        }
        found = true;
        check(spec.at(first).with(source.get()));
        match *name {
            "iscsi" => source::iscsi_persistent(source, volume),
            "local" if spec.at("nodeAffinity").is_absent() => {
                spec.at("nodeAffinity").required("Local volume requires node affinity");
            }
            _ => {}
        }
    }
    if !found {
        spec.required("must specify a volume type");
    }
}

pub fn access_modes(modes: Field) {
    const MODES: [&str; 4] = ["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"];
    for mode in modes.strings().filter(|mode| !MODES.contains(mode)) {
        modes.unsupported_as(mode, &MODES);
    }
    let one_pod = |mode: &str| mode == "ReadWriteOncePod";
    let known = || modes.strings().filter(|mode| MODES.contains(mode));
    if known().any(one_pod) && known().any(|mode| !one_pod(mode)) {
        modes.forbidden("may not use ReadWriteOncePod with other access modes");
    }
}

pub fn volume_mode(mode: Field) {
    if mode.is_set() {
        mode.one_of(&["Block", "Filesystem"]);
    }
}

fn glusterfs(source: Field) {
    source::glusterfs(source);
    let namespace = source.at("endpointsNamespace");
    if namespace.is_set() && namespace.is_empty() {
        namespace.invalid("if the endpointnamespace is set, it must be a valid namespace name");
    } else if namespace.is_set() {
        namespace.object_name(name::name_is_dns_label);
    }
}

fn secret(source: Field) {
    let secret = source.at("secretRef");
    if secret.is_set() {
        secret.at("name").must("");
        secret.at("namespace").must("");
    }
}

fn azure_file(source: Field) {
    source::azure_file(source);
    if source.at("secretNamespace").is_set() {
        source.at("secretNamespace").must("");
    }
}

fn csi(source: Field) {
    source::csi_driver_name(source.at("driver"));
    source.at("volumeHandle").must("");
    for secret in [
        "controllerPublishSecretRef",
        "controllerExpandSecretRef",
        "nodePublishSecretRef",
        "nodeExpandSecretRef",
    ] {
        let secret = source.at(secret);
        if secret.is_set() {
            secret.at("name").must_form("", name::is_dns1123_subdomain);
            secret.at("namespace").must_form("", name::is_dns1123_label);
        }
    }
}

fn validate_update(volume: Field, old: Field) {
    let (spec, was) = (volume.at("spec"), old.at("spec"));
    let odd = was.down(REQUIRED_TERMS).items().any(|term| term.has_odd_values());
    // The reference checks everything twice, and repeats the causes.
    check(volume, odd);
    mount_options(volume);
    volume.metadata_again();
    check(volume, odd);
    immutable_source(spec, was);
    let mode = spec.at("volumeMode");
    if !mode.same(&was.at("volumeMode")) {
        volume.at("volumeMode").invalid_as(mode.bad_value_by_type(), IMMUTABLE);
    }
    let movable = spec.capabilities().features.has(Feature::MutablePVNodeAffinity);
    if !movable && was.at("nodeAffinity").is_set() && !same_affinity(spec, was) {
        let why = "field is immutable, except for updating from beta label to GA";
        volume.at("nodeAffinity").invalid_as(spec.at("nodeAffinity").bad_value(), why);
    }
    let (class, old_class) =
        (spec.at("volumeAttributesClassName"), was.at("volumeAttributesClassName"));
    let enabled = class.capabilities().features.has(Feature::VolumeAttributesClass);
    if !enabled && !class.same(&old_class) {
        class.forbidden(ATTRIBUTES_CLASS_OFF);
    }
    if old_class.is_set() && class.is_absent() {
        class.forbidden("update from non-nil value to nil is forbidden");
    }
}

/// Checks that the source does not change; a CSI volume may be given `controllerExpandSecretRef`.
fn immutable_source(spec: Field, old: Field) {
    const SECRET: &str = "controllerExpandSecretRef";
    let mut rest = spec.get().cloned().unwrap_or(Value::Null);
    let had = old.at("csi");
    if had.is_set() && had.at(SECRET).is_absent() {
        rest.at_mut(&["csi"]).and_then(Value::as_map_mut).map(|csi| csi.remove(SECRET));
    }
    let rest = spec.with(Some(&rest));
    if SOURCES.iter().any(|(name, ..)| !rest.at(name).same(&old.at(name))) {
        spec.at("persistentvolumesource").forbidden(format!(
            "spec.persistentvolumesource is immutable after creation\n{}",
            rest.differences_of_inlined("PersistentVolumeSource", &old)
        ));
    }
}

/// Deprecated labels in node affinity, which may be replaced by their successors.
const RENAMED: &[(&str, &str)] = &[
    ("failure-domain.beta.kubernetes.io/zone", "topology.kubernetes.io/zone"),
    ("failure-domain.beta.kubernetes.io/region", "topology.kubernetes.io/region"),
    ("beta.kubernetes.io/os", "kubernetes.io/os"),
    ("beta.kubernetes.io/arch", "kubernetes.io/arch"),
    ("beta.kubernetes.io/instance-type", "node.kubernetes.io/instance-type"),
];

fn same_affinity(spec: Field, old: Field) -> bool {
    let same_expression = |new: Field, old: Field| {
        let (key, was) = (new.at("key").str(), old.at("key").str());
        // As in the reference, a label without a successor may be replaced by the empty key.
        let renamed = RENAMED.iter().find(|(old, _)| *old == was).map_or("", |(_, new)| *new);
        (key == was || key == renamed)
            && new.at("operator").same(&old.at("operator"))
            && new.at("values").same(&old.at("values"))
    };
    let same_list = |new: Field, old: Field| {
        new.len() == old.len()
            && new.items().zip(old.items()).all(|(new, old)| same_expression(new, old))
    };
    let (terms, was) = (spec.down(REQUIRED_TERMS), old.down(REQUIRED_TERMS));
    spec.at("nodeAffinity").is_set() == old.at("nodeAffinity").is_set()
        && terms.len() == was.len()
        && terms.items().zip(was.items()).all(|(new, old)| {
            ["matchExpressions", "matchFields"]
                .iter()
                .all(|list| same_list(new.at(list), old.at(list)))
        })
}
