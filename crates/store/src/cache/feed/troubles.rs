//! Failures of the feed's watch and loads, for health checks and for reads that wait for a load.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The last failure of the watch and of each load that has not succeeded since.
#[derive(Debug, Default)]
pub(in super::super) struct FeedFailures(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    stream: Option<String>,
    /// By the resource's prefix.
    loads: BTreeMap<String, String>,
}

impl FeedFailures {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records the state of the watch. Returns whether it changed.
    pub fn stream(&self, trouble: Option<String>) -> bool {
        let known = &mut self.lock().stream;
        let news = *known != trouble;
        *known = trouble;
        news
    }

    /// Records the state of a resource's load. Returns whether it changed.
    pub fn load(&self, prefix: &str, trouble: Option<String>) -> bool {
        let loads = &mut self.lock().loads;
        match trouble {
            Some(trouble) => {
                let news = loads.get(prefix) != Some(&trouble);
                loads.insert(prefix.to_owned(), trouble);
                news
            }
            None => loads.remove(prefix).is_some(),
        }
    }

    /// Failure that keeps a resource's cache from being current: of its load, or of the watch.
    pub fn of(&self, prefix: &str) -> Option<String> {
        let state = self.lock();
        state.loads.get(prefix).or(state.stream.as_ref()).cloned()
    }

    /// Failure of the watch.
    pub fn of_stream(&self) -> Result<(), String> {
        self.lock().stream.clone().map_or(Ok(()), Err)
    }

    /// Failures of loads, with the resources' prefixes.
    pub fn of_loads(&self) -> Result<(), String> {
        let state = self.lock();
        let loads = state.loads.iter().map(|(prefix, trouble)| format!("{prefix}: {trouble}"));
        let loads: Vec<String> = loads.collect();
        if loads.is_empty() { Ok(()) } else { Err(loads.join("; ")) }
    }
}
