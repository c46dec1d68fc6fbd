//! EndpointSlices of Endpoints that were written by others than the controller: those of Services without a selector.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use kevel_api::ip::parse_ip_sloppy;
use kevel_api::value::{Map, Value};
use kevel_controller_runtime::{Backoff, Client, InformerEvent, run};

use super::facts::map_at;
use super::slice::{
    EndpointSet, MANAGED_BY, Owner, PortKey, SERVICE_NAME, SliceChanges, endpoint_key, managed,
    name_of, new_slice, owners, port_key, same_endpoint, slice_port,
};
use super::subsets::repack;
use super::{LEADER, TRIGGER_TIME, WORKERS, regarding, split};
use crate::context::ControllerContext;
use crate::descriptor::ControllerLoop;
use crate::lister::CacheLister;
use crate::reconcile_error::ReconcileError;
use crate::recorder::{EventKind, EventRecorder};
use crate::unavailable::Unavailable;

const NAME: &str = "endpointslice-mirroring-controller";
const ACCOUNT: &str = "endpointslicemirroring-controller";
/// Value of the label of the slices that the controller manages.
const MANAGER: &str = "endpointslicemirroring-controller.k8s.io";
const SKIP: &str = "endpointslice.kubernetes.io/skip-mirror";
/// Annotations that slices do not have from their Endpoints.
const NOT_MIRRORED: [&str; 2] = [TRIGGER_TIME, "kubectl.kubernetes.io/last-applied-configuration"];
/// Most addresses of a subset that are mirrored (upstream: `--mirroring-max-endpoints-per-subset`).
const MAX_ADDRESSES: usize = 1000;

struct Mirroring {
    client: Client,
    endpoints: CacheLister,
    services: CacheLister,
    slices: CacheLister,
    events: EventRecorder,
}

pub(crate) fn build(context: &ControllerContext) -> Result<ControllerLoop, Unavailable> {
    let this = Arc::new(Mirroring {
        client: context.client(ACCOUNT),
        endpoints: CacheLister::new(context.storage("", "endpoints")?),
        services: CacheLister::new(context.storage("", "services")?),
        slices: CacheLister::new(context.storage("discovery.k8s.io", "endpointslices")?),
        events: context.recorder(ACCOUNT, "endpoint-slice-mirroring-controller"),
    });
    let backoff = Backoff {
        base: Duration::from_secs(1),
        max: Duration::from_secs(100),
        ..Backoff::default()
    };
    let queue = context.queue("endpoint_slice_mirroring", backoff);
    let (endpoints, services) = (this.endpoints.informer(), this.services.informer());
    let slices = this.slices.informer();
    let synced = [endpoints.has_synced(), services.has_synced(), slices.has_synced()];
    let (heard, lister) = (queue.clone(), this.endpoints.clone());
    let endpoints = endpoints.run(move |event| {
        let mirrored = |object| lister.tree(object).is_ok_and(|object| is_mirrored(&object));
        match event {
            InformerEvent::Apply(found, before)
                if mirrored(found) || before.is_some_and(|before| mirrored(before)) =>
            {
                heard.add(found.key());
            }
            InformerEvent::Delete(gone) if mirrored(gone) => heard.add(gone.key()),
            _ => {}
        }
    });
    let (heard, lister) = (queue.clone(), this.services.clone());
    let services = services.run(move |event| {
        let manual = |object| lister.tree(object).is_ok_and(|object| is_manual(&object));
        match event {
            InformerEvent::Apply(found, Some(before)) if manual(found) != manual(before) => {
                heard.add(found.key());
            }
            InformerEvent::Apply(found, None) | InformerEvent::Delete(found) if manual(found) => {
                heard.add(found.key());
            }
            _ => {}
        }
    });
    let heard = queue.clone();
    let slices = slices.run(move |event| {
        owners(&event, MANAGER).iter().for_each(|key| heard.add(key));
    });
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
        tokio::join!(endpoints, services, slices, work);
    }))
}

