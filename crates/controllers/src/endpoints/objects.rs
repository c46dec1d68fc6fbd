//! Endpoints of Services with a selector.

use std::net::IpAddr;
use std::sync::Arc;

use kevel_api::status::{StatusError, reason};
use kevel_api::value::{Map, Value};
use kevel_controller_runtime::{Backoff, Client, InformerEvent, run};

use super::facts::{EndpointPod, map_at};
use super::subsets::{is_marked_right, repack, truncate};
use super::trigger_time::TriggerTimes;
use super::{
    HEADLESS, SelectedPods, TRIGGER_TIME, WORKERS, has_selector, is_headless, is_lock, regarding,
    split,
};
use crate::context::ControllerContext;
use crate::descriptor::ControllerLoop;
use crate::lister::CacheLister;
use crate::recorder::{EventKind, EventRecorder};
use crate::service_account::is_terminating;
use crate::unavailable::Unavailable;

const NAME: &str = "endpoints-controller";
const ACCOUNT: &str = "endpoint-controller";
const MANAGED_BY: &str = "endpoints.kubernetes.io/managed-by";
const OVER_CAPACITY: &str = "endpoints.kubernetes.io/over-capacity";

struct EndpointsController {
    client: Client,
    selected: SelectedPods,
    endpoints: CacheLister,
    times: TriggerTimes,
    events: EventRecorder,
}

pub(crate) fn build(context: &ControllerContext) -> Result<ControllerLoop, Unavailable> {
    let this = Arc::new(EndpointsController {
        client: context.client(ACCOUNT),
        selected: SelectedPods::new(context)?,
        endpoints: CacheLister::new(context.storage("", "endpoints")?),
        times: TriggerTimes::default(),
        events: context.recorder(ACCOUNT, ACCOUNT),
    });
    let queue = context.queue("endpoint", Backoff::default());
    let (services, pods) = (this.selected.services.informer(), this.selected.pods.informer());
    let endpoints = this.endpoints.informer();
    let synced = [services.has_synced(), pods.has_synced(), endpoints.has_synced()];
    let heard = queue.clone();
    let services = services.for_each(move |service| heard.add(service.key()));
    let (heard, selected) = (queue.clone(), this.selected.clone());
    let pods = pods.run(move |event| {
        selected.affected(&event).iter().for_each(|key| heard.add(key));
    });
    let (heard, lister) = (queue.clone(), this.endpoints.clone());
    let mut listing = false;
    let endpoints = endpoints.run(move |event| match event {
        InformerEvent::Init => listing = true,
        InformerEvent::InitDone => listing = false,
        // Those whose Service was deleted while no controller ran.
        InformerEvent::Apply(found, _) if listing && !is_lock(&lister, found) => {
            heard.add(found.key());
        }
        InformerEvent::Apply(..) => {}
        InformerEvent::Delete(gone) => heard.add(gone.key()),
    });
    let reconcile = move |key: String| {
        let this = this.clone();
        async move { this.reconcile(&key).await.map_err(|error| error.to_string()) }
    };
    Ok(Box::pin(async move {
        let work = async {
            for synced in synced {
                synced.wait().await;
            }
            run(queue, NAME, WORKERS, reconcile).await;
        };
        tokio::join!(services, pods, endpoints, work);
    }))
}

impl EndpointsController {
    async fn reconcile(&self, key: &str) -> Result<(), StatusError> {
        let (namespace, name) = split(key);
        let Some(service) = self.selected.services.fresh(key).await? else {
            self.times.forget(key);
            return self.delete(namespace, name).await;
        };
        if !has_selector(&service) {
            return Ok(());
        }
        let pods = self.selected.pods_of(&service)?;
        let trigger = self.times.next(key, &service, &pods);
        let mut subsets = desired(&service, &pods);
        let found = self.endpoints.fresh(key).await?;
        if found.as_ref().is_some_and(|found| is_current(found, &service, &subsets)) {
            return Ok(());
        }
        let cut = truncate(&mut subsets);
        let exists = found.is_some();
        let mut object = found.unwrap_or_else(|| {
            let metadata =
                Map::from_iter([("namespace", Value::from(namespace)), ("name", name.into())]);
            Map::from_iter([("metadata", Value::Map(metadata))]).into()
        });
        *object.make_map(&["metadata", "labels"]) = labels(&service);
        let annotations = object.make_map(&["metadata", "annotations"]);
        let trigger = trigger.map(|time| Value::from(time.to_string().as_str()));
        let cut = cut.then(|| Value::from("truncated"));
        for (annotation, value) in [(TRIGGER_TIME, trigger), (OVER_CAPACITY, cut)] {
            match value {
                Some(value) => drop(annotations.insert(annotation, value)),
                None => drop(annotations.remove(annotation)),
            }
        }
        *object.make_list(&[], "subsets") = subsets.into_iter().collect();
        self.write(&object, exists).await
    }

