//! ServiceCIDRs: ready while they exist, and kept while addresses are in use that no other contains.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use kevel_api::ip::{Cidr, parse_ip_sloppy};
use kevel_api::status::{StatusError, reason};
use kevel_api::time::Time;
use kevel_api::value::{Map, Value};
use kevel_controller_runtime::{Backoff, Client, InformerEvent, WorkQueue, run};
use kevel_store::cache::Object;

use crate::context::ControllerContext;
use crate::descriptor::ControllerLoop;
use crate::lister::CacheLister;
use crate::recorder::{EventKind, EventRecorder, Regarding};
use crate::unavailable::Unavailable;

const NAME: &str = "service-cidr-controller";
const ACCOUNT: &str = "service-cidrs-controller";
const PATH: &str = "/apis/networking.k8s.io/v1/servicecidrs";
const FINALIZER: &str = "networking.k8s.io/service-cidr-finalizer";
/// Label of the addresses that Services have, and its value.
const MANAGED_BY: (&str, &str) = ("ipaddress.kubernetes.io/managed-by", "ipallocator.k8s.io");
/// Workers of the controller.
const WORKERS: usize = 5;
/// Wait from the deletion on: allocators hear of it, and allocate no more addresses.
const GRACE: Duration = Duration::from_secs(10);
const READY: &str = "Kubernetes Service CIDR is ready";
const IN_USE: &str = "There are still IPAddresses referencing the ServiceCIDR, please remove them \
                      or create a new ServiceCIDR";

struct ServiceCidrs {
    client: Client,
    ranges: Ranges,
    addresses: CacheLister,
    queue: Arc<WorkQueue>,
    events: EventRecorder,
}

pub(crate) fn build(context: &ControllerContext) -> Result<ControllerLoop, Unavailable> {
    let group = "networking.k8s.io";
    let queue = context.queue("ipaddresses", Backoff::default());
    let this = Arc::new(ServiceCidrs {
        client: context.client(ACCOUNT),
        ranges: Ranges(CacheLister::new(context.storage(group, "servicecidrs")?)),
        addresses: CacheLister::new(context.storage(group, "ipaddresses")?),
        queue: queue.clone(),
        events: context.recorder(ACCOUNT, NAME),
    });
    let (ranges, addresses) = (this.ranges.0.informer(), this.addresses.informer());
    let synced = [ranges.has_synced(), addresses.has_synced()];
    let (heard, known) = (queue.clone(), this.ranges.clone());
    let ranges = ranges.run(move |event| match event {
        InformerEvent::Apply(range, before) => {
            heard.add(range.name());
            if before.is_none() {
                known.overlapping(range).iter().for_each(|name| heard.add(name));
            }
        }
        InformerEvent::Delete(range) => heard.add(range.name()),
        InformerEvent::Init | InformerEvent::InitDone => {}
    });
    let (heard, known) = (queue.clone(), this.ranges.clone());
    let addresses = addresses.run(move |event| match event {
        InformerEvent::Apply(address, None) | InformerEvent::Delete(address) => {
            if let Some(ip) = allocated(address) {
                known.containing(ip).iter().for_each(|name| heard.add(name));
            }
        }
        _ => {}
    });
    let reconcile = move |name: String| {
        let this = this.clone();
        async move { this.reconcile(&name).await.map_err(|error| error.to_string()) }
    };
    Ok(Box::pin(async move {
        let work = async {
            for synced in synced {
                synced.wait().await;
            }
            run(queue, NAME, WORKERS, reconcile).await;
        };
        tokio::join!(ranges, addresses, work);
    }))
}

/// IP address of an IPAddress that an allocator made.
fn allocated(address: &Object) -> Option<IpAddr> {
    let managed = address.label(MANAGED_BY.0) == Some(MANAGED_BY.1);
    if managed { parse_ip_sloppy(address.name()) } else { None }
}

