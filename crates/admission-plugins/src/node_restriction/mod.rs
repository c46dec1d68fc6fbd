//! `NodeRestriction`: a node writes only what is its own.
//!
//! The node authorizer says which kinds a node may write; this plug-in sees the objects.

mod node;
mod pod;
mod pod_certificate_request;
mod service_account;

use std::sync::Arc;

use kevel_api::gvk::GroupResource;
use kevel_api::quote::quote;
use kevel_api::status::StatusError;
use kevel_api::value::Value;
use kevel_codec::base64;
use kevel_component::future::Pending;
use kevel_registry::admission::{Attributes, Operation, Plugin};
use kevel_registry::storage::{Storage, local_key};
use kevel_server::authorization::Authorizer;
use kevel_server::certificates::requested_subject;
use kevel_store::cache::At;

use super::{Context, Registration};
use kevel_features::Feature;

/// The namespace of nodes' leases.
const NODE_LEASES: &str = "kube-node-lease";
/// Signer names of node certificates.
const NODE_SIGNERS: [&str; 2] =
    ["kubernetes.io/kubelet-serving", "kubernetes.io/kube-apiserver-client-kubelet"];

/// `NodeRestriction`, as the command line knows it.
pub const REGISTRATION: Registration =
    Registration::off("NodeRestriction", |context| Ok(Arc::new(NodeRestriction::new(context)?)));

/// The admission plug-in of that name.
pub struct NodeRestriction {
    pods: Arc<Storage>,
    nodes: Arc<Storage>,
    service_accounts: Arc<Storage>,
    volume_claims: Arc<Storage>,
    volumes: Arc<Storage>,
    csi_drivers: Option<Arc<Storage>>,
    authorizer: Arc<dyn Authorizer>,
    features: Features,
}

/// The feature gates that change what nodes may write.
#[derive(Clone, Copy, Debug)]
struct Features {
    /// `AllowInsecureKubeletCertificateSigningRequests`
    insecure_certificate_signing_requests: bool,
    /// `PodCertificateRequest`
    pod_certificate_request: bool,
    /// `ServiceAccountNodeAudienceRestriction`
    audience_restriction: bool,
}

impl std::fmt::Debug for NodeRestriction {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("NodeRestriction")
    }
}

impl NodeRestriction {
    pub fn new(context: &Context<'_>) -> Result<Self, String> {
        Ok(NodeRestriction {
            pods: context.storage("", "pods")?,
            nodes: context.storage("", "nodes")?,
            service_accounts: context.storage("", "serviceaccounts")?,
            volume_claims: context.storage("", "persistentvolumeclaims")?,
            volumes: context.storage("", "persistentvolumes")?,
            csi_drivers: context.served("storage.k8s.io", "csidrivers"),
            authorizer: context.authorizer.clone(),
            features: Features {
                insecure_certificate_signing_requests: (context.feature)(
                    Feature::AllowInsecureKubeletCertificateSigningRequests,
                ),
                pod_certificate_request: (context.feature)(Feature::PodCertificateRequest),
                audience_restriction: (context.feature)(
                    Feature::ServiceAccountNodeAudienceRestriction,
                ),
            },
        })
    }

    async fn check(&self, node: &str, write: &Write<'_>) -> Result<(), StatusError> {
        if node.is_empty() {
            let user = quote(&write.attributes.user.name);
            return write.forbid(format!("could not determine node from user {user}"));
        }
        let resource = &write.attributes.resource;
        match (&*resource.kind.group, resource.plural.as_str()) {
            ("", "pods") => self.pod(node, write).await,
            ("", "nodes") => node::check(node, write),
            ("", "persistentvolumeclaims") => volume_claim(node, write),
            ("", "serviceaccounts") => self.service_account(node, write).await,
            ("certificates.k8s.io", "podcertificaterequests") => {
                self.pod_certificate_request(node, write).await
            }
            ("coordination.k8s.io", "leases") => lease(node, write),
            ("storage.k8s.io", "csinodes") => csi_node(node, write),
            ("resource.k8s.io", "resourceslices") => resource_slice(node, write),
            ("certificates.k8s.io", "certificatesigningrequests")
                if !self.features.insecure_certificate_signing_requests =>
            {
                certificate_signing_request(node, write)
            }
            _ => Ok(()),
        }
    }
}

impl Plugin for NodeRestriction {
    fn name(&self) -> &'static str {
        REGISTRATION.name
    }

    fn admit<'a>(
        &'a self,
        attributes: &'a Attributes<'a>,
        object: Option<&'a mut Value>,
    ) -> Pending<'a, Result<(), StatusError>> {
        Box::pin(async move {
            let Some(node) = attributes.user.node_name() else { return Ok(()) };
            if attributes.operation == Operation::Connect {
                return Ok(());
            }
            self.check(node, &Write { attributes, object: object.as_deref() }).await
        })
    }
}

/// Write by a node.
struct Write<'a> {
    attributes: &'a Attributes<'a>,
    object: Option<&'a Value>,
}

