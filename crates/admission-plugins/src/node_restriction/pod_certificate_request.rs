//! NodeRestriction of PodCertificateRequests: a kubelet requests certificates only for pods on its node.

use kevel_api::quote::quote;
use kevel_api::status::{StatusError, reason};
use kevel_registry::admission::Operation;

use super::pod::MIRROR;
use super::{NodeRestriction, Write, find};

impl NodeRestriction {
    pub(super) async fn pod_certificate_request(
        &self,
        node: &str,
        write: &Write<'_>,
    ) -> Result<(), StatusError> {
        let attributes = write.attributes;
        if !self.features.pod_certificate_request {
            return write.forbid("PodCertificateRequest feature gate is disabled");
        }
        if attributes.operation != Operation::Create {
            return write.forbid(format!("unexpected operation {}", write.operation()));
        }
        if !attributes.subresource.is_empty() {
            return write.forbid(format!("unexpected subresource {}", attributes.subresource));
        }
        let text = |field| write.object().str_at(&["spec", field]);
        let (named, namespace) = (text("nodeName"), attributes.namespace);
        if named != node {
            return write.forbid(format!(
                "PodCertificateRequest.Spec.NodeName={}, which is not the requesting node {}",
                quote(named),
                quote(node)
            ));
        }
        let what = format!("node {}", quote(named));
        let found = find(&self.nodes, "", "node", "", named).await;
        let found = found.map_err(|error| unfound(write, &what, error))?;
        let pod_name = quote(&format!("{namespace}/{}", text("podName")));
        let (said, uid) = (text("nodeUID"), found.str_at(&["metadata", "uid"]));
        if said != uid {
            return Err(later(format!(
                "PodCertificateRequest for pod {pod_name} names node UID {}, inconsistent with \
                 the running node ({})",
                quote(said),
                quote(uid)
            )));
        }
        let pod = find(&self.pods, "", "pod", namespace, text("podName")).await;
        let pod = pod.map_err(|error| unfound(write, &format!("pod {pod_name}"), error))?;
        let (said, uid) = (text("podUID"), pod.str_at(&["metadata", "uid"]));
        if said != uid {
            return Err(later(format!(
                "PodCertificateRequest for pod {pod_name} contains pod UID ({}) which differs \
                 from running pod {}",
                quote(said),
                quote(uid)
            )));
        }
        if pod.str_at(&["spec", "nodeName"]) != named {
            return write.forbid(format!(
                "pod {pod_name} is not running on node {} named in the PodCertificateRequest",
                quote(named)
            ));
        }
        if pod.at(&["metadata", "annotations", MIRROR]).is_some() {
            return write.forbid(format!("pod {pod_name} is a mirror pod"));
        }
        let (said, account) =
            (text("serviceAccountName"), pod.str_at(&["spec", "serviceAccountName"]));
        if said != account {
            return write.forbid(format!(
                "PodCertificateRequest for pod {pod_name} contains serviceAccountName ({}) that \
                 differs from running pod ({})",
                quote(said),
                quote(account)
            ));
        }
        let what = format!("service account {}", quote(&format!("{namespace}/{said}")));
        let account = find(&self.service_accounts, "", "serviceaccount", namespace, said).await;
        let account = account.map_err(|error| unfound(write, &what, error))?;
        let (said, uid) = (text("serviceAccountUID"), account.str_at(&["metadata", "uid"]));
        if said != uid {
            return Err(later(format!(
                "PodCertificateRequest for pod {pod_name} names service account UID {}, which \
                 differs from the running service account ({})",
                quote(said),
                quote(uid)
            )));
        }
        Ok(())
    }
}

/// Error for an object that the request names and that could not be read. NotFound becomes a server error, so that
/// the kubelet retries.
fn unfound(write: &Write<'_>, what: &str, error: StatusError) -> StatusError {
    let not_found = error.reason() == reason::NOT_FOUND;
    let error = format!("while retrieving {what} named in the PodCertificateRequest: {error}");
    if not_found { later(error) } else { write.forbidden(error) }
}

fn later(error: String) -> StatusError {
    StatusError::unknown(500, error)
}
