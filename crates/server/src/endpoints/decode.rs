//! Decodes request bodies into objects.

use std::sync::atomic::Ordering;

use bytes::Bytes;
use kevel_api::gvk::GroupVersionKind;
use kevel_api::schema::Type;
use kevel_api::status::StatusError;
use kevel_api::value::{Map, Value};
use kevel_api::{convert, default};
use kevel_clock::Clock;
use kevel_codec::{json, protobuf, yaml};

use super::ResourceRequest;
use super::options::FieldValidation;
use super::said_kind::{
    check_kind, check_unstructured_kind, unhandled, unrecognized, unregistered,
};
use crate::negotiate::{self, MediaType};
use crate::request::json_text;
use kevel_registry::resource::api_version;
use kevel_registry::type_ref::TypeRef;

impl ResourceRequest<'_> {
    /// Decodes the body as an object of `kind` and applies defaults.
    pub(super) async fn decode_body(
        &mut self,
        kind: &GroupVersionKind,
        ty: &TypeRef,
        validation: FieldValidation,
    ) -> Result<Value, StatusError> {
        self.decode_body_of(kind, &[], ty, validation).await
    }

    /// Decodes the body like [`Self::decode_body`], and also accepts the kind under the groups and versions in
    /// `others`.
    pub(super) async fn decode_body_of(
        &mut self,
        kind: &GroupVersionKind,
        others: &[(&str, &str)],
        ty: &TypeRef,
        validation: FieldValidation,
    ) -> Result<Value, StatusError> {
        let mut object = match self.request.take_object() {
            Some(tree) => self.decode_tree(&tree, kind, ty, validation)?,
            None => {
                let content_type = self.request.header(http::header::CONTENT_TYPE);
                let media = negotiate::body(content_type, self.resource.conventions.cbor)?;
                let body = self.request.read_body().await?;
                self.note_body(body.len());
                self.span.event("About to convert to expected version");
                let decode =
                    |kind: &GroupVersionKind| self.decode(&body, media, kind, ty, validation);
                decode(kind).or_else(|error| {
                    let other = |(group, version): &(&str, &str)| {
                        decode(&GroupVersionKind::new(*group, *version, kind.kind.as_str())).ok()
                    };
                    others.iter().find_map(other).ok_or(error)
                })?
            }
        };
        match ty.is_unstructured() {
            true => default::drop_nulls(&mut object, ty.schema()),
            false => set_kind(&mut object, kind),
        }
        self.note_labels(&object);
        // An object of another kind must not get this kind's defaults.
        let object = match !ty.is_unstructured() || self.resource.strategy.is_of_kind(&object) {
            true => with_defaults(object, ty, self.request.clock())?,
            false => object,
        };
        let object = normalize(object, kind, ty).map_err(|error| unhandled(kind, &error))?;
        self.span.event("Conversion done");
        self.request.audit.request_object(&object, ty.schema());
        Ok(object)
    }

    /// Records whether the object has labels before defaulting adds some.
    pub(super) fn note_labels(&self, object: &Value) {
        let labels = object.at(&["metadata", "labels"]);
        let own = labels.is_some_and(|labels| !labels.is_empty());
        self.has_own_labels.store(own, Ordering::Relaxed);
    }

    pub(super) fn decode(
        &self,
        body: &Bytes,
        media: MediaType,
        kind: &GroupVersionKind,
        ty: &TypeRef,
        validation: FieldValidation,
    ) -> Result<Value, StatusError> {
        let decoded = self.decode_media(body, media, kind, ty, validation);
        // For custom resources the reference's scheme does not register built-in types such as Scale.
        match self.resource.ty.is_unstructured() && !ty.is_unstructured() {
            true => decoded.map_err(|_| unregistered(kind)),
            false => decoded,
        }
    }

    fn decode_media(
        &self,
        body: &Bytes,
        media: MediaType,
        kind: &GroupVersionKind,
        ty: &TypeRef,
        validation: FieldValidation,
    ) -> Result<Value, StatusError> {
        match media {
            MediaType::Json => self.decode_json(body, body, &[], kind, ty, validation),
            MediaType::Yaml => {
                let json = yaml::to_json(body)
                    .map_err(|error| unrecognized(kind, &error.to_string(), body))?;
                let twice: Vec<String> = json.duplicates.iter().map(ToString::to_string).collect();
                self.decode_json(&json.text, body, &twice, kind, ty, validation)
            }
            MediaType::Protobuf => {
                let envelope = protobuf::decode_object(body)
                    .map_err(|error| unrecognized(kind, &error.to_string(), body))?;
                check_kind(kind, &envelope.api_version, &envelope.kind, body)?;
                envelope.decode(ty.schema()).map_err(|error| unhandled(kind, &error))
            }
            MediaType::Cbor => self.decode_cbor(body, kind, ty, validation),
        }
    }

    /// Decodes a tree from an in-process client. If the tree does not fit the type, its JSON is decoded to get the
    /// error.
    fn decode_tree(
        &self,
        tree: &Value,
        kind: &GroupVersionKind,
        ty: &TypeRef,
        validation: FieldValidation,
    ) -> Result<Value, StatusError> {
        let Some(mut object) = json::structured(tree, ty.schema()) else {
            return self.decode(&json_text(tree), MediaType::Json, kind, ty, validation);
        };
        let said = |field| object.str_at(&[field]);
        check_kind(kind, said("apiVersion"), said("kind"), &[])?;
        set_kind(&mut object, kind);
        Ok(object)
    }

    pub(super) fn decode_json(
        &self,
        text: &[u8],
        original: &[u8],
        duplicates: &[String],
        kind: &GroupVersionKind,
        ty: &TypeRef,
        validation: FieldValidation,
    ) -> Result<Value, StatusError> {
        let unknown = match validation {
            FieldValidation::Ignore => json::Unknown::Ignore,
            FieldValidation::Warn | FieldValidation::Strict => json::Unknown::Report,
        };
        let decoded = json::decode(text, ty.schema(), unknown);
        // Duplicate fields and fields in another case are found only by a strict decoding.
        let plain = unknown == json::Unknown::Report && !ty.is_unstructured();
        match &decoded {
            Ok(decoded) if plain && decoded.strict.is_empty() => {
                let said = |field| decoded.value.str_at(&[field]);
                check_kind(kind, said("apiVersion"), said("kind"), original)?;
            }
            _ => {
                let meta = json::type_meta(text).map_err(|error| {
                    let why = format!("couldn't get version/kind; json parse error: {error}");
                    unrecognized(kind, &why, original)
                })?;
                match (ty.is_unstructured(), &decoded) {
                    (false, _) => check_kind(kind, &meta.api_version, &meta.kind, original)?,
                    // Keys of an unstructured object are case-sensitive.
                    (true, Ok(read)) => {
                        let said = |field| read.value.str_at(&[field]);
                        check_unstructured_kind(kind, said("apiVersion"), said("kind"), original)?;
                    }
                    (true, Err(_)) => {
                        check_unstructured_kind(kind, &meta.api_version, &meta.kind, original)?;
                    }
                }
            }
        }
        let decoded = decoded.map_err(|error| unhandled(kind, &error))?;
        let problems: Vec<String> = duplicates
            .iter()
            .cloned()
            .chain(decoded.strict.iter().map(ToString::to_string))
            .collect();
        if !problems.is_empty() && validation == FieldValidation::Strict {
            return Err(unhandled(kind, &json::strict_message(&problems)));
        }
        if validation == FieldValidation::Warn {
            let warnings = problems.iter().flat_map(|problem| yaml_warnings(problem));
            warnings.for_each(|warning| self.request.warnings.add(warning));
        }
        let mut value = decoded.value;
        if !ty.is_unstructured() {
            set_kind(&mut value, kind);
        }
        Ok(value)
    }
}

