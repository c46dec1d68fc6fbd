//! Default Roles and RoleBindings in the system namespaces.

use super::{READ, Role, RoleBinding, on, system_account, user};

/// Roles by namespace and name.
pub(in crate::bootstrap) const ROLES: &[Role] = &[
    Role {
        namespace: "kube-public",
        name: "system:controller:bootstrap-signer",
        rules: &[
            on("core", "configmaps", READ),
            on("core", "configmaps", "update").named("cluster-info"),
            on("core events.k8s.io", "events", "create patch update"),
        ],
    },
    Role {
        namespace: "kube-system",
        name: "extension-apiserver-authentication-reader",
        rules: &[on("core", "configmaps", READ).named("extension-apiserver-authentication")],
    },
    Role {
        namespace: "kube-system",
        name: "system::leader-locking-kube-controller-manager",
        rules: &[
            on("coordination.k8s.io", "leases", "create get list update watch"),
            on("coordination.k8s.io", "leasecandidates", "create get list update watch"),
        ],
    },
    Role {
        namespace: "kube-system",
        name: "system::leader-locking-kube-scheduler",
        rules: &[
            on("coordination.k8s.io", "leases", "create get list update watch"),
            on("coordination.k8s.io", "leasecandidates", "create get list update watch"),
        ],
    },
    Role {
        namespace: "kube-system",
        name: "system:controller:bootstrap-signer",
        rules: &[on("core", "secrets", READ)],
    },
    Role {
        namespace: "kube-system",
        name: "system:controller:cloud-provider",
        rules: &[on("core", "configmaps", "create get list watch")],
    },
    Role {
        namespace: "kube-system",
        name: "system:controller:token-cleaner",
        rules: &[
            on("core", "secrets", "delete get list watch"),
            on("core events.k8s.io", "events", "create patch update"),
        ],
    },
];

/// Bindings by namespace and name.
pub(in crate::bootstrap) const ROLE_BINDINGS: &[RoleBinding] = &[
    RoleBinding {
        namespace: "kube-public",
        name: "system:controller:bootstrap-signer",
        role: "system:controller:bootstrap-signer",
        subjects: &[system_account("bootstrap-signer")],
    },
    RoleBinding {
        namespace: "kube-system",
        name: "system::extension-apiserver-authentication-reader",
        role: "extension-apiserver-authentication-reader",
        subjects: &[user("system:kube-controller-manager"), user("system:kube-scheduler")],
    },
    RoleBinding {
        namespace: "kube-system",
        name: "system::leader-locking-kube-controller-manager",
        role: "system::leader-locking-kube-controller-manager",
        subjects: &[
            user("system:kube-controller-manager"),
            system_account("kube-controller-manager"),
            system_account("leader-election-controller"),
        ],
    },
    RoleBinding {
        namespace: "kube-system",
        name: "system::leader-locking-kube-scheduler",
        role: "system::leader-locking-kube-scheduler",
        subjects: &[user("system:kube-scheduler"), system_account("kube-scheduler")],
    },
    RoleBinding {
        namespace: "kube-system",
        name: "system:controller:bootstrap-signer",
        role: "system:controller:bootstrap-signer",
        subjects: &[system_account("bootstrap-signer")],
    },
    RoleBinding {
        namespace: "kube-system",
        name: "system:controller:cloud-provider",
        role: "system:controller:cloud-provider",
        subjects: &[system_account("cloud-provider")],
    },
    RoleBinding {
        namespace: "kube-system",
        name: "system:controller:token-cleaner",
        role: "system:controller:token-cleaner",
        subjects: &[system_account("token-cleaner")],
    },
];
