//! What is special about a built-in kind, as data.

use std::sync::Arc;
use std::time::Duration;

use kevel_api::name;
use kevel_server::strategy::Strategy;

use crate::namespace::Namespace;

/// How a kind differs from one that has nothing special.
#[derive(Clone, Copy)]
pub struct KindFacts {
    /// What its names may be.
    pub check_name: fn(&str, bool) -> Vec<String>,
    /// What selectors may ask for, and where it stands in the object.
    pub fields: &'static [(&'static str, &'static str)],
    /// Which of those watchers are found by.
    pub indexed: &'static [&'static str],
    /// Whether a deletion answers with the object.
    pub returns_deleted: bool,
    pub time_to_live: Option<Duration>,
    /// Whether changes of what is wanted are counted.
    pub generation: bool,
}

const PLAIN: KindFacts = KindFacts {
    check_name: name::name_is_dns_subdomain,
    fields: &[],
    indexed: &[],
    returns_deleted: false,
    time_to_live: None,
    generation: false,
};

/// The kinds whose changes are counted, by group and plural.
const COUNTED: &[(&str, &str)] = &[
    ("", "pods"),
    ("", "podtemplates"),
    ("", "replicationcontrollers"),
    ("admissionregistration.k8s.io", "mutatingadmissionpolicies"),
    ("admissionregistration.k8s.io", "mutatingadmissionpolicybindings"),
    ("admissionregistration.k8s.io", "mutatingwebhookconfigurations"),
    ("admissionregistration.k8s.io", "validatingadmissionpolicies"),
    ("admissionregistration.k8s.io", "validatingadmissionpolicybindings"),
    ("admissionregistration.k8s.io", "validatingwebhookconfigurations"),
    ("apiextensions.k8s.io", "customresourcedefinitions"),
    ("apps", "daemonsets"),
    ("apps", "deployments"),
    ("apps", "replicasets"),
    ("apps", "statefulsets"),
    ("batch", "cronjobs"),
    ("batch", "jobs"),
    ("discovery.k8s.io", "endpointslices"),
    ("flowcontrol.apiserver.k8s.io", "flowschemas"),
    ("flowcontrol.apiserver.k8s.io", "prioritylevelconfigurations"),
    ("networking.k8s.io", "ingresses"),
    ("networking.k8s.io", "ingressclasses"),
    ("networking.k8s.io", "networkpolicies"),
    ("policy", "poddisruptionbudgets"),
    ("resource.k8s.io", "deviceclasses"),
    ("resource.k8s.io", "devicetaintrules"),
    ("resource.k8s.io", "resourceslices"),
    ("scheduling.k8s.io", "priorityclasses"),
];

