//! Status of ResourcePoolStatusRequests: devices of a driver's pools, and how many of them claims have. Requests are
//! deleted an hour after they are answered.

use std::collections::BTreeMap;
use std::sync::Arc;

use kevel_api::status::StatusError;
use kevel_api::time::Time;
use kevel_api::value::{Map, Value};
use kevel_controller_runtime::{Backoff, Client, InformerEvent, WorkQueue, run};

use crate::context::ControllerContext;
use crate::descriptor::ControllerLoop;
use crate::expiry::Expiry;
use crate::lister::CacheLister;
use crate::object::{int_at, texts, unless_gone};
use crate::unavailable::Unavailable;

const NAME: &str = "resourcepoolstatusrequest-controller";
const GROUP: &str = "resource.k8s.io";
const REQUESTS: &str = "/apis/resource.k8s.io/v1alpha3/resourcepoolstatusrequests";
/// Seconds that an answered request is kept, and one without an answer (upstream: `completedRequestTTL`,
/// `pendingRequestTTL`).
const ANSWERED: i64 = 60 * 60;
const PENDING: i64 = 24 * 60 * 60;

struct PoolStatus {
    client: Client,
    requests: CacheLister,
    slices: CacheLister,
    claims: CacheLister,
    queue: Arc<WorkQueue>,
}

/// A pool of a driver: its slices of the latest generation.
#[derive(Debug, Default)]
struct Pool {
    generation: i64,
    slices: i64,
    expected: i64,
    devices: i64,
    /// Node of all slices; empty if they differ, or have none.
    node: String,
}

pub(crate) fn build(context: &ControllerContext) -> Result<ControllerLoop, Unavailable> {
    let queue = context.queue("resourcepoolstatusrequest", Backoff::default());
    let lister = |plural| Ok(CacheLister::new(context.storage(GROUP, plural)?));
    let this = Arc::new(PoolStatus {
        client: context.client(NAME),
        requests: lister("resourcepoolstatusrequests")?,
        slices: lister("resourceslices")?,
        claims: lister("resourceclaims")?,
        queue: queue.clone(),
    });
    let expiry = Expiry {
        name: NAME,
        queue: "resourcepoolstatusrequest_expiry",
        client: this.client.clone(),
        objects: this.requests.clone(),
        path: |_, name| format!("{REQUESTS}/{name}"),
        end,
        bound: false,
    };
    let expiry = expiry.build(context);
    let heard = queue.clone();
    let requests = this.requests.informer().for_each(move |request| heard.add(request.name()));
    let heard = this.clone();
    let slices = this.slices.informer().run(move |event| heard.hear_slice(&event));
    let reconcile = move |name: String| {
        let this = this.clone();
        async move { this.reconcile(&name).await }
    };
    Ok(Box::pin(async move {
        tokio::join!(requests, slices, expiry, run(queue, NAME, 1, reconcile));
    }))
}

/// End of a request's time.
fn end(request: &Value) -> Option<Time> {
    let conditions = request.list_at(&["status", "conditions"]).iter();
    let mut told = conditions.filter_map(|condition| {
        let is_answer = ["Complete", "Failed"].contains(&condition.str_at(&["type"]));
        is_answer.then(|| condition.str_at(&["lastTransitionTime"]))
    });
    let created = || request.str_at(&["metadata", "creationTimestamp"]);
    let (from, kept) = match request.at(&["status"]) {
        Some(_) => (told.next().unwrap_or_else(created), ANSWERED),
        None => (created(), PENDING),
    };
    let from: Time = from.parse().ok()?;
    Some(Time { seconds: from.seconds.saturating_add(kept) })
}

/// Whether some slices of a pool are not published yet.
fn is_incomplete(pool: &Pool) -> bool {
    pool.slices < pool.expected
}

impl PoolStatus {
    /// Queues the requests that wait for a driver to publish the rest of its pools.
    fn hear_slice(&self, event: &InformerEvent<'_>) {
        if matches!(event, InformerEvent::Init) {
            return;
        }
        for request in self.requests.snapshot().range("", None) {
            self.queue.add(request.name());
        }
    }

