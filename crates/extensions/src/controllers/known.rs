//! What controllers need to know of all definitions, so that none of them is read for another's sake.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use kevel_api::value::Value;

use crate::definition::{Definition, Names};

/// Definitions by name, as far as they matter to each other.
#[derive(Debug, Default)]
pub(super) struct Known(Mutex<BTreeMap<String, Entry>>);

#[derive(Debug)]
struct Entry {
    group: String,
    wanted: Option<Value>,
    accepted: Option<Value>,
    /// The generation whose schemas have been looked at. Definitions from before generations were counted have none.
    checked: Option<i64>,
    /// What has been seen later is not forgotten for what is heard late.
    revision: u64,
}

impl Known {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Entry>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes what a definition says.
    pub fn note(&self, definition: Definition<'_>) {
        let revision = definition.0.str_at(&["metadata", "resourceVersion"]).parse().unwrap_or(0);
        let mut known = self.lock();
        let before = known.get(definition.name());
        if before.is_some_and(|before| before.revision > revision) {
            return;
        }
        let checked = before.and_then(|before| before.checked);
        let entry = Entry {
            group: definition.group().to_owned(),
            wanted: definition.0.at(&["spec", "names"]).cloned(),
            accepted: definition.0.at(&["status", "acceptedNames"]).cloned(),
            checked,
            revision,
        };
        known.insert(definition.name().to_owned(), entry);
    }

    /// Forgets a definition.
    pub fn forget(&self, name: &str) {
        self.lock().remove(name);
    }

    /// Whether a generation's schemas have not been looked at.
    pub fn is_unchecked(&self, definition: Definition<'_>) -> bool {
        let known = self.lock();
        known.get(definition.name()).and_then(|entry| entry.checked) != Some(generation(definition))
    }

    /// Notes that a generation's schemas have been looked at, and that its status says what was found.
    pub fn note_checked(&self, definition: Definition<'_>) {
        if let Some(entry) = self.lock().get_mut(definition.name()) {
            entry.checked = Some(generation(definition));
        }
    }

    /// The definitions of a group that do not have the names that they want, but for one.
    pub fn waiting(&self, group: &str, but: &str) -> Vec<String> {
        let known = self.lock();
        let waiting = known.iter().filter(|(name, entry)| {
            entry.group == group && *name != but && entry.wanted != entry.accepted
        });
        waiting.map(|(name, _)| name.clone()).collect()
    }

    /// Shows the names that the definitions of a group have.
    pub fn for_each_accepted(&self, group: &str, mut show: impl FnMut(Names<'_>)) {
        for entry in self.lock().values().filter(|entry| entry.group == group) {
            show(Names::new(entry.accepted.as_ref()));
        }
    }
}

fn generation(definition: Definition<'_>) -> i64 {
    definition.0.at(&["metadata", "generation"]).and_then(Value::as_int).unwrap_or(0)
}
