//! Default ClusterRoleBindings, except those of the controllers.

use super::{ClusterRoleBinding, group, system_account, user};

/// Bindings by name; each binds the ClusterRole of its own name.
pub(in crate::bootstrap) const CLUSTER_ROLE_BINDINGS: &[ClusterRoleBinding] = &[
    ClusterRoleBinding { name: "cluster-admin", subjects: &[group("system:masters")] },
    ClusterRoleBinding { name: "system:basic-user", subjects: &[group("system:authenticated")] },
    ClusterRoleBinding { name: "system:discovery", subjects: &[group("system:authenticated")] },
    ClusterRoleBinding {
        name: "system:kube-controller-manager",
        subjects: &[user("system:kube-controller-manager")],
    },
    ClusterRoleBinding { name: "system:kube-dns", subjects: &[system_account("kube-dns")] },
    ClusterRoleBinding {
        name: "system:kube-scheduler",
        subjects: &[user("system:kube-scheduler")],
    },
    ClusterRoleBinding { name: "system:monitoring", subjects: &[group("system:monitoring")] },
    ClusterRoleBinding { name: "system:node", subjects: &[] },
    ClusterRoleBinding { name: "system:node-proxier", subjects: &[user("system:kube-proxy")] },
    ClusterRoleBinding {
        name: "system:public-info-viewer",
        subjects: &[group("system:authenticated"), group("system:unauthenticated")],
    },
    ClusterRoleBinding {
        name: "system:service-account-issuer-discovery",
        subjects: &[group("system:serviceaccounts")],
    },
    ClusterRoleBinding {
        name: "system:volume-scheduler",
        subjects: &[user("system:kube-scheduler")],
    },
];
