//! A request's body as an object.

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
use crate::resource::api_version;
use crate::type_ref::TypeRef;

impl ResourceRequest<'_> {
    /// Reads the body as an object of the kind that the path speaks, with its defaults.
    pub(super) async fn decode_body(
        &mut self,
        kind: &GroupVersionKind,
        ty: &TypeRef,
        validation: FieldValidation,
    ) -> Result<Value, StatusError> {
        self.decode_body_of(kind, &[], ty, validation).await
    }

    /// The same where a body may name the kind by other groups and versions, too.
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
        // What is of another kind gets none of this one's defaults.
        let object = match !ty.is_unstructured() || self.resource.strategy.is_of_kind(&object) {
            true => with_defaults(object, ty, self.request.clock())?,
            false => object,
        };
        let object = normalize(object, kind, ty).map_err(|error| unhandled(kind, &error))?;
        self.request.audit.request_object(&object, ty.schema());
        Ok(object)
    }

    /// Remembers whether an object has labels, before it gets some by default.
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
        // The one typed part of custom objects is of no type that their server knows a kind of.
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

    /// An object that is in hand, as its text would be decoded. What is wrong with it the decoder tells.
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
        // What is said twice, or in letters of another case, is only seen by looking for it.
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
                    // In a map, names have one spelling.
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

/// What the path says goes where the body says nothing.
pub(super) fn set_kind(object: &mut Value, kind: &GroupVersionKind) {
    if let Value::Map(map) = object {
        map.insert("apiVersion", api_version(&kind.group, &kind.version).as_str().into());
        map.insert("kind", kind.kind.as_str().into());
    }
}

/// How many objects a request's object may have inside. Defaults, plug-ins and rules add to each: a
/// million times `{}`, which fit into a request, would become containers of a kilobyte each. The
/// reference has no limit; 30 bytes for each object are less than any that says something has.
const MAX_OBJECTS: usize = 100_000;

/// How many values it may have in all. Each takes ten times of what it was sent in, in every form that the
/// object passes through. The reference has no limit but that of what is stored, 1.5 MiB, into which fewer
/// strings of a single letter fit than these.
const MAX_VALUES: usize = 400_000;

/// An object with its defaults, unless that would be too much.
pub(super) fn with_defaults(
    mut object: Value,
    ty: &TypeRef,
    clock: &Clock,
) -> Result<Value, StatusError> {
    check_size(&object)?;
    default::apply_at(&mut object, ty.schema(), clock);
    Ok(object)
}

/// Refuses what has too many objects or values inside.
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

/// How much more an object may have inside.
struct Room {
    objects: usize,
    values: usize,
}

impl Room {
    /// `None` when there is not enough of it.
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

/// An object that a plug-in has changed, as if a client had sent it so: with its defaults, and in the one
/// form that rules know.
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

/// Brings fields that say the same thing twice to agree, before anybody looks at them, and an object
/// into the one form that rules know: with `spec`, `status` and the like, however it was sent. (What the
/// reference gets by converting to its internal version.)
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

/// In Go a struct of an object is there whether it was sent or not. JSON tells an empty one from none,
/// protobuf does not, and neither does anybody from here on.
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

/// What a YAML reader objects to, line by line: each is a warning of its own.
pub(super) fn yaml_warnings(problem: &str) -> impl Iterator<Item = &str> {
    let (lines, whole) = match problem.strip_prefix("yaml: unmarshal errors:\n") {
        Some(lines) => (lines, None),
        None => ("", Some(problem)),
    };
    lines.lines().map(str::trim).chain(whole)
}