/// Whether Endpoints have slices: they are no lock, and not marked.
fn is_mirrored(endpoints: &Value) -> bool {
    endpoints.str_at(&["metadata", "labels", SKIP]) != "true"
        && endpoints.at(&["metadata", "annotations", LEADER]).is_none()
}

fn is_manual(service: &Value) -> bool {
    service.at(&["spec", "selector"]).is_none()
}

impl Mirroring {
    async fn reconcile(&self, key: &str) -> Result<(), ReconcileError> {
        let (namespace, name) = split(key);
        let existing = managed(&self.slices, MANAGER, namespace, name).await?;
        let endpoints = self.endpoints.fresh(key).await?;
        let service = self.services.fresh(key).await?;
        let mirrored = endpoints.filter(is_mirrored);
        let Some(endpoints) = mirrored.filter(|_| service.as_ref().is_some_and(is_manual)) else {
            return self.delete(namespace, name, existing).await;
        };
        let desired = MirroredSlices::of(&endpoints);
        self.tell(&endpoints, &desired).await;
        let mut changes = plan(&endpoints, desired, existing);
        changes.recycle(|_| true);
        let alive = endpoints.at(&["metadata", "deletionTimestamp"]).is_none();
        let owner = Owner { kind: "Endpoints", namespace, name };
        changes.write(&self.client, alive, &owner).await
    }

    async fn delete(
        &self,
        namespace: &str,
        name: &str,
        slices: Vec<Value>,
    ) -> Result<(), ReconcileError> {
        let (count, mut errors) = (slices.len(), Vec::new());
        let path = format!("/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices");
        for slice in slices {
            errors.extend(self.client.delete(&format!("{path}/{}", name_of(&slice))).await.err());
        }
        let Some(first) = errors.first() else { return Ok(()) };
        Err(ReconcileError::Objects(format!(
            "error(s) deleting {}/{count} EndpointSlices for {namespace}/{name} Endpoints, \
             including: {first}",
            errors.len()
        )))
    }

    /// Records Events about addresses that have no endpoint.
    async fn tell(&self, endpoints: &Value, desired: &MirroredSlices) {
        let about = regarding(endpoints, "v1", "Endpoints");
        let MirroredSlices { invalid, skipped, .. } = desired;
        if *invalid > 0 {
            let told =
                format!("Skipped {invalid} invalid IP addresses when mirroring to EndpointSlices");
            self.events.event(&about, EventKind::Warning, "InvalidIPAddress", &told).await;
        }
        if skipped > invalid {
            let told = format!(
                "A max of {MAX_ADDRESSES} addresses can be mirrored to EndpointSlices per \
                 Endpoints subset. {skipped} addresses were skipped"
            );
            let reason = "TooManyAddressesToMirror";
            self.events.event(&about, EventKind::Warning, reason, &told).await;
        }
    }
}

