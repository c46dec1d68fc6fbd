//! ResourceClaims of pods: made from templates, reserved for scheduled pods, freed and deleted after them.

mod claim;
mod names;
mod pod;

use std::sync::Arc;

use kevel_api::value::Value;
use kevel_controller_runtime::{Backoff, Client, InformerEvent, WorkQueue, run};
use kevel_features::Feature;
use kevel_store::cache::Object;

use self::names::{ClaimNames, claim_name, names_claim, needs_claims};
use crate::context::ControllerContext;
use crate::descriptor::ControllerLoop;
use crate::lister::CacheLister;
use crate::reconcile_error::ReconcileError;
use crate::recorder::EventRecorder;
use crate::unavailable::Unavailable;

const NAME: &str = "resourceclaim-controller";
const ACCOUNT: &str = "resource-claim-controller";
/// Workers (upstream: `ConcurrentResourceClaimSyncs`).
const WORKERS: usize = 50;
/// Prefixes of keys in the queue.
const CLAIM: &str = "claim:";
const POD: &str = "pod:";
/// Fields that the JSON of a pod with claims has one of.
const FIELDS: [&str; 2] = ["\"resourceClaims\"", "\"extendedResourceClaimStatus\""];

struct TemplatedClaims {
    client: Client,
    pods: CacheLister,
    claims: CacheLister,
    templates: CacheLister,
    recorder: EventRecorder,
    queue: Arc<WorkQueue>,
    admin_access: bool,
    prioritized_list: bool,
}

pub(crate) fn build(context: &ControllerContext) -> Result<ControllerLoop, Unavailable> {
    let queue = context.queue("resource_claim", Backoff::default());
    let lister = |plural| context.storage("resource.k8s.io", plural).map(CacheLister::new);
    let this = Arc::new(TemplatedClaims {
        client: context.client(ACCOUNT),
        pods: CacheLister::new(context.storage("", "pods")?),
        claims: lister("resourceclaims")?,
        templates: lister("resourceclaimtemplates")?,
        recorder: context.recorder(ACCOUNT, "resource_claim"),
        queue: queue.clone(),
        admin_access: context.feature(Feature::DRAAdminAccess),
        prioritized_list: context.feature(Feature::DRAPrioritizedList),
    });
    let heard = this.clone();
    let pods = this.pods.informer().run(move |event| heard.hear_pod(&event));
    let heard = this.clone();
    let claims = this.claims.informer().run(move |event| {
        let claim = match event {
            InformerEvent::Apply(claim, _) => {
                heard.queue.add(&format!("{CLAIM}{}", claim.key()));
                claim
            }
            InformerEvent::Delete(claim) => claim,
            InformerEvent::Init | InformerEvent::InitDone => return,
        };
        heard.queue_pods(claim.namespace(), |pod| names_claim(pod, claim.name()));
    });
    let heard = this.clone();
    let templates = this.templates.informer().run(move |event| {
        if let InformerEvent::Apply(template, _) = event {
            let name = template.name();
            heard.queue_pods(template.namespace(), |pod| {
                let mut claims = pod.list_at(&["spec", "resourceClaims"]).iter();
                claims.any(|claim| claim.str_at(&["resourceClaimTemplateName"]) == name)
            });
        }
    });
    let reconcile = move |key: String| {
        let this = this.clone();
        async move { this.reconcile(&key).await.map_err(|error| error.to_string()) }
    };
    Ok(Box::pin(async move {
        tokio::join!(pods, claims, templates, run(queue, NAME, WORKERS, reconcile));
    }))
}

/// Whether a pod may have claims: most have none, and are not decoded.
fn may_have_claims(pod: &Object) -> bool {
    let has =
        |wire: &[u8], field: &str| wire.windows(field.len()).any(|part| part == field.as_bytes());
    pod.wire().is_ok_and(|wire| FIELDS.iter().any(|field| has(wire, field)))
}

impl TemplatedClaims {
    fn hear_pod(&self, event: &InformerEvent<'_>) {
        let (pod, deleted) = match *event {
            InformerEvent::Apply(pod, _) => (pod, false),
            InformerEvent::Delete(pod) => (pod, true),
            InformerEvent::Init => return,
            // Pods may have gone unheard.
            InformerEvent::InitDone => {
                for claim in self.claims.snapshot().range("", None) {
                    self.queue.add(&format!("{CLAIM}{}", claim.key()));
                }
                return;
            }
        };
        if may_have_claims(pod)
            && let Ok(tree) = self.pods.tree(pod)
        {
            self.queue_pod(pod.key(), &tree, deleted);
        }
    }

    /// Queues a pod for its claims, or the claims that it no longer needs.
    fn queue_pod(&self, key: &str, pod: &Value, deleted: bool) {
        if deleted || !needs_claims(pod) {
            let space = crate::object::namespace(pod);
            let claims = pod.list_at(&["spec", "resourceClaims"]).iter();
            let named = claims.filter_map(|claim| match claim_name(pod, claim) {
                ClaimNames::Given(name) | ClaimNames::Made(name) => Some(name),
                ClaimNames::NotMade | ClaimNames::NotNeeded => None,
            });
            let extended =
                pod.str_at(&["status", "extendedResourceClaimStatus", "resourceClaimName"]);
            let extended = Some(extended).filter(|name| !name.is_empty());
            for name in named.chain(extended) {
                self.queue.add(&format!("{CLAIM}{space}/{name}"));
            }
        }
        if !deleted && !crate::object::is_deleted(pod) {
            self.queue.add(&format!("{POD}{key}"));
        }
    }

    fn queue_pods(&self, space: &str, concerns: impl Fn(&Value) -> bool) {
        for pod in self.pods.snapshot().range(&format!("{space}/"), None) {
            kevel_compute::charge(1);
            if !may_have_claims(pod) {
                continue;
            }
            if let Ok(tree) = self.pods.tree(pod)
                && concerns(&tree)
            {
                self.queue_pod(pod.key(), &tree, false);
            }
        }
    }

    async fn reconcile(&self, key: &str) -> Result<(), ReconcileError> {
        if let Some(key) = key.strip_prefix(POD) {
            return self.sync_pod(key).await;
        }
        self.sync_claim(key.strip_prefix(CLAIM).unwrap_or(key)).await
    }
}
