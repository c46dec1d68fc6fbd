//! What keeps the caches from following the engine, for health checks and for those who wait.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// What went wrong last and has not gone well since.
#[derive(Debug, Default)]
pub(in super::super) struct Troubles(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    stream: Option<String>,
    /// By the prefix of the resource.
    loads: BTreeMap<String, String>,
}

impl Troubles {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes how the stream does; whether that is news.
    pub fn stream(&self, trouble: Option<String>) -> bool {
        let known = &mut self.lock().stream;
        let news = *known != trouble;
        *known = trouble;
        news
    }

    /// Notes how the loading of a resource does; whether that is news.
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

    /// What a resource's cache suffers from.
    pub fn of(&self, prefix: &str) -> Option<String> {
        let state = self.lock();
        state.loads.get(prefix).or(state.stream.as_ref()).cloned()
    }

    /// What the stream suffers from.
    pub fn of_stream(&self) -> Result<(), String> {
        self.lock().stream.clone().map_or(Ok(()), Err)
    }

    /// What cannot be loaded, by name.
    pub fn of_loads(&self) -> Result<(), String> {
        let state = self.lock();
        let loads = state.loads.iter().map(|(prefix, trouble)| format!("{prefix}: {trouble}"));
        let loads: Vec<String> = loads.collect();
        if loads.is_empty() { Ok(()) } else { Err(loads.join("; ")) }
    }
}
