//! The rules of a kind as data: how its objects are made ready, and what is wrong with them.

#[cfg(test)]
pub mod cases;

use kevel_api::value::Value;
use kevel_server::user::User;

use crate::certificates::{pod_request, signing_request, trust_bundle};
use crate::service::{endpoint_slice, endpoints, ip_address, service_cidr};
use crate::validation::Field;
use crate::{
    apps, batch, config_map, event, limit_range, namespace, networking, node, persistent_volume,
    persistent_volume_claim, pod, pod_template, resource_claim, resource_quota, secret, service,
    service_account,
};
use crate::{
    coordination, pod_disruption_budget, priority_class, rbac, runtime_class, storage_class,
};

/// What a kind asks of its objects, beyond their schema and metadata.
///
/// Every kind's file has a `RULES`, which says what differs from [`Rules::NONE`].
#[derive(Clone, Copy)]
pub struct Rules {
    /// Writes down who makes an object.
    pub sign: fn(&mut Value, &User),
    pub prepare_create: fn(&mut Value),
    pub check_create: fn(Field),
    /// Makes ready what replaces the second one.
    pub prepare_update: fn(&mut Value, &Value),
    pub check_update: fn(Field, Field),
    /// The same for a write to `status`.
    pub prepare_status: fn(&mut Value, &Value),
    pub check_status: fn(Field, Field),
    /// What the client should know about an object, which may replace another.
    pub warnings: fn(&Value, Option<&Value>) -> Vec<String>,
    /// Changes an object whose deletion begins; whether it stays until it is let go.
    pub begin_delete: fn(&mut Value) -> bool,
    /// What keeps an object that is being deleted, beyond its finalizers.
    pub held: fn(&Value) -> bool,
    /// How long an object has to end by itself, of what was asked, where it may take its time.
    pub grace_period: Option<fn(&Value, Option<i64>) -> i64>,
}

impl Rules {
    /// A kind without rules.
    pub const NONE: Rules = Rules {
        sign: |_, _| {},
        prepare_create: |_| {},
        check_create: |_| {},
        prepare_update: |_, _| {},
        check_update: |_, _| {},
        prepare_status: |_, _| {},
        check_status: |_, _| {},
        warnings: |_, _| Vec::new(),
        begin_delete: |_| false,
        held: |_| false,
        grace_period: None,
    };
}

/// The kinds that have rules, by group and plural.
const RULES: &[(&str, &str, Rules)] = &[
    ("", "configmaps", config_map::RULES),
    ("", "endpoints", endpoints::RULES),
    ("", "events", event::CORE),
    ("", "limitranges", limit_range::RULES),
    ("", "namespaces", namespace::RULES),
    ("", "nodes", node::RULES),
    ("", "persistentvolumeclaims", persistent_volume_claim::RULES),
    ("", "persistentvolumes", persistent_volume::RULES),
    ("", "pods", pod::RULES),
    ("", "podtemplates", pod_template::RULES),
    ("", "replicationcontrollers", apps::replication_controller::RULES),
    ("", "resourcequotas", resource_quota::RULES),
    ("", "secrets", secret::RULES),
    ("", "serviceaccounts", service_account::RULES),
    ("", "services", service::strategy::RULES),
    ("apps", "controllerrevisions", apps::controller_revision::RULES),
    ("apps", "daemonsets", apps::daemon_set::RULES),
    ("apps", "deployments", apps::deployment::RULES),
    ("apps", "replicasets", apps::replica_set::RULES),
    ("apps", "statefulsets", apps::stateful_set::RULES),
    ("batch", "cronjobs", batch::cron_job::RULES),
    ("batch", "jobs", batch::job::RULES),
    ("certificates.k8s.io", "certificatesigningrequests", signing_request::RULES),
    ("certificates.k8s.io", "clustertrustbundles", trust_bundle::RULES),
    ("certificates.k8s.io", "podcertificaterequests", pod_request::RULES),
    ("coordination.k8s.io", "leasecandidates", coordination::LEASE_CANDIDATE),
    ("coordination.k8s.io", "leases", coordination::LEASE),
    ("discovery.k8s.io", "endpointslices", endpoint_slice::RULES),
    ("events.k8s.io", "events", event::EVENTS),
    ("networking.k8s.io", "ingressclasses", networking::ingress_class::RULES),
    ("networking.k8s.io", "ingresses", networking::ingress::RULES),
    ("networking.k8s.io", "ipaddresses", ip_address::RULES),
    ("networking.k8s.io", "networkpolicies", networking::network_policy::RULES),
    ("networking.k8s.io", "servicecidrs", service_cidr::RULES),
    ("node.k8s.io", "runtimeclasses", runtime_class::RULES),
    ("policy", "poddisruptionbudgets", pod_disruption_budget::RULES),
    ("rbac.authorization.k8s.io", "clusterrolebindings", rbac::CLUSTER_ROLE_BINDING),
    ("rbac.authorization.k8s.io", "clusterroles", rbac::CLUSTER_ROLE),
    ("rbac.authorization.k8s.io", "rolebindings", rbac::ROLE_BINDING),
    ("rbac.authorization.k8s.io", "roles", rbac::ROLE),
    ("resource.k8s.io", "resourceclaims", resource_claim::RULES),
    ("resource.k8s.io", "resourceclaimtemplates", resource_claim::RULES),
    ("scheduling.k8s.io", "priorityclasses", priority_class::RULES),
    ("storage.k8s.io", "storageclasses", storage_class::STORAGE_CLASS),
    ("storage.k8s.io", "volumeattributesclasses", storage_class::VOLUME_ATTRIBUTES_CLASS),
];

/// The rules of a kind.
pub fn rules(group: &str, plural: &str) -> Rules {
    let row = RULES.iter().find(|(g, p, _)| (*g, *p) == (group, plural));
    row.map_or(Rules::NONE, |(_, _, rules)| *rules)
}