/// The kinds that differ, by group and plural.
const KINDS: &[(&str, &str, KindFacts)] = &[
    (
        "",
        "pods",
        KindFacts {
            fields: &[
                ("spec.nodeName", "spec.nodeName"),
                ("spec.restartPolicy", "spec.restartPolicy"),
                ("spec.schedulerName", "spec.schedulerName"),
                ("spec.serviceAccountName", "spec.serviceAccountName"),
                ("spec.hostNetwork", "spec.hostNetwork"),
                ("status.phase", "status.phase"),
                ("status.podIP", "status.podIP"),
                ("status.podIPs", "status.podIP"),
                ("status.nominatedNodeName", "status.nominatedNodeName"),
            ],
            indexed: &["spec.nodeName"],
            returns_deleted: true,
            ..PLAIN
        },
    ),
    ("", "nodes", KindFacts { fields: &[("spec.unschedulable", "spec.unschedulable")], ..PLAIN }),
    (
        "",
        "namespaces",
        KindFacts {
            check_name: name::name_is_dns_label,
            fields: &[("status.phase", "status.phase")],
            returns_deleted: true,
            ..PLAIN
        },
    ),
    ("", "secrets", KindFacts { fields: &[("type", "type")], ..PLAIN }),
    (
        "",
        "services",
        KindFacts {
            check_name: name::name_is_dns1035_label,
            fields: &[("spec.clusterIP", "spec.clusterIP"), ("spec.type", "spec.type")],
            returns_deleted: true,
            ..PLAIN
        },
    ),
    (
        "",
        "replicationcontrollers",
        KindFacts { fields: &[("status.replicas", "status.replicas")], ..PLAIN },
    ),
    (
        "",
        "events",
        KindFacts {
            fields: &[
                ("involvedObject.kind", "involvedObject.kind"),
                ("involvedObject.namespace", "involvedObject.namespace"),
                ("involvedObject.name", "involvedObject.name"),
                ("involvedObject.uid", "involvedObject.uid"),
                ("involvedObject.apiVersion", "involvedObject.apiVersion"),
                ("involvedObject.resourceVersion", "involvedObject.resourceVersion"),
                ("involvedObject.fieldPath", "involvedObject.fieldPath"),
                ("reason", "reason"),
                ("reportingComponent", "reportingComponent"),
                ("source", "source.component"),
                ("type", "type"),
            ],
            time_to_live: Some(Duration::from_secs(3600)),
            ..PLAIN
        },
    ),
    ("", "persistentvolumes", KindFacts { returns_deleted: true, ..PLAIN }),
    ("", "persistentvolumeclaims", KindFacts { returns_deleted: true, ..PLAIN }),
    ("", "podtemplates", KindFacts { returns_deleted: true, ..PLAIN }),
    ("", "resourcequotas", KindFacts { returns_deleted: true, ..PLAIN }),
    ("", "serviceaccounts", KindFacts { returns_deleted: true, ..PLAIN }),
    ("batch", "jobs", KindFacts { fields: &[("status.successful", "status.succeeded")], ..PLAIN }),
    (
        "certificates.k8s.io",
        "certificatesigningrequests",
        KindFacts { fields: &[("spec.signerName", "spec.signerName")], ..PLAIN },
    ),
    ("rbac.authorization.k8s.io", "roles", RBAC),
    ("rbac.authorization.k8s.io", "rolebindings", RBAC),
    ("rbac.authorization.k8s.io", "clusterroles", RBAC),
    ("rbac.authorization.k8s.io", "clusterrolebindings", RBAC),
    ("resource.k8s.io", "deviceclasses", KindFacts { returns_deleted: true, ..PLAIN }),
    ("resource.k8s.io", "resourceclaims", KindFacts { returns_deleted: true, ..PLAIN }),
    ("resource.k8s.io", "resourceclaimtemplates", KindFacts { returns_deleted: true, ..PLAIN }),
    (
        "resource.k8s.io",
        "resourceslices",
        KindFacts {
            fields: &[("spec.nodeName", "spec.nodeName"), ("spec.driver", "spec.driver")],
            returns_deleted: true,
            ..PLAIN
        },
    ),
    ("storage.k8s.io", "csidrivers", KindFacts { returns_deleted: true, ..PLAIN }),
    ("storage.k8s.io", "csinodes", KindFacts { returns_deleted: true, ..PLAIN }),
    ("storage.k8s.io", "storageclasses", KindFacts { returns_deleted: true, ..PLAIN }),
    ("storage.k8s.io", "volumeattachments", KindFacts { returns_deleted: true, ..PLAIN }),
    ("storage.k8s.io", "volumeattributesclasses", KindFacts { returns_deleted: true, ..PLAIN }),
];

/// Names of RBAC objects may hold anything that fits in a path.
const RBAC: KindFacts = KindFacts { check_name: name::is_path_segment_name, ..PLAIN };

/// What is special about a kind.
pub fn facts(group: &str, plural: &str) -> KindFacts {
    let row = KINDS.iter().find(|(g, p, _)| (*g, *p) == (group, plural));
    let facts = row.map_or(PLAIN, |(_, _, facts)| *facts);
    KindFacts { generation: COUNTED.contains(&(group, plural)), ..facts }
}

/// The rules of a kind: its own, or those that its facts make.
pub fn strategy(group: &str, plural: &str) -> Arc<dyn Strategy> {
    match (group, plural) {
        ("", "namespaces") => Arc::new(Namespace),
        _ => Arc::new(facts(group, plural)),
    }
}

impl Strategy for KindFacts {
    fn check_name(&self, name: &str, prefix: bool) -> Vec<String> {
        (self.check_name)(name, prefix)
    }

    fn returns_deleted(&self) -> bool {
        self.returns_deleted
    }

    fn counts_generation(&self) -> bool {
        self.generation
    }
}
