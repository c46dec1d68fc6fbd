//! Field selectors of a version that a conversion webhook makes: the cache, which has stored versions, cannot match
//! them.

use std::sync::Arc;

use kevel_api::selector::field::FieldSelector;
use kevel_api::status::StatusError;
use kevel_api::value::Value;
use kevel_store::cache::{Change, Delivery, Object};

use super::Store;
use crate::resource::Resource;
use crate::storage::Storage;

/// Prefix of the fields that are the same in every version.
const METADATA: &str = "metadata.";

/// Field selector to be matched in the requested version.
#[derive(Debug)]
pub struct VersionSelector {
    resource: Arc<Resource>,
    storage: Arc<Storage>,
    fields: FieldSelector,
}

impl VersionSelector {
    /// Moves the requirements that depend on the requested version out of `fields`.
    pub fn take(store: &Store<'_>, fields: &mut FieldSelector) -> Option<Self> {
        if !store.storage.converts_remotely() {
            return None;
        }
        let requirements = fields.requirements().iter().cloned();
        let (shared, own): (Vec<_>, Vec<_>) =
            requirements.partition(|requirement| requirement.field.starts_with(METADATA));
        if own.is_empty() {
            return None;
        }
        *fields = FieldSelector::new(shared);
        let (resource, storage) = (store.resource.clone(), store.storage.clone());
        Some(VersionSelector { resource, storage, fields: FieldSelector::new(own) })
    }

    /// Returns the objects that the selector matches.
    pub async fn select(&self, objects: Vec<Arc<Object>>) -> Result<Vec<Arc<Object>>, StatusError> {
        let to = self.resource.kind.group_version();
        let converted = self.storage.converted(objects.clone(), &to).await?;
        let mut selected = Vec::new();
        for (object, converted) in objects.into_iter().zip(converted) {
            let wire = converted.wire().map_err(StatusError::internal)?;
            let value = self.storage.read(wire).map_err(StatusError::internal)?;
            if self.matches(&value) {
                selected.push(object);
            }
        }
        Ok(selected)
    }

    /// Narrows watch events to the selected objects: a change may become an addition or deletion.
    pub async fn narrow_all(&self, deliveries: Vec<Delivery>) -> Vec<Delivery> {
        let mut narrowed = Vec::new();
        for delivery in deliveries {
            narrowed.extend(self.narrow(delivery).await);
        }
        narrowed
    }

    async fn narrow(&self, delivery: Delivery) -> Option<Delivery> {
        if delivery.is_lost() {
            return Some(delivery);
        }
        let Delivery { change, event } = delivery;
        let before = match change {
            Change::Added => false,
            Change::Modified | Change::Deleted => self.selects(event.previous()).await,
        };
        let after = match change {
            Change::Deleted => false,
            Change::Added | Change::Modified => self.selects(event.current()).await,
        };
        let change = match (before, after) {
            (false, true) => Change::Added,
            (true, true) => Change::Modified,
            (true, false) => Change::Deleted,
            (false, false) => return None,
        };
        Some(Delivery { change, event })
    }

    /// Whether an object is selected. One that cannot be converted is, so that the client gets the conversion error.
    pub async fn selects(&self, object: Option<&Arc<Object>>) -> bool {
        let Some(object) = object else { return false };
        self.select(vec![object.clone()]).await.map_or(true, |selected| !selected.is_empty())
    }

    fn matches(&self, object: &Value) -> bool {
        let texts: Vec<String> = self
            .fields
            .requirements()
            .iter()
            .map(|requirement| text_at(object, &requirement.field))
            .collect();
        let named = |field: &str| {
            let mut names = self.fields.requirements().iter().zip(&texts);
            names.find(|(requirement, _)| requirement.field == field).map(|(_, text)| text.as_str())
        };
        self.fields.matches(named)
    }
}

/// A selector field's value as text; empty where the object has none.
fn text_at(object: &Value, field: &str) -> String {
    let steps: Vec<&str> = field.split('.').collect();
    match object.at(&steps) {
        Some(Value::String(text)) => text.to_string(),
        Some(Value::Bool(value)) => value.to_string(),
        Some(Value::Int(value)) => value.to_string(),
        _ => String::new(),
    }
}
