//! Index of all definitions, so that controllers do not decode one definition for the sake of another.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use kevel_api::value::Value;

use crate::definition::{Definition, Names};

/// Definitions by name, with the fields that matter to other definitions.
#[derive(Debug, Default)]
pub(super) struct Known(Mutex<BTreeMap<String, Entry>>);

#[derive(Debug)]
struct Entry {
    group: String,
    wanted: Option<Value>,
    accepted: Option<Value>,
    /// Generation whose schemas have been checked. Definitions stored before generations were counted have none.
    checked: Option<i64>,
    /// Resource version: an older event does not replace newer state.
    revision: u64,
}

impl Known {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Entry>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records a definition.
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

    /// Removes a definition.
    pub fn forget(&self, name: &str) {
        self.lock().remove(name);
    }

    /// Whether the schemas of the definition's generation have not been checked.
    pub fn is_unchecked(&self, definition: Definition<'_>) -> bool {
        let known = self.lock();
        known.get(definition.name()).and_then(|entry| entry.checked) != Some(generation(definition))
    }

    /// Records that the schemas of the definition's generation are checked, and that its status has the result.
    pub fn note_checked(&self, definition: Definition<'_>) {
        if let Some(entry) = self.lock().get_mut(definition.name()) {
            entry.checked = Some(generation(definition));
        }
    }

    /// Other definitions of a group whose accepted names differ from the wanted names.
    pub fn waiting(&self, group: &str, but: &str) -> Vec<String> {
        let known = self.lock();
        let waiting = known.iter().filter(|(name, entry)| {
            entry.group == group && *name != but && entry.wanted != entry.accepted
        });
        waiting.map(|(name, _)| name.clone()).collect()
    }

    /// Calls `show` with the accepted names of each definition of a group.
    pub fn for_each_accepted(&self, group: &str, mut show: impl FnMut(Names<'_>)) {
        for entry in self.lock().values().filter(|entry| entry.group == group) {
            show(Names::new(entry.accepted.as_ref()));
        }
    }
}

fn generation(definition: Definition<'_>) -> i64 {
    definition.0.at(&["metadata", "generation"]).and_then(Value::as_int).unwrap_or(0)
}
