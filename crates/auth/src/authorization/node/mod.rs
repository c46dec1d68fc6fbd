//! Node authorizer: a kubelet reads the objects that its pods need, and writes its own.
//!
//! Secrets, ConfigMaps, volumes and the like may be read where the graph leads from them to the node. The `NodeRestriction`
//! admission plug-in, which sees the objects, restricts writes further.

mod follow;
mod graph;
mod projection;
#[cfg(test)]
mod tests;

use std::sync::{Arc, PoisonError, RwLock};

use kevel_api::quote::quote;
use kevel_api::value::Value;
use kevel_clock::Stopwatch;
use kevel_component::future::Pending;
use kevel_registry::user::User;
use kevel_server::authorization::{Attributes, Authorizer, Opinion, Rules};
use kevel_server::metrics::{Description, Family, Histogram, Metrics};

use self::graph::{Graph, Kind, Vertex};
use crate::PolicyRule;
use crate::bootstrap::node_rules;

/// The namespace of nodes' leases.
const NODE_LEASES: &str = "kube-node-lease";
const ACTION_SECONDS: &[f64] = &[
    0.0001, 0.0002, 0.0004, 0.0008, 0.0016, 0.0032, 0.0064, 0.0128, 0.0256, 0.0512, 0.1024, 0.2048,
];
/// The verbs on objects that bear the node's name.
const OWN: [&str; 5] = ["get", "create", "update", "patch", "delete"];

/// The authorizer. Before everything is loaded it knows of no relations, and allows less.
#[derive(Debug)]
pub struct NodeAuthorizer {
    graph: RwLock<Graph>,
    /// Rules that apply to all nodes alike.
    rules: Vec<PolicyRule>,
    features: NodeFeatures,
    /// Histograms of the duration of graph changes, by kind of change.
    actions: Option<Arc<Family<Histogram>>>,
}

/// The feature gates that change what nodes may do.
#[derive(Clone, Copy, Debug, Default)]
pub struct NodeFeatures {
    /// `ClusterTrustBundle`
    pub cluster_trust_bundle: bool,
    /// `KubeletServiceAccountTokenForCredentialProviders`
    pub service_account_token_for_credential_providers: bool,
    /// `PodCertificateRequest`
    pub pod_certificate_request: bool,
}

impl NodeAuthorizer {
    /// Node authorizer without objects; see [`NodeAuthorizer::follow`].
    pub fn new(features: NodeFeatures) -> Self {
        let mut rules = node_rules();
        if features.cluster_trust_bundle {
            let words = |words: &[&str]| words.iter().map(|&word| word.to_owned()).collect();
            rules.push(PolicyRule {
                verbs: words(&["get", "list", "watch"]),
                api_groups: words(&["certificates.k8s.io"]),
                resources: words(&["clustertrustbundles"]),
                ..PolicyRule::default()
            });
        }
        NodeAuthorizer { graph: RwLock::default(), rules, features, actions: None }
    }

    /// Measures the duration of graph changes.
    pub fn measured(mut self, metrics: &Metrics) -> Self {
        let description = Description {
            name: "node_authorizer_graph_actions_duration_seconds",
            help: "[ALPHA] Seconds that changes of the node authorizer's graph took.",
            labels: &["operation"],
        };
        self.actions = Some(metrics.histogram(description, ACTION_SECONDS));
        self
    }

    /// Whether something is allowed. Does not wait for anything.
    pub fn decide(&self, asked: &Attributes<'_>) -> Opinion {
        let Some(node) = asked.user.node_name() else { return Opinion::none("") };
        if node.is_empty() {
            return Opinion::none(format!("unknown node for user {}", quote(&asked.user.name)));
        }
        let refused = match self.judge(node, asked) {
            Verdict::Allowed => return Opinion::allow(),
            Verdict::Refused(reason) => reason,
            Verdict::AsAllNodes if self.rules.iter().any(|rule| rule.allows(asked)) => {
                return Opinion::allow();
            }
            Verdict::AsAllNodes => String::new(),
        };
        tracing::debug!(node, ?asked, "NODE DENY");
        Opinion::none(refused)
    }

