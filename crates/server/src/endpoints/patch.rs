//! Patches: the object as it is, changed as the client says, written like an update.

use bytes::Bytes;
use kevel_api::default;
use kevel_api::field_error::{FieldError, Path};
use kevel_api::gvk::GroupKind;
use kevel_api::status::StatusError;
use kevel_api::value::Value;
use kevel_codec::json;
use kevel_patch::{json_patch, merge_patch, strategic, unstructured, unstructured_but_fields};

use super::StoredRequest;
use super::apply::Configuration;
use super::decode::{normalize, with_defaults};
use super::options::{FieldValidation, WriteOptions};
use super::route::name_required;
use super::update::Existing;
use crate::failure::{bare, bare_with};
use crate::handler::Response;
use crate::resource::Routing;

/// How many bytes the `copy` operations of one patch may add.
const COPY_LIMIT: usize = 3 << 20;

const JSON_PATCH: &str = "application/json-patch+json";
const MERGE_PATCH: &str = "application/merge-patch+json";
const STRATEGIC_MERGE_PATCH: &str = "application/strategic-merge-patch+json";
const APPLY_PATCH: &str = "application/apply-patch+yaml";
/// The types of patches, as error messages list them.
const PATCH_TYPES: [&str; 4] = [JSON_PATCH, MERGE_PATCH, STRATEGIC_MERGE_PATCH, APPLY_PATCH];

/// A patch that has been read.
enum Patch {
    Json(json_patch::Patch),
    Merge(Value),
    Strategic(Value),
}

