//! Writing of all objects of a resource.

use kevel_api::quote::quote;
use kevel_api::status::{StatusError, reason};
use kevel_api::time::Time;
use kevel_api::value::{Map, Value};

use super::migration::{MigrationError, Milestone, has_ended, resource};
use super::{Migrator, NAME};
use crate::discovery::{ApiResource, preferred_resources};
use crate::object::{name, namespace, texts, uid};

/// Verbs that a resource must have.
const VERBS: [&str; 3] = ["update", "patch", "list"];
/// Form of lists: no more than the objects' metadata.
const METADATA: &str = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";
/// Objects of a page: with the largest annotations, a page takes some 25 MiB.
const PAGE: usize = 100;
/// Namespace that does not exist, for its name is not valid: a list of it is empty and has the newest version.
const NO_NAMESPACE: &str = "@fake:svm_ns!";
/// Seconds after a migration's creation in which discovery may not yet show its resource.
const DISCOVERY: i64 = 60;
/// Reasons of failures that pass.
const PASSING: [&str; 5] = [
    reason::SERVER_TIMEOUT,
    reason::TOO_MANY_REQUESTS,
    reason::SERVICE_UNAVAILABLE,
    reason::INTERNAL_ERROR,
    reason::TIMEOUT,
];

/// End of the writing of an object.
enum ObjectWrite {
    Done,
    /// The migration cannot succeed.
    Failed(StatusError),
}

/// Resource with its version, as messages name it: `apps/v1, Resource=deployments`.
fn shown(resource: &ApiResource) -> String {
    format!("{}/{}, Resource={}", resource.group, resource.version, resource.plural)
}

/// Number of a resource version; `None` if it is not well formed.
fn number(version: &str) -> Option<u128> {
    let digits = version.bytes().all(|byte| byte.is_ascii_digit());
    version.parse().ok().filter(|_| digits && !version.starts_with('0'))
}

/// Whether a failure is one that passes.
fn passes(error: &StatusError) -> bool {
    PASSING.contains(&error.reason())
}

impl Migrator {
    /// Works on a migration: notes the newest version if it runs without one, else writes the objects.
    pub(super) async fn migrate(&self, name: &str) -> Result<(), MigrationError> {
        let Some(migration) = self.migrations.get("", name)? else { return Ok(()) };
        if has_ended(&migration) {
            return Ok(());
        }
        let has_version = !migration.str_at(&["status", "resourceVersion"]).is_empty();
        if !has_version && !Milestone::Running.is_reached(&migration) {
            return Ok(());
        }
        let Some(resource) = self.discover(&migration).await? else {
            let message = if has_version {
                unhandled("unable to obtain GVR from discovery")
            } else {
                "resource does not exist in discovery".to_owned()
            };
            return self.end(migration, Milestone::Failed, &message).await;
        };
        if has_version {
            self.write_all(migration, &resource).await
        } else {
            self.note_version(migration, &resource).await
        }
    }

    /// The resource of a migration, in the version that clients prefer; `None` if there is none.
    async fn discover(&self, migration: &Value) -> Result<Option<ApiResource>, MigrationError> {
        let of = |field| migration.str_at(&["spec", "resource", field]);
        let mut found = preferred_resources(&self.client).await?.resources.into_iter();
        let found = found.find(|it| it.group == of("group") && it.plural == of("resource"));
        let created = migration.str_at(&["metadata", "creationTimestamp"]).parse::<Time>();
        let since = created.map_or(0, |created| created.seconds);
        let is_new = since.saturating_add(DISCOVERY) > Time::now(self.client.clock()).seconds;
        if found.is_none() && is_new {
            return Err(MigrationError::NotDiscovered(resource(migration)));
        }
        Ok(found)
    }

