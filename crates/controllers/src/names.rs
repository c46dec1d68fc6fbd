//! Names of the controllers that kube-controller-manager v1.36 knows.

/// A controller that kube-controller-manager knows, whether this server has it or not.
#[derive(Debug)]
pub struct KnownController {
    /// Canonical name: `namespace-controller`.
    pub name: &'static str,
    /// Name in older versions: `namespace`.
    pub alias: Option<&'static str>,
    /// Whether `*` includes the controller.
    pub on_by_default: bool,
}

const fn known(name: &'static str, alias: &'static str) -> KnownController {
    KnownController { name, alias: Some(alias), on_by_default: true }
}

const fn plain(name: &'static str) -> KnownController {
    KnownController { name, alias: None, on_by_default: true }
}

const fn off(name: &'static str, alias: Option<&'static str>) -> KnownController {
    KnownController { name, alias, on_by_default: false }
}

/// Known controllers, by name.
#[rustfmt::skip]
pub const KNOWN: &[KnownController] = &[
    off("bootstrap-signer-controller", Some("bootstrapsigner")),
    known("certificatesigningrequest-approving-controller", "csrapproving"),
    known("certificatesigningrequest-cleaner-controller", "csrcleaner"),
    known("certificatesigningrequest-signing-controller", "csrsigning"),
    known("cloud-node-lifecycle-controller", "cloud-node-lifecycle"),
    known("clusterrole-aggregation-controller", "clusterrole-aggregation"),
    known("cronjob-controller", "cronjob"),
    known("daemonset-controller", "daemonset"),
    known("deployment-controller", "deployment"),
    plain("device-taint-eviction-controller"),
    known("disruption-controller", "disruption"),
    known("endpoints-controller", "endpoint"),
    known("endpointslice-controller", "endpointslice"),
    known("endpointslice-mirroring-controller", "endpointslicemirroring"),
    known("ephemeral-volume-controller", "ephemeral-volume"),
    known("garbage-collector-controller", "garbagecollector"),
    known("horizontal-pod-autoscaler-controller", "horizontalpodautoscaling"),
    known("job-controller", "job"),
    plain("kube-apiserver-serving-clustertrustbundle-publisher-controller"),
    known("legacy-serviceaccount-token-cleaner-controller", "legacy-service-account-token-cleaner"),
    known("namespace-controller", "namespace"),
    known("node-ipam-controller", "nodeipam"),
    known("node-lifecycle-controller", "nodelifecycle"),
    known("node-route-controller", "route"),
    known("persistentvolume-attach-detach-controller", "attachdetach"),
    known("persistentvolume-binder-controller", "persistentvolume-binder"),
    known("persistentvolume-expander-controller", "persistentvolume-expander"),
    known("persistentvolume-protection-controller", "pv-protection"),
    known("persistentvolumeclaim-protection-controller", "pvc-protection"),
    known("pod-garbage-collector-controller", "podgc"),
    plain("podcertificaterequest-cleaner-controller"),
    plain("podgroup-protection-controller"),
    known("replicaset-controller", "replicaset"),
    known("replicationcontroller-controller", "replicationcontroller"),
    known("resourceclaim-controller", "resource-claim-controller"),
    plain("resourcepoolstatusrequest-controller"),
    known("resourcequota-controller", "resourcequota"),
    known("root-ca-certificate-publisher-controller", "root-ca-cert-publisher"),
    off("selinux-warning-controller", None),
    plain("service-cidr-controller"),
    known("service-lb-controller", "service"),
    known("serviceaccount-controller", "serviceaccount"),
    known("serviceaccount-token-controller", "serviceaccount-token"),
    known("statefulset-controller", "statefulset"),
    known("storage-version-migrator-controller", "svm"),
    known("storageversion-garbage-collector-controller", "storage-version-gc"),
    plain("taint-eviction-controller"),
    off("token-cleaner-controller", Some("tokencleaner")),
    known("ttl-after-finished-controller", "ttl-after-finished"),
    known("ttl-controller", "ttl"),
    plain("validatingadmissionpolicy-status-controller"),
    plain("volumeattributesclass-protection-controller"),
];

/// The controller of a name or alias.
pub(crate) fn find(name: &str) -> Option<&'static KnownController> {
    KNOWN.iter().find(|known| known.name == name || known.alias == Some(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_sorted_and_aliases_are_no_names() {
        assert!(KNOWN.is_sorted_by(|a, b| a.name < b.name));
        for known in KNOWN {
            let alias = known.alias.unwrap_or(known.name);
            let named =
                KNOWN.iter().filter(|other| other.alias == Some(alias) || other.name == alias);
            assert_eq!(named.count(), 1, "{alias}");
        }
    }
}
