//! Facts and conditions of a StorageVersionMigration.

use kevel_api::status::StatusError;
use kevel_api::time::Time;
use kevel_api::value::Value;
use kevel_clock::Clock;

use crate::object::{condition, is_true, texts};

/// Failure of a step, which is tried again.
#[derive(Debug, thiserror::Error)]
pub(super) enum MigrationError {
    #[error(transparent)]
    Request(#[from] StatusError),
    #[error("getting the latest resourceVersion for {resource}: {source}")]
    List { resource: String, source: StatusError },
    /// Discovery does not show the resource, which may be new.
    #[error("resource {0} is not in discovery yet")]
    NotDiscovered(String),
}

/// Condition of a migration that is set once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Milestone {
    Running,
    Succeeded,
    Failed,
}

impl Milestone {
    fn of(self) -> &'static str {
        match self {
            Milestone::Running => "Running",
            Milestone::Succeeded => "Succeeded",
            Milestone::Failed => "Failed",
        }
    }

    fn reason(self) -> &'static str {
        match self {
            Milestone::Running => "MigrationRunning",
            Milestone::Succeeded => "StorageVersionMigrationSucceeded",
            Milestone::Failed => "StorageVersionMigrationFailed",
        }
    }

    /// Whether a migration has reached the milestone.
    pub fn is_reached(self, migration: &Value) -> bool {
        is_true(migration, self.of())
    }

    /// Sets the condition, unless the migration has had it.
    pub fn set(self, migration: &mut Value, message: &str, clock: &Clock) {
        let known = condition(migration, self.of()).map(|known| known.str_at(&["status"]));
        if known.is_some_and(|status| ["True", "False"].contains(&status)) {
            return;
        }
        let now = Time::now(clock).to_string();
        let condition = texts([
            ("type", self.of()),
            ("status", "True"),
            ("lastTransitionTime", &now),
            ("reason", self.reason()),
            ("message", message),
        ]);
        migration.make_list(&["status"], "conditions").push(condition.into());
    }
}

/// Whether a migration has ended.
pub(super) fn has_ended(migration: &Value) -> bool {
    [Milestone::Succeeded, Milestone::Failed].iter().any(|end| end.is_reached(migration))
}

/// Takes the condition `Running` back.
pub(super) fn stop_running(migration: &mut Value, clock: &Clock) {
    let now = Time::now(clock).to_string();
    let generation = migration.at(&["metadata", "generation"]).cloned();
    let conditions = migration.make_list(&["status"], "conditions");
    let running = conditions.iter_mut().find(|condition| condition.str_at(&["type"]) == "Running");
    let Some(running) = running else { return };
    let fields = running.make_map(&[]);
    for (field, text) in [
        ("status", "False"),
        ("lastTransitionTime", now.as_str()),
        ("reason", "MigrationCompleted"),
        ("message", "Migration completed"),
    ] {
        fields.insert(field, text.into());
    }
    if let Some(generation) = generation {
        fields.insert("observedGeneration", generation);
    }
}

/// Resource that a migration is about: `PLURAL.GROUP`, which is also the name of a custom resource's definition.
pub(super) fn resource(migration: &Value) -> String {
    let of = |field| migration.str_at(&["spec", "resource", field]);
    format!("{}.{}", of("resource"), of("group"))
}
