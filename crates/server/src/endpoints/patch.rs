//! Patches: the object as it is, changed as the client says, written like an update.

use bytes::Bytes;
use kevel_api::default;
use kevel_api::status::StatusError;
use kevel_api::value::Value;
use kevel_codec::json;
use kevel_patch::{json_patch, merge_patch, strategic, unstructured};

use super::options::{FieldValidation, WriteOptions};
use super::update::Existing;
use super::{Call, bare, bare_with};
use crate::handler::Response;
use crate::negotiate::MediaType;

/// How many bytes the `copy` operations of one patch may add.
const COPY_LIMIT: usize = 3 << 20;

/// A patch that has been read.
enum Patch {
    Json(json_patch::Patch),
    Merge(Value),
    Strategic(Value),
}

impl Call<'_> {
    pub(super) async fn patch(mut self) -> Result<Response, StatusError> {
        self.check_writable()?;
        let content_type = self.request.header(http::header::CONTENT_TYPE);
        let media = content_type.split(';').next().unwrap_or_default().trim().to_owned();
        let known = ["application/json-patch+json", "application/merge-patch+json"];
        let strategic = "application/strategic-merge-patch+json";
        if media == "application/apply-patch+yaml" {
            let body = self.request.read_body().await?;
            return self.apply(&body).await;
        }
        if !known.contains(&media.as_str()) && (media != strategic || self.resource.custom) {
            return Err(bare_with(415, "415: Unsupported Media Type"));
        }
        let options = self.write_options("PatchOptions")?;
        let body = self.request.read_body().await?;
        self.request.audit.request_patch(&body);
        let patch = self.read_patch(&media, &body, &options)?;
        self.replace(&options, |call, existing| call.patched(existing, &patch, &options)).await
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
            "application/json-patch+json" => {
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
                    "application/merge-patch+json" => (Patch::Merge(patch), problems),
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
        let document = unstructured(&self.view(existing.value.clone())?, schema);
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
        let mut value =
            self.decode(&text.into(), MediaType::Json, self.kind(), &ty, options.field_validation)?;
        default::apply(&mut value, schema);
        self.unview(value, &existing.value)
    }
}
