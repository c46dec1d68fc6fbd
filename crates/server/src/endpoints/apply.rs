//! Server-side apply: the object as its managers want it, made if there is none.

use bytes::Bytes;
use kevel_api::field_error::{FieldError, Path};
use kevel_api::gvk::GroupKind;
use kevel_api::status::{StatusCause, StatusError, cause};
use kevel_api::time::Time;
use kevel_api::value::{Map, Value};
use kevel_codec::{json, yaml};
use kevel_patch::from_unstructured;
use kevel_patch::managed_fields::ApplyError;
use kevel_store::cache::At;

use super::StoredRequest;
use super::decode::{check_size, normalize, with_defaults};
use super::options::{FieldValidation, WriteOptions};
use super::update::Existing;
use crate::guaranteed_update::{Failed, guaranteed_update};
use crate::handler::Response;
use crate::metadata;
use crate::negotiate::MediaType;
use crate::request::json_text;
use crate::resource::Resource;

/// What is to be applied, before it is read.
pub(super) enum Configuration {
    /// YAML, or JSON, which is YAML.
    Text(Bytes),
    /// A tree that is in hand.
    Tree(Value),
}

impl StoredRequest<'_> {
    pub(super) async fn apply(
        &self,
        configuration: Configuration,
    ) -> Result<Response, StatusError> {
        let mut options = self.write_options("PatchOptions")?;
        if self.parameter("fieldManager").unwrap_or_default().is_empty() {
            let path = Path::new("fieldManager");
            let error = FieldError::required(&path, "is required for apply patch");
            let kind = GroupKind::new("meta.k8s.io", "PatchOptions");
            return Err(StatusError::invalid(&kind, "", error));
        }
        options.tracked = false;
        let config = match configuration {
            Configuration::Text(body) => {
                self.request.audit.request_patch(|| body.clone());
                self.read_config(&body, &options)?
            }
            Configuration::Tree(tree) => {
                self.request.audit.request_patch(|| json_text(&tree));
                tree
            }
        };
        check_size(&config)?;
        let config = self.unscaled(config);
        let (config, options) = (&config, &options);
        let make = |request: &Self, existing: &Existing| {
            request.applied(Some(&existing.value), config, options)
        };
        let read = |at| self.existing(at);
        let write = |existing: Option<Existing>| async move {
            let Some(existing) = existing else {
                return self.create_applied(config, options).await;
            };
            let apply = || drop(self.applied(Some(&existing.value), config, options));
            self.convert_versions(apply).await?;
            self.replace_once(&existing, options, make).await
        };
        guaranteed_update(At::Any, read, write, || self.modified(self.name())).await
    }

    async fn create_applied(
        &self,
        config: &Value,
        options: &WriteOptions,
    ) -> Result<Response, Failed> {
        if self.subresource.is_some() {
            let error = StatusError::not_found(&self.group_resource(), self.name());
            return Err(error.into());
        }
        self.authorize_create().await?;
        let object = self.applied(None, config, options)?;
        match self.create_once(object, options).await {
            Err(error) if error.reason() == kevel_api::status::reason::ALREADY_EXISTS => {
                Err(Failed::Changed)
            }
            result => Ok(result?),
        }
    }

    /// Reads what is to be applied.
    fn read_config(&self, body: &Bytes, options: &WriteOptions) -> Result<Value, StatusError> {
        let json = yaml::to_json(body).map_err(|error| {
            let message = format!("error decoding YAML: error converting YAML to JSON: {error}");
            StatusError::bad_request(message)
        })?;
        let duplicates = json.duplicates.iter().map(ToString::to_string);
        match options.field_validation {
            FieldValidation::Strict if json.duplicates.is_some() => {
                let duplicates: Vec<String> = duplicates.collect();
                let message = json::strict_message(&duplicates);
                return Err(StatusError::bad_request(format!("error decoding YAML: {message}")));
            }
            FieldValidation::Warn => duplicates.for_each(|text| self.request.warnings.add(text)),
            _ => {}
        }
        let decoded = json::decode_any(&json.text, json::Unknown::Ignore);
        let config = decoded.map_err(|e| StatusError::bad_request(e.to_string()))?.value;
        Ok(config)
    }

    /// The object that a configuration is about, of which it may be the scale.
    fn unscaled(&self, config: Value) -> Value {
        let Some(scale) = self.scale() else { return config };
        // Applying a scale is applying an object that says nothing else.
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
        scale.set(&mut object, &config);
        object
    }

    /// The object that applying makes of what is there.
    fn applied(
        &self,
        live: Option<&Value>,
        config: &Value,
        options: &WriteOptions,
    ) -> Result<Value, StatusError> {
        let force = self.flag("force");
        let applied = self.with_field_manager(|manager| {
            manager.apply(live, config, &options.field_manager, force, Time::now())
        });
        let mut tree = applied.map_err(apply_error)?;
        self.forget_time_of_scales(&mut tree);
        let value = match self.decode_applied(&tree, options) {
            // The converter has other words, and takes some of what the decoder does not.
            Err(error) if self.resource.ty.is_unstructured() => return Err(error),
            Err(error) if from_unstructured(&mut tree, self.resource.ty.schema()).is_ok() => {
                self.decode_applied(&tree, options).map_err(|_| error)?
            }
            Err(_) => return Err(self.unconvertible(tree)),
            Ok(value) => value,
        };
        let value = with_defaults(value, &self.resource.ty)?;
        let mut value = normalize(value, &self.resource.kind, &self.resource.ty)?;
        let uid = metadata::text(&value, "uid");
        if live.is_none() && !uid.is_empty() {
            let why = format!(
                "uid mismatch: the provided object specified uid {uid}, and no existing object was \
                 found"
            );
            return Err(StatusError::conflict(&self.group_resource(), self.name(), why));
        }
        if let (Some(scale), Some(live)) = (self.scale(), live) {
            self.check_scale_uid(scale, config, live)?;
        }
        self.identify(&mut value)?;
        Ok(value)
    }
}

impl StoredRequest<'_> {
    fn decode_applied(&self, tree: &Value, options: &WriteOptions) -> Result<Value, StatusError> {
        let mut text = Vec::new();
        json::encode_any(tree, &mut text);
        let Resource { kind, ty, .. } = &**self.resource;
        self.decode(&text.into(), MediaType::Json, kind, ty, options.field_validation)
    }

    /// What was applied is no object of the kind.
    fn unconvertible(&self, mut tree: Value) -> StatusError {
        let kind = &self.resource.kind;
        let why = from_unstructured(&mut tree, self.resource.ty.schema()).err().unwrap_or_default();
        let (namespace, name) = (self.namespace(), self.name());
        StatusError::unknown(
            500,
            format!(
                "failed to convert new object ({namespace}/{name}; {kind}) to proper version: unable \
                 to convert unstructured object to {kind}: {why}"
            ),
        )
    }
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