/// Ranges of addresses of Services.
#[derive(Clone, Debug)]
struct Ranges(CacheLister);

impl Ranges {
    /// Names of the ServiceCIDRs with a range of which something holds.
    fn with(&self, holds: impl Fn(&Cidr) -> bool) -> BTreeSet<String> {
        let mut names = BTreeSet::new();
        for object in self.0.snapshot().range("", None) {
            kevel_compute::charge(1);
            let Ok(ranges) = self.0.facts(object, cidrs) else { continue };
            if ranges.iter().any(&holds) {
                names.insert(object.name().to_owned());
            }
        }
        names
    }

    fn overlapping(&self, object: &Object) -> BTreeSet<String> {
        let Ok(own) = self.0.facts(object, cidrs) else { return BTreeSet::new() };
        let overlap =
            |one: &Cidr, other: &Cidr| one.contains(other.first()) || other.contains(one.first());
        self.with(|range| own.iter().any(|own| overlap(own, range)))
    }

    /// ServiceCIDRs that a Service's address may come from.
    fn containing(&self, ip: IpAddr) -> BTreeSet<String> {
        self.with(|range| is_usable(range, ip))
    }

    /// ServiceCIDRs that contain a whole range.
    fn covering(&self, cidr: &Cidr) -> BTreeSet<String> {
        self.with(|range| range.contains(cidr.first()) && range.host_bits() >= cidr.host_bits())
    }
}

fn cidrs(range: &Value) -> Vec<Cidr> {
    let texts = range.list_at(&["spec", "cidrs"]).iter().filter_map(Value::as_str);
    texts.filter_map(Cidr::parse_sloppy).collect()
}

/// Whether a range contains an address that is not its first, nor the broadcast address.
fn is_usable(range: &Cidr, ip: IpAddr) -> bool {
    let last = match (range.first(), ip) {
        (IpAddr::V4(first), IpAddr::V4(_)) => {
            let hosts = u32::MAX.checked_shr(32 - range.host_bits()).unwrap_or(0);
            Some(IpAddr::from((u32::from(first) | hosts).to_be_bytes()))
        }
        _ => None,
    };
    range.contains(ip) && range.first() != ip && last != Some(ip)
}

impl ServiceCidrs {
    async fn reconcile(&self, name: &str) -> Result<(), StatusError> {
        let Some(range) = self.ranges.0.get("", name)? else { return Ok(()) };
        let deleted: Option<Time> = range.str_at(&["metadata", "deletionTimestamp"]).parse().ok();
        let Some(deleted) = deleted else {
            self.set_finalizer(&range, true).await?;
            let ready = self.set_condition(&range, "True", "", READY).await;
            if ready.is_err() {
                let told = "The ServiceCIDR Status can not be set to Ready=True";
                let reason = "KubernetesServiceCIDRError";
                self.events.event(&about(&range), EventKind::Warning, reason, told).await;
            }
            return ready;
        };
        if !self.is_unused(&range) {
            return self.set_condition(&range, "False", "Terminating", IN_USE).await;
        }
        let passed = Time::now(self.client.clock()).seconds.saturating_sub(deleted.seconds);
        let passed = Duration::from_secs(passed.try_into().unwrap_or(0));
        let left = GRACE.saturating_sub(passed);
        if !left.is_zero() {
            self.queue.add_after(name, left);
            return Ok(());
        }
        self.set_finalizer(&range, false).await
    }

    /// Whether all addresses of a ServiceCIDR are in others, too, or free.
    fn is_unused(&self, range: &Value) -> bool {
        let name = range.str_at(&["metadata", "name"]);
        let only = |names: BTreeSet<String>| names.iter().all(|found| found == name);
        let own = cidrs(range);
        if !own.iter().any(|cidr| only(self.ranges.covering(cidr))) {
            return true;
        }
        for address in self.addresses.snapshot().range("", None) {
            kevel_compute::charge(1);
            let Some(ip) = allocated(address) else { continue };
            let blocks =
                own.iter().any(|cidr| is_usable(cidr, ip)) && only(self.ranges.containing(ip));
            if blocks {
                return false;
            }
        }
        true
    }