    async fn reconcile(&self, name: &str) -> Result<(), StatusError> {
        let Some(mut request) = self.requests.get("", name)? else { return Ok(()) };
        if request.at(&["status"]).is_some() {
            return Ok(());
        }
        let pools = self.pools(&request).await?;
        // The driver publishes the rest, which begins another look.
        if pools.values().any(is_incomplete) {
            return Ok(());
        }
        let allocated = self.allocated().await?;
        let driver = request.str_at(&["spec", "driver"]).to_owned();
        let limit = usize::try_from(int_at(&request, &["spec", "limit"])).unwrap_or(0);
        let shown = pools.iter().take(limit);
        let shown = shown.map(|(name, pool)| show(&driver, name, pool, &allocated));
        let shown: Vec<Value> = shown.map(Value::Map).collect();
        let message = format!("Calculated status for {} pools", shown.len());
        let now = Time::now(self.client.clock()).to_string();
        let condition = texts([
            ("type", "Complete"),
            ("status", "True"),
            ("reason", "CalculationComplete"),
            ("message", &message),
            ("lastTransitionTime", &now),
        ]);
        let status = request.make_map(&["status"]);
        status.insert("poolCount", int(pools.len()));
        status.insert("pools", Value::List(shown.into_iter().collect()));
        status.insert("conditions", Value::List([condition.into()].into_iter().collect()));
        let path = format!("{REQUESTS}/{name}/status");
        unless_gone(self.client.update(&path, &request).await).map(drop)
    }

    /// The pools that a request asks for, by name.
    async fn pools(&self, request: &Value) -> Result<BTreeMap<String, Pool>, StatusError> {
        let driver = request.str_at(&["spec", "driver"]);
        let only = request.str_at(&["spec", "poolName"]);
        let mut pools = BTreeMap::<String, Pool>::new();
        for slice in self.slices.fresh_snapshot().await?.range("", None) {
            kevel_compute::charge(1);
            let slice = self.slices.tree(slice)?;
            let name = slice.str_at(&["spec", "pool", "name"]);
            if slice.str_at(&["spec", "driver"]) != driver || !(only.is_empty() || only == name) {
                continue;
            }
            let pool = pools.entry(name.to_owned()).or_default();
            let generation = int_at(&slice, &["spec", "pool", "generation"]);
            if pool.slices > 0 && generation < pool.generation {
                continue;
            }
            let node = slice.str_at(&["spec", "nodeName"]);
            if pool.slices == 0 || generation > pool.generation {
                let expected = int_at(&slice, &["spec", "pool", "resourceSliceCount"]);
                *pool = Pool { generation, expected, node: node.to_owned(), ..Pool::default() };
            }
            pool.slices += 1;
            pool.devices += count(slice.list_at(&["spec", "devices"]).len());
            if pool.node != node {
                pool.node.clear();
            }
        }
        Ok(pools)
    }

    /// Devices that claims have, by driver and pool.
    async fn allocated(&self) -> Result<BTreeMap<(String, String), i64>, StatusError> {
        let mut allocated = BTreeMap::new();
        for claim in self.claims.fresh_snapshot().await?.range("", None) {
            kevel_compute::charge(1);
            let claim = self.claims.tree(claim)?;
            for device in claim.list_at(&["status", "allocation", "devices", "results"]) {
                let of = |field| device.str_at(&[field]).to_owned();
                *allocated.entry((of("driver"), of("pool"))).or_insert(0) += 1;
            }
        }
        Ok(allocated)
    }
}

/// A number of things.
fn count(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn int(number: usize) -> Value {
    Value::Int(count(number))
}

fn show(driver: &str, name: &str, pool: &Pool, allocated: &BTreeMap<(String, String), i64>) -> Map {
    let used = allocated.get(&(driver.to_owned(), name.to_owned())).copied().unwrap_or(0);
    let mut shown = texts([("driver", driver), ("poolName", name)]);
    if !pool.node.is_empty() {
        shown.insert("nodeName", pool.node.as_str().into());
    }
    for (field, number) in [
        ("generation", pool.generation),
        ("resourceSliceCount", pool.slices),
        ("totalDevices", pool.devices),
        ("allocatedDevices", used),
        ("availableDevices", (pool.devices - used).max(0)),
        // The health of devices is not known.
        ("unavailableDevices", 0),
    ] {
        shown.insert(field, Value::Int(number));
    }
    shown
}
