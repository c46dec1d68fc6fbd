//! The roles of the controllers, each bound to the service account of the same name.

use super::{Controller, READ, on};

/// The controllers, by name: a cluster role `system:controller:<name>` and a binding of it to the
/// service account `<name>` of `kube-system`.
pub(in crate::bootstrap) const CONTROLLERS: &[Controller] = &[
    Controller {
        name: "attachdetach-controller",
        rules: &[
            on("core", "persistentvolumeclaims persistentvolumes", "list watch"),
            on("core", "nodes", READ),
            on("core", "nodes/status", "patch update"),
            on("core", "pods", "list watch"),
            on("core events.k8s.io", "events", "create patch update"),
            on("storage.k8s.io", "volumeattachments", "create delete get list watch"),
            on("storage.k8s.io", "csidrivers", READ),
            on("storage.k8s.io", "csinodes", READ),
        ],
    },
    Controller {
        name: "certificate-controller",
        rules: &[
            on("certificates.k8s.io", "certificatesigningrequests", "delete get list watch"),
            on(
                "certificates.k8s.io",
                "certificatesigningrequests/approval certificatesigningrequests/status",
                "update",
            ),
            on("certificates.k8s.io", "signers", "approve")
                .named("kubernetes.io/kube-apiserver-client-kubelet"),
            on("certificates.k8s.io", "signers", "sign").named(
                "kubernetes.io/kube-apiserver-client \
                 kubernetes.io/kube-apiserver-client-kubelet \
                 kubernetes.io/kubelet-serving kubernetes.io/legacy-unknown",
            ),
            on("authorization.k8s.io", "subjectaccessreviews", "create"),
            on("core events.k8s.io", "events", "create patch update"),
        ],
    },
    Controller {
        name: "clusterrole-aggregation-controller",
        rules: &[on(
            "rbac.authorization.k8s.io",
            "clusterroles",
            "escalate get list patch update watch",
        )],
    },
    Controller {
        name: "cronjob-controller",
        rules: &[
            on("batch", "cronjobs", "get list update watch"),
            on("batch", "jobs", "create delete get list patch update watch"),
            on("batch", "cronjobs/status", "update"),
            on("batch", "cronjobs/finalizers", "update"),
            on("core", "pods", "delete list watch"),
            on("core events.k8s.io", "events", "create patch update"),
        ],
    },
    Controller {
        name: "daemon-set-controller",
        rules: &[
            on("apps extensions", "daemonsets", READ),
            on("apps extensions", "daemonsets/status", "update"),
            on("apps extensions", "daemonsets/finalizers", "update"),
            on("core", "nodes", "list watch"),
            on("core", "pods", "create delete list patch watch"),
            on("core", "pods/binding", "create"),
            on("apps", "controllerrevisions", "create delete get list patch update watch"),
            on("core events.k8s.io", "events", "create patch update"),
        ],
    },
    Controller {
        name: "deployment-controller",
        rules: &[
            on("apps extensions", "deployments", "get list update watch"),
            on("apps extensions", "deployments/status", "update"),
            on("apps extensions", "deployments/finalizers", "update"),
            on("apps extensions", "replicasets", "create delete get list patch update watch"),
            on("core", "pods", "get list update watch"),
            on("core events.k8s.io", "events", "create patch update"),
        ],
    },
    Controller {
        name: "device-taint-eviction-controller",
        rules: &[
            on("core", "pods", "delete get list watch"),
            on("core", "pods/status", "patch update"),
            on("resource.k8s.io", "resourceclaims", READ),
            on("resource.k8s.io", "resourceslices", READ),
            on("resource.k8s.io", "deviceclasses", READ),
            on("core events.k8s.io", "events", "create patch update"),
        ],
    },
    Controller {
        name: "disruption-controller",
        rules: &[
            on("apps extensions", "deployments", READ),
            on("apps extensions", "replicasets", READ),
            on("core", "replicationcontrollers", READ),
            on("policy", "poddisruptionbudgets", READ),
            on("apps", "statefulsets", READ),
            on("policy", "poddisruptionbudgets/status", "update"),
            on("core", "pods/status", "patch update"),
            on("*", "*/scale", "get"),
            on("core events.k8s.io", "events", "create patch update"),
        ],
    },
    Controller {
        name: "endpoint-controller",
        rules: &[
            on("core", "pods services", READ),
            on("core", "endpoints", "create delete get list update watch"),
            on("core", "endpoints/restricted", "create"),
            on("core events.k8s.io", "events", "create patch update"),
        ],
    },
    Controller {
        name: "endpointslice-controller",
        rules: &[
            on("core", "nodes pods services", READ),
            on("core", "services/finalizers", "update"),
            on("discovery.k8s.io", "endpointslices", "create delete get list update watch"),
            on("core events.k8s.io", "events", "create patch update"),
        ],
    },
    Controller {
        name: "endpointslicemirroring-controller",
        rules: &[
            on("core", "endpoints services", READ),
            on("core", "services/finalizers", "update"),
            on("core", "endpoints/finalizers", "update"),
            on("discovery.k8s.io", "endpointslices", "create delete get list update watch"),
            on("core events.k8s.io", "events", "create patch update"),
        ],
    },
    Controller {
        name: "ephemeral-volume-controller",
        rules: &[
            on("core", "pods", READ),
            on("core", "pods/finalizers", "update"),
            on("core", "persistentvolumeclaims", "create get list watch"),
            on("core events.k8s.io", "events", "create patch update"),
        ],
    },
    Controller {
        name: "expand-controller",
        rules: &[
            on("core", "persistentvolumes", "get list patch update watch"),
            on("core", "persistentvolumeclaims/status", "patch update"),
            on("core", "persistentvolumeclaims", READ),
            on("core events.k8s.io", "events", "create patch update"),
        ],
    },
    Controller {
        name: "generic-garbage-collector",
        rules: &[
            on("*", "*", "delete get list patch update watch"),
            on("core events.k8s.io", "events", "create patch update"),
        ],
    },
    Controller {
        name: "horizontal-pod-autoscaler",
        rules: &[
            on("autoscaling", "horizontalpodautoscalers", READ),
            on("autoscaling", "horizontalpodautoscalers/status", "update"),
            on("*", "*/scale", "get update"),
            on("core", "pods", "list watch"),
            on("metrics.k8s.io", "pods", "list watch"),
            on("custom.metrics.k8s.io", "*", READ),
            on("external.metrics.k8s.io", "*", READ),
            on("core events.k8s.io", "events", "create patch update"),
        ],
    },
    Controller {
        name: "job-controller",
        rules: &[
            on("batch", "jobs", "get list patch update watch"),
            on("batch", "jobs/status", "update"),
            on("batch", "jobs/finalizers", "update"),
            on("core", "pods", "create delete list patch watch"),
            on("core events.k8s.io", "events", "create patch update"),
        ],
    },
    Controller {
        name: "legacy-service-account-token-cleaner",
        rules: &[
            on("core", "configmaps", "get")
                .named("kube-apiserver-legacy-service-account-token-tracking"),
            on("core", "secrets", "delete patch"),
        ],
    },
    Controller {
        name: "namespace-controller",
        rules: &[
            on("core", "namespaces", "delete get list watch"),
            on("core", "namespaces/finalize namespaces/status", "update"),
            on("*", "*", "delete deletecollection get list watch"),
        ],
    },
    Controller {
        name: "node-controller",
        rules: &[
            on("core", "nodes", "delete get list patch update watch"),
            on("core", "nodes/status", "patch update"),
            on("core", "pods/status", "patch update"),
            on("core", "pods", "delete get list watch"),
            on("core events.k8s.io", "events", "create patch update"),
        ],
    },
    Controller {
        name: "persistent-volume-binder",
        rules: &[
            on("core", "persistentvolumes", "create delete get list update watch"),
            on("core", "persistentvolumes/status", "update"),
            on("core", "persistentvolumeclaims", "get list update watch"),
            on("core", "persistentvolumeclaims/status", "update"),
            on("core", "pods", "create delete get list watch"),
            on("storage.k8s.io", "storageclasses", READ),
            on("core", "nodes", "list watch"),
            on("core events.k8s.io", "events", "create patch update"),
            on("core", "events", "watch"),
        ],
    },
    Controller {
        name: "pod-garbage-collector",
        rules: &[
            on("core", "pods", "delete list watch"),
            on("core", "nodes", READ),
            on("core", "pods/status", "patch"),
        ],
    },
    Controller {
        name: "pv-protection-controller",
        rules: &[
            on("core", "persistentvolumes", "get list update watch"),
            on("core events.k8s.io", "events", "create patch update"),
        ],
    },
    Controller {
        name: "pvc-protection-controller",
        rules: &[
            on("core", "persistentvolumeclaims", "get list update watch"),
            on("core", "persistentvolumeclaims/status", "update"),
            on("core", "pods", READ),
            on("core events.k8s.io", "events", "create patch update"),
        ],
    },
    Controller {
        name: "replicaset-controller",
        rules: &[
            on("apps extensions", "replicasets", "get list update watch"),
            on("apps extensions", "replicasets/status", "update"),
            on("apps extensions", "replicasets/finalizers", "update"),
            on("core", "pods", "create delete list patch watch"),
            on("core events.k8s.io", "events", "create patch update"),
        ],
    },
    Controller {
        name: "replication-controller",
        rules: &[
            on("core", "replicationcontrollers", "get list update watch"),
            on("core", "replicationcontrollers/status", "update"),
            on("core", "replicationcontrollers/finalizers", "update"),
            on("core", "pods", "create delete list patch watch"),
            on("core events.k8s.io", "events", "create patch update"),
        ],
    },
    Controller {
        name: "resource-claim-controller",
        rules: &[
            on("core", "pods", READ),
            on("core", "pods/finalizers", "update"),
            on("resource.k8s.io", "resourceclaims", "create delete get list watch"),
            on("resource.k8s.io", "resourceclaims resourceclaims/status", "patch update"),
            on("core", "pods/status", "patch update"),
            on("core events.k8s.io", "events", "create patch update"),
            on("resource.k8s.io", "resourceclaims/binding", "patch update"),
        ],
    },
    Controller {
        name: "resourcequota-controller",
        rules: &[
            on("*", "*", "list watch"),
            on("core", "resourcequotas/status", "update"),
            on("core events.k8s.io", "events", "create patch update"),
        ],
    },
    Controller {
        name: "root-ca-cert-publisher",
        rules: &[
            on("core", "configmaps", "create update"),
            on("core events.k8s.io", "events", "create patch update"),
        ],
    },
    Controller {
        name: "route-controller",
        rules: &[
            on("core", "nodes", "list watch"),
            on("core", "nodes/status", "patch"),
            on("core events.k8s.io", "events", "create patch update"),
        ],
    },
    Controller {
        name: "selinux-warning-controller",
        rules: &[
            on("core events.k8s.io", "events", "create patch update"),
            on("core", "persistentvolumes", READ),
            on("core", "persistentvolumeclaims", READ),
            on("core", "pods", READ),
            on("storage.k8s.io", "csidrivers", READ),
        ],
    },
    Controller {
        name: "service-account-controller",
        rules: &[
            on("core", "serviceaccounts", "create"),
            on("core events.k8s.io", "events", "create patch update"),
        ],
    },
    Controller {
        name: "service-cidrs-controller",
        rules: &[
            on("networking.k8s.io", "servicecidrs", "get list patch update watch"),
            on("networking.k8s.io", "servicecidrs/finalizers", "patch update"),
            on("networking.k8s.io", "servicecidrs/status", "patch update"),
            on("networking.k8s.io", "ipaddresses", READ),
            on("core events.k8s.io", "events", "create patch update"),
        ],
    },
    Controller {
        name: "service-controller",
        rules: &[
            on("core", "services", READ),
            on("core", "services/status", "patch update"),
            on("core", "nodes", "list watch"),
            on("core events.k8s.io", "events", "create patch update"),
        ],
    },
    Controller {
        name: "statefulset-controller",
        rules: &[
            on("core", "pods", "list watch"),
            on("apps", "statefulsets", READ),
            on("apps", "statefulsets/status", "update"),
            on("apps", "statefulsets/finalizers", "update"),
            on("core", "pods", "create delete get patch update"),
            on("apps", "controllerrevisions", "create delete get list patch update watch"),
            on("core", "persistentvolumeclaims", "create get list watch"),
            on("core", "persistentvolumeclaims", "delete update"),
            on("core", "pods/finalizers", "update"),
            on("core events.k8s.io", "events", "create patch update"),
        ],
    },
    Controller {
        name: "ttl-after-finished-controller",
        rules: &[
            on("batch", "jobs", "delete get list watch"),
            on("core events.k8s.io", "events", "create patch update"),
        ],
    },
    Controller {
        name: "ttl-controller",
        rules: &[
            on("core", "nodes", "list patch update watch"),
            on("core events.k8s.io", "events", "create patch update"),
        ],
    },
    Controller {
        name: "validatingadmissionpolicy-status-controller",
        rules: &[
            on("admissionregistration.k8s.io", "validatingadmissionpolicies", READ),
            on(
                "admissionregistration.k8s.io",
                "validatingadmissionpolicies/status",
                "get patch update",
            ),
            on("core events.k8s.io", "events", "create patch update"),
        ],
    },
    Controller {
        name: "volumeattributesclass-protection-controller",
        rules: &[
            on("core", "persistentvolumeclaims", READ),
            on("core", "persistentvolumes", READ),
            on("storage.k8s.io", "volumeattributesclasses", "get list update watch"),
            on("core events.k8s.io", "events", "create patch update"),
        ],
    },
];
