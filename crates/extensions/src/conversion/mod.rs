//! Conversion between the versions of a custom resource (upstream: crConverter).

mod accept;
mod webhook;

use std::collections::BTreeMap;
use std::sync::Arc;

use kevel_api::gvk::GroupVersion;
use kevel_api::status::StatusError;
use kevel_api::value::Value;
use kevel_api::{default, prune};
use kevel_codec::json;
use kevel_component::future::Pending;
use kevel_registry::storage::{Conversion, ConvertedObjects, ConvertedView};
use kevel_registry::type_ref::TypeRef;

pub use webhook::{Resolve, Webhook, ca_bundle};

/// Versions of a custom resource, with their types.
#[derive(Debug)]
pub struct Versions {
    types: BTreeMap<String, TypeRef>,
    /// Conversion webhook and its cache of converted objects; `None` for `strategy: None`, which changes `apiVersion`
    /// alone.
    webhook: Option<(Webhook, ConvertedView)>,
}

impl Versions {
    /// Takes the types by version name; without a webhook, conversion changes `apiVersion` alone.
    pub fn new(
        types: BTreeMap<String, TypeRef>,
        webhook: Option<Webhook>,
        converted: &Arc<ConvertedObjects>,
    ) -> Self {
        let webhook = webhook.map(|webhook| (webhook, ConvertedView::new(converted.clone())));
        Versions { types, webhook }
    }

    /// Prunes an object to the schema of a version. No defaults are applied: those of a version are for requests in it,
    /// and stored objects have the defaults of their stored version.
    fn prune(&self, object: &mut Value, to: &GroupVersion) {
        let Some(ty) = self.types.get(to.version.as_str()) else { return };
        prune::prune(object, ty.schema());
        default::drop_nulls(object, ty.schema());
    }

    /// Decodes an object that a webhook converted as one of a version, with its metadata and that of embedded
    /// resources.
    fn coerce(&self, object: Value, to: &GroupVersion) -> Result<Value, StatusError> {
        let Some(ty) = self.types.get(to.version.as_str()) else { return Ok(object) };
        let mut text = Vec::with_capacity(2048);
        json::encode_any(&object, &mut text);
        let decoded = json::decode(&text, ty.schema(), json::Unknown::Ignore);
        let mut object = decoded.map_err(StatusError::internal)?.value;
        default::drop_nulls(&mut object, ty.schema());
        Ok(object)
    }

    fn renamed(&self, mut object: Value, to: &GroupVersion) -> Value {
        let version = to.to_string();
        if let Some(map) = object.as_map_mut() {
            map.insert("apiVersion", version.as_str().into());
        }
        self.prune(&mut object, to);
        object
    }
}

impl Conversion for Versions {
    fn convert<'a>(
        &'a self,
        objects: Vec<Value>,
        to: &'a GroupVersion,
    ) -> Pending<'a, Result<Vec<Value>, StatusError>> {
        Box::pin(async move {
            let Some((webhook, _)) = &self.webhook else {
                return Ok(objects.into_iter().map(|object| self.renamed(object, to)).collect());
            };
            let converted = webhook.convert(objects, to).await.map_err(StatusError::internal)?;
            converted.into_iter().map(|object| self.coerce(object, to)).collect()
        })
    }

    fn convert_at_once(&self, object: Value, to: &GroupVersion) -> Option<Value> {
        let same = object.str_at(&["apiVersion"]) == to.to_string();
        (same || self.webhook.is_none()).then(|| self.renamed(object, to))
    }

    fn is_remote(&self) -> bool {
        self.webhook.is_some()
    }

    fn converted(&self) -> Option<&ConvertedView> {
        self.webhook.as_ref().map(|(_, converted)| converted)
    }

    fn ty(&self, version: &str) -> Option<&TypeRef> {
        self.types.get(version)
    }
}
