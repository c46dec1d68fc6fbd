//! Finalizer of PodGroups that pods which have not ended belong to. The admission plug-in `PodGroupProtection` sets it; it
//! is removed here.

use std::sync::Arc;

use kevel_api::status::StatusError;
use kevel_api::value::Value;
use kevel_controller_runtime::{Backoff, Client, InformerEvent, WorkQueue, run};
use kevel_store::cache::{At, Object};

use crate::context::ControllerContext;
use crate::descriptor::ControllerLoop;
use crate::finalizer::{FinalizerNeed, need, write};
use crate::lister::CacheLister;
use crate::object::{namespace, split, unless_gone};
use crate::unavailable::Unavailable;

const NAME: &str = "podgroup-protection-controller";
const GROUP: &str = "scheduling.k8s.io";
const FINALIZER: &str = "scheduling.k8s.io/podgroup-protection";

struct ProtectedGroups {
    client: Client,
    groups: CacheLister,
    pods: CacheLister,
    queue: Arc<WorkQueue>,
}

/// Membership of a pod: the key of its PodGroup, and whether the pod has ended.
#[derive(PartialEq)]
struct Membership {
    group: Option<String>,
    has_ended: bool,
}

pub(crate) fn build(context: &ControllerContext) -> Result<ControllerLoop, Unavailable> {
    let queue = context.queue("podgroupprotection", Backoff::default());
    let this = Arc::new(ProtectedGroups {
        client: context.client(NAME),
        groups: CacheLister::new(context.storage(GROUP, "podgroups")?),
        pods: CacheLister::new(context.storage("", "pods")?),
        queue: queue.clone(),
    });
    let heard = this.clone();
    let groups = this.groups.informer().for_each(move |group| heard.hear_group(group));
    let heard = this.clone();
    let pods = this.pods.informer().run(move |event| heard.hear_pod(&event));
    let reconcile = move |key: String| {
        let this = this.clone();
        async move { this.reconcile(&key).await }
    };
    Ok(Box::pin(async move {
        tokio::join!(groups, pods, run(queue, NAME, 1, reconcile));
    }))
}

fn membership(pod: &Value) -> Membership {
    let group = pod.str_at(&["spec", "schedulingGroup", "podGroupName"]);
    let group = (!group.is_empty()).then(|| format!("{}/{group}", namespace(pod)));
    let has_ended = ["Succeeded", "Failed"].contains(&pod.str_at(&["status", "phase"]));
    Membership { group, has_ended }
}

impl ProtectedGroups {
    fn hear_group(&self, group: &Object) {
        let waits = |group: &Value| need(group, FINALIZER) == Some(FinalizerNeed::Remove);
        if self.groups.tree(group).is_ok_and(|group| waits(&group)) {
            self.queue.add(group.key());
        }
    }

    fn hear_pod(&self, event: &InformerEvent<'_>) {
        match *event {
            InformerEvent::Delete(pod) => self.queue_group(pod, true),
            InformerEvent::Apply(pod, before) => {
                self.queue_group(pod, false);
                // A pod of the same name may have been deleted before, or a pod may have left its group.
                before.iter().for_each(|before| self.queue_group(before, true));
            }
            InformerEvent::Init => {}
            // Pods may have gone unheard.
            InformerEvent::InitDone => {
                self.groups.snapshot().range("", None).for_each(|group| self.hear_group(group));
            }
        }
    }

    /// Queues the group of a pod that may no longer keep it.
    fn queue_group(&self, pod: &Object, is_over: bool) {
        let groups = self.groups.snapshot();
        let Some(_) = groups.range("", None).next() else { return };
        let Ok(membership) = self.pods.facts(pod, membership) else { return };
        let Some(group) = membership.group.as_ref().filter(|_| is_over || membership.has_ended)
        else {
            return;
        };
        if let Some(group) = groups.get(group) {
            self.hear_group(group);
        }
    }

    async fn reconcile(&self, key: &str) -> Result<(), StatusError> {
        let (space, name) = split(key);
        let Some(group) = self.groups.get(space, name)? else { return Ok(()) };
        if need(&group, FINALIZER) != Some(FinalizerNeed::Remove) || self.is_used(key).await? {
            return Ok(());
        }
        let path = format!("/apis/{GROUP}/v1alpha2/namespaces/{space}/podgroups/{name}");
        let removed = write(&self.client, &path, group, FINALIZER, FinalizerNeed::Remove).await;
        unless_gone(removed).map(drop)
    }

    /// Whether a pod that has not ended belongs to a group: among those that the store has now.
    async fn is_used(&self, key: &str) -> Result<bool, StatusError> {
        let prefix = format!("{}/", split(key).0);
        for pod in self.pods.snapshot_at(At::Consistent).await?.range(&prefix, None) {
            kevel_compute::charge(1);
            let membership = self.pods.facts(pod, membership)?;
            if !membership.has_ended && membership.group.as_deref() == Some(key) {
                return Ok(true);
            }
        }
        Ok(false)
    }
}
