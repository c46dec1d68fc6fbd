//! Patch requests: the stored object is patched and written like an update.

use bytes::Bytes;
use kevel_api::field_error::{FieldError, Path};
use kevel_api::gvk::{GroupKind, GroupVersionKind};
use kevel_api::quote::quote;
use kevel_api::schema::{StructFlags, StructSchema};
use kevel_api::status::StatusError;
use kevel_api::value::{Map, Value};
use kevel_api::{builtin, convert, default};
use kevel_codec::json;
use kevel_patch::go_format::Plain;
use kevel_patch::{
    from_unstructured, json_patch, lazily_patched, merge_patch, strategic, unstructured,
    unstructured_but_fields,
};

use super::StoredRequest;
use super::apply::Configuration;
use super::decode::{check_size, normalize, with_defaults};
use super::options::{FieldValidation, OptionsKind, RequestOptions};
use super::route::name_required;
use super::said_kind::{other_kind, other_version_said};
use crate::handler::Response;
use crate::request::Request;
use kevel_registry::failure::{bare, bare_with};
use kevel_registry::resource::{Resource, Routing};
use kevel_registry::store::{Existing, Store};

/// Bytes that the `copy` operations of one patch may add.
const COPY_LIMIT: usize = 3 << 20;

const JSON_PATCH: &str = "application/json-patch+json";
const MERGE_PATCH: &str = "application/merge-patch+json";
const STRATEGIC_MERGE_PATCH: &str = "application/strategic-merge-patch+json";
const APPLY_PATCH: &str = "application/apply-patch+yaml";
const APPLY_CBOR_PATCH: &str = "application/apply-patch+cbor";
/// Patch media types, in the order of error messages.
const PATCH_TYPES: [&str; 5] =
    [JSON_PATCH, MERGE_PATCH, STRATEGIC_MERGE_PATCH, APPLY_PATCH, APPLY_CBOR_PATCH];

/// A decoded patch, with the problems that only strict field validation rejects.
struct ReadPatch {
    patch: Patch,
    body: Bytes,
    /// Whether the patch has numbers like `1.0`, which the decoder reads as an integer.
    fractions: bool,
    problems: Vec<String>,
}

/// A patched and decoded object, with the fields that its type does not have.
struct ReadObject {
    value: Value,
    unknown: Vec<String>,
}

enum Patch {
    Json(json_patch::Patch),
    Merge(Value),
    Strategic(Value),
}