    async fn delete(&self, namespace: &str, name: &str) -> Result<(), StatusError> {
        let path = format!("/api/v1/namespaces/{namespace}/endpoints/{name}");
        match self.client.delete(&path).await {
            Err(error) if error.reason() == reason::NOT_FOUND => Ok(()),
            deleted => deleted.map(drop),
        }
    }

    async fn write(&self, object: &Value, exists: bool) -> Result<(), StatusError> {
        let of = |field| object.str_at(&["metadata", field]);
        let (namespace, name) = (of("namespace"), of("name"));
        let path = format!("/api/v1/namespaces/{namespace}/endpoints");
        let written = if exists {
            self.client.update(&format!("{path}/{name}"), object).await
        } else {
            self.client.create(&path, object).await
        };
        let Err(error) = written else { return Ok(()) };
        if !exists && is_terminating(&error) {
            return Ok(());
        }
        let (reason, told) = if exists {
            (
                "FailedToUpdateEndpoint",
                format!("Failed to update endpoint {namespace}/{name}: {error}"),
            )
        } else {
            let told = format!("Failed to create endpoint for service {namespace}/{name}: {error}");
            ("FailedToCreateEndpoint", told)
        };
        let about = regarding(object, "v1", "Endpoints");
        self.events.event(&about, EventKind::Warning, reason, &told).await;
        Err(error)
    }
}

/// Labels of a Service's Endpoints.
fn labels(service: &Value) -> Map {
    let mut labels = map_at(service, &["metadata", "labels"]);
    labels.remove(HEADLESS);
    if is_headless(service) {
        labels.insert(HEADLESS, "".into());
    }
    labels.insert(MANAGED_BY, ACCOUNT.into());
    labels
}

/// Whether Endpoints are as they should be.
fn is_current(found: &Value, service: &Value, desired: &[Value]) -> bool {
    let plain = |mut labels: Map| {
        labels.remove(HEADLESS);
        labels
    };
    let subsets = found.list_at(&["subsets"]);
    let marked = found.at(&["metadata", "annotations", OVER_CAPACITY]).is_some();
    repack(subsets) == desired
        && plain(map_at(found, &["metadata", "labels"])) == plain(labels(service))
        && is_marked_right(subsets, marked)
}

/// Subsets of a Service with these pods.
fn desired(service: &Value, pods: &[Arc<EndpointPod>]) -> Vec<Value> {
    let unready_too =
        service.at(&["spec", "publishNotReadyAddresses"]).and_then(Value::as_bool) == Some(true);
    let ports = service.list_at(&["spec", "ports"]);
    let portless = service.str_at(&["spec", "clusterIP"]) == "None";
    let mut subsets = Vec::new();
    for pod in pods.iter().filter(|pod| pod.is_endpoint(unready_too)) {
        kevel_compute::charge(1);
        let Some(address) = address(service, pod) else { continue };
        let field = if unready_too || pod.ready { "addresses" } else { "notReadyAddresses" };
        let subset = |ports: Vec<Value>| {
            let addresses = Value::List([address.clone()].into_iter().collect());
            let ports = Value::List(ports.into_iter().collect());
            Value::Map(Map::from_iter([(field, addresses), ("ports", ports)]))
        };
        if ports.is_empty() && portless {
            subsets.push(subset(Vec::new()));
        }
        for port in ports {
            let Some(number) = pod.port(port) else { continue };
            let mut found = Map::from_iter([("port", Value::from(number))]);
            for field in ["name", "protocol", "appProtocol"] {
                if let Some(value) = port.at(&[field]) {
                    found.insert(field, value.clone());
                }
            }
            subsets.push(subset(vec![found.into()]));
        }
    }
    repack(&subsets)
}

/// Address of a pod in a Service's first family of addresses.
fn address(service: &Value, pod: &EndpointPod) -> Option<Value> {
    let family = service.list_at(&["spec", "ipFamilies"]).first().and_then(Value::as_str);
    let cluster_ip = service.str_at(&["spec", "clusterIP"]);
    let six = match family {
        Some(family) => family == "IPv6",
        None if !is_headless(service) => cluster_ip.contains(':'),
        None => pod.ips.first().is_some_and(IpAddr::is_ipv6),
    };
    let ip = pod.ips.iter().find(|ip| ip.is_ipv6() == six)?;
    let mut address =
        Map::from_iter([("ip", Value::from(ip.to_string().as_str())), ("targetRef", pod.target())]);
    if !pod.node.is_empty() {
        address.insert("nodeName", pod.node.as_str().into());
    }
    if let Some(hostname) = pod.hostname_in(service) {
        address.insert("hostname", hostname.into());
    }
    Some(address.into())
}
