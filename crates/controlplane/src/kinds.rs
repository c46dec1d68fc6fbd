//! What is special about a built-in kind, as data.

use std::sync::Arc;
use std::time::Duration;

use kevel_api::field_error::FieldErrors;
use kevel_api::name;
use kevel_api::value::Value;
use kevel_server::resource::Places;
use kevel_server::scale::{Scale, Selector};
use kevel_server::strategy::{Dependents, STATUS_METADATA, Strategy};
use kevel_server::user::User;

use crate::capabilities::Capabilities;
use crate::certificates::signing_request;
use crate::namespace::{self, standard_finalizer};
use crate::pod::{ephemeral_containers, resize};
use crate::rules::{Rules, rules};
use crate::validation::Field;

/// How a kind differs from one that has nothing special.
#[derive(Clone, Copy)]
pub struct KindFacts {
    /// What its names may be.
    pub check_name: fn(&str, bool) -> Vec<String>,
    /// What selectors may ask for, and where it stands in the object.
    pub fields: &'static [(&'static str, &'static str)],
    /// What clients call these fields, where that is something else.
    pub aliases: &'static [(&'static str, &'static str)],
    /// Which of those watchers are found by.
    pub indexed: &'static [&'static str],
    /// Whether a deletion answers with the object.
    pub returns_deleted: bool,
    pub time_to_live: Option<Duration>,
    /// Whether objects may be made with a status.
    pub keeps_status: bool,
    /// The fields that no update changes, whatever it says.
    pub reset_fields: &'static [&'static str],
    /// Whether changes of what is wanted are counted.
    pub generation: bool,
    /// Whether an update makes what is not there.
    pub create_on_update: bool,
    /// Whether an update must say which version it replaces.
    pub conditional: bool,
    pub dependents: Dependents,
    /// What of the metadata a write to the status leaves alone.
    pub kept_by_status: &'static [&'static str],
    /// How objects are made ready, and what is wrong with them.
    pub rules: Rules,
    /// What the server allows.
    pub capabilities: Capabilities,
    /// How a name is made of its beginning.
    pub complete_name: fn(&str) -> String,
    /// What all who use the kind should know, because it is on its way out.
    pub deprecation: Option<&'static str>,
}