/// Sets `apiVersion` and `kind` to the path's kind.
pub(super) fn set_kind(object: &mut Value, kind: &GroupVersionKind) {
    if let Value::Map(map) = object {
        map.insert("apiVersion", api_version(&kind.group, &kind.version).as_str().into());
        map.insert("kind", kind.kind.as_str().into());
    }
}

/// Most objects that a request's object may contain. Defaults, plug-ins and rules add to each: a million times `{}`,
/// which fit into a request, would become containers of a kilobyte each. The reference has no limit; a meaningful
/// nested object takes more than 30 bytes.
const MAX_OBJECTS: usize = 100_000;

/// Most values that a request's object may contain. A value takes ten times its encoded size, in every form that the
/// object passes through. The reference limits only the stored size, to 1.5 MiB; fewer one-letter strings than this
/// fit into that.
const MAX_VALUES: usize = 400_000;

/// Applies defaults to an object, after [`check_size`].
pub(super) fn with_defaults(
    mut object: Value,
    ty: &TypeRef,
    clock: &Clock,
) -> Result<Value, StatusError> {
    check_size(&object)?;
    default::apply_at(&mut object, ty.schema(), clock);
    Ok(object)
}

/// Refuses an object that contains too many objects or values.
pub(super) fn check_size(object: &Value) -> Result<(), StatusError> {
    let mut room = Room { objects: MAX_OBJECTS, values: MAX_VALUES };
    room.take(object).ok_or_else(|| {
        let why = match room.objects {
            0 => format!("the object has more than {MAX_OBJECTS} objects inside"),
            _ => format!("the object has more than {MAX_VALUES} values inside"),
        };
        StatusError::request_entity_too_large(&why)
    })
}