    fn judge(&self, node: &str, asked: &Attributes<'_>) -> Verdict {
        if !asked.is_resource {
            return Verdict::AsAllNodes;
        }
        match (asked.group, asked.resource) {
            ("", "secrets") => self.read(node, Kind::Secret, asked),
            ("", "configmaps") => self.read(node, Kind::ConfigMap, asked),
            ("", "persistentvolumeclaims") if asked.subresource == "status" => match asked.verb {
                "update" | "patch" => self.related(node, Kind::VolumeClaim, asked),
                _ => refused("can only get/update/patch this type"),
            },
            ("", "persistentvolumeclaims") => self.get(node, Kind::VolumeClaim, asked),
            ("", "persistentvolumes") => self.get(node, Kind::Volume, asked),
            ("resource.k8s.io", "resourceclaims") => self.get(node, Kind::ResourceClaim, asked),
            ("storage.k8s.io", "volumeattachments") => {
                self.get(node, Kind::VolumeAttachment, asked)
            }
            ("", "serviceaccounts") => self.service_account(node, asked),
            ("coordination.k8s.io", "leases") => lease(node, asked),
            ("storage.k8s.io", "csinodes") => csi_node(node, asked),
            ("resource.k8s.io", "resourceslices") => self.resource_slice(node, asked),
            ("", "nodes") => own_node(node, asked),
            ("", "pods") => self.pod(node, asked),
            ("certificates.k8s.io", "podcertificaterequests") => {
                self.pod_certificate_request(node, asked)
            }
            _ => Verdict::AsAllNodes,
        }
    }

    /// `get`, `list` and `watch` of single objects in a namespace.
    fn read(&self, node: &str, kind: Kind, asked: &Attributes<'_>) -> Verdict {
        if !matches!(asked.verb, "get" | "list" | "watch") {
            return refused("can only read resources of this type");
        }
        if !asked.subresource.is_empty() {
            return refused("cannot read subresource");
        }
        if asked.namespace.is_empty() {
            return refused("can only read namespaced object of this type");
        }
        self.related(node, kind, asked)
    }

    fn get(&self, node: &str, kind: Kind, asked: &Attributes<'_>) -> Verdict {
        if asked.verb != "get" {
            return refused("can only get individual resources of this type");
        }
        if !asked.subresource.is_empty() {
            return refused("cannot get subresource");
        }
        self.related(node, kind, asked)
    }

    fn service_account(&self, node: &str, asked: &Attributes<'_>) -> Verdict {
        if asked.verb == "get" && asked.subresource.is_empty() {
            let features = &self.features;
            return match features.service_account_token_for_credential_providers
                || features.pod_certificate_request
            {
                true => self.read(node, Kind::ServiceAccount, asked),
                false => refused("not allowed to get service accounts"),
            };
        }
        if asked.verb != "create" || asked.name.is_empty() {
            return refused("can only create tokens for individual service accounts");
        }
        if asked.subresource != "token" {
            return refused("can only create token subresource of serviceaccount");
        }
        self.related(node, Kind::ServiceAccount, asked)
    }

    fn resource_slice(&self, node: &str, asked: &Attributes<'_>) -> Verdict {
        if !asked.subresource.is_empty() {
            return refused("cannot authorize ResourceSlice subresources");
        }
        match asked.verb {
            // Of which node it is, only admission can see.
            "create" => Verdict::Allowed,
            "get" | "update" | "patch" | "delete" => self.related(node, Kind::ResourceSlice, asked),
            "watch" | "list" | "deletecollection" => narrowed(
                node,
                asked,
                "can only list/watch/deletecollection resourceslices with nodeName field selector",
            ),
            _ => refused(
                "only the following verbs are allowed for a ResourceSlice: get, watch, list, \
                 create, update, patch, delete, deletecollection",
            ),
        }
    }

    fn pod(&self, node: &str, asked: &Attributes<'_>) -> Verdict {
        match (asked.subresource, asked.verb) {
            ("", "get") => self.get(node, Kind::Pod, asked),
            ("", "list" | "watch") => {
                match narrowed(
                    node,
                    asked,
                    "can only list/watch pods with spec.nodeName field selector",
                ) {
                    Verdict::Refused(_) if !asked.name.is_empty() => {
                        self.related(node, Kind::Pod, asked)
                    }
                    verdict => verdict,
                }
            }
            // Mirrors, status and evictions of its own pods: admission sees whose they are.
            ("", "create" | "delete") | ("status", "update" | "patch") | ("eviction", "create") => {
                Verdict::Allowed
            }
            _ => refused(""),
        }
    }

