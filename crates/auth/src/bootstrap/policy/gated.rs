//! Roles and rules that go with feature gates which are off by default. A gate may be given by several names: all of
//! them have to be on.

use super::{Controller, READ, Rule, Subject, WRITE, group, on};

const EVENTS: Rule = on("core events.k8s.io", "events", "create patch update");
const TAINT_RULES: &str = "DRADeviceTaintRules";

/// Controllers, each with its gates.
pub(super) const CONTROLLERS: [(&str, Controller); 6] = [
    (
        "DRAResourcePoolStatus",
        Controller {
            name: "resourcepoolstatusrequest-controller",
            rules: &[
                on("resource.k8s.io", "resourcepoolstatusrequests", "delete get list watch"),
                on("resource.k8s.io", "resourcepoolstatusrequests/status", "patch update"),
                on("resource.k8s.io", "resourceslices", READ),
                on("resource.k8s.io", "resourceclaims", READ),
                EVENTS,
            ],
        },
    ),
    (
        "PodCertificateRequest",
        Controller {
            name: "podcertificaterequestcleaner",
            rules: &[on("certificates.k8s.io", "podcertificaterequests", "delete get list watch")],
        },
    ),
    (
        "GenericWorkload",
        Controller {
            name: "podgroup-protection-controller",
            rules: &[
                on("scheduling.k8s.io", "podgroups", "get list update watch"),
                on("core", "pods", READ),
            ],
        },
    ),
    (
        "ClusterTrustBundle",
        Controller {
            name: "kube-apiserver-serving-clustertrustbundle-publisher",
            rules: &[
                on("certificates.k8s.io", "signers", "attest")
                    .named("kubernetes.io/kube-apiserver-serving"),
                on("certificates.k8s.io", "clustertrustbundles", "create delete list update watch"),
                EVENTS,
            ],
        },
    ),
    (
        "StorageVersionAPI APIServerIdentity",
        Controller {
            name: "storage-version-garbage-collector",
            rules: &[
                on("coordination.k8s.io", "leases", READ),
                on(
                    "internal.apiserver.k8s.io",
                    "storageversions",
                    "delete get list patch update watch",
                ),
                on("internal.apiserver.k8s.io", "storageversions/status", "get patch update"),
            ],
        },
    ),
    (
        "StorageVersionMigrator",
        Controller {
            name: "storage-version-migrator-controller",
            rules: &[
                on("*", "*", "create list patch"),
                on("apiextensions.k8s.io", "customresourcedefinitions", "get"),
                on("apiextensions.k8s.io", "customresourcedefinitions/status", "patch"),
                on("storagemigration.k8s.io", "storageversionmigrations/status", "update"),
            ],
        },
    ),
];

/// Cluster roles with their subjects, each with its gates.
pub(super) const CLUSTER_ROLES: [(&str, &str, &[Rule], &[Subject]); 1] = [(
    "ClusterTrustBundle",
    "system:cluster-trust-bundle-discovery",
    &[on("certificates.k8s.io", "clustertrustbundles", READ)],
    &[group("system:serviceaccounts")],
)];

/// Rules that other cluster roles have besides: gates, role, rules.
pub(super) const RULES: [(&str, &str, &[Rule]); 9] = [
    (
        "GenericWorkload",
        "system:aggregate-to-view",
        &[on("scheduling.k8s.io", "podgroups podgroups/status workloads", READ)],
    ),
    (
        "GenericWorkload",
        "system:aggregate-to-edit",
        &[on("scheduling.k8s.io", "podgroups workloads", WRITE)],
    ),
    (
        "ClusterTrustBundle",
        "system:node",
        &[on("certificates.k8s.io", "clustertrustbundles", READ)],
    ),
    (
        "PodCertificateRequest",
        "system:node",
        &[on("certificates.k8s.io", "podcertificaterequests", "create get list watch")],
    ),
    (TAINT_RULES, "system:kube-scheduler", &[on("resource.k8s.io", "devicetaintrules", READ)]),
    (
        "GenericWorkload",
        "system:kube-scheduler",
        &[
            on("scheduling.k8s.io", "podgroups", READ),
            on("scheduling.k8s.io", "podgroups/status", "patch update"),
        ],
    ),
    (
        "DRAWorkloadResourceClaims",
        "system:controller:resource-claim-controller",
        &[
            on("scheduling.k8s.io", "podgroups", READ),
            on("scheduling.k8s.io", "podgroups/status", "patch update"),
        ],
    ),
    (
        TAINT_RULES,
        "system:controller:device-taint-eviction-controller",
        &[
            on("resource.k8s.io", "devicetaintrules/status", "patch update"),
            on("resource.k8s.io", "devicetaintrules", READ),
        ],
    ),
    (
        "WorkloadWithJob",
        "system:controller:job-controller",
        &[on("scheduling.k8s.io", "podgroups workloads", "create get list watch")],
    ),
];
