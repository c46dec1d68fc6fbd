//! Server-side apply: merges the configuration into the object, and creates the object if there is none.

use bytes::Bytes;
use kevel_api::gvk::GroupVersion;
use kevel_api::schema::{StructFlags, StructSchema};
use kevel_api::status::{StatusCause, StatusError, cause};
use kevel_api::time::Time;
use kevel_api::value::{Map, Value};
use kevel_codec::{cbor, json, yaml};
use kevel_patch::managed_fields::ApplyError;
use kevel_patch::{from_unstructured, unstructured_but_fields};

use super::StoredRequest;
use super::decode::{check_size, normalize, with_defaults, yaml_warnings};
use super::options::{FieldValidation, OptionsKind, RequestOptions};
use crate::handler::Response;
use crate::negotiate::MediaType;
use crate::request::json_text;
use kevel_registry::metadata;
use kevel_registry::resource::Resource;
use kevel_registry::store::{Existing, Store};

const MANAGED_FIELDS: &str = "managedFields";

/// Apply configuration as sent, not yet decoded.
pub(super) enum Configuration {
    /// YAML, or JSON, which is YAML.
    Yaml(Bytes),
    /// Applied configuration in CBOR.
    Cbor(Bytes),
    /// A tree from an in-process client.
    Tree(Value),
}

/// Decoded apply configuration.
struct ReadConfig {
    tree: Value,
    /// Strict-decoding error about duplicate keys.
    duplicates: Option<String>,
}

