//! Approves kubelets' requests for client certificates, if their user may ask for one.

use std::sync::Arc;

use kevel_api::status::StatusError;
use kevel_api::value::{Map, Value};
use kevel_controller_runtime::Client;
use kevel_pki::CertificateRequest;

use super::{ACCOUNT, PATH, handle_requests, has_condition, kubelet, pem_of, usages};
use crate::context::ControllerContext;
use crate::descriptor::ControllerLoop;
use crate::reconcile_error::ReconcileError;
use crate::unavailable::Unavailable;

const SIGNER: &str = "kubernetes.io/kube-apiserver-client-kubelet";

/// Kind of requests that are approved.
struct Recognizer {
    /// Subresource that the user must be allowed to create.
    permission: &'static str,
    /// Whether the user asks for its own certificate.
    own: bool,
    message: &'static str,
}

const RECOGNIZERS: &[Recognizer] = &[
    Recognizer {
        permission: "selfnodeclient",
        own: true,
        message: "Auto approving self kubelet client certificate after SubjectAccessReview.",
    },
    Recognizer {
        permission: "nodeclient",
        own: false,
        message: "Auto approving kubelet client certificate after SubjectAccessReview.",
    },
];

pub(crate) fn build(context: &ControllerContext) -> Result<ControllerLoop, Unavailable> {
    let client = Arc::new(context.client(ACCOUNT));
    handle_requests(context, "certificatesigningrequest-approving-controller", move |request| {
        let client = client.clone();
        async move { approve(&client, request).await }
    })
}

async fn approve(client: &Client, mut request: Value) -> Result<(), ReconcileError> {
    if has_condition(&request, "Approved") || has_condition(&request, "Denied") {
        return Ok(());
    }
    let name = request.str_at(&["metadata", "name"]).to_owned();
    let recognized = recognize(&request)
        .ok_or_else(|| ReconcileError::Objects(format!("unable to parse csr {name:?}")))?;
    let mut tried = Vec::new();
    for recognizer in recognized {
        tried.push(recognizer.permission);
        let allowed = review(client, &request, recognizer.permission).await;
        if !allowed? {
            continue;
        }
        let condition = Map::from_iter([
            ("type", Value::from("Approved")),
            ("status", "True".into()),
            ("reason", "AutoApproved".into()),
            ("message", recognizer.message.into()),
        ]);
        request.make_list(&["status"], "conditions").push(condition.into());
        let updated = client.update(&format!("{PATH}/{name}/approval"), &request).await;
        return updated
            .map(drop)
            .map_err(|error| ReconcileError::step("error updating approval for csr", error));
    }
    if tried.is_empty() {
        return Ok(());
    }
    // Rights may come later, so the request is looked at again.
    let tried = tried.join(" ");
    Err(ReconcileError::Objects(format!(
        "recognized csr {name:?} as [{tried}] but subject access review was not approved"
    )))
}

/// The recognizers of a request; `None` if it cannot be read.
fn recognize(request: &Value) -> Option<Vec<&'static Recognizer>> {
    let der = CertificateRequest::from_pem(&pem_of(request, &["spec", "request"])).ok()?;
    let read = CertificateRequest::parse(&der).ok()?;
    let of_kubelet = request.str_at(&["spec", "signerName"]) == SIGNER
        && kubelet::check_client(&read, &usages(request)).is_ok();
    if !of_kubelet {
        return Some(Vec::new());
    }
    let own = request.str_at(&["spec", "username"]) == read.subject().common_name;
    Some(RECOGNIZERS.iter().filter(|recognizer| own || !recognizer.own).collect())
}

async fn review(client: &Client, request: &Value, permission: &str) -> Result<bool, StatusError> {
    let attributes = Map::from_iter([
        ("group", Value::from("certificates.k8s.io")),
        ("resource", "certificatesigningrequests".into()),
        ("verb", "create".into()),
        ("subresource", permission.into()),
        ("version", "*".into()),
    ]);
    let mut spec = Map::from_iter([("resourceAttributes", Value::Map(attributes))]);
    for (from, to) in
        [("username", "user"), ("uid", "uid"), ("groups", "groups"), ("extra", "extra")]
    {
        if let Some(value) = request.at(&["spec", from]) {
            spec.insert(to, value.clone());
        }
    }
    let review = Map::from_iter([
        ("apiVersion", Value::from("authorization.k8s.io/v1")),
        ("kind", "SubjectAccessReview".into()),
        ("spec", spec.into()),
    ]);
    let path = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
    let reviewed = client.create(path, &review.into()).await?;
    Ok(reviewed.at(&["status", "allowed"]).and_then(Value::as_bool) == Some(true))
}