/// Numbers of objects and values that may still be added.
struct Room {
    objects: usize,
    values: usize,
}

impl Room {
    /// Takes the value and its children off the limits; `None` when a limit is exceeded.
    fn take(&mut self, value: &Value) -> Option<()> {
        self.values = self.values.checked_sub(1)?;
        match value {
            Value::Map(map) => {
                self.objects = self.objects.checked_sub(1)?;
                map.iter().try_for_each(|(_, value)| self.take(value))
            }
            Value::List(items) => items.iter().try_for_each(|item| self.take(item)),
            _ => Some(()),
        }
    }
}

/// Treats an object that a plug-in has changed like one sent by a client: applies defaults and [`normalize`]s it.
pub fn settle_changed(
    mut object: Value,
    kind: &GroupVersionKind,
    ty: &TypeRef,
    clock: &Clock,
) -> Result<Value, StatusError> {
    if let TypeRef::Custom(..) = ty {
        default::drop_nulls(&mut object, ty.schema());
    }
    normalize(with_defaults(object, ty, clock)?, kind, ty)
}

/// Makes fields that state the same fact twice agree, and fills in `spec`, `status` and other structs however the
/// object was sent, so that validation sees one form. (The reference does this by converting to its internal version.)
pub(super) fn normalize(
    mut object: Value,
    kind: &GroupVersionKind,
    ty: &TypeRef,
) -> Result<Value, StatusError> {
    if ty.is_unstructured() {
        return Ok(object);
    }
    fill_in_structs(&mut object, ty);
    let read =
        |text: &str| json::decode_any(text.as_bytes(), json::Unknown::Ignore).ok().map(|d| d.value);
    let normalized = convert::convert(object, kind, &kind.group_version(), &read);
    normalized.map_err(StatusError::bad_request)
}

/// Adds the struct fields that were not sent, as in Go, where they always exist. JSON distinguishes an empty struct
/// from an absent one, protobuf does not; after this step the server does not either.
fn fill_in_structs(object: &mut Value, ty: &TypeRef) {
    let (Some(map), Some(structure)) = (object.as_map_mut(), ty.schema().as_struct()) else {
        return;
    };
    let structs = structure
        .fields()
        .filter(|field| !field.pointer() && matches!(field.schema().ty(), Type::Struct(_)));
    structs.for_each(|field| {
        map.entry_or_insert_with(field.name(), || Map::new().into());
    });
}

/// Splits a YAML decoding error into one warning for each line.
pub(super) fn yaml_warnings(problem: &str) -> impl Iterator<Item = &str> {
    let (lines, whole) = match problem.strip_prefix("yaml: unmarshal errors:\n") {
        Some(lines) => (lines, None),
        None => ("", Some(problem)),
    };
    lines.lines().map(str::trim).chain(whole)
}