impl StoredRequest<'_> {
    pub(super) async fn patch(mut self) -> Result<Response, StatusError> {
        self.check_writable()?;
        let media = media(&self.request).to_owned();
        if matches!(media.as_str(), APPLY_PATCH | APPLY_CBOR_PATCH) {
            let configuration = match self.request.take_object() {
                Some(tree) => Configuration::Tree(tree),
                None => {
                    let body = self.request.read_body().await?;
                    self.note_body(body.len());
                    match media == APPLY_PATCH {
                        true => Configuration::Yaml(body),
                        false => Configuration::Cbor(body),
                    }
                }
            };
            self.span.event("Recorded the audit event");
            return self.apply(configuration).await;
        }
        let options = self.write_options(OptionsKind::Patch)?;
        let body = self.request.read_body().await?;
        self.note_body(body.len());
        self.request.audit.request_patch(|| body.clone());
        self.span.event("Recorded the audit event");
        // A decoding error is reported only after the object has been read: NotFound comes first.
        let patch = self.read_patch(&media, &body, &options);
        let make = |_: &Store<'_>, existing: &Existing| {
            let patch = patch.as_ref().map_err(StatusError::clone)?;
            self.patched(existing, patch, &options)
        };
        let written = self.store().update_with(&options.write, make).await?;
        self.written(written).await
    }

    fn read_patch(
        &self,
        media: &str,
        body: &Bytes,
        options: &RequestOptions,
    ) -> Result<ReadPatch, StatusError> {
        let unknown = unknown_fields(options);
        let (patch, problems) = match media {
            JSON_PATCH => {
                let read = json_patch::Patch::decode(body, unknown);
                let (patch, problems) = read.map_err(|error| match error {
                    json_patch::Error::TooManyOperations(_) => {
                        StatusError::request_entity_too_large(&error.to_string())
                    }
                    error => StatusError::bad_request(error.to_string()),
                })?;
                let problems = problems.iter().map(|problem| format!("json patch {problem}"));
                (Patch::Json(patch), problems.collect())
            }
            media => {
                let read = merge_patch::decode(body, unknown);
                let (patch, problems) =
                    read.map_err(|error| StatusError::bad_request(error.to_string()))?;
                let problems = problems.iter().map(ToString::to_string).collect();
                match media {
                    MERGE_PATCH => (Patch::Merge(patch), problems),
                    _ => (Patch::Strategic(patch), problems),
                }
            }
        };
        let fractions = match &patch {
            Patch::Json(patch) => patch.operations().iter().any(|o| has_fraction(o.value())),
            Patch::Merge(patch) => has_fraction(patch),
            Patch::Strategic(_) => false,
        };
        Ok(ReadPatch { patch, body: body.clone(), fractions, problems })
    }

    /// Patches an object.
    fn patched(
        &self,
        existing: &Existing,
        read: &ReadPatch,
        options: &RequestOptions,
    ) -> Result<Value, StatusError> {
        let ReadPatch { patch, body, fractions, problems } = read;
        let ty = self.ty();
        let schema = ty.schema();
        let store = self.store();
        let scale = store.scale().map(|_| store.view(existing.value.clone())).transpose()?;
        let object = scale.as_ref().unwrap_or(&existing.value);
        // Every patch encodes raw documents inside the object again, which changes their bytes.
        let documents = |of: StructSchema<'_>| of.flags().has(StructFlags::DOCUMENTS);
        let by_text =
            *fractions || !problems.is_empty() || schema.as_struct().is_some_and(documents);
        if let Patch::Merge(patch) = patch
            && !by_text
            && !changes_kind(patch)
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
                    strategic::Error::Other(_) => StatusError::unknown(500, error.to_string()),
                })?
            }
        };
        let mut text = Vec::new();
        json::encode_any(&changed, &mut text);
        let mut read = match patch {
            Patch::Strategic(_) => self.convert_patched(changed, &text, options),
            _ => self.decode_patched(&text, options),
        };
        // The order of several errors follows from how the reference encodes the patched document.
        if !matches!(patch, Patch::Strategic(_))
            && (by_text || read.as_ref().map_or(true, |read| !read.unknown.is_empty()))
            && let Some(lazily) = self.lazily_patched(object, body)
        {
            read = self.decode_patched(&lazily, options);
            text = lazily;
        }
        let value = read.and_then(|read| {
            self.mind(problems.iter().cloned().chain(read.unknown).collect(), options)?;
            Ok(read.value)
        });
        let value = value.map_err(|why| {
            let shown = match patch {
                Patch::Strategic(patch) => {
                    let document = unstructured_but_fields(object, schema);
                    Plain(&strategic::without_done(&document, patch)).to_string()
                }
                _ => String::from_utf8_lossy(&text).into_owned(),
            };
            let error = FieldError::invalid(&Path::new("patch"), shown, why);
            StatusError::invalid(&GroupKind::default(), "", error)
        })?;
        self.finish_patched(value, existing)
    }

    fn lazily_patched(&self, object: &Value, patch: &[u8]) -> Option<Vec<u8>> {
        let mut document = Vec::new();
        json::encode(object, self.ty().schema(), &mut document);
        lazily_patched(&document, patch)
    }

    fn finish_patched(&self, mut value: Value, existing: &Existing) -> Result<Value, StatusError> {
        if self.ty().is_unstructured() {
            default::drop_nulls(&mut value, self.ty().schema());
        }
        let value = with_defaults(value, &self.ty(), self.request.clock())?;
        let mut value = normalize(value, self.kind(), &self.ty())?;
        let store = self.store();
        store.identify(&mut value)?;
        store.unview(value, &existing.value)
    }

    /// Decodes the result of a JSON or merge patch by the kind that it names.
    fn decode_patched(&self, text: &[u8], options: &RequestOptions) -> Result<ReadObject, String> {
        let ty = self.ty();
        let meta = json::type_meta(text)
            .map_err(|error| format!("couldn't get version/kind; json parse error: {error}"))?;
        if !ty.is_unstructured() {
            if meta.api_version.is_empty() {
                return self.decode_internal(text);
            }
            let said = other_version_said(self.kind(), &meta.api_version, &meta.kind);
            if let Some(said) = said {
                return self.decode_other_version(text, &said, options);
            }
            if let Some(why) = other_kind(self.kind(), &meta.api_version, &meta.kind) {
                return Err(why);
            }
        }
        let decoded = json::decode(text, ty.schema(), unknown_fields(options));
        let decoded = decoded.map_err(|error| error.to_string())?;
        let unknown = decoded.strict.iter().map(ToString::to_string).collect();
        let mut value = decoded.value;
        if !ty.is_unstructured() {
            self.set_kind(&mut value);
        }
        Ok(ReadObject { value, unknown })
    }

    /// Decodes the result of a patch that changed `apiVersion`.
    fn decode_other_version(
        &self,
        text: &[u8],
        said: &GroupVersionKind,
        options: &RequestOptions,
    ) -> Result<ReadObject, String> {
        let schema = builtin::schema(&said.group, &said.version, &said.kind);
        let schema = schema.ok_or_else(|| format!("no kind {said}"))?;
        let decoded = json::decode(text, schema, unknown_fields(options));
        let decoded = decoded.map_err(|error| error.to_string())?;
        let unknown = decoded.strict.iter().map(ToString::to_string).collect();
        let read = |text: &str| {
            json::decode_any(text.as_bytes(), json::Unknown::Ignore).ok().map(|read| read.value)
        };
        let to = self.kind().group_version();
        let mut value = decoded.value;
        check_size(&value).map_err(|error| error.to_string())?;
        default::apply_at(&mut value, schema, self.request.clock());
        let mut value = convert::convert(value, said, &to, &read)?;
        self.set_kind(&mut value);
        Ok(ReadObject { value, unknown })
    }

    /// Decodes the result of a strategic merge patch. Its kind stays, even if the patch changes `kind` or `apiVersion`.
    fn convert_patched(
        &self,
        mut changed: Value,
        text: &[u8],
        options: &RequestOptions,
    ) -> Result<ReadObject, String> {
        let ty = self.ty();
        let decoded = match json::decode(text, ty.schema(), unknown_fields(options)) {
            Ok(decoded) => decoded,
            // The converter words errors differently, and accepts some values that the decoder rejects.
            Err(error) => {
                from_unstructured(&mut changed, ty.schema())?;
                let mut text = Vec::new();
                json::encode_any(&changed, &mut text);
                let again = json::decode(&text, ty.schema(), unknown_fields(options));
                again.map_err(|_| error.to_string())?
            }
        };
        let mut unknown: Vec<String> = decoded.strict.iter().map(ToString::to_string).collect();
        unknown.sort();
        let mut value = decoded.value;
        self.set_kind(&mut value);
        Ok(ReadObject { value, unknown })
    }

    /// Decodes a document without `apiVersion`. The reference reads it in its internal version, whose Go field names
    /// match none of the JSON fields, so every field is unknown.
    fn decode_internal(&self, text: &[u8]) -> Result<ReadObject, String> {
        let document = json::decode_any(text, json::Unknown::Ignore);
        let document = document.map_err(|error| error.to_string())?.value;
        let fields = document.as_map().into_iter().flat_map(|map| map.iter());
        let fields = fields.filter(|(name, _)| !matches!(*name, "apiVersion" | "kind"));
        let unknown = fields.map(|(name, _)| format!("unknown field {}", quote(name))).collect();
        let mut value = Value::Map(Map::new());
        self.set_kind(&mut value);
        Ok(ReadObject { value, unknown })
    }

    /// Reports problems by `fieldValidation`: an error for Strict, warnings for Warn.
    fn mind(&self, problems: Vec<String>, options: &RequestOptions) -> Result<(), String> {
        match options.field_validation {
            FieldValidation::Strict if !problems.is_empty() => Err(json::strict_message(&problems)),
            FieldValidation::Ignore => Ok(()),
            _ => {
                problems.into_iter().for_each(|problem| self.request.warnings.add(problem));
                Ok(())
            }
        }
    }

    fn set_kind(&self, object: &mut Value) {
        let kind = self.kind();
        if let Some(map) = object.as_map_mut() {
            map.insert("apiVersion", kind.group_version().to_string().as_str().into());
            map.insert("kind", kind.kind.as_str().into());
        }
    }
}

