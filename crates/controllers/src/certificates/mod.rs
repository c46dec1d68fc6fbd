//! CertificateSigningRequests: approval of kubelets' requests, signatures by the server's CA, and removal of old requests.

mod approver;
mod cleaner;
mod kubelet;
mod pod_cleaner;
mod signer;

use std::sync::Arc;
use std::time::Duration;

use kevel_api::value::Value;
use kevel_controller_runtime::{Backoff, WorkQueue, run};

use crate::context::ControllerContext;
use crate::descriptor::ControllerLoop;
use crate::lister::CacheLister;
use crate::reconcile_error::ReconcileError;
use crate::unavailable::Unavailable;

pub(crate) use approver::build as build_approver;
pub(crate) use cleaner::build as build_cleaner;
pub(crate) use pod_cleaner::build as build_pod_cleaner;
pub(crate) use signer::build as build_signer;

const ACCOUNT: &str = "certificate-controller";
const PATH: &str = "/apis/certificates.k8s.io/v1/certificatesigningrequests";
/// Workers (upstream: `ConcurrentCSRApprovingSyncs`).
const WORKERS: usize = 5;

fn requests(context: &ControllerContext) -> Result<CacheLister, Unavailable> {
    let storage = context.storage("certificates.k8s.io", "certificatesigningrequests")?;
    Ok(CacheLister::new(storage))
}

fn queue(context: &ControllerContext) -> Arc<WorkQueue> {
    let backoff = Backoff { base: Duration::from_millis(200), ..Backoff::default() };
    context.queue("certificate", backoff)
}

/// Handles requests without a certificate (upstream: `CertificateController`).
fn handle_requests<H, F>(
    context: &ControllerContext,
    name: &'static str,
    handle: H,
) -> Result<ControllerLoop, Unavailable>
where
    H: Fn(Value) -> F + Clone + Send + Sync + 'static,
    F: Future<Output = Result<(), ReconcileError>> + Send + 'static,
{
    let (requests, queue) = (requests(context)?, queue(context));
    let heard = queue.clone();
    let informer = requests.informer().for_each(move |request| heard.add(request.name()));
    let reconcile = move |name: String| {
        let (found, handle) = (requests.get("", &name), handle.clone());
        async move {
            match found? {
                Some(request) if request.str_at(&["status", "certificate"]).is_empty() => {
                    handle(request).await
                }
                _ => Ok(()),
            }
        }
    };
    Ok(Box::pin(async move {
        tokio::join!(informer, run(queue, name, WORKERS, reconcile));
    }))
}

/// Whether a request has a condition of a type.
fn has_condition(request: &Value, of: &str) -> bool {
    condition(request, of).is_some()
}

fn condition<'a>(request: &'a Value, of: &str) -> Option<&'a Value> {
    let conditions = request.list_at(&["status", "conditions"]);
    conditions.iter().find(|condition| condition.str_at(&["type"]) == of)
}

/// PEM of the request.
fn pem_of(request: &Value, field: &[&str]) -> Vec<u8> {
    let mut pem = Vec::new();
    let _ = kevel_codec::base64::decode_into(request.str_at(field), &mut pem);
    pem
}

fn usages(request: &Value) -> Vec<&str> {
    request.list_at(&["spec", "usages"]).iter().filter_map(Value::as_str).collect()
}