const PLAIN: KindFacts = KindFacts {
    check_name: name::name_is_dns_subdomain,
    fields: &[],
    aliases: &[],
    indexed: &[],
    returns_deleted: false,
    time_to_live: None,
    keeps_status: false,
    reset_fields: &[],
    generation: false,
    create_on_update: false,
    conditional: false,
    dependents: Dependents::Collected,
    kept_by_status: &[],
    rules: Rules::NONE,
    capabilities: Capabilities { allow_privileged: false },
    complete_name: name::generate_name,
    deprecation: None,
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

/// The kinds whose objects are made by an update of what is not there.
const CREATED_BY_UPDATE: &[(&str, &str)] = &[
    ("", "endpoints"),
    ("", "events"),
    ("", "limitranges"),
    ("", "services"),
    ("coordination.k8s.io", "leases"),
    ("coordination.k8s.io", "leasecandidates"),
    ("events.k8s.io", "events"),
    ("node.k8s.io", "runtimeclasses"),
    ("rbac.authorization.k8s.io", "clusterroles"),
    ("rbac.authorization.k8s.io", "clusterrolebindings"),
    ("rbac.authorization.k8s.io", "roles"),
    ("rbac.authorization.k8s.io", "rolebindings"),
];

/// The kinds whose updates must name the version that they replace.
const CONDITIONAL: &[(&str, &str)] = &[
    ("admissionregistration.k8s.io", "mutatingadmissionpolicies"),
    ("admissionregistration.k8s.io", "mutatingadmissionpolicybindings"),
    ("admissionregistration.k8s.io", "mutatingwebhookconfigurations"),
    ("admissionregistration.k8s.io", "validatingadmissionpolicies"),
    ("admissionregistration.k8s.io", "validatingadmissionpolicybindings"),
    ("admissionregistration.k8s.io", "validatingwebhookconfigurations"),
    ("apiextensions.k8s.io", "customresourcedefinitions"),
    ("apiregistration.k8s.io", "apiservices"),
    ("certificates.k8s.io", "clustertrustbundles"),
    ("certificates.k8s.io", "podcertificaterequests"),
    ("coordination.k8s.io", "leases"),
    ("coordination.k8s.io", "leasecandidates"),
    ("internal.apiserver.k8s.io", "storageversions"),
    ("node.k8s.io", "runtimeclasses"),
    ("policy", "poddisruptionbudgets"),
    ("resource.k8s.io", "resourcepoolstatusrequests"),
    ("storage.k8s.io", "csidrivers"),
    ("storage.k8s.io", "csinodes"),
    ("storage.k8s.io", "csistoragecapacities"),
    ("storage.k8s.io", "volumeattachments"),
    ("storagemigration.k8s.io", "storageversionmigrations"),
];

/// The kinds whose dependents are not collected when nobody says.
const DEPENDENTS: &[(&str, &str, Dependents)] = &[
    ("", "events", Dependents::Ignored),
    ("", "replicationcontrollers", Dependents::Orphaned),
    ("batch", "jobs", Dependents::Orphaned),
    ("events.k8s.io", "events", Dependents::Ignored),
];

/// The kinds of which a write to the status leaves metadata alone.
const KEPT_BY_STATUS: &[(&str, &str, &[&str])] = &[
    ("", "pods", &["ownerReferences"]),
    ("admissionregistration.k8s.io", "validatingadmissionpolicies", &STATUS_METADATA),
    ("apps", "deployments", &["labels"]),
    ("certificates.k8s.io", "podcertificaterequests", &STATUS_METADATA),
    ("flowcontrol.apiserver.k8s.io", "flowschemas", &STATUS_METADATA),
    ("flowcontrol.apiserver.k8s.io", "prioritylevelconfigurations", &STATUS_METADATA),
    ("internal.apiserver.k8s.io", "storageversions", &STATUS_METADATA),
    ("networking.k8s.io", "servicecidrs", &STATUS_METADATA),
    ("resource.k8s.io", "devicetaintrules", &STATUS_METADATA),
    ("resource.k8s.io", "resourceclaims", &STATUS_METADATA),
    ("resource.k8s.io", "resourcepoolstatusrequests", &STATUS_METADATA),
    ("scheduling.k8s.io", "podgroups", &STATUS_METADATA),
    ("storage.k8s.io", "volumeattachments", &STATUS_METADATA),
    ("storagemigration.k8s.io", "storageversionmigrations", &STATUS_METADATA),
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
    (
        "",
        "nodes",
        KindFacts {
            fields: &[("spec.unschedulable", "spec.unschedulable")],
            keeps_status: true,
            ..PLAIN
        },
    ),
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
            check_name: name::name_is_dns_label,
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
            check_name: name::is_path_segment_name,
            time_to_live: Some(Duration::from_secs(3600)),
            ..PLAIN
        },
    ),
    (
        "events.k8s.io",
        "events",
        KindFacts {
            aliases: &[
                ("metadata.name", "metadata.name"),
                ("metadata.namespace", "metadata.namespace"),
                ("reason", "reason"),
                ("regarding.apiVersion", "involvedObject.apiVersion"),
                ("regarding.fieldPath", "involvedObject.fieldPath"),
                ("regarding.kind", "involvedObject.kind"),
                ("regarding.name", "involvedObject.name"),
                ("regarding.namespace", "involvedObject.namespace"),
                ("regarding.resourceVersion", "involvedObject.resourceVersion"),
                ("regarding.uid", "involvedObject.uid"),
                ("reportingController", "reportingComponent"),
                ("type", "type"),
            ],
            ..PLAIN
        },
    ),
    (
        "",
        "componentstatuses",
        KindFacts { deprecation: Some("v1 ComponentStatus is deprecated in v1.19+"), ..PLAIN },
    ),
    (
        "",
        "endpoints",
        KindFacts {
            deprecation: Some(
                "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice",
            ),
            ..PLAIN
        },
    ),
    (
        "networking.k8s.io",
        "ipaddresses",
        KindFacts { check_name: ip_address_name, complete_name: |base| base.to_owned(), ..PLAIN },
    ),
    ("", "persistentvolumes", KindFacts { returns_deleted: true, ..PLAIN }),
    ("", "persistentvolumeclaims", KindFacts { returns_deleted: true, ..PLAIN }),
    ("", "podtemplates", KindFacts { returns_deleted: true, ..PLAIN }),
    ("", "resourcequotas", KindFacts { returns_deleted: true, ..PLAIN }),
    ("", "serviceaccounts", KindFacts { returns_deleted: true, ..PLAIN }),
    ("apps", "statefulsets", KindFacts { check_name: name::name_is_dns_label, ..PLAIN }),
    ("batch", "jobs", KindFacts { fields: &[("status.successful", "status.succeeded")], ..PLAIN }),
    (
        "certificates.k8s.io",
        "certificatesigningrequests",
        // Nobody cares what requests are called. What is asked for stays.
        KindFacts {
            check_name: name::is_path_segment_name,
            fields: SIGNER,
            reset_fields: &["spec"],
            ..PLAIN
        },
    ),
    (
        "certificates.k8s.io",
        "clustertrustbundles",
        // The name depends on the signer: the rules look at it.
        KindFacts { check_name: name::is_path_segment_name, fields: SIGNER, ..PLAIN },
    ),
    (
        "certificates.k8s.io",
        "podcertificaterequests",
        KindFacts {
            fields: &[
                ("spec.signerName", "spec.signerName"),
                ("spec.podName", "spec.podName"),
                ("spec.nodeName", "spec.nodeName"),
            ],
            ..PLAIN
        },
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

/// Requests are looked for by their signers.
const SIGNER: &[(&str, &str)] = &[("spec.signerName", "spec.signerName")];

/// Names of RBAC objects may hold anything that fits in a path.
const RBAC: KindFacts = KindFacts { check_name: name::is_path_segment_name, ..PLAIN };

/// IPAddress objects are named by the address.
fn ip_address_name(name: &str, _prefix: bool) -> Vec<String> {
    match name.parse::<std::net::IpAddr>() {
        Ok(address) if address.to_string() == name => Vec::new(),
        Ok(address) => vec![format!("must be in canonical form ({:?})", address.to_string())],
        Err(_) => vec!["must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)".to_owned()],
    }
}

/// What is special about a kind.
pub fn facts(group: &str, plural: &str) -> KindFacts {
    let row = KINDS.iter().find(|(g, p, _)| (*g, *p) == (group, plural));
    let facts = row.map_or(PLAIN, |(_, _, facts)| *facts);
    let kind = (group, plural);
    let dependents = DEPENDENTS.iter().find(|(g, p, _)| (*g, *p) == kind);
    let kept = KEPT_BY_STATUS.iter().find(|(g, p, _)| (*g, *p) == kind);
    KindFacts {
        generation: COUNTED.contains(&kind),
        create_on_update: CREATED_BY_UPDATE.contains(&kind),
        conditional: CONDITIONAL.contains(&kind),
        dependents: dependents.map_or(Dependents::Collected, |(_, _, what)| *what),
        kept_by_status: kept.map_or(&[], |(_, _, kept)| *kept),
        rules: rules(group, plural),
        ..facts
    }
}

/// What a subresource may write of its object, where that is less than a field.
pub fn places(group: &str, path: &str, capabilities: Capabilities) -> Option<Places> {
    let plural = path.split('/').next().unwrap_or_default();
    let ruled = |rules| Arc::new(KindFacts { rules, capabilities, ..facts(group, plural) });
    match (group, path) {
        ("", "namespaces/finalize") => Some(Places {
            paths: &[&["spec", "finalizers"]],
            metadata: true,
            strategy: ruled(namespace::FINALIZE),
        }),
        ("", "pods/ephemeralcontainers") => Some(Places {
            paths: &[&["spec", "ephemeralContainers"]],
            metadata: false,
            strategy: ruled(ephemeral_containers::RULES),
        }),
        ("", "pods/resize") => Some(Places {
            paths: &[
                &["spec", "containers", "*", "resources"],
                &["spec", "containers", "*", "resizePolicy"],
                &["spec", "initContainers", "*", "resources"],
                &["spec", "initContainers", "*", "resizePolicy"],
                &["spec", "resources"],
            ],
            metadata: false,
            strategy: ruled(resize::RULES),
        }),
        ("certificates.k8s.io", "certificatesigningrequests/approval") => Some(Places {
            paths: &[&["status", "conditions"]],
            metadata: true,
            strategy: ruled(signing_request::APPROVAL),
        }),
        _ => None,
    }
}

/// Where a kind says how many there are of it, by the path of its scale.
pub fn scale(group: &str, path: &str) -> Option<Scale> {
    let words = |path: &[&str]| path.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
    let selector = words(&["spec", "selector"]);
    let selector = match (group, path) {
        ("", "replicationcontrollers/scale") => Selector::Labels(selector),
        ("apps", "deployments/scale" | "replicasets/scale" | "statefulsets/scale") => {
            Selector::Object(selector)
        }
        _ => return None,
    };
    let there = words(&["status", "replicas"]);
    Some(Scale { wanted: words(&["spec", "replicas"]), there, selector })
}

/// The strategy of a kind: what its facts make it.
pub fn strategy(group: &str, plural: &str, capabilities: Capabilities) -> Arc<dyn Strategy> {
    Arc::new(KindFacts { capabilities, ..facts(group, plural) })
}

/// What holds objects of built-in kinds is qualified, or known.
fn finalizers(object: Field) {
    let metadata = object.at("metadata");
    for finalizer in metadata.at("finalizers").items() {
        standard_finalizer(finalizer, finalizer.str());
    }
}

impl Strategy for KindFacts {
    fn check_name(&self, name: &str, prefix: bool) -> Vec<String> {
        (self.check_name)(name, prefix)
    }

    fn complete_name(&self, base: &str) -> String {
        (self.complete_name)(base)
    }

    fn deprecation(&self) -> Option<&'static str> {
        self.deprecation
    }

    fn returns_deleted(&self) -> bool {
        self.returns_deleted
    }

    fn keeps_status(&self) -> bool {
        self.keeps_status
    }

    fn reset_fields(&self) -> &'static [&'static str] {
        self.reset_fields
    }

    fn counts_generation(&self) -> bool {
        self.generation
    }

    fn sign(&self, object: &mut Value, user: &User) {
        (self.rules.sign)(object, user);
    }

    fn prepare_create(&self, object: &mut Value) {
        (self.rules.prepare_create)(object);
    }

    fn check_create(&self, object: &Value) -> FieldErrors {
        self.capabilities.errors(object, |object| {
            finalizers(object);
            (self.rules.check_create)(object);
        })
    }

    fn prepare_update(&self, object: &mut Value, old: &Value) {
        (self.rules.prepare_update)(object, old);
    }

    fn prepare_status(&self, object: &mut Value, old: &Value) {
        (self.rules.prepare_status)(object, old);
    }

    fn kept_by_status(&self) -> &'static [&'static str] {
        self.kept_by_status
    }

    fn check_status(&self, object: &Value, old: &Value) -> FieldErrors {
        self.capabilities.update_errors(object, old, |object, old| {
            finalizers(object);
            (self.rules.check_status)(object, old);
        })
    }

    fn warnings(&self, object: &Value, old: Option<&Value>) -> Vec<String> {
        (self.rules.warnings)(object, old)
    }

    fn begin_delete(&self, object: &mut Value) -> bool {
        (self.rules.begin_delete)(object)
    }

    fn held(&self, object: &Value) -> bool {
        (self.rules.held)(object)
    }

    fn graceful(&self) -> bool {
        self.rules.grace_period.is_some()
    }

    fn grace_period(&self, object: &Value, asked: Option<i64>) -> Option<i64> {
        self.rules.grace_period.map(|period| period(object, asked))
    }

    fn check_update(&self, object: &Value, old: &Value) -> FieldErrors {
        self.capabilities.update_errors(object, old, |object, old| {
            finalizers(object);
            (self.rules.check_update)(object, old);
        })
    }

    fn selectable<'f>(&self, field: &'f str) -> Option<&'f str> {
        if self.aliases.is_empty() {
            return Some(field);
        }
        self.aliases.iter().find(|(alias, _)| *alias == field).map(|(_, name)| *name)
    }

    fn unconditional_update(&self) -> bool {
        !self.conditional
    }

    fn create_on_update(&self) -> bool {
        self.create_on_update
    }

    fn dependents(&self) -> Dependents {
        self.dependents
    }
}
