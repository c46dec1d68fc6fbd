//! Parts of EndpointSlices: sets of endpoints, ports, and writes.

use std::collections::BTreeMap;
use std::sync::Arc;

use kevel_api::value::{Map, Value};
use kevel_controller_runtime::{Client, InformerEvent};
use kevel_store::cache::Object;

use crate::lister::CacheLister;
use crate::reconcile_error::ReconcileError;
use crate::service_account::is_terminating;

pub(super) const SERVICE_NAME: &str = "kubernetes.io/service-name";
pub(super) const MANAGED_BY: &str = "endpointslice.kubernetes.io/managed-by";
/// Longest prefix of a generated name.
const MAX_PREFIX: usize = 253;

/// Identity of an endpoint: addresses, hostname, namespace and name of the target.
pub(super) type EndpointKey = (Vec<String>, String, String, String);
/// Endpoints by identity.
pub(super) type EndpointSet = BTreeMap<EndpointKey, Value>;
/// Ports: name, number, protocol and application protocol.
pub(super) type PortKey = Vec<(String, Option<i64>, String, String)>;

/// Identity of an endpoint.
pub(super) fn endpoint_key(endpoint: &Value) -> EndpointKey {
    let addresses = endpoint.list_at(&["addresses"]).iter();
    let mut addresses: Vec<String> =
        addresses.filter_map(|address| address.as_str().map(str::to_owned)).collect();
    addresses.sort();
    let text = |path: &[&str]| endpoint.str_at(path).to_owned();
    let target = (text(&["targetRef", "namespace"]), text(&["targetRef", "name"]));
    (addresses, text(&["hostname"]), target.0, target.1)
}

/// Whether two endpoints of one identity are equal, hints aside.
pub(super) fn same_endpoint(a: &Value, b: &Value) -> bool {
    let plain = |endpoint: &Value| {
        let mut target = endpoint.at(&["targetRef"]).cloned().unwrap_or_default();
        if let Some(target) = target.as_map_mut() {
            target.remove("resourceVersion");
        }
        target
    };
    let same = |field: &&str| a.at(&[*field]) == b.at(&[*field]);
    let condition = |of: &&str| a.at(&["conditions", of]) == b.at(&["conditions", of]);
    ["nodeName", "zone"].iter().all(same)
        && ["ready", "serving", "terminating"].iter().all(condition)
        && plain(a) == plain(b)
}

/// Identity of a list of ports, whatever its order.
pub(super) fn port_key(ports: &[Value]) -> PortKey {
    let read = |port: &Value| {
        let number = port.at(&["port"]).and_then(Value::as_int);
        let text = |field| port.str_at(&[field]).to_owned();
        (text("name"), number, text("protocol"), text("appProtocol"))
    };
    let mut key: PortKey = ports.iter().map(read).collect();
    key.sort();
    key
}

/// A port of a slice, from one of a Service or of Endpoints.
pub(super) fn slice_port(port: &Value, number: i64) -> Value {
    let mut out = Map::from_iter([
        ("name", Value::from(port.str_at(&["name"]))),
        ("port", number.into()),
        ("protocol", port.str_at(&["protocol"]).into()),
    ]);
    if let Some(application) = port.at(&["appProtocol"]) {
        out.insert("appProtocol", application.clone());
    }
    out.into()
}

/// A new slice of an owner.
pub(super) fn new_slice(
    owner: &Value,
    kind: &str,
    labels: Map,
    ports: &[Value],
    address_type: &str,
) -> Value {
    let of = |field| owner.str_at(&["metadata", field]);
    let reference = Map::from_iter([
        ("apiVersion", Value::from("v1")),
        ("kind", kind.into()),
        ("name", of("name").into()),
        ("uid", of("uid").into()),
        ("controller", true.into()),
        ("blockOwnerDeletion", true.into()),
    ]);
    let prefix = format!("{}-", of("name"));
    let prefix = if prefix.len() > MAX_PREFIX { of("name") } else { prefix.as_str() };
    let metadata = Map::from_iter([
        ("namespace", Value::from(of("namespace"))),
        ("generateName", prefix.into()),
        ("labels", labels.into()),
        ("ownerReferences", Value::List([reference.into()].into_iter().collect())),
    ]);
    Map::from_iter([
        ("addressType", Value::from(address_type)),
        ("metadata", metadata.into()),
        ("endpoints", Value::List(Default::default())),
        ("ports", Value::List(ports.iter().cloned().collect())),
    ])
    .into()
}

