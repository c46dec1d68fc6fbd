//! NodeRestriction of pods: a kubelet creates mirror pods, and updates the status of pods bound to its node.

use kevel_api::quote::quote;
use kevel_api::references;
use kevel_api::status::StatusError;
use kevel_api::value::Value;
use kevel_registry::admission::Operation;

use super::{NodeRestriction, Write, find};

/// Annotation of mirror pods.
pub(super) const MIRROR: &str = "kubernetes.io/config.mirror";

/// Volume sources that reference no API objects.
const PLAIN_VOLUMES: [&str; 22] = [
    "awsElasticBlockStore",
    "azureDisk",
    "cephfs",
    "cinder",
    "downwardAPI",
    "emptyDir",
    "fc",
    "flexVolume",
    "flocker",
    "gcePersistentDisk",
    "gitRepo",
    "hostPath",
    "image",
    "iscsi",
    "nfs",
    "photonPersistentDisk",
    "portworxVolume",
    "quobyte",
    "rbd",
    "scaleIO",
    "storageos",
    "vsphereVolume",
];
/// Volume sources that reference API objects, with the text for messages.
const API_VOLUMES: [(&str, &str); 7] = [
    ("configMap", "configmaps (via configmap volumes)"),
    ("secret", "secrets (via secret volumes)"),
    ("csi", "csidrivers (via CSI volumes)"),
    ("glusterfs", "endpoints (via glusterFS volumes)"),
    ("persistentVolumeClaim", "persistentvolumeclaims"),
    ("ephemeral", "persistentvolumeclaims (via ephemeral volumes)"),
    ("azureFile", "secrets (via azureFile volumes)"),
];
/// Sources of projected volumes that reference API objects, with the text for messages.
const API_SOURCES: [(&str, &str); 5] = [
    ("configMap", "configmaps (via projected volumes)"),
    ("secret", "secrets (via projected volumes)"),
    ("serviceAccountToken", "serviceaccounts (via projected volumes)"),
    ("clusterTrustBundle", "clustertrustbundles"),
    ("podCertificate", "podcertificates"),
];

impl NodeRestriction {
    pub(super) async fn pod(&self, node: &str, write: &Write<'_>) -> Result<(), StatusError> {
        match write.attributes.subresource {
            "" => self.whole_pod(node, write).await,
            "status" => pod_status(node, write),
            "eviction" => self.eviction(node, write).await,
            other => write.forbid(format!(
                "unexpected pod subresource {}, only 'status' and 'eviction' are allowed",
                quote(other)
            )),
        }
    }

    async fn whole_pod(&self, node: &str, write: &Write<'_>) -> Result<(), StatusError> {
        match write.attributes.operation {
            Operation::Create => self.mirror(node, write).await,
            Operation::Delete if runs_on(write.old(), node) => Ok(()),
            Operation::Delete => write.forbid(format!(
                "node {} can only delete pods with spec.nodeName set to itself",
                quote(node)
            )),
            Operation::Update | Operation::Connect => write.forbid(format!(
                "unexpected operation {}, node {} can only create and delete mirror pods",
                quote(write.operation()),
                quote(node)
            )),
        }
    }

    async fn mirror(&self, node: &str, write: &Write<'_>) -> Result<(), StatusError> {
        let (pod, quoted) = (write.object(), quote(node));
        if pod.at(&["metadata", "annotations", MIRROR]).is_none() {
            return write.forbid(format!(
                "pod does not have {} annotation, node {quoted} can only create mirror pods",
                quote(MIRROR)
            ));
        }
        if !runs_on(pod, node) {
            return write.forbid(format!(
                "node {quoted} can only create pods with spec.nodeName set to itself"
            ));
        }
        let owners = pod.at(&["metadata", "ownerReferences"]).and_then(Value::as_list);
        let [owner] = owners.unwrap_or_default() else {
            let which = match owners {
                Some([_, _, ..]) => "a single",
                _ => "an",
            };
            return write.forbid(format!(
                "node {quoted} can only create pods with {which} owner reference set to itself"
            ));
        };
        let text = |field| owner.str_at(&[field]);
        let flag = |field| owner.at(&[field]).and_then(Value::as_bool).unwrap_or(false);
        if (text("apiVersion"), text("kind"), text("name")) != ("v1", "Node", node) {
            return write.forbid(format!(
                "node {quoted} can only create pods with an owner reference set to itself"
            ));
        }
        if !flag("controller") {
            return write.forbid(format!(
                "node {quoted} can only create pods with a controller owner reference set to itself"
            ));
        }
        if flag("blockOwnerDeletion") {
            return write.forbid(format!(
                "node {quoted} must not set blockOwnerDeletion on an owner reference"
            ));
        }
        let found = find(&self.nodes, "", "node", "", node).await?;
        let (said, uid) = (text("uid"), found.str_at(&["metadata", "uid"]));
        if said != uid {
            return write.forbid(format!("node {node} UID mismatch: expected {said} got {uid}"));
        }
        match referenced(pod) {
            Ok(None) => Ok(()),
            Ok(Some(what)) => {
                write.forbid(format!("node {quoted} can not create pods that reference {what}"))
            }
            Err(error) => {
                write.forbid(format!("error checking mirror pod for API references: {error}"))
            }
        }
    }