/// Key of a slice: type of addresses, and ports.
type SliceKey = (&'static str, PortKey);

/// Endpoints as slices show them.
#[derive(Debug, Default)]
struct MirroredSlices {
    slices: BTreeMap<SliceKey, (Vec<Value>, EndpointSet)>,
    /// Addresses that are none.
    invalid: usize,
    /// Addresses without an endpoint, the invalid ones included.
    skipped: usize,
}

impl MirroredSlices {
    fn of(endpoints: &Value) -> Self {
        let mut desired = MirroredSlices::default();
        for subset in repack(endpoints.list_at(&["subsets"])) {
            desired.add(&subset);
        }
        desired
    }

    fn add(&mut self, subset: &Value) {
        let number = |port: &Value| port.at(&["port"]).and_then(Value::as_int).unwrap_or(0);
        let ports = subset.list_at(&["ports"]).iter();
        let ports: Vec<Value> = ports.map(|port| slice_port(port, number(port))).collect();
        let key = port_key(&ports);
        let mut added = 0;
        for (field, ready) in [("addresses", true), ("notReadyAddresses", false)] {
            for address in subset.list_at(&[field]) {
                kevel_compute::charge(1);
                if added == MAX_ADDRESSES {
                    self.skipped += 1;
                    continue;
                }
                let Some((address_type, endpoint)) = endpoint(address, ready) else {
                    self.invalid += 1;
                    self.skipped += 1;
                    continue;
                };
                let slice = self.slices.entry((address_type, key.clone()));
                let (_, set) = slice.or_insert_with(|| (ports.clone(), EndpointSet::new()));
                set.insert(endpoint_key(&endpoint), endpoint);
                added += 1;
            }
        }
    }
}

/// Endpoint of an address, with its type.
fn endpoint(address: &Value, ready: bool) -> Option<(&'static str, Value)> {
    let ip = parse_ip_sloppy(address.str_at(&["ip"]))?;
    let text = Value::from(ip.to_string().as_str());
    let conditions = Map::from_iter([("ready", Value::Bool(ready))]);
    let mut endpoint = Map::from_iter([
        ("addresses", Value::List([text].into_iter().collect())),
        ("conditions", conditions.into()),
    ]);
    for field in ["targetRef", "nodeName", "hostname"] {
        if let Some(value) = address.at(&[field]) {
            endpoint.insert(field, value.clone());
        }
    }
    Some((if ip.is_ipv6() { "IPv6" } else { "IPv4" }, endpoint.into()))
}

/// Changes of the slices of Endpoints.
fn plan(endpoints: &Value, desired: MirroredSlices, existing: Vec<Value>) -> SliceChanges {
    let mut by_key: BTreeMap<(String, PortKey), Vec<Value>> = BTreeMap::new();
    for slice in existing {
        let of = slice.str_at(&["addressType"]).to_owned();
        by_key.entry((of, port_key(slice.list_at(&["ports"])))).or_default().push(slice);
    }
    let mut changes = SliceChanges::default();
    for ((address_type, key), (ports, set)) in desired.slices {
        let mut found = by_key.remove(&(address_type.to_owned(), key)).unwrap_or_default();
        let first = if found.is_empty() { None } else { Some(found.remove(0)) };
        changes.delete.append(&mut found);
        if first.as_ref().is_some_and(|first| is_current(first, endpoints, &set)) {
            continue;
        }
        let mut slice = new_slice(endpoints, "Endpoints", labels(endpoints), &ports, address_type);
        *slice.make_map(&["metadata", "annotations"]) = annotations(endpoints);
        *slice.make_list(&[], "endpoints") = set.into_values().take(MAX_ADDRESSES).collect();
        match first {
            Some(first) => {
                slice.make_map(&["metadata"]).insert("name", name_of(&first).into());
                changes.update.push(slice);
            }
            None => changes.create.push(slice),
        }
    }
    changes.delete.extend(by_key.into_values().flatten());
    changes
}

fn is_current(slice: &Value, endpoints: &Value, desired: &EndpointSet) -> bool {
    let found = slice.list_at(&["endpoints"]);
    let same = |endpoint: &Value| {
        kevel_compute::charge(1);
        let wanted = desired.get(&endpoint_key(endpoint));
        wanted.is_some_and(|wanted| same_endpoint(wanted, endpoint))
    };
    let of = |field| endpoints.str_at(&["metadata", field]);
    let owners = slice.list_at(&["metadata", "ownerReferences"]);
    let of_earlier = owners.iter().any(|owner| {
        owner.str_at(&["kind"]) == "Endpoints"
            && owner.str_at(&["name"]) == of("name")
            && owner.str_at(&["uid"]) != of("uid")
    });
    found.len() == desired.len()
        && found.iter().all(same)
        && map_at(slice, &["metadata", "labels"]) == labels(endpoints)
        && map_at(slice, &["metadata", "annotations"]) == annotations(endpoints)
        && !of_earlier
}

fn labels(endpoints: &Value) -> Map {
    let mut labels = map_at(endpoints, &["metadata", "labels"]);
    labels.insert(SERVICE_NAME, name_of(endpoints).into());
    labels.insert(MANAGED_BY, MANAGER.into());
    labels
}

fn annotations(endpoints: &Value) -> Map {
    let mut annotations = map_at(endpoints, &["metadata", "annotations"]);
    annotations.retain(|key, _| !NOT_MIRRORED.contains(&key));
    annotations
}