/// Name of a slice; empty if it does not exist yet.
pub(super) fn name_of(slice: &Value) -> &str {
    slice.str_at(&["metadata", "name"])
}

/// Writes of slices.
#[derive(Debug, Default)]
pub(super) struct SliceChanges {
    pub create: Vec<Value>,
    pub update: Vec<Value>,
    pub delete: Vec<Value>,
}

impl SliceChanges {
    pub fn append(&mut self, mut other: SliceChanges) {
        self.create.append(&mut other.create);
        self.update.append(&mut other.update);
        self.delete.append(&mut other.delete);
    }

    /// Makes updates of creations and deletions of one type: fewer writes, and watchers see no gap.
    pub fn recycle(&mut self, may: impl Fn(&Value) -> bool) {
        let mut kept = Vec::new();
        for old in std::mem::take(&mut self.delete) {
            let of = |slice: &Value| slice.str_at(&["addressType"]) == old.str_at(&["addressType"]);
            let fits = if may(&old) { self.create.iter().rposition(of) } else { None };
            match fits {
                Some(at) => {
                    let mut slice = self.create.remove(at);
                    slice.make_map(&["metadata"]).insert("name", name_of(&old).into());
                    self.update.push(slice);
                }
                None => kept.push(old),
            }
        }
        self.delete = kept;
    }

    /// Writes the changes, in the namespace and for the owner that errors name.
    pub async fn write(
        &self,
        client: &Client,
        creates: bool,
        owner: &Owner<'_>,
    ) -> Result<(), ReconcileError> {
        let Owner { kind, namespace, name } = owner;
        let path = format!("/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices");
        for slice in self.create.iter().filter(|_| creates) {
            match client.create(&path, slice).await {
                Ok(_) => {}
                Err(error) if is_terminating(&error) => return Ok(()),
                Err(error) => {
                    let told =
                        format!("failed to create EndpointSlice for {kind} {namespace}/{name}");
                    return Err(ReconcileError::step(told, error));
                }
            }
        }
        let failed = |what: &str, slice: &Value, error| {
            let slice = name_of(slice);
            let step =
                format!("failed to {what} {slice} EndpointSlice for {kind} {namespace}/{name}");
            ReconcileError::step(step, error)
        };
        for slice in &self.update {
            let updated = client.update(&format!("{path}/{}", name_of(slice)), slice).await;
            updated.map_err(|error| failed("update", slice, error))?;
        }
        for slice in &self.delete {
            let deleted = client.delete(&format!("{path}/{}", name_of(slice))).await;
            deleted.map_err(|error| failed("delete", slice, error))?;
        }
        Ok(())
    }
}

/// Owner of slices, as errors name it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Owner<'a> {
    pub kind: &'a str,
    pub namespace: &'a str,
    pub name: &'a str,
}

/// Slices of an owner that a controller manages, in the store's current state, without those that are being deleted.
pub(super) async fn managed(
    slices: &CacheLister,
    controller: &str,
    namespace: &str,
    name: &str,
) -> Result<Vec<Value>, ReconcileError> {
    let snapshot = slices.fresh_snapshot().await?;
    let mut found = Vec::new();
    for slice in snapshot.range(&format!("{namespace}/"), None) {
        kevel_compute::charge(1);
        if slice.label(SERVICE_NAME) == Some(name) && slice.label(MANAGED_BY) == Some(controller) {
            let tree = slices.tree(slice)?;
            if tree.at(&["metadata", "deletionTimestamp"]).is_none() {
                found.push(tree);
            }
        }
    }
    Ok(found)
}

/// Keys of the owners whose slices an event may concern: those that a controller manages or managed.
pub(super) fn owners(event: &InformerEvent<'_>, controller: &str) -> Vec<String> {
    let mut keys = Vec::new();
    let mut add = |slice: &Arc<Object>| {
        let owner = slice.label(SERVICE_NAME).filter(|name| !name.is_empty());
        if let Some(owner) = owner
            && slice.label(MANAGED_BY) == Some(controller)
        {
            keys.push(format!("{}/{owner}", slice.namespace()));
        }
    };
    match event {
        InformerEvent::Apply(slice, before) => {
            add(slice);
            before.iter().for_each(|before| add(before));
        }
        InformerEvent::Delete(slice) => add(slice),
        InformerEvent::Init | InformerEvent::InitDone => {}
    }
    keys.dedup();
    keys
}
