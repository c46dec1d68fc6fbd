//! Deletes old PodCertificateRequests, whatever became of them.

use kevel_api::time::Time;
use kevel_api::value::Value;

use crate::context::ControllerContext;
use crate::descriptor::ControllerLoop;
use crate::expiry::Expiry;
use crate::lister::CacheLister;
use crate::unavailable::Unavailable;

const GROUP: &str = "certificates.k8s.io";
const ACCOUNT: &str = "podcertificaterequestcleaner";
/// Seconds that a request is kept: a kubelet has its certificate earlier, or asks again.
const KEPT: i64 = 15 * 60;

pub(crate) fn build(context: &ControllerContext) -> Result<ControllerLoop, Unavailable> {
    let expiry = Expiry {
        name: "podcertificaterequest-cleaner-controller",
        queue: "podcertificaterequest_cleaner",
        client: context.client(ACCOUNT),
        objects: CacheLister::new(context.storage(GROUP, "podcertificaterequests")?),
        path: |namespace, name| {
            format!("/apis/{GROUP}/v1beta1/namespaces/{namespace}/podcertificaterequests/{name}")
        },
        end,
        bound: true,
    };
    Ok(expiry.build(context))
}

fn end(request: &Value) -> Option<Time> {
    let created: Time = request.str_at(&["metadata", "creationTimestamp"]).parse().ok()?;
    Some(Time { seconds: created.seconds.saturating_add(KEPT) })
}
