//! Chooses the migration of a resource that runs.

use kevel_api::value::Value;

use super::Migrator;
use super::migration::{MigrationError, Milestone, has_ended, resource, stop_running};
use crate::object::name;

/// Migrations of a resource that are to be changed.
#[derive(Debug, Default)]
struct MigrationChoice {
    /// Ended ones that still say that they run.
    ended: Vec<Value>,
    /// The next one to run.
    next: Option<Value>,
}

/// Chooses among the migrations of a resource: the oldest one runs, if none does.
fn choose(migrations: Vec<Value>) -> MigrationChoice {
    let mut choice = MigrationChoice::default();
    let mut is_running = false;
    for migration in migrations {
        match (Milestone::Running.is_reached(&migration), has_ended(&migration)) {
            (true, true) => choice.ended.push(migration),
            (true, false) => is_running = true,
            (false, true) => {}
            (false, false) => {
                let age = |it: &Value| {
                    let created = it.str_at(&["metadata", "creationTimestamp"]).to_owned();
                    (created, name(it).to_owned())
                };
                if choice.next.as_ref().is_none_or(|next| age(&migration) < age(next)) {
                    choice.next = Some(migration);
                }
            }
        }
    }
    choice.next = choice.next.filter(|_| !is_running);
    choice
}

impl Migrator {
    /// Brings the migrations of a resource up to date.
    pub(super) async fn choose(&self, of: &str) -> Result<(), MigrationError> {
        let mut all = Vec::new();
        for object in self.migrations.snapshot().range("", None) {
            kevel_compute::charge(1);
            if *self.migrations.facts(object, resource)? == of {
                all.push(self.migrations.tree(object)?);
            }
        }
        let choice = choose(all);
        for mut migration in choice.ended {
            self.finish_definition(of, Milestone::Succeeded.is_reached(&migration)).await?;
            stop_running(&mut migration, self.client.clock());
            self.update_status(&migration).await?;
        }
        if let Some(mut migration) = choice.next {
            self.mark_definition(of, name(&migration)).await?;
            let clock = self.client.clock();
            Milestone::Running.set(&mut migration, "The migration is running", clock);
            self.update_status(&migration).await?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use kevel_codec::json::{Unknown, decode_any};

    use super::*;

    #[test]
    fn oldest_migration_runs_if_none_does() {
        // Name, seconds of its creation, conditions.
        for (migrations, ended, next) in [
            ("", "", ""),
            ("b1 a2", "", "b"),
            ("b1 a1", "", "a"),
            ("a1 b2Running", "", ""),
            ("b2Running a1", "", ""),
            ("a1Running,Succeeded b2", "a", "b"),
            ("a1Running,Failed b2Running c3", "a", ""),
            ("a1Succeeded b2Failed c3", "", "c"),
        ] {
            let read = |text: &str| {
                let (name, rest) = text.split_at(1);
                let (second, conditions) = rest.split_at(1);
                let conditions: Vec<String> = conditions
                    .split(',')
                    .map(|of| format!(r#"{{"type":"{of}","status":"True"}}"#))
                    .collect();
                let text = format!(
                    r#"{{"metadata":{{"name":"{name}","creationTimestamp":"2026-01-01T00:00:0{second}Z"}},
                    "status":{{"conditions":[{}]}}}}"#,
                    conditions.join(","),
                );
                decode_any(text.as_bytes(), Unknown::Ignore).unwrap().value
            };
            let choice = choose(migrations.split_whitespace().map(read).collect());
            let names: Vec<&str> = choice.ended.iter().map(name).collect();
            assert_eq!(names.concat(), ended, "{migrations}");
            assert_eq!(choice.next.as_ref().map_or("", name), next, "{migrations}");
        }
    }
}