impl StoredRequest<'_> {
    pub(super) async fn patch(mut self) -> Result<Response, StatusError> {
        self.check_writable()?;
        let content_type = self.request.header(http::header::CONTENT_TYPE);
        let media = content_type.split(';').next().unwrap_or_default().trim().to_owned();
        if media == APPLY_PATCH {
            if self.name().is_empty() {
                return Err(name_required());
            }
            let configuration = match self.request.take_object() {
                Some(tree) => Configuration::Tree(tree),
                None => Configuration::Text(self.request.read_body().await?),
            };
            return self.apply(configuration).await;
        }
        self.check_patch_type(&media)?;
        if self.name().is_empty() {
            return Err(name_required());
        }
        let options = self.write_options("PatchOptions")?;
        let body = self.request.read_body().await?;
        self.request.audit.request_patch(|| body.clone());
        let patch = self.read_patch(&media, &body, &options)?;
        self.replace(&options, |request, existing| request.patched(existing, &patch, &options))
            .await
    }

    /// Refuses patches that the kind does not take.
    fn check_patch_type(&self, media: &str) -> Result<(), StatusError> {
        let conventions = &self.resource.conventions;
        let taken =
            |media: &&str| conventions.strategic_merge_patch || *media != STRATEGIC_MERGE_PATCH;
        if PATCH_TYPES.into_iter().filter(taken).any(|known| known == media) {
            return Ok(());
        }
        Err(match conventions.routing {
            Routing::Routes => bare_with(415, "415: Unsupported Media Type"),
            Routing::Verbs => {
                let types: Vec<&str> = PATCH_TYPES.into_iter().filter(taken).collect();
                StatusError::unsupported_media_type(&types)
            }
        })
    }

    fn read_patch(
        &self,
        media: &str,
        body: &Bytes,
        options: &WriteOptions,
    ) -> Result<Patch, StatusError> {
        let unknown = match options.field_validation {
            FieldValidation::Ignore => json::Unknown::Ignore,
            _ => json::Unknown::Report,
        };
        let (patch, problems) = match media {
            JSON_PATCH => {
                let read = json_patch::Patch::decode(body, unknown);
                let (patch, problems) = read.map_err(|error| match error {
                    json_patch::Error::TooManyOperations(_) => {
                        StatusError::request_entity_too_large(&error.to_string())
                    }
                    error => StatusError::bad_request(error.to_string()),
                })?;
                (Patch::Json(patch), problems)
            }
            media => {
                let read = merge_patch::decode(body, unknown);
                let (patch, problems) =
                    read.map_err(|error| StatusError::bad_request(error.to_string()))?;
                match media {
                    MERGE_PATCH => (Patch::Merge(patch), problems),
                    _ => (Patch::Strategic(patch), problems),
                }
            }
        };
        let problems: Vec<String> = problems.iter().map(ToString::to_string).collect();
        if options.field_validation == FieldValidation::Strict && !problems.is_empty() {
            return Err(StatusError::bad_request(json::strict_message(&problems)));
        }
        problems.into_iter().for_each(|problem| self.request.warnings.add(problem));
        Ok(patch)
    }

    /// The object that a patch makes of another.
    fn patched(
        &self,
        existing: &Existing,
        patch: &Patch,
        options: &WriteOptions,
    ) -> Result<Value, StatusError> {
        let ty = self.ty();
        let schema = ty.schema();
        let scale = self.scale().map(|_| self.view(existing.value.clone())).transpose()?;
        let object = scale.as_ref().unwrap_or(&existing.value);
        if let Patch::Merge(patch) = patch
            && let Some(value) = merge_patch::apply_typed(object, patch, schema)
        {
            return self.finish_patched(value, existing);
        }
        let document = match patch {
            Patch::Json(_) => unstructured(object, schema),
            Patch::Merge(_) | Patch::Strategic(_) => unstructured_but_fields(object, schema),
        };
        let changed = match patch {
            Patch::Json(patch) => patch.apply(document, COPY_LIMIT).map_err(|_| bare(422))?,
            Patch::Merge(patch) => merge_patch::apply(document, patch.clone()),
            Patch::Strategic(patch) => {
                strategic::apply(document, patch.clone(), schema).map_err(|error| match error {
                    strategic::Error::Format(_) => StatusError::bad_request(error.to_string()),
                    strategic::Error::Unprocessable(_) => bare(422),
                    strategic::Error::Other(_) => StatusError::internal(error),
                })?
            }
        };
        let mut text = Vec::new();
        json::encode_any(&changed, &mut text);
        let value = self.decode_patched(&text, options).map_err(|why| {
            let shown = match patch {
                Patch::Strategic(patch) => go_map(patch),
                _ => String::from_utf8_lossy(&text).into_owned(),
            };
            let error = FieldError::invalid(&Path::new("patch"), shown, why);
            StatusError::invalid(&GroupKind::default(), "", error)
        })?;
        self.finish_patched(value, existing)
    }

    fn finish_patched(&self, mut value: Value, existing: &Existing) -> Result<Value, StatusError> {
        if self.ty().is_unstructured() {
            default::drop_nulls(&mut value, self.ty().schema());
        }
        let value = with_defaults(value, &self.ty())?;
        let mut value = normalize(value, self.kind(), &self.ty())?;
        self.identify(&mut value)?;
        self.unview(value, &existing.value)
    }

    /// What a patch made, as an object of the kind that it was; or why it is none.
    fn decode_patched(&self, text: &[u8], options: &WriteOptions) -> Result<Value, String> {
        let unknown = match options.field_validation {
            FieldValidation::Ignore => json::Unknown::Ignore,
            FieldValidation::Warn | FieldValidation::Strict => json::Unknown::Report,
        };
        let decoded = json::decode(text, self.ty().schema(), unknown);
        let decoded = decoded.map_err(|error| error.to_string())?;
        let problems: Vec<String> = decoded.strict.iter().map(ToString::to_string).collect();
        if options.field_validation == FieldValidation::Strict && !problems.is_empty() {
            return Err(json::strict_message(&problems));
        }
        problems.into_iter().for_each(|problem| self.request.warnings.add(problem));
        Ok(decoded.value)
    }
}

/// A patch as Go prints a map.
fn go_map(value: &Value) -> String {
    match value {
        Value::Map(map) => {
            let entries = map.iter().map(|(key, value)| format!("{key}:{}", go_map(value)));
            format!("map[{}]", entries.collect::<Vec<_>>().join(" "))
        }
        Value::List(list) => {
            format!("[{}]", list.iter().map(go_map).collect::<Vec<_>>().join(" "))
        }
        Value::Null => "<nil>".into(),
        Value::String(text) => text.to_string(),
        other => {
            let mut text = Vec::new();
            json::encode_any(other, &mut text);
            String::from_utf8_lossy(&text).into_owned()
        }
    }
}
