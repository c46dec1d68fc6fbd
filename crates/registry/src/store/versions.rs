//! Versions of an object for the field manager: each manager's fields are recorded in the version that it wrote.

use std::sync::{Mutex, MutexGuard, PoisonError};

use kevel_api::gvk::GroupVersion;
use kevel_api::schema::Schema;
use kevel_api::status::StatusError;
use kevel_api::value::Value;
use kevel_patch::managed_fields::{Filter, OtherVersions};

use super::Store;
use crate::storage::Storage;

/// Most rounds of conversion webhook calls for versions that the field manager needs.
const MAX_ROUNDS: usize = 8;

/// Versions of a kind, for the field manager.
pub(crate) struct Versions<'a> {
    pub storage: &'a Storage,
    pub group: &'a str,
    pub kind: &'a str,
    pub filter: &'a Filter,
    pub converted: &'a ConvertedVersions,
}

impl OtherVersions for Versions<'_> {
    fn schema(&self, api_version: &str) -> Option<Schema<'_>> {
        self.storage.schema_in(&self.version(api_version)?)
    }

    fn convert(&self, object: &Value, api_version: &str) -> Option<Value> {
        let to = self.version(api_version)?;
        if self.storage.converts_remotely() {
            return self.converted.get(object, api_version);
        }
        if self.schema(api_version)?.is_custom() {
            // Not pruned, unlike what is served: fields that the version does not declare are an error of its managers.
            let mut renamed = object.clone();
            renamed.as_map_mut()?.insert("apiVersion", Value::from(api_version));
            return Some(renamed);
        }
        let from: GroupVersion = object.str_at(&["apiVersion"]).parse().ok()?;
        self.storage.convert_at_once(object.clone(), &from.with_kind(self.kind), &to)
    }

    fn filter(&self, _: &str) -> Option<&Filter> {
        Some(self.filter)
    }
}

impl Versions<'_> {
    /// Parses an apiVersion of the request's group; the field manager does not know other groups. So an Event written
    /// through one of its two groups loses the managers of the other.
    fn version(&self, api_version: &str) -> Option<GroupVersion> {
        let version: GroupVersion = api_version.parse().ok()?;
        (version.group == self.group).then_some(version)
    }
}

/// Objects in versions that a conversion webhook has returned, and the versions still missing. The field manager does
/// not wait: missing versions are converted, then it runs again.
#[derive(Debug, Default)]
pub(crate) struct ConvertedVersions(Mutex<Conversions>);

#[derive(Debug, Default)]
struct Conversions {
    known: Vec<(Value, String, Value)>,
    missing: Vec<(Value, String)>,
}

impl ConvertedVersions {
    fn lock(&self) -> MutexGuard<'_, Conversions> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn get(&self, object: &Value, api_version: &str) -> Option<Value> {
        let mut conversions = self.lock();
        let mut known = conversions.known.iter();
        let found = known.find(|(of, version, _)| version == api_version && of == object);
        if let Some((.., converted)) = found {
            return Some(converted.clone());
        }
        conversions.missing.push((object.clone(), api_version.to_owned()));
        None
    }
}

impl Store<'_> {
    /// Converts the object to the versions that `work`, which runs the field manager, will need.
    pub(crate) async fn convert_versions(&self, work: impl Fn()) -> Result<(), StatusError> {
        if !self.storage.converts_remotely() {
            return Ok(());
        }
        for _ in 0..MAX_ROUNDS {
            work();
            let missing = std::mem::take(&mut self.converted.lock().missing);
            if missing.is_empty() {
                break;
            }
            for (object, version) in missing {
                let Ok(to) = version.parse::<GroupVersion>() else { continue };
                let from = &self.resource.kind;
                let converted = self.storage.convert(object.clone(), from, &to).await?;
                self.converted.lock().known.push((object, version, converted));
            }
        }
        Ok(())
    }
}
