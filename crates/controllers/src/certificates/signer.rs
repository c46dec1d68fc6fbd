//! Signs approved requests with the server's own CA.

use std::sync::Arc;
use std::time::Duration;

use kevel_api::time::Time;
use kevel_api::value::{Map, Value};
use kevel_controller_runtime::Client;
use kevel_pki::{CertificateRequest, CertificateSigner};

use super::kubelet::{self, NotOfKubelet};
use super::{ACCOUNT, PATH, condition, handle_requests, has_condition, pem_of, usages};
use crate::context::ControllerContext;
use crate::descriptor::ControllerLoop;
use crate::reconcile_error::ReconcileError;
use crate::unavailable::Unavailable;

/// Longest validity of a certificate (upstream: `--cluster-signing-duration`).
const MAX_TTL: Duration = Duration::from_secs(365 * 24 * 60 * 60);
/// Shortest validity of a certificate: twice the time that its begin lies in the past.
const MIN_TTL: Duration = Duration::from_secs(10 * 60);

/// Rule that a request breaks.
#[derive(Debug, thiserror::Error)]
enum SigningRefusal {
    #[error(transparent)]
    Kubelet(#[from] NotOfKubelet),
    #[error("invalid usage for client certificate: {0}")]
    Usage(String),
    #[error("missing required usage for client certificate: client auth")]
    NoClientAuth,
}

type RequestCheck = fn(&CertificateRequest<'_>, &[&str]) -> Result<(), SigningRefusal>;

/// Signers, with the rules of their requests.
const SIGNERS: &[(&str, RequestCheck)] = &[
    ("kubernetes.io/kube-apiserver-client", |_, usages| check_client_usages(usages)),
    ("kubernetes.io/kube-apiserver-client-kubelet", |request, usages| {
        Ok(kubelet::check_client(request, usages)?)
    }),
    ("kubernetes.io/kubelet-serving", |request, usages| {
        Ok(kubelet::check_serving(request, usages)?)
    }),
    ("kubernetes.io/legacy-unknown", |_, _| Ok(())),
];

struct CsrSigner {
    client: Client,
    authority: CertificateSigner,
}

pub(crate) fn build(context: &ControllerContext) -> Result<ControllerLoop, Unavailable> {
    let ca = context.ca()?;
    let authority = CertificateSigner::new(&ca.certificate, &ca.key);
    let authority = authority.map_err(|_| Unavailable::NoAuthority)?;
    let signer = Arc::new(CsrSigner { client: context.client(ACCOUNT), authority });
    handle_requests(context, "certificatesigningrequest-signing-controller", move |request| {
        let signer = signer.clone();
        async move { signer.handle(request).await }
    })
}

impl CsrSigner {
    async fn handle(&self, mut request: Value) -> Result<(), ReconcileError> {
        let approved = has_condition(&request, "Approved") && !has_condition(&request, "Denied");
        if !approved || has_failed(&request) {
            return Ok(());
        }
        let signer = request.str_at(&["spec", "signerName"]);
        let Some((_, check)) = SIGNERS.iter().find(|(name, _)| *name == signer) else {
            return Ok(());
        };
        let name = request.str_at(&["metadata", "name"]).to_owned();
        let unreadable =
            |error| ReconcileError::Objects(format!("unable to parse csr {name:?}: {error}"));
        let der = CertificateRequest::from_pem(&pem_of(&request, &["spec", "request"]));
        let der = der.map_err(unreadable)?;
        let read = CertificateRequest::parse(&der).map_err(unreadable)?;
        let what = match check(&read, &usages(&request)) {
            Err(refusal) => {
                let failed = self.failure(&refusal);
                request.make_list(&["status"], "conditions").push(failed);
                "error adding failure condition for csr"
            }
            Ok(()) => {
                let signed = self.sign(&request, &der)?;
                request.make_map(&["status"]).insert("certificate", signed);
                "error updating signature for csr"
            }
        };
        let updated = self.client.update(&format!("{PATH}/{name}/status"), &request).await;
        updated.map(drop).map_err(|error| ReconcileError::step(what, error))
    }

    fn sign(&self, request: &Value, der: &[u8]) -> Result<Value, ReconcileError> {
        let asked = request.at(&["spec", "expirationSeconds"]).and_then(Value::as_int);
        let asked = asked.map(|seconds| Duration::from_secs(seconds.try_into().unwrap_or(0)));
        let ttl = asked.map_or(MAX_TTL, |asked| asked.clamp(MIN_TTL, MAX_TTL));
        let now = self.client.clock().now();
        let signed = self.authority.sign(der, &usages(request), ttl, now);
        let unsigned = |error| ReconcileError::Objects(format!("error auto signing csr: {error}"));
        let signed = signed.map_err(unsigned)?;
        Ok(Value::String(kevel_codec::base64::encode(signed.as_bytes())))
    }

    fn failure(&self, refusal: &SigningRefusal) -> Value {
        let now = Time::now(self.client.clock()).to_string();
        Map::from_iter([
            ("type", Value::from("Failed")),
            ("status", "True".into()),
            ("reason", "SignerValidationFailure".into()),
            ("message", refusal.to_string().as_str().into()),
            ("lastUpdateTime", now.as_str().into()),
        ])
        .into()
    }
}

fn has_failed(request: &Value) -> bool {
    let status = condition(request, "Failed").map(|failed| failed.str_at(&["status"]));
    status.is_some_and(|status| ["", "True"].contains(&status))
}

fn check_client_usages(usages: &[&str]) -> Result<(), SigningRefusal> {
    let allowed = ["client auth", "digital signature", "key encipherment"];
    if let Some(usage) = usages.iter().find(|usage| !allowed.contains(usage)) {
        return Err(SigningRefusal::Usage((*usage).to_owned()));
    }
    if usages.contains(&"client auth") { Ok(()) } else { Err(SigningRefusal::NoClientAuth) }
}