impl StoredRequest<'_> {
    pub(super) async fn apply(
        &self,
        configuration: Configuration,
    ) -> Result<Response, StatusError> {
        let options = self.write_options(OptionsKind::Apply)?;
        let config = self.read_configuration(configuration);
        let other_kind = config.as_ref().ok().and_then(|config| self.is_no_scale(&config.tree));
        let config = config.map(|config| ReadConfig { tree: self.unscaled(config.tree), ..config });
        let make = |store: &Store<'_>, existing: Option<&Existing>, config: &ReadConfig| match (
            existing,
            &other_kind,
        ) {
            (Some(_), Some(error)) => Err(error.clone()),
            (existing, _) => {
                self.applied(store, existing.map(|existing| &existing.value), config, &options)
            }
        };
        let written = self.store().apply(&config, &options.write, make).await?;
        self.written(written).await
    }

    fn read_configuration(&self, configuration: Configuration) -> Result<ReadConfig, StatusError> {
        let config = match configuration {
            Configuration::Yaml(body) => {
                self.request.audit.request_patch(|| body.clone());
                read_yaml(&body)?
            }
            Configuration::Cbor(body) => {
                let json = || cbor::to_json(&body).unwrap_or_default().into();
                self.request.audit.request_patch(json);
                read_cbor(&body)?
            }
            Configuration::Tree(tree) => {
                self.request.audit.request_patch(|| json_text(&tree));
                ReadConfig { tree, duplicates: None }
            }
        };
        check_size(&config.tree)?;
        Ok(config)
    }

    /// The object that a configuration applies to; a Scale is turned into an object with only its scale fields.
    fn unscaled(&self, config: Value) -> Value {
        let store = self.store();
        let Some(scale) = store.scale() else { return config };
        // A Scale is applied as an object that sets no other fields.
        let mut object = Value::Map(Map::from_iter([
            ("apiVersion", Value::from(self.resource.api_version().as_str())),
            ("kind", Value::from(self.resource.kind.kind.as_str())),
        ]));
        let name = Some(metadata::text(&config, "name")).filter(|name| !name.is_empty());
        metadata::set(&mut object, "name", Some(name.unwrap_or(self.name()).into()));
        let namespace = config.at(&["metadata", "namespace"]).cloned();
        metadata::set(&mut object, "namespace", namespace);
        let uid = config.at(&["metadata", "uid"]).filter(|_| scale.checked);
        metadata::set(&mut object, "uid", uid.cloned());
        if config.at(&["spec", "replicas"]).is_some() {
            scale.set(&mut object, &config);
        }
        object
    }

    /// Names the Scale's version instead of the object's in the conflicts of an applied Scale.
    fn in_versions_of_scale(&self, error: StatusError) -> StatusError {
        if self.store().scale().is_none() {
            return error;
        }
        let owned = format!(" using {}", self.resource.api_version());
        let scale = format!(" using {}", self.kind().group_version());
        let mut status = error.into_status();
        status.message = status.message.replace(&owned, &scale).into();
        for cause in status.details.iter_mut().flat_map(|details| &mut details.causes) {
            cause.message = cause.message.replace(&owned, &scale).into();
        }
        status.into()
    }

    /// The 400 for a configuration sent to the scale subresource that is not a Scale.
    fn is_no_scale(&self, config: &Value) -> Option<StatusError> {
        self.store().scale()?;
        let said = |field| config.str_at(&[field]);
        let version = said("apiVersion").parse::<GroupVersion>().unwrap_or_default();
        let said = version.with_kind(said("kind"));
        let error = || StatusError::bad_request(format!("invalid object type: {said}"));
        (said != *self.kind()).then(error)
    }

    /// Merges the configuration into the live object and returns the result.
    fn applied(
        &self,
        store: &Store<'_>,
        live: Option<&Value>,
        read: &ReadConfig,
        options: &RequestOptions,
    ) -> Result<Value, StatusError> {
        let (config, force) = (&read.tree, self.flag("force"));
        let applied = store.with_field_manager(|manager| {
            manager.apply(
                live,
                config,
                &options.write.field_manager,
                force,
                Time::now(self.request.clock()),
            )
        });
        let mut tree = applied.map_err(|error| self.in_versions_of_scale(apply_error(error)))?;
        store.forget_time_of_scales(&mut tree);
        let value = match live.and_then(|live| self.unchanged(live, &tree)) {
            Some(live) => live,
            None => self.read_applied(tree, config, options)?,
        };
        self.mind_duplicates(read, options)?;

        self.note_labels(&value);
        let value = with_defaults(value, &self.resource.ty, self.request.clock())?;
        let mut value = normalize(value, &self.resource.kind, &self.resource.ty)?;
        let uid = metadata::text(&value, "uid");
        if live.is_none() && !uid.is_empty() {
            let why = format!(
                "uid mismatch: the provided object specified uid {uid}, and no existing object was \
                 found"
            );
            return Err(StatusError::conflict(&store.group_resource(), self.name(), why));
        }
        if let (Some(scale), Some(live)) = (store.scale(), live) {
            store.check_scale_uid(scale, config, live)?;
        }
        store.identify(&mut value)?;
        Ok(value)
    }
}

