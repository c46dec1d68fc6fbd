//! Facts of the published schemas beyond those that decoding, defaulting and merging need.

use kevel_api::value::Value;

use super::tree::{list, object, strings};

/// A field: full name of its type, and its own name.
type Name<'n> = (&'n str, &'n str);

/// Whether a field's default is declared. Most defaults depend on other fields and are set without a declaration.
pub(super) fn declares_default(field: Name<'_>) -> bool {
    has(DECLARED_DEFAULTS, field)
}

/// Maps declared as `granular`, which all other maps are by default.
pub(super) fn granular(field: Name<'_>) -> bool {
    has(GRANULAR, field)
}

/// Bytes declared as an atomic list: `[]byte` in Go.
pub(super) fn atomic_bytes(field: Name<'_>) -> bool {
    has(ATOMIC_BYTES, field)
}

fn has(table: &[Name<'_>], (of, field): Name<'_>) -> bool {
    let short = |name: &str| of.strip_suffix(name).is_some_and(|rest| rest.ends_with('.'));
    table.iter().any(|(name, known)| *known == field && short(name))
}

const DECLARED_DEFAULTS: &[Name<'_>] = &[
    ("autoscaling.v1.ScaleSpec", "replicas"),
    ("core.v1.AzureDiskVolumeSource", "cachingMode"),
    ("core.v1.AzureDiskVolumeSource", "fsType"),
    ("core.v1.AzureDiskVolumeSource", "kind"),
    ("core.v1.AzureDiskVolumeSource", "readOnly"),
    ("core.v1.ConfigMapEnvSource", "name"),
    ("core.v1.ConfigMapKeySelector", "name"),
    ("core.v1.ConfigMapProjection", "name"),
    ("core.v1.ConfigMapVolumeSource", "name"),
    ("core.v1.ContainerPort", "protocol"),
    ("core.v1.FileKeySelector", "optional"),
    ("core.v1.GRPCAction", "service"),
    ("core.v1.ISCSIPersistentVolumeSource", "iscsiInterface"),
    ("core.v1.ISCSIVolumeSource", "iscsiInterface"),
    ("core.v1.LocalObjectReference", "name"),
    ("core.v1.RBDPersistentVolumeSource", "keyring"),
    ("core.v1.RBDPersistentVolumeSource", "pool"),
    ("core.v1.RBDPersistentVolumeSource", "user"),
    ("core.v1.RBDVolumeSource", "keyring"),
    ("core.v1.RBDVolumeSource", "pool"),
    ("core.v1.RBDVolumeSource", "user"),
    ("core.v1.ReplicationControllerSpec", "minReadySeconds"),
    ("core.v1.ReplicationControllerSpec", "replicas"),
    ("core.v1.ScaleIOPersistentVolumeSource", "fsType"),
    ("core.v1.ScaleIOPersistentVolumeSource", "storageMode"),
    ("core.v1.ScaleIOVolumeSource", "fsType"),
    ("core.v1.ScaleIOVolumeSource", "storageMode"),
    ("core.v1.SecretEnvSource", "name"),
    ("core.v1.SecretKeySelector", "name"),
    ("core.v1.SecretProjection", "name"),
    ("core.v1.ServicePort", "protocol"),
    ("certificates.v1beta1.PodCertificateRequestSpec", "maxExpirationSeconds"),
    ("resource.v1.DeviceToleration", "operator"),
    ("resource.v1beta1.DeviceToleration", "operator"),
    ("resource.v1beta2.DeviceToleration", "operator"),
    ("resource.v1alpha3.ResourcePoolStatusRequestSpec", "limit"),
    ("scheduling.v1alpha2.PodGroupSpec", "disruptionMode"),
];

const GRANULAR: &[Name<'_>] = &[
    ("core.v1.PersistentVolumeClaimStatus", "allocatedResourceStatuses"),
    ("core.v1.PersistentVolumeSpec", "claimRef"),
];

const ATOMIC_BYTES: &[Name<'_>] = &[("apiregistration.v1.APIServiceSpec", "caBundle")];

/// Union types: the discriminator, and the members with its values for them.
type Union = (&'static str, &'static str, &'static [(&'static str, &'static str)]);

const UNIONS: &[Union] = &[
    ("core.v1.AppArmorProfile", "type", &[("localhostProfile", "LocalhostProfile")]),
    ("core.v1.PodSchedulingGroup", "", &[("podGroupName", "PodGroupName")]),
    ("core.v1.SeccompProfile", "type", &[("localhostProfile", "LocalhostProfile")]),
    ("flowcontrol.v1.LimitResponse", "type", &[("queuing", "Queuing")]),
    (
        "flowcontrol.v1.PriorityLevelConfigurationSpec",
        "type",
        &[("exempt", "Exempt"), ("limited", "Limited")],
    ),
    (
        "flowcontrol.v1.Subject",
        "kind",
        &[("group", "Group"), ("serviceAccount", "ServiceAccount"), ("user", "User")],
    ),
    ("scheduling.v1alpha2.PodGroupSchedulingPolicy", "", &[("basic", "Basic"), ("gang", "Gang")]),
    ("scheduling.v1alpha2.PodGroupTemplateReference", "", &[("workload", "Workload")]),
];

/// `x-kubernetes-unions` of a type.
pub(super) fn union(name: &str) -> Option<Value> {
    let (_, discriminator, members) = UNIONS.iter().find(|(known, ..)| *known == name)?;
    let members = members.iter().map(|(field, name)| (*field, Value::from(*name)));
    let mut union = object([("fields-to-discriminateBy", Value::Map(members.collect()))]);
    if let (false, Some(union)) = (discriminator.is_empty(), union.as_map_mut()) {
        union.insert("discriminator", (*discriminator).into());
    }
    Some(list([union]))
}

/// Name of a kind registered in every group and version (upstream: `crossRegisteredKinds`), by its type.
pub(super) fn cross_registered(ty: &str) -> Option<&'static str> {
    [("meta.v1.DeleteOptions", "DeleteOptions"), ("meta.v1.WatchEvent", "WatchEvent")]
        .into_iter()
        .find_map(|(known, kind)| (known == ty).then_some(kind))
}

/// Groups and versions of the reference's types, served or not, in its order.
const VERSIONS: [(&str, &[&str]); 26] = [
    ("", &["v1"]),
    ("admission.k8s.io", &["v1", "v1beta1"]),
    ("admissionregistration.k8s.io", &["v1", "v1alpha1", "v1beta1"]),
    ("apiextensions.k8s.io", &["v1", "v1beta1"]),
    ("apiregistration.k8s.io", &["v1", "v1beta1"]),
    ("apps", &["v1", "v1beta1", "v1beta2"]),
    ("authentication.k8s.io", &["v1", "v1alpha1", "v1beta1"]),
    ("authorization.k8s.io", &["v1", "v1beta1"]),
    ("autoscaling", &["v1", "v2"]),
    ("batch", &["v1", "v1beta1"]),
    ("certificates.k8s.io", &["v1", "v1alpha1", "v1beta1"]),
    ("coordination.k8s.io", &["v1", "v1alpha2", "v1beta1"]),
    ("discovery.k8s.io", &["v1", "v1beta1"]),
    ("events.k8s.io", &["v1", "v1beta1"]),
    ("extensions", &["v1beta1"]),
    ("flowcontrol.apiserver.k8s.io", &["v1", "v1beta1", "v1beta2", "v1beta3"]),
    ("imagepolicy.k8s.io", &["v1alpha1"]),
    ("internal.apiserver.k8s.io", &["v1alpha1"]),
    ("networking.k8s.io", &["v1", "v1beta1"]),
    ("node.k8s.io", &["v1", "v1alpha1", "v1beta1"]),
    ("policy", &["v1", "v1beta1"]),
    ("rbac.authorization.k8s.io", &["v1", "v1alpha1", "v1beta1"]),
    ("resource.k8s.io", &["v1", "v1alpha3", "v1beta1", "v1beta2"]),
    ("scheduling.k8s.io", &["v1", "v1alpha2", "v1beta1"]),
    ("storage.k8s.io", &["v1", "v1alpha1", "v1beta1"]),
    ("storagemigration.k8s.io", &["v1beta1"]),
];

/// Groups whose types are only in the reference's servers.
const OF_SERVERS: [&str; 4] =
    ["admission.k8s.io", "apiextensions.k8s.io", "apiregistration.k8s.io", "imagepolicy.k8s.io"];

/// All groups and versions of the reference's types.
pub(super) fn versions() -> impl Iterator<Item = (&'static str, &'static str)> {
    let all = VERSIONS.iter();
    all.flat_map(|(group, versions)| versions.iter().map(|version| (*group, *version)))
}

/// Whether the reference's client scheme has types of a group.
pub(super) fn clients_know(group: &str) -> bool {
    !OF_SERVERS.contains(&group)
}

/// Whether kinds of a group are published.
pub(super) fn speaks(group: &str) -> bool {
    !["apidiscovery.k8s.io", "audit.k8s.io", "meta.k8s.io"].contains(&group)
}

/// Schema of the `/version` response.
pub(super) fn version_info() -> Value {
    let text = |name: &str, always: bool| {
        let mut schema = object([("type", "string".into())]);
        if let (true, Some(schema)) = (always, schema.as_map_mut()) {
            schema.insert("default", "".into());
        }
        (name.to_owned(), schema)
    };
    let always = VERSION_FIELDS.iter().map(|name| text(name, true));
    let sometimes = VERSION_OPTIONAL.iter().map(|name| text(name, false));
    object([
        ("type", "object".into()),
        ("properties", Value::Map(always.chain(sometimes).collect())),
        ("required", strings(VERSION_FIELDS)),
    ])
}

const VERSION_FIELDS: [&str; 9] = [
    "major",
    "minor",
    "gitVersion",
    "gitCommit",
    "gitTreeState",
    "buildDate",
    "goVersion",
    "compiler",
    "platform",
];
const VERSION_OPTIONAL: [&str; 4] =
    ["emulationMajor", "emulationMinor", "minCompatibilityMajor", "minCompatibilityMinor"];
