//! EndpointSlices of Services with a selector.

mod hints;
mod plan;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use kevel_api::time::Time;
use kevel_api::value::Value;
use kevel_controller_runtime::{Backoff, Client, run};

use super::slice::{Owner, SliceChanges, managed, name_of, owners};
use super::trigger_time::TriggerTimes;
use super::{SelectedPods, TRIGGER_TIME, WORKERS, has_selector, regarding, split};
use crate::context::ControllerContext;
use crate::descriptor::ControllerLoop;
use crate::lister::CacheLister;
use crate::reconcile_error::ReconcileError;
use crate::recorder::{EventKind, EventRecorder};
use crate::unavailable::Unavailable;
use plan::{PlannedSlices, address_types, is_owned, plan};

const NAME: &str = "endpointslice-controller";
/// Value of the label of the slices that the controller manages.
const MANAGER: &str = "endpointslice-controller.k8s.io";
const ZONE: &str = "topology.kubernetes.io/zone";
/// Wait after a change of a slice: it is mostly the controller's own, and others may follow.
const SLICE_DELAY: Duration = Duration::from_secs(1);

struct Slices {
    client: Client,
    selected: SelectedPods,
    slices: CacheLister,
    nodes: CacheLister,
    times: TriggerTimes,
    events: EventRecorder,
}

pub(crate) fn build(context: &ControllerContext) -> Result<ControllerLoop, Unavailable> {
    let this = Arc::new(Slices {
        client: context.client(NAME),
        selected: SelectedPods::new(context)?,
        slices: CacheLister::new(context.storage("discovery.k8s.io", "endpointslices")?),
        nodes: CacheLister::new(context.storage("", "nodes")?),
        times: TriggerTimes::default(),
        events: context.recorder(NAME, "endpoint-slice-controller"),
    });
    let backoff = Backoff { base: Duration::from_secs(1), ..Backoff::default() };
    let queue = context.queue("endpoint_slice", backoff);
    let (services, pods) = (this.selected.services.informer(), this.selected.pods.informer());
    let (slices, nodes) = (this.slices.informer(), this.nodes.informer());
    let synced =
        [services.has_synced(), pods.has_synced(), slices.has_synced(), nodes.has_synced()];
    let heard = queue.clone();
    let services = services.for_each(move |service| heard.add(service.key()));
    let (heard, selected) = (queue.clone(), this.selected.clone());
    let pods = pods.run(move |event| {
        selected.affected(&event).iter().for_each(|key| heard.add(key));
    });
    let heard = queue.clone();
    let slices = slices.run(move |event| {
        owners(&event, MANAGER).iter().for_each(|key| heard.add_after(key, SLICE_DELAY));
    });
    let nodes = nodes.for_each(|_| {});
    let reconcile = move |key: String| {
        let this = this.clone();
        async move { this.reconcile(&key).await }
    };
    Ok(Box::pin(async move {
        let work = async {
            for synced in synced {
                synced.wait().await;
            }
            run(queue, NAME, WORKERS, reconcile).await;
        };
        tokio::join!(services, pods, slices, nodes, work);
    }))
}

impl Slices {
    async fn reconcile(&self, key: &str) -> Result<(), ReconcileError> {
        let (namespace, name) = split(key);
        let service = self.selected.services.get(namespace, name);
        let Some(service) = service? else {
            self.times.forget(key);
            return Ok(());
        };
        if !has_selector(&service) {
            return Ok(());
        }
        let pods = self.selected.pods_of(&service)?;
        let existing = managed(&self.slices, MANAGER, namespace, name).await?;
        let trigger = self.times.next(key, &service, &pods);
        let (mut changes, mut errors) = (Vec::new(), Vec::new());
        let mut by_type: BTreeMap<String, Vec<Value>> = BTreeMap::new();
        for slice in existing {
            by_type.entry(slice.str_at(&["addressType"]).to_owned()).or_default().push(slice);
        }
        for address_type in address_types(&service) {
            let existing = by_type.remove(address_type).unwrap_or_default();
            let PlannedSlices { changes: planned, errors: mut skipped } =
                plan(&service, &pods, &|node| self.zone(node), &existing, address_type);
            errors.append(&mut skipped);
            changes.push(planned);
        }
        let unwanted = SliceChanges {
            delete: by_type.into_values().flatten().collect(),
            ..SliceChanges::default()
        };
        changes.push(unwanted);
        for planned in changes {
            let written = self.write(&service, planned, trigger).await;
            errors.extend(written.err().map(|error| error.to_string()));
        }
        self.conclude(&service, &errors).await
    }

    /// Zone of a node, if the node exists.
    fn zone(&self, node: &str) -> Option<Option<String>> {
        let snapshot = self.nodes.snapshot();
        let node = snapshot.get(node)?;
        Some(node.label(ZONE).filter(|zone| !zone.is_empty()).map(str::to_owned))
    }

    async fn write(
        &self,
        service: &Value,
        mut changes: SliceChanges,
        trigger: Option<Time>,
    ) -> Result<(), ReconcileError> {
        changes.recycle(|slice| is_owned(slice, service));
        for slice in changes.create.iter_mut().chain(&mut changes.update) {
            let annotations = slice.make_map(&["metadata", "annotations"]);
            match trigger {
                Some(time) => {
                    drop(annotations.insert(TRIGGER_TIME, time.to_string().as_str().into()));
                }
                None => drop(annotations.remove(TRIGGER_TIME)),
            }
        }
        let alive = service.at(&["metadata", "deletionTimestamp"]).is_none();
        let namespace = service.str_at(&["metadata", "namespace"]);
        let owner = Owner { kind: "Service", namespace, name: name_of(service) };
        changes.write(&self.client, alive, &owner).await
    }

    /// Records an Event about errors, which are retried.
    async fn conclude(&self, service: &Value, errors: &[String]) -> Result<(), ReconcileError> {
        let error = match errors {
            [] => return Ok(()),
            [error] => error.clone(),
            errors => format!("[{}]", errors.join(", ")),
        };
        let about = regarding(service, "v1", "Service");
        let told = format!(
            "Error updating Endpoint Slices for Service {}/{}: {error}",
            about.namespace, about.name
        );
        let reason = "FailedToUpdateEndpointSlices";
        self.events.event(&about, EventKind::Warning, reason, &told).await;
        Err(ReconcileError::Objects(error))
    }
}