    /// Adds or removes the finalizer.
    async fn set_finalizer(&self, range: &Value, wanted: bool) -> Result<(), StatusError> {
        let finalizers = range.list_at(&["metadata", "finalizers"]);
        let is_ours = |finalizer: &Value| finalizer.as_str() == Some(FINALIZER);
        if finalizers.iter().any(is_ours) == wanted {
            return Ok(());
        }
        let others = finalizers.iter().filter(|finalizer| !is_ours(finalizer)).cloned();
        let ours = wanted.then(|| Value::from(FINALIZER));
        let metadata = Map::from_iter([
            (
                "resourceVersion",
                range.at(&["metadata", "resourceVersion"]).cloned().unwrap_or_default(),
            ),
            ("finalizers", Value::List(others.chain(ours).collect())),
        ]);
        let patch = Map::from_iter([("metadata", Value::Map(metadata))]).into();
        let path = format!("{PATH}/{}", range.str_at(&["metadata", "name"]));
        match self.client.merge_patch(&path, &patch).await {
            Err(error) if error.reason() == reason::NOT_FOUND => Ok(()),
            patched => patched.map(drop),
        }
    }

    /// Applies the condition `Ready`.
    async fn set_condition(
        &self,
        range: &Value,
        status: &str,
        reason: &str,
        message: &str,
    ) -> Result<(), StatusError> {
        let mut found = range.list_at(&["status", "conditions"]).iter();
        let found = found.find(|condition| condition.str_at(&["type"]) == "Ready");
        let wanted = [("status", status), ("reason", reason), ("message", message)];
        if found.is_some_and(|found| {
            wanted.iter().all(|(field, value)| found.str_at(&[field]) == *value)
        }) {
            return Ok(());
        }
        let now = Time::now(self.client.clock()).to_string();
        let condition = Map::from_iter([
            ("type", Value::from("Ready")),
            ("status", status.into()),
            ("reason", reason.into()),
            ("message", message.into()),
            ("lastTransitionTime", now.as_str().into()),
        ]);
        let conditions = Value::List([condition.into()].into_iter().collect());
        let name = range.str_at(&["metadata", "name"]);
        let configuration = Map::from_iter([
            ("apiVersion", Value::from("networking.k8s.io/v1")),
            ("kind", "ServiceCIDR".into()),
            ("metadata", Map::from_iter([("name", Value::from(name))]).into()),
            ("status", Map::from_iter([("conditions", conditions)]).into()),
        ]);
        let path = format!("{PATH}/{name}/status");
        self.client.apply(&path, &configuration.into(), NAME).await.map(drop)
    }
}

fn about(range: &Value) -> Regarding {
    Regarding {
        api_version: "networking.k8s.io/v1".to_owned(),
        kind: "ServiceCIDR".to_owned(),
        name: range.str_at(&["metadata", "name"]).to_owned(),
        uid: range.str_at(&["metadata", "uid"]).to_owned(),
        ..Regarding::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_and_broadcast_addresses_are_not_allocated() {
        let range = |text| Cidr::parse_sloppy(text).unwrap();
        for (cidr, ip, expected) in [
            ("10.0.0.0/24", "10.0.0.0", false),
            ("10.0.0.0/24", "10.0.0.1", true),
            ("10.0.0.0/24", "10.0.0.255", false),
            ("10.0.0.0/24", "10.0.1.1", false),
            ("fd00::/120", "fd00::", false),
            ("fd00::/120", "fd00::ff", true),
        ] {
            assert_eq!(is_usable(&range(cidr), ip.parse().unwrap()), expected, "{cidr} {ip}");
        }
    }
}