/// Refuses patch types that the resource does not support, and patches without a name.
pub(super) fn check(resource: &Resource, request: &Request) -> Result<(), StatusError> {
    let conventions = &resource.conventions;
    let taken = |media: &&str| match *media {
        STRATEGIC_MERGE_PATCH => conventions.strategic_merge_patch,
        APPLY_CBOR_PATCH => conventions.cbor.0,
        _ => true,
    };
    let media = media(request);
    if !PATCH_TYPES.into_iter().filter(taken).any(|known| known == media) {
        return Err(match conventions.routing {
            Routing::Routes => bare_with(415, "415: Unsupported Media Type"),
            Routing::Verbs => {
                let types: Vec<&str> = PATCH_TYPES.into_iter().filter(taken).collect();
                StatusError::unsupported_media_type(&types)
            }
        });
    }
    if request.info.name.is_empty() { Err(name_required()) } else { Ok(()) }
}

/// Media type of a patch, without parameters.
fn media(request: &Request) -> &str {
    let content_type = request.header(http::header::CONTENT_TYPE);
    content_type.split(';').next().unwrap_or_default().trim()
}

fn unknown_fields(options: &RequestOptions) -> json::Unknown {
    match options.field_validation {
        FieldValidation::Ignore => json::Unknown::Ignore,
        FieldValidation::Warn | FieldValidation::Strict => json::Unknown::Report,
    }
}

fn has_fraction(value: &Value) -> bool {
    match value {
        Value::Float(_) => true,
        Value::List(items) => items.iter().any(has_fraction),
        Value::Map(map) => map.iter().any(|(_, value)| has_fraction(value)),
        _ => false,
    }
}

/// Whether a merge patch sets `apiVersion` or `kind`.
fn changes_kind(patch: &Value) -> bool {
    ["apiVersion", "kind"].iter().any(|field| patch.at(&[field]).is_some())
}
