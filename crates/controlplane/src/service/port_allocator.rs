//! Allocator of node ports: one stored `RangeAllocation`.

use std::sync::Arc;

use kevel_registry::storage::Storage;
use kevel_store::Revision;

use super::metrics::AllocatorMetrics;
use super::port_set::{PortError, PortRange, PortSet};
use super::range_object::{RangeError, RangeObject, StoredRange};

/// Allocator of node ports.
pub struct PortAllocator {
    pub range: PortRange,
    object: RangeObject,
    pub(super) metrics: Arc<AllocatorMetrics>,
}

/// Stored allocation with its revision.
pub struct Stored {
    pub ports: PortSet,
    pub revision: Revision,
}

impl From<RangeError> for PortError {
    fn from(error: RangeError) -> Self {
        PortError::Other(error.to_string())
    }
}

impl PortAllocator {
    pub fn new(range: PortRange, storage: Arc<Storage>) -> Self {
        let object = RangeObject::new(storage, "servicenodeports", "servicenodeportallocations");
        PortAllocator { range, object, metrics: Arc::default() }
    }

    /// The allocator with metrics.
    pub fn measured(self, metrics: Arc<AllocatorMetrics>) -> Self {
        PortAllocator { metrics, ..self }
    }

    /// Changes the allocated ports. `change` may be called several times; nothing is written if it fails.
    pub async fn change<T: Send>(
        &self,
        mut change: impl FnMut(&mut PortSet) -> Result<T, PortError> + Send,
    ) -> Result<T, PortError> {
        let change = |stored: &StoredRange| {
            let mut ports = decode(stored)?;
            if ports.range != self.range {
                return Err(PortError::from(RangeError::Mismatch));
            }
            let value = change(&mut ports)?;
            Ok((ports.to_bytes(), (ports, value)))
        };
        let (ports, value) = self.object.change(change).await?;
        self.metrics.ports(&ports);
        Ok(value)
    }

    /// Releases ports. The repair controller releases ports for which this fails.
    pub async fn release(&self, ports: &[i64]) {
        if ports.is_empty() {
            return;
        }
        let released = self.change(|set| {
            ports.iter().for_each(|port| set.release(*port));
            Ok(())
        });
        if let Err(error) = released.await {
            tracing::warn!(?ports, %error, "node ports were not released");
        }
    }

    /// Reads the stored allocation; `None` if there is none.
    pub async fn read(&self) -> Result<Option<Stored>, RangeError> {
        let Some(stored) = self.object.read().await? else { return Ok(None) };
        Ok(Some(Stored { ports: decode(&stored)?, revision: stored.revision }))
    }

    /// Replaces the allocation of a revision, or creates it; `false` if another write came first.
    pub async fn replace(
        &self,
        ports: &PortSet,
        expected: Option<Revision>,
    ) -> Result<bool, RangeError> {
        self.object.replace(&ports.range.to_string(), &ports.to_bytes(), expected).await
    }
}

fn decode(stored: &StoredRange) -> Result<PortSet, RangeError> {
    let range = PortRange::parse(&stored.range);
    let undecodable = || RangeError::Undecodable(format!("{:?} is no port range", stored.range));
    Ok(PortSet::from_bytes(range.ok_or_else(undecodable)?, &stored.bits))
}
