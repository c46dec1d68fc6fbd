//! Times of the changes that cause writes of endpoints.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use kevel_api::time::Time;
use kevel_api::value::Value;

use super::facts::EndpointPod;

/// Tells when the change happened that a write of a Service's endpoints is for (upstream: `TriggerTimeTracker`).
#[derive(Debug, Default)]
pub(super) struct TriggerTimes(Mutex<HashMap<String, SeenTimes>>);

/// Times that were seen of a Service.
#[derive(Clone, Debug, Default)]
struct SeenTimes {
    service: Option<Time>,
    pods: HashMap<String, Time>,
}

impl TriggerTimes {
    /// Earliest time of a change since the last call for a Service: its creation, at the first.
    pub fn next(&self, key: &str, service: &Value, pods: &[Arc<EndpointPod>]) -> Option<Time> {
        let created = service.str_at(&["metadata", "creationTimestamp"]).parse().ok();
        let times = pods.iter().filter_map(|pod| Some((pod.name.clone(), pod.ready_since?)));
        let seen = SeenTimes { service: created, pods: times.collect() };
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(before) = known.insert(key.to_owned(), seen.clone()) else { return created };
        let of_pods = seen.pods.iter().filter(|(name, time)| before.pods.get(*name) < Some(*time));
        let of_service = created.filter(|_| created > before.service);
        of_pods.map(|(_, time)| *time).chain(of_service).min()
    }

    /// Forgets a deleted Service.
    pub fn forget(&self, key: &str) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(key);
    }
}