impl Write<'_> {
    /// The object as it will be; empty for deletions.
    fn object(&self) -> &Value {
        self.object.unwrap_or(&Value::Null)
    }

    /// The object as it is; empty for creations.
    fn old(&self) -> &Value {
        self.attributes.old.unwrap_or(&Value::Null)
    }

    /// The name of the object; of one that is created it stands in the object.
    fn name(&self) -> &str {
        match self.attributes.operation {
            Operation::Create => self.object().str_at(&["metadata", "name"]),
            _ => self.attributes.name,
        }
    }

    fn operation(&self) -> &'static str {
        match self.attributes.operation {
            Operation::Create => "CREATE",
            Operation::Update => "UPDATE",
            Operation::Delete => "DELETE",
            Operation::Connect => "CONNECT",
        }
    }

    /// The refusal.
    fn forbidden(&self, error: impl std::fmt::Display) -> StatusError {
        self.attributes.forbidden(self.object, error)
    }

    fn forbid<T>(&self, error: impl std::fmt::Display) -> Result<T, StatusError> {
        Err(self.forbidden(error))
    }
}

/// Finds an object. One that is not there is told of under the name of its kind, in the singular.
async fn find(
    storage: &Storage,
    group: &'static str,
    kind: &'static str,
    namespace: &str,
    name: &str,
) -> Result<Value, StatusError> {
    let found = storage.cache.get(&local_key(namespace, name), At::Any).await;
    let found = found.map_err(StatusError::internal)?;
    let object = found
        .ok_or_else(|| StatusError::not_found(&GroupResource::from_static(group, kind), name))?;
    storage.tree(&object).map_err(StatusError::internal)
}

/// Fields of a claim's status that a node may change.
const CLAIM_STATUS: [&str; 4] =
    ["capacity", "conditions", "allocatedResourceStatuses", "allocatedResources"];

fn volume_claim(node: &str, write: &Write<'_>) -> Result<(), StatusError> {
    if write.attributes.subresource != "status" {
        return write.forbid("may only update PVC status");
    }
    if write.attributes.operation != Operation::Update {
        return write.forbid(format!("unexpected operation {}", quote(write.operation())));
    }
    let rest = |claim: &Value| {
        let mut rest = claim.clone();
        for (part, fields) in
            [("metadata", &["resourceVersion", "managedFields"][..]), ("status", &CLAIM_STATUS)]
        {
            if let Some(part) = rest.at_mut(&[part]).and_then(Value::as_map_mut) {
                fields.iter().for_each(|field| drop(part.remove(field)));
                part.retain(|_, value| !value.is_empty());
            }
        }
        if let Some(map) = rest.as_map_mut() {
            map.retain(|_, value| !value.is_empty());
        }
        rest
    };
    let (new, old) = (rest(write.object()), rest(write.old()));
    if new == old {
        return Ok(());
    }
    let parts = ["metadata", "spec", "status"];
    let changed = parts.into_iter().filter(|part| new.at(&[part]) != old.at(&[part]));
    write.forbid(format!(
        "node {} is not allowed to update fields other than status.quantity and \
         status.conditions: {}",
        quote(node),
        changed.collect::<Vec<_>>().join(", ")
    ))
}

fn lease(node: &str, write: &Write<'_>) -> Result<(), StatusError> {
    if write.attributes.namespace != NODE_LEASES {
        let namespace = quote(NODE_LEASES);
        return write.forbid(format!("can only access leases in the {namespace} system namespace"));
    }
    if write.name() != node {
        let error = "can only access node lease with the same name as the requesting node";
        return write.forbid(error);
    }
    Ok(())
}

fn csi_node(node: &str, write: &Write<'_>) -> Result<(), StatusError> {
    match write.name() == node {
        true => Ok(()),
        false => write.forbid("can only access CSINode with the same name as the requesting node"),
    }
}

fn resource_slice(node: &str, write: &Write<'_>) -> Result<(), StatusError> {
    let (slice, verb) = match write.attributes.operation {
        Operation::Create => (write.object(), "create"),
        Operation::Delete => (write.old(), "delete"),
        // What is there the authorizer knows, and the node of a slice never changes.
        Operation::Update | Operation::Connect => return Ok(()),
    };
    match slice.str_at(&["spec", "nodeName"]) == node {
        true => Ok(()),
        false => write.forbid(format!(
            "can only {verb} ResourceSlice with the same NodeName as the requesting node"
        )),
    }
}

fn certificate_signing_request(node: &str, write: &Write<'_>) -> Result<(), StatusError> {
    let signer = write.object().str_at(&["spec", "signerName"]);
    if write.attributes.operation != Operation::Create || !NODE_SIGNERS.contains(&signer) {
        return Ok(());
    }
    let mut pem = Vec::new();
    let decoded = base64::decode_into(write.object().str_at(&["spec", "request"]), &mut pem);
    let decoded = decoded.map_err(|_| "PEM block type must be CERTIFICATE REQUEST".to_owned());
    let subject = decoded.and_then(|()| requested_subject(&pem));
    let subject =
        subject.map_err(|error| write.forbidden(format!("unable to parse csr: {error}")))?;
    if subject.common_name != format!("system:node:{node}") {
        return write.forbid(format!("can only create a node CSR with CN=system:node:{node}"));
    }
    Ok(())
}