    async fn eviction(&self, node: &str, write: &Write<'_>) -> Result<(), StatusError> {
        if write.attributes.operation != Operation::Create {
            return write.forbid(format!("unexpected operation {}", write.operation()));
        }
        let name = match write.attributes.name {
            "" => write.object().str_at(&["metadata", "name"]),
            name => name,
        };
        if name.is_empty() {
            return write.forbid("could not determine pod from request data");
        }
        let pod = find(&self.pods, "", "pod", write.attributes.namespace, name).await?;
        match runs_on(&pod, node) {
            true => Ok(()),
            false => write.forbid(format!(
                "node {node} can only evict pods with spec.nodeName set to itself"
            )),
        }
    }
}

fn pod_status(node: &str, write: &Write<'_>) -> Result<(), StatusError> {
    if write.attributes.operation != Operation::Update {
        return write.forbid(format!("unexpected operation {}", quote(write.operation())));
    }
    let (new, old, node_name) = (write.object(), write.old(), quote(node));
    if !runs_on(old, node) {
        return write.forbid(format!(
            "node {node_name} can only update pod status for pods with spec.nodeName set to itself"
        ));
    }
    for (path, error) in [
        (["metadata", "labels"], "cannot update labels through pod status"),
        (["status", "resourceClaimStatuses"], "cannot update resource claim statues"),
        (["status", "extendedResourceClaimStatus"], "cannot update extended resource claim status"),
    ] {
        let part = |pod: &Value| pod.at(&path).filter(|part| !part.is_empty()).cloned();
        if part(new) != part(old) {
            return write.forbid(format!("node {node_name} {error}"));
        }
    }
    Ok(())
}

pub(super) fn runs_on(pod: &Value, node: &str) -> bool {
    pod.str_at(&["spec", "nodeName"]) == node
}

/// The first kind of API objects that a pod references.
fn referenced(pod: &Value) -> Result<Option<&'static str>, String> {
    let claims = pod.at(&["spec", "resourceClaims"]).is_some_and(|claims| !claims.is_empty());
    for (refers, what) in [
        (!pod.str_at(&["spec", "serviceAccountName"]).is_empty(), "serviceaccounts"),
        (!references::pod_secrets(pod).is_empty(), "secrets"),
        (!references::pod_config_maps(pod).is_empty(), "configmaps"),
        (claims, "resourceclaims"),
    ] {
        if refers {
            return Ok(Some(what));
        }
    }
    let volumes = pod.at(&["spec", "volumes"]).and_then(Value::as_list).unwrap_or_default();
    for volume in volumes {
        let name = quote(volume.str_at(&["name"]));
        let has = |source: &str| volume.at(&[source]).is_some();
        if PLAIN_VOLUMES.into_iter().any(has) {
            continue;
        }
        if let Some((_, what)) = API_VOLUMES.into_iter().find(|(source, _)| has(source)) {
            return Ok(Some(what));
        }
        let Some(projected) = volume.at(&["projected"]) else {
            return Err(format!("unknown volume type for volume  {name}"));
        };
        let sources = projected.at(&["sources"]).and_then(Value::as_list).unwrap_or_default();
        for source in sources {
            let has = |kind: &str| source.at(&[kind]).is_some();
            match API_SOURCES.into_iter().find(|(kind, _)| has(kind)) {
                Some((_, what)) => return Ok(Some(what)),
                None if has("downwardAPI") => {}
                None => return Err(format!("unknown source for projected volume {name}")),
            }
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use kevel_codec::json::{Unknown, decode_any};

    #[test]
    fn what_a_pod_refers_to_is_found() {
        let volume = |volume: &str| format!(r#""volumes":[{{"name":"v",{volume}}}]"#);
        let projected = |source: &str| volume(&format!(r#""projected":{{"sources":[{source}]}}"#));
        for (spec, expected) in [
            (r#""containers":[{"name":"c"}]"#.to_owned(), Ok(None)),
            (r#""serviceAccountName":"x""#.to_owned(), Ok(Some("serviceaccounts"))),
            (r#""imagePullSecrets":[{"name":"x"}]"#.to_owned(), Ok(Some("secrets"))),
            (
                r#""ephemeralContainers":[{"envFrom":[{"configMapRef":{"name":"x"}}]}]"#.to_owned(),
                Ok(Some("configmaps")),
            ),
            (r#""resourceClaims":[{"name":"x"}]"#.to_owned(), Ok(Some("resourceclaims"))),
            (volume(r#""hostPath":{"path":"/"}"#), Ok(None)),
            (volume(r#""emptyDir":{}"#), Ok(None)),
            (volume(r#""secret":{}"#), Ok(Some("secrets (via secret volumes)"))),
            (volume(r#""csi":{"driver":"x"}"#), Ok(Some("csidrivers (via CSI volumes)"))),
            (volume(r#""new":{}"#), Err(r#"unknown volume type for volume  "v""#)),
            (projected(r#"{"downwardAPI":{}}"#), Ok(None)),
            (
                projected(r#"{"downwardAPI":{}},{"serviceAccountToken":{"path":"t"}}"#),
                Ok(Some("serviceaccounts (via projected volumes)")),
            ),
            (projected(r#"{"new":{}}"#), Err(r#"unknown source for projected volume "v""#)),
        ] {
            let pod = format!(r#"{{"spec":{{{spec}}}}}"#);
            let pod = decode_any(pod.as_bytes(), Unknown::Ignore).unwrap().value;
            assert_eq!(referenced(&pod), expected.map_err(str::to_owned), "{spec}");
        }
    }
}
