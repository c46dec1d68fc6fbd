//! Endpoints and EndpointSlices of Services.

mod facts;
mod mirroring;
mod objects;
mod slice;
mod slices;
mod subsets;
mod trigger_time;

pub(crate) use mirroring::build as build_mirroring;
pub(crate) use objects::build as build_endpoints;
pub(crate) use slices::build as build_slices;

use std::collections::BTreeSet;

use kevel_api::status::StatusError;
use kevel_api::value::Value;
use kevel_controller_runtime::InformerEvent;
use kevel_store::cache::Object;

use crate::context::ControllerContext;
use crate::lister::CacheLister;
use crate::recorder::Regarding;
use crate::unavailable::Unavailable;
use facts::{EndpointPod, ServiceSelector};

/// Annotation with the time of the change that caused a write.
const TRIGGER_TIME: &str = "endpoints.kubernetes.io/last-change-trigger-time";
/// Label of the endpoints of Services without an IP address.
const HEADLESS: &str = "service.kubernetes.io/headless";
/// Annotation of objects that are locks of an election.
const LEADER: &str = "control-plane.alpha.kubernetes.io/leader";
/// Workers (upstream: `ConcurrentEndpointSyncs` and others).
const WORKERS: usize = 5;

/// Services and the pods that they select.
#[derive(Clone, Debug)]
struct SelectedPods {
    services: CacheLister,
    pods: CacheLister,
}

impl SelectedPods {
    fn new(context: &ControllerContext) -> Result<Self, Unavailable> {
        Ok(SelectedPods {
            services: CacheLister::new(context.storage("", "services")?),
            pods: CacheLister::new(context.storage("", "pods")?),
        })
    }

    /// Keys of the Services whose endpoints an event of a pod may change.
    fn affected(&self, event: &InformerEvent<'_>) -> BTreeSet<String> {
        let (pod, before) = match event {
            InformerEvent::Apply(pod, before) => (*pod, *before),
            InformerEvent::Delete(pod) => (*pod, None),
            InformerEvent::Init | InformerEvent::InitDone => return BTreeSet::new(),
        };
        let Ok(facts) = self.pods.facts(pod, EndpointPod::read) else { return BTreeSet::new() };
        let before = before.and_then(|before| self.pods.facts(before, EndpointPod::read).ok());
        let Some(before) = before else { return self.selecting(pod.namespace(), &facts) };
        let (changed, moved) = facts.changes(&before);
        if !changed && !moved {
            return BTreeSet::new();
        }
        let now = self.selecting(pod.namespace(), &facts);
        if !moved {
            return now;
        }
        let then = self.selecting(pod.namespace(), &before);
        if changed { &now | &then } else { &now ^ &then }
    }

    fn selecting(&self, namespace: &str, pod: &EndpointPod) -> BTreeSet<String> {
        let mut found = BTreeSet::new();
        let services = self.services.snapshot();
        for service in services.range(&format!("{namespace}/"), None) {
            kevel_compute::charge(1);
            let selector = self.services.facts(service, ServiceSelector::read);
            if selector.is_ok_and(|selector| selector.selects(&pod.labels)) {
                found.insert(service.key().to_owned());
            }
        }
        found
    }

    /// Pods that a Service selects.
    fn pods_of(&self, service: &Value) -> Result<Vec<std::sync::Arc<EndpointPod>>, StatusError> {
        let selector = ServiceSelector::read(service);
        let namespace = service.str_at(&["metadata", "namespace"]);
        let mut pods = Vec::new();
        let snapshot = self.pods.snapshot();
        for pod in snapshot.range(&format!("{namespace}/"), None) {
            kevel_compute::charge(1);
            if selector.selects_object(pod) {
                pods.push(self.pods.facts(pod, EndpointPod::read)?);
            }
        }
        Ok(pods)
    }
}

/// Whether a Service's endpoints follow from its selector.
fn has_selector(service: &Value) -> bool {
    service.str_at(&["spec", "type"]) != "ExternalName"
        && service.at(&["spec", "selector"]).is_some()
}

/// Whether a Service has no IP address.
fn is_headless(service: &Value) -> bool {
    ["", "None"].contains(&service.str_at(&["spec", "clusterIP"]))
}

/// Namespace and name of a key.
fn split(key: &str) -> (&str, &str) {
    key.split_once('/').unwrap_or(("", key))
}

/// Object that Events are about.
fn regarding(object: &Value, api_version: &str, kind: &str) -> Regarding {
    let of = |field| object.str_at(&["metadata", field]).to_owned();
    Regarding {
        api_version: api_version.to_owned(),
        kind: kind.to_owned(),
        namespace: of("namespace"),
        name: of("name"),
        uid: of("uid"),
    }
}

/// Whether an object has an annotation that makes it the lock of an election.
fn is_lock(lister: &CacheLister, object: &Object) -> bool {
    let tree = lister.tree(object);
    tree.is_ok_and(|tree| tree.at(&["metadata", "annotations", LEADER]).is_some())
}