    /// Notes the newest version of a resource: objects that are newer need not be written.
    async fn note_version(
        &self,
        mut migration: Value,
        resource: &ApiResource,
    ) -> Result<(), MigrationError> {
        if !VERBS.iter().all(|verb| resource.allows(verb)) {
            let (resource, verbs) = (quote(&shown(resource)), VERBS.join(" "));
            let message =
                format!("resource {resource} does not support discovery operations: [{verbs}]");
            return self.end(migration, Milestone::Failed, &message).await;
        }
        let path = format!("{}?limit=1", resource.path(NO_NAMESPACE));
        let list = self.list(&path, resource).await?;
        let version = list.str_at(&["metadata", "resourceVersion"]);
        if number(version).is_none() {
            let message = format!(
                "latest resourceVersion for {} is not valid: resource version is not well formed: {version}",
                shown(resource)
            );
            return self.end(migration, Milestone::Failed, &message).await;
        }
        migration.make_map(&["status"]).insert("resourceVersion", version.into());
        Ok(self.update_status(&migration).await?)
    }

    async fn list(&self, path: &str, resource: &ApiResource) -> Result<Value, MigrationError> {
        let listed = self.client.get_as(path, METADATA).await;
        listed.map_err(|source| MigrationError::List { resource: shown(resource), source })
    }

    /// Writes the objects of a resource that are not newer than the migration's version, page by page. After a failure
    /// that passes, it begins again.
    async fn write_all(
        &self,
        migration: Value,
        resource: &ApiResource,
    ) -> Result<(), MigrationError> {
        let newest = number(migration.str_at(&["status", "resourceVersion"]));
        let mut next = String::new();
        loop {
            let path = format!("{}?limit={PAGE}&continue={next}", resource.path(""));
            let page = self.list(&path, resource).await?;
            for object in page.list_at(&["items"]) {
                kevel_compute::charge(1);
                let version = number(object.str_at(&["metadata", "resourceVersion"]));
                if version > newest {
                    continue;
                }
                if let ObjectWrite::Failed(error) = self.write(object, resource).await? {
                    return self.end(migration, Milestone::Failed, &unhandled(error)).await;
                }
            }
            next = page.str_at(&["metadata", "continue"]).to_owned();
            if next.is_empty() {
                return self.end(migration, Milestone::Succeeded, "").await;
            }
        }
    }

    /// Writes an object by an apply without fields: it is stored again if it is stored in another form than the present
    /// one.
    async fn write(
        &self,
        object: &Value,
        resource: &ApiResource,
    ) -> Result<ObjectWrite, MigrationError> {
        let api_version = kevel_registry::resource::api_version(&resource.group, &resource.version);
        // With both, an object that has been changed or deleted meanwhile is a conflict, and never made again.
        let seen = object.str_at(&["metadata", "resourceVersion"]);
        let metadata = texts([("uid", uid(object)), ("resourceVersion", seen)]);
        let configuration = Map::from_iter([
            ("apiVersion", Value::from(api_version.as_str())),
            ("kind", Value::from(resource.kind.as_str())),
            ("metadata", metadata.into()),
        ]);
        let path = format!("{}/{}", resource.path(namespace(object)), name(object));
        match self.client.apply(&path, &configuration.into(), NAME).await {
            Err(error) if passes(&error) => Err(error.into()),
            Err(error) if [reason::CONFLICT, reason::NOT_FOUND].contains(&error.reason()) => {
                Ok(ObjectWrite::Done)
            }
            Err(error) => Ok(ObjectWrite::Failed(error)),
            Ok(_) => Ok(ObjectWrite::Done),
        }
    }

    async fn end(
        &self,
        mut migration: Value,
        end: Milestone,
        message: &str,
    ) -> Result<(), MigrationError> {
        end.set(&mut migration, message, self.client.clock());
        Ok(self.update_status(&migration).await?)
    }
}

fn unhandled(error: impl std::fmt::Display) -> String {
    format!("migration encountered unhandled error: {error}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resource_versions_are_positive_decimal_numbers() {
        for (version, expected) in [
            ("1", Some(1)),
            ("18446744073709551616", Some(18_446_744_073_709_551_616)),
            ("", None),
            ("0", None),
            ("01", None),
            ("+1", None),
            ("1a", None),
        ] {
            assert_eq!(number(version), expected, "{version}");
        }
    }
}