    fn pod_certificate_request(&self, node: &str, asked: &Attributes<'_>) -> Verdict {
        if !self.features.pod_certificate_request {
            return refused("");
        }
        if !asked.subresource.is_empty() {
            return refused(
                "nodes may not access the status subresource of PodCertificateRequests",
            );
        }
        match asked.verb {
            "create" => Verdict::Allowed,
            "get" => self.related(node, Kind::PodCertificateRequest, asked),
            "list" | "watch" => narrowed(
                node,
                asked,
                "can only list/watch podcertificaterequests with nodeName field selector",
            ),
            verb => refused(format!("nodes may not {verb} podcertificaterequests")),
        }
    }

    /// Allowed if the object has to do with the node.
    fn related(&self, node: &str, kind: Kind, asked: &Attributes<'_>) -> Verdict {
        if asked.name.is_empty() {
            return refused("No Object name found");
        }
        let vertex = Vertex::new(kind, asked.namespace, asked.name);
        match self.graph.read().unwrap_or_else(PoisonError::into_inner).leads(&vertex, node) {
            true => Verdict::Allowed,
            false => {
                refused(format!("no relationship found between node '{node}' and this object"))
            }
        }
    }

    fn set(&self, kind: Kind, key: &str, object: Option<&Value>) {
        let started = Stopwatch::start();
        graph::set(&self.graph, kind, key, object);
        if let Some(actions) = &self.actions {
            let [add, delete] = kind.actions();
            let action = if object.is_some() { add } else { delete };
            actions.with(&[action]).observe(started.elapsed().as_secs_f64());
        }
    }
}

impl Authorizer for NodeAuthorizer {
    fn authorize<'a>(&'a self, attributes: &'a Attributes<'a>) -> Pending<'a, Opinion> {
        Box::pin(std::future::ready(self.decide(attributes)))
    }

    fn rules_for(&self, user: &User, _: &str) -> Rules {
        match user.node_name() {
            Some(_) => Rules::unknown("node authorizer does not support user rule resolution"),
            None => Rules::default(),
        }
    }
}

/// Verdict on a request.
enum Verdict {
    Allowed,
    Refused(String),
    /// Nodes are treated alike.
    AsAllNodes,
}

fn refused(reason: impl Into<String>) -> Verdict {
    Verdict::Refused(reason.into())
}

/// Allowed if only objects of the node are asked for.
fn narrowed(node: &str, asked: &Attributes<'_>, otherwise: &str) -> Verdict {
    match asked.selectors.require("spec.nodeName", node) {
        true => Verdict::Allowed,
        false => refused(otherwise),
    }
}

fn lease(node: &str, asked: &Attributes<'_>) -> Verdict {
    if !OWN.contains(&asked.verb) {
        return refused("can only get, create, update, patch, or delete a node lease");
    }
    if asked.namespace != NODE_LEASES {
        let namespace = quote(NODE_LEASES);
        return refused(format!("can only access leases in the {namespace} system namespace"));
    }
    // The name of what is created only admission can see.
    if asked.verb != "create" && asked.name != node {
        return refused("can only access node lease with the same name as the requesting node");
    }
    Verdict::Allowed
}

fn csi_node(node: &str, asked: &Attributes<'_>) -> Verdict {
    if !OWN.contains(&asked.verb) {
        return refused("can only get, create, update, patch, or delete a CSINode");
    }
    if !asked.subresource.is_empty() {
        return refused("cannot authorize CSINode subresources");
    }
    if asked.verb != "create" && asked.name != node {
        return refused("can only access CSINode with the same name as the requesting node");
    }
    Verdict::Allowed
}

fn own_node(node: &str, asked: &Attributes<'_>) -> Verdict {
    match (asked.subresource, asked.verb) {
        // Which node that is admission sees.
        ("", "create" | "update" | "patch") | ("status", "update" | "patch") => Verdict::Allowed,
        ("", "get" | "list" | "watch") => match asked.name {
            name if name == node => Verdict::Allowed,
            "" => refused(format!("node '{node}' cannot read all nodes, only its own Node object")),
            name => {
                refused(format!("node '{node}' cannot read '{name}', only its own Node object"))
            }
        },
        _ => refused(""),
    }
}