impl StoredRequest<'_> {
    /// The live object, if it embeds raw documents and the apply changed nothing: the tree does not keep the bytes of
    /// those documents, so writing it again would change them.
    fn unchanged(&self, live: &Value, tree: &Value) -> Option<Value> {
        let schema = self.resource.ty.schema();
        let documents = |of: StructSchema<'_>| of.flags().has(StructFlags::DOCUMENTS);
        if !schema.as_struct().is_some_and(documents) {
            return None;
        }
        let (mut before, mut after) = (unstructured_but_fields(live, schema), tree.clone());
        metadata::set(&mut before, MANAGED_FIELDS, None);
        metadata::set(&mut after, MANAGED_FIELDS, None);
        (before == after).then(|| {
            let mut live = live.clone();
            let managed = tree.at(&["metadata", MANAGED_FIELDS]).cloned();
            metadata::set(&mut live, MANAGED_FIELDS, managed);
            live
        })
    }

    /// Decodes an applied tree into an object of the resource's type.
    fn read_applied(
        &self,
        mut tree: Value,
        config: &Value,
        options: &RequestOptions,
    ) -> Result<Value, StatusError> {
        match self.decode_applied(&tree, options) {
            // The converter words errors differently, and accepts some values that the decoder rejects.
            Err(error) if self.resource.ty.is_unstructured() => Err(error),
            Err(error) if from_unstructured(&mut tree, self.resource.ty.schema()).is_ok() => {
                self.decode_applied(&tree, options).map_err(|_| error)
            }
            Err(_) => Err(self.unconvertible(tree, config)),
            Ok(value) => Ok(value),
        }
    }

    fn decode_applied(&self, tree: &Value, options: &RequestOptions) -> Result<Value, StatusError> {
        let mut text = Vec::new();
        json::encode_any(tree, &mut text);
        let Resource { kind, ty, .. } = &**self.resource;
        self.decode(&text.into(), MediaType::Json, kind, ty, options.field_validation)
    }

    /// Reports duplicate keys of the configuration, as an error or warning by `fieldValidation`, after all other
    /// errors.
    fn mind_duplicates(
        &self,
        read: &ReadConfig,
        options: &RequestOptions,
    ) -> Result<(), StatusError> {
        let Some(duplicates) = &read.duplicates else { return Ok(()) };
        match options.field_validation {
            FieldValidation::Strict => Err(StatusError::bad_request(format!(
                "error strict decoding YAML: error converting YAML to JSON: {duplicates}"
            ))),
            FieldValidation::Warn => {
                yaml_warnings(duplicates).for_each(|text| self.request.warnings.add(text));
                Ok(())
            }
            FieldValidation::Ignore => Ok(()),
        }
    }

    /// The 500 for an applied tree that cannot be converted to the kind's type.
    fn unconvertible(&self, mut tree: Value, config: &Value) -> StatusError {
        let kind = &self.resource.kind;
        let why = from_unstructured(&mut tree, self.resource.ty.schema()).err().unwrap_or_default();
        let said = |field| metadata::text(config, field);
        let (namespace, name) = (said("namespace"), said("name"));
        StatusError::unknown(
            500,
            format!(
                "failed to convert new object ({namespace}/{name}; {kind}) to proper version: unable \
                 to convert unstructured object to {kind}: {why}"
            ),
        )
    }
}

/// Decodes a CBOR configuration. Duplicate keys are a decoding error in CBOR, so none are left to report later.
fn read_cbor(body: &[u8]) -> Result<ReadConfig, StatusError> {
    let tree = cbor::decode_object(body)
        .map_err(|error| StatusError::bad_request(format!("error decoding YAML: {error}")))?;
    Ok(ReadConfig { tree: Value::Map(tree), duplicates: None })
}

fn read_yaml(body: &Bytes) -> Result<ReadConfig, StatusError> {
    let json = yaml::to_json(body).map_err(|error| {
        let message = format!("error decoding YAML: error converting YAML to JSON: {error}");
        StatusError::bad_request(message)
    })?;
    let decoded = json::decode_any(&json.text, json::Unknown::Ignore);
    let tree = decoded.map_err(|e| StatusError::bad_request(e.to_string()))?.value;
    let found = match tree {
        Value::List(_) => Some("array"),
        Value::String(_) => Some("string"),
        Value::Bool(_) => Some("bool"),
        Value::Int(_) | Value::Float(_) => Some("number"),
        _ => None,
    };
    if let Some(found) = found {
        return Err(StatusError::bad_request(format!(
            "error decoding YAML: error unmarshaling JSON: while decoding JSON: json: cannot unmarshal {found} into Go \
             value of type map[string]interface {{}}"
        )));
    }
    Ok(ReadConfig { tree, duplicates: json.duplicates })
}

fn apply_error(error: ApplyError) -> StatusError {
    let message = error.to_string();
    match error {
        ApplyError::BadRequest(_) => StatusError::bad_request(message),
        ApplyError::Internal(_) => StatusError::unknown(500, message),
        ApplyError::Conflicts(conflicts) => {
            let told = conflicts.told();
            let untold = conflicts.count() - told.len();
            let causes = told.into_iter().map(|conflict| StatusCause {
                reason: cause::FIELD_MANAGER_CONFLICT.into(),
                message: conflict.message().into(),
                field: conflict.field.into(),
            });
            StatusError::apply_conflict(causes, untold, message)
        }
    }
}
