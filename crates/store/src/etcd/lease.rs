//! etcd leases, shared by keys that expire at about the same time, since leases are expensive in etcd (upstream:
//! leaseManager).

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use kevel_clock::timer_now;
use kevel_component::metrics::Histogram;
use tokio::{sync::Mutex, time::Instant};

use super::{
    client::{Client, Retry, store_error},
    proto::{LeaseGrantRequest, LeaseGrantResponse},
};
use crate::{Error, Result};

/// Options of lease sharing.
#[derive(Debug, Clone, Copy)]
pub struct LeaseOptions {
    /// Time during which further keys are attached to a lease, at most 5% of its time to live; such keys live that much
    /// longer.
    pub reuse: Duration,
    /// Maximum number of keys attached to one lease.
    pub max_keys: u64,
}

impl Default for LeaseOptions {
    fn default() -> LeaseOptions {
        LeaseOptions { reuse: Duration::from_secs(60), max_keys: 1000 }
    }
}

/// The last granted lease: nearly all keys with a time to live (Events) have the same one.
#[derive(Debug)]
pub(super) struct Leases {
    options: LeaseOptions,
    last: Mutex<Option<Lease>>,
}

#[derive(Debug, Clone, Copy)]
struct Lease {
    id: i64,
    expires: Instant,
    keys: u64,
}

/// Numbers of keys that were attached to a lease when the next one was granted, in the whole process.
pub static LEASE_OBJECTS: LazyLock<Arc<Histogram>> =
    LazyLock::new(|| Arc::new(Histogram::new(&[10.0, 50.0, 100.0, 500.0, 1000.0, 2500.0, 5000.0])));

impl Leases {
    pub(super) fn new(options: LeaseOptions) -> Leases {
        Leases { options, last: Mutex::new(None) }
    }

    /// Lease for one key with time to live `ttl`; 0 without one.
    pub(super) async fn lease(&self, client: &Client, ttl: Option<Duration>) -> Result<i64> {
        let Some(ttl) = ttl.map(whole_seconds) else { return Ok(0) };
        let reuse = Duration::from_secs(ttl.as_secs() / 20).min(self.options.reuse);
        let now = timer_now();
        let mut last = self.last.lock().await;
        if let Some(lease) = &mut *last
            && now + ttl < lease.expires
            && now + ttl + reuse > lease.expires
            && lease.keys < self.options.max_keys
        {
            lease.keys += 1;
            return Ok(lease.id);
        }
        let lifetime = ttl + reuse;
        let seconds = i64::try_from(lifetime.as_secs()).unwrap_or(i64::MAX);
        let request = LeaseGrantRequest { ttl: seconds };
        let granted: LeaseGrantResponse = client
            .call("/etcdserverpb.Lease/LeaseGrant", request, Retry::Always)
            .await
            .map_err(store_error)?;
        if !granted.error.is_empty() {
            return Err(Error::Unavailable(format!("etcd: {}", granted.error)));
        }
        if let Some(full) = &*last {
            LEASE_OBJECTS.observe(full.keys as f64);
        }
        *last = Some(Lease { id: granted.id, expires: now + lifetime, keys: 1 });
        Ok(granted.id)
    }
}

fn whole_seconds(ttl: Duration) -> Duration {
    Duration::from_secs(ttl.as_secs() + u64::from(ttl.subsec_nanos() > 0))
        .max(Duration::from_secs(1))
}
