//! The cluster roles that every cluster has, those of its controllers excepted.

use super::{ALL, ClusterRole, READ, WRITE, on, url};

/// The roles, by name.
pub(in crate::bootstrap) const CLUSTER_ROLES: &[ClusterRole] = &[
    ClusterRole::aggregate("admin", "admin"),
    ClusterRole::new("cluster-admin", &[on("*", "*", "*"), url("*", "*")]),
    ClusterRole::aggregate("edit", "edit").aggregated_to("admin"),
    ClusterRole::new(
        "system:aggregate-to-admin",
        &[
            on("authorization.k8s.io", "localsubjectaccessreviews", "create"),
            on("rbac.authorization.k8s.io", "rolebindings roles", ALL),
        ],
    )
    .aggregated_to("admin"),
    ClusterRole::new(
        "system:aggregate-to-edit",
        &[
            on(
                "core",
                "pods/attach pods/exec pods/portforward pods/proxy secrets services/proxy",
                READ,
            ),
            on("core", "serviceaccounts", "impersonate"),
            on("core", "pods pods/attach pods/exec pods/portforward pods/proxy", WRITE),
            on("core", "pods/eviction", "create"),
            on(
                "core",
                "configmaps persistentvolumeclaims replicationcontrollers \
                 replicationcontrollers/scale secrets serviceaccounts services \
                 services/proxy",
                WRITE,
            ),
            on("core", "serviceaccounts/token", "create"),
            on("core events.k8s.io", "events", WRITE),
            on(
                "apps",
                "daemonsets deployments deployments/rollback deployments/scale \
                 replicasets replicasets/scale statefulsets statefulsets/scale",
                WRITE,
            ),
            on("autoscaling", "horizontalpodautoscalers", WRITE),
            on("batch", "cronjobs jobs", WRITE),
            on(
                "extensions",
                "daemonsets deployments deployments/rollback deployments/scale ingresses \
                 networkpolicies replicasets replicasets/scale \
                 replicationcontrollers/scale",
                WRITE,
            ),
            on("policy", "poddisruptionbudgets", WRITE),
            on("networking.k8s.io", "ingresses networkpolicies", WRITE),
            on("coordination.k8s.io", "leases", ALL),
            on("resource.k8s.io", "resourceclaims resourceclaimtemplates", WRITE),
        ],
    )
    .aggregated_to("edit"),
    ClusterRole::new(
        "system:aggregate-to-view",
        &[
            on(
                "core",
                "configmaps endpoints persistentvolumeclaims \
                 persistentvolumeclaims/status pods replicationcontrollers \
                 replicationcontrollers/scale serviceaccounts services services/status",
                READ,
            ),
            on(
                "core",
                "bindings limitranges namespaces/status pods/log pods/status \
                 replicationcontrollers/status resourcequotas resourcequotas/status",
                READ,
            ),
            on("core", "namespaces", READ),
            on("core events.k8s.io", "events", READ),
            on("discovery.k8s.io", "endpointslices", READ),
            on(
                "apps",
                "controllerrevisions daemonsets daemonsets/status deployments \
                 deployments/scale deployments/status replicasets replicasets/scale \
                 replicasets/status statefulsets statefulsets/scale statefulsets/status",
                READ,
            ),
            on("autoscaling", "horizontalpodautoscalers horizontalpodautoscalers/status", READ),
            on("batch", "cronjobs cronjobs/status jobs jobs/status", READ),
            on(
                "extensions",
                "daemonsets daemonsets/status deployments deployments/scale \
                 deployments/status ingresses ingresses/status networkpolicies \
                 replicasets replicasets/scale replicasets/status \
                 replicationcontrollers/scale",
                READ,
            ),
            on("policy", "poddisruptionbudgets poddisruptionbudgets/status", READ),
            on("networking.k8s.io", "ingresses ingresses/status networkpolicies", READ),
            on(
                "resource.k8s.io",
                "resourceclaims resourceclaims/status resourceclaimtemplates",
                READ,
            ),
        ],
    )
    .aggregated_to("view"),
    ClusterRole::new(
        "system:auth-delegator",
        &[
            on("authentication.k8s.io", "tokenreviews", "create"),
            on("authorization.k8s.io", "subjectaccessreviews", "create"),
        ],
    ),
    ClusterRole::new(
        "system:basic-user",
        &[
            on(
                "authorization.k8s.io",
                "selfsubjectaccessreviews selfsubjectrulesreviews",
                "create",
            ),
            on("authentication.k8s.io", "selfsubjectreviews", "create"),
        ],
    ),
    ClusterRole::new(
        "system:certificates.k8s.io:certificatesigningrequests:nodeclient",
        &[on("certificates.k8s.io", "certificatesigningrequests/nodeclient", "create")],
    ),
    ClusterRole::new(
        "system:certificates.k8s.io:certificatesigningrequests:selfnodeclient",
        &[on("certificates.k8s.io", "certificatesigningrequests/selfnodeclient", "create")],
    ),
    ClusterRole::new(
        "system:certificates.k8s.io:kube-apiserver-client-approver",
        &[on("certificates.k8s.io", "signers", "approve")
            .named("kubernetes.io/kube-apiserver-client")],
    ),
    ClusterRole::new(
        "system:certificates.k8s.io:kube-apiserver-client-kubelet-approver",
        &[on("certificates.k8s.io", "signers", "approve")
            .named("kubernetes.io/kube-apiserver-client-kubelet")],
    ),
    ClusterRole::new(
        "system:certificates.k8s.io:kubelet-serving-approver",
        &[on("certificates.k8s.io", "signers", "approve").named("kubernetes.io/kubelet-serving")],
    ),
    ClusterRole::new(
        "system:certificates.k8s.io:legacy-unknown-approver",
        &[on("certificates.k8s.io", "signers", "approve").named("kubernetes.io/legacy-unknown")],
    ),
    ClusterRole::new(
        "system:discovery",
        &[url(
            "/api /api/* /apis /apis/* /healthz /livez /openapi /openapi/* /readyz \
                 /version /version/",
            "get",
        )],
    ),
    ClusterRole::new(
        "system:heapster",
        &[on("core", "events namespaces nodes pods", READ), on("extensions", "deployments", READ)],
    ),
    ClusterRole::new("system:kube-aggregator", &[on("core", "endpoints services", READ)]),
    ClusterRole::new(
        "system:kube-controller-manager",
        &[
            on("core events.k8s.io", "events", "create patch update"),
            on("coordination.k8s.io", "leases", "create"),
            on("coordination.k8s.io", "leases", "get update").named("kube-controller-manager"),
            on("core", "secrets serviceaccounts", "create"),
            on("core", "secrets", "delete"),
            on("core", "configmaps namespaces secrets serviceaccounts", "get"),
            on("core", "secrets serviceaccounts", "update"),
            on("authentication.k8s.io", "tokenreviews", "create"),
            on("authorization.k8s.io", "subjectaccessreviews", "create"),
            on("*", "*", "list watch"),
            on("core", "serviceaccounts/token", "create"),
        ],
    ),
    ClusterRole::new("system:kube-dns", &[on("core", "endpoints services", "list watch")]),
    ClusterRole::new(
        "system:kube-scheduler",
        &[
            on("core events.k8s.io", "events", "create patch update"),
            on("coordination.k8s.io", "leases", "create"),
            on("coordination.k8s.io", "leases", "get list update watch").named("kube-scheduler"),
            on("coordination.k8s.io", "leasecandidates", ALL),
            on("core", "nodes", READ),
            on("core", "pods", "delete get list watch"),
            on("core", "bindings pods/binding", "create"),
            on("core", "pods/status", "patch update"),
            on("core", "replicationcontrollers services", READ),
            on("apps extensions", "replicasets", READ),
            on("apps", "statefulsets", READ),
            on("policy", "poddisruptionbudgets", READ),
            on("core", "persistentvolumeclaims persistentvolumes", READ),
            on("authentication.k8s.io", "tokenreviews", "create"),
            on("authorization.k8s.io", "subjectaccessreviews", "create"),
            on("storage.k8s.io", "csinodes", READ),
            on("storage.k8s.io", "volumeattachments", READ),
            on("core", "namespaces", READ),
            on("storage.k8s.io", "csidrivers", READ),
            on("storage.k8s.io", "csistoragecapacities", READ),
            on("resource.k8s.io", "deviceclasses", READ),
            on("resource.k8s.io", "resourceclaims", "get list patch update watch"),
            on("resource.k8s.io", "resourceclaims/status", "get list patch update watch"),
            on("core", "pods/finalizers", "update"),
            on("resource.k8s.io", "resourceslices", READ),
            on("resource.k8s.io", "resourceclaims", "create delete"),
            on("resource.k8s.io", "resourceclaims/binding", "patch update"),
        ],
    ),
    ClusterRole::new(
        "system:kubelet-api-admin",
        &[
            on("core", "nodes", READ),
            on("core", "nodes", "proxy"),
            on("core", "nodes/log nodes/metrics nodes/proxy nodes/stats", "*"),
            on("core", "nodes/configz nodes/healthz nodes/pods", "*"),
        ],
    ),
    ClusterRole::new(
        "system:monitoring",
        &[
            url(
                "/flagz /healthz /healthz/* /livez /livez/* /metrics /metrics/slis \
                 /readyz /readyz/* /statusz",
                "get",
            ),
            on("core", "nodes/metrics", "get"),
        ],
    ),
    ClusterRole::new(
        "system:node",
        &[
            on("authentication.k8s.io", "tokenreviews", "create"),
            on("authorization.k8s.io", "localsubjectaccessreviews subjectaccessreviews", "create"),
            on("core", "services", READ),
            on("core", "nodes", "create get list watch"),
            on("core", "nodes/status", "patch update"),
            on("core", "nodes", "patch update"),
            on("core events.k8s.io", "events", "create patch update"),
            on("core", "pods", READ),
            on("core", "pods", "create delete"),
            on("core", "pods/status", "patch update"),
            on("core", "pods/eviction", "create"),
            on("core", "configmaps secrets", READ),
            on("core", "persistentvolumeclaims persistentvolumes", "get"),
            on("core", "endpoints", "get"),
            on("certificates.k8s.io", "certificatesigningrequests", "create get list watch"),
            on("coordination.k8s.io", "leases", "create delete get patch update"),
            on("storage.k8s.io", "volumeattachments", "get"),
            on("core", "serviceaccounts/token", "create"),
            on("core", "persistentvolumeclaims/status", "get patch update"),
            on("storage.k8s.io", "csidrivers", READ),
            on("storage.k8s.io", "csinodes", "create delete get patch update"),
            on("node.k8s.io", "runtimeclasses", READ),
            on("resource.k8s.io", "resourceclaims", "get"),
            on("resource.k8s.io", "resourceslices", "deletecollection"),
            on("core", "serviceaccounts", "get"),
        ],
    ),
    ClusterRole::new(
        "system:node-bootstrapper",
        &[on("certificates.k8s.io", "certificatesigningrequests", "create get list watch")],
    ),
    ClusterRole::new(
        "system:node-problem-detector",
        &[
            on("core", "nodes", "get"),
            on("core", "nodes/status", "patch"),
            on("core events.k8s.io", "events", "create patch update"),
        ],
    ),
    ClusterRole::new(
        "system:node-proxier",
        &[
            on("core", "endpoints services", "list watch"),
            on("core", "nodes", READ),
            on("core events.k8s.io", "events", "create patch update"),
            on("networking.k8s.io", "servicecidrs", "list watch"),
            on("discovery.k8s.io", "endpointslices", "list watch"),
        ],
    ),
    ClusterRole::new(
        "system:persistent-volume-provisioner",
        &[
            on("core", "persistentvolumes", "create delete get list watch"),
            on("core", "persistentvolumeclaims", "get list update watch"),
            on("storage.k8s.io", "storageclasses", READ),
            on("core", "events", "watch"),
            on("core events.k8s.io", "events", "create patch update"),
        ],
    ),
    ClusterRole::new(
        "system:public-info-viewer",
        &[url("/healthz /livez /readyz /version /version/", "get")],
    ),
    ClusterRole::new(
        "system:service-account-issuer-discovery",
        &[url(
            "/.well-known/openid-configuration /.well-known/openid-configuration/ \
                 /openid/v1/jwks /openid/v1/jwks/",
            "get",
        )],
    ),
    ClusterRole::new(
        "system:volume-scheduler",
        &[
            on("core", "persistentvolumes", "get list patch update watch"),
            on("storage.k8s.io", "storageclasses", READ),
            on("core", "persistentvolumeclaims", "get list patch update watch"),
        ],
    ),
    ClusterRole::aggregate("view", "view").aggregated_to("edit"),
];
