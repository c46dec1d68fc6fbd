//! Status of the CustomResourceDefinition whose objects are migrated.

use kevel_api::status::reason;
use kevel_api::time::Time;
use kevel_api::value::{Map, Value};

use super::Migrator;
use super::migration::MigrationError;
use crate::object::{condition, int_at, texts, unless_gone};

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
/// Field manager of the status.
const MANAGER: &str = "migration-runner-controller";
const MIGRATING: &str = "StorageMigrating";
/// Attempts to change a definition that others change as well (upstream: `DefaultRetry`).
const TRIES: usize = 5;

/// Condition of a definition that migrates, in its present generation.
fn migrating(definition: &Value, status: &str, reason: &str, message: &str, now: &str) -> Map {
    let mut condition = texts([
        ("type", MIGRATING),
        ("status", status),
        ("lastTransitionTime", now),
        ("reason", reason),
        ("message", message),
    ]);
    let generation = int_at(definition, &["metadata", "generation"]);
    condition.insert("observedGeneration", generation.into());
    condition
}

/// Stored versions at the end of a migration: the storage version alone. `None` if the definition has changed since the
/// migration began: objects may have been stored in another version meanwhile.
fn stored_versions(definition: &Value) -> Option<Value> {
    let began = int_at(condition(definition, MIGRATING)?, &["observedGeneration"]);
    if began != int_at(definition, &["metadata", "generation"]) {
        return None;
    }
    let is_storage =
        |version: &&Value| version.at(&["storage"]).and_then(Value::as_bool) == Some(true);
    let storage = definition.list_at(&["spec", "versions"]).iter().find(is_storage)?;
    let name = Value::from(storage.str_at(&["name"]));
    Some(Value::List([name].into_iter().collect()))
}

/// Status of a definition at the end of its migration.
fn finished(definition: &Value, succeeded: bool, now: &str) -> Map {
    // After a failure some objects may be left in older versions.
    let stored = stored_versions(definition).filter(|_| succeeded);
    let (reason, message) = match (succeeded, &stored) {
        (true, Some(_)) => (
            "MigrationSucceeded",
            "The migration has succeeded and the stored versions have been updated",
        ),
        (true, None) => (
            "MigrationSucceeded",
            "The migration has succeeded but the stored versions have not been updated due to a \
             generation mismatch",
        ),
        (false, _) => ("MigrationFailed", "The migration has failed"),
    };
    let condition = migrating(definition, "False", reason, message, now);
    let mut status = Map::from_iter([("conditions", list(condition))]);
    if let Some(stored) = stored {
        status.insert("storedVersions", stored);
    }
    status
}

fn list(map: Map) -> Value {
    Value::List([Value::Map(map)].into_iter().collect())
}

impl Migrator {
    /// Says in the status of a definition that its objects are migrated; nothing for other resources.
    pub(super) async fn mark_definition(
        &self,
        definition: &str,
        migration: &str,
    ) -> Result<(), MigrationError> {
        let message = format!("Migration {migration} is running");
        self.apply_status(definition, |definition, now| {
            let condition = migrating(definition, "True", "MigrationRunning", &message, now);
            Map::from_iter([("conditions", list(condition))])
        })
        .await
    }

    /// Says in the status of a definition how its migration has ended.
    pub(super) async fn finish_definition(
        &self,
        definition: &str,
        succeeded: bool,
    ) -> Result<(), MigrationError> {
        self.apply_status(definition, |definition, now| finished(definition, succeeded, now)).await
    }

    async fn apply_status(
        &self,
        name: &str,
        status: impl Fn(&Value, &str) -> Map,
    ) -> Result<(), MigrationError> {
        let path = format!("{DEFINITIONS}/{name}");
        let mut tries = 0;
        loop {
            tries += 1;
            let Some(definition) = unless_gone(self.client.get(&path).await)? else {
                return Ok(());
            };
            let now = Time::now(self.client.clock()).to_string();
            let seen = definition.str_at(&["metadata", "resourceVersion"]);
            let metadata = texts([("name", name), ("resourceVersion", seen)]);
            let configuration = Map::from_iter([
                ("apiVersion", Value::from("apiextensions.k8s.io/v1")),
                ("kind", Value::from("CustomResourceDefinition")),
                ("metadata", metadata.into()),
                ("status", status(&definition, &now).into()),
            ]);
            let path = format!("{path}/status");
            match self.client.apply(&path, &configuration.into(), MANAGER).await {
                Err(error) if error.reason() == reason::CONFLICT && tries < TRIES => {}
                applied => return Ok(unless_gone(applied).map(drop)?),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use kevel_codec::json::{Unknown, decode_any};

    use super::*;

    #[test]
    fn stored_versions_are_cut_after_success_of_same_generation() {
        for (began, succeeded, message, stored) in [
            (
                3,
                true,
                "The migration has succeeded and the stored versions have been updated",
                "v2",
            ),
            (
                2,
                true,
                "The migration has succeeded but the stored versions have not been updated due to a \
                 generation mismatch",
                "",
            ),
            (3, false, "The migration has failed", ""),
        ] {
            let text = format!(
                r#"{{"metadata":{{"generation":3}},
                "spec":{{"versions":[{{"name":"v1"}},{{"name":"v2","storage":true}}]}},
                "status":{{"conditions":[{{"type":"StorageMigrating","observedGeneration":{began}}}]}}}}"#
            );
            let definition = decode_any(text.as_bytes(), Unknown::Ignore).unwrap().value;
            let status = Value::Map(finished(&definition, succeeded, "now"));
            let condition = &status.list_at(&["conditions"])[0];
            assert_eq!(condition.str_at(&["message"]), message);
            assert_eq!(condition.str_at(&["status"]), "False");
            let versions: Vec<&str> =
                status.list_at(&["storedVersions"]).iter().filter_map(Value::as_str).collect();
            assert_eq!(versions.concat(), stored);
        }
    }
}
