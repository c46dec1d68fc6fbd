//! Object metadata that the server sets, and its validation (upstream: `ValidateObjectMeta`).

use std::cell::RefCell;
use std::collections::HashSet;

use kevel_api::field_error::{BadValue, FieldError, FieldErrors, Path};
use kevel_api::gvk::GroupVersionKind;
use kevel_api::name;
use kevel_api::value::{Map, Value};
use ring::rand::{SecureRandom, SystemRandom};

/// Largest total size of annotations, keys and values, in bytes.
const MAX_ANNOTATIONS: usize = 256 << 10;

/// The object's metadata, added if absent.
pub fn metadata_mut(object: &mut Value) -> Option<&mut Map> {
    object.as_map_mut()?.entry_or_insert_with("metadata", || Map::new().into()).as_map_mut()
}

/// Text of a metadata field; empty if it is absent.
pub fn text<'v>(object: &'v Value, field: &str) -> &'v str {
    object.str_at(&["metadata", field])
}

/// Sets a metadata field, or removes it.
pub fn set(object: &mut Value, field: &str, value: Option<Value>) {
    let Some(metadata) = metadata_mut(object) else { return };
    match value {
        Some(value) => {
            metadata.insert(field, value);
        }
        None => {
            metadata.remove(field);
        }
    }
}

/// Sets the generation to one more than the old object's, after a change of the spec.
pub fn count_generation(object: &mut Value, old: &Value) {
    let generation = old.at(&["metadata", "generation"]).and_then(Value::as_int).unwrap_or(0);
    // Some kinds store the generation that clients send. Past the largest number it wraps to a negative one, which is
    // then refused.
    set(object, "generation", Some(Value::Int(generation.wrapping_add(1))));
}

/// Validates metadata at a path: of an object, or of a template inside an object.
pub fn check_metadata(
    metadata: &Value,
    root: &Path<'_>,
    namespaced: bool,
    check_name: &dyn Fn(&str, bool) -> Vec<String>,
) -> FieldErrors {
    let text = |field: &str| metadata.str_at(&[field]);
    let mut errors = FieldErrors::new();
    let generate = text("generateName");
    if !generate.is_empty() {
        let path = root.child("generateName");
        let problems = check_name(generate, true);
        errors.extend(problems.into_iter().map(|p| FieldError::invalid(&path, generate, p)));
    }
    let (name, path) = (text("name"), root.child("name"));
    if name.is_empty() {
        errors.push(FieldError::required(&path, "name or generateName is required"));
    } else {
        let problems = check_name(name, false);
        errors.extend(problems.into_iter().map(|p| FieldError::invalid(&path, name, p)));
    }
    let (namespace, path) = (text("namespace"), root.child("namespace"));
    match (namespaced, namespace.is_empty()) {
        (true, true) => errors.push(FieldError::required(&path, "")),
        (true, false) => {
            let problems = name::name_is_dns_label(namespace, false);
            errors.extend(problems.into_iter().map(|p| FieldError::invalid(&path, namespace, p)));
        }
        (false, false) => {
            errors.push(FieldError::forbidden(&path, "not allowed on this type"));
        }
        (false, true) => {}
    }
    let generation = metadata.at(&["generation"]).and_then(Value::as_int).unwrap_or(0);
    if generation < 0 {
        let why = "must be greater than or equal to 0";
        errors.push(FieldError::invalid(&root.child("generation"), generation, why));
    }
    check_labels(metadata, &root.child("labels"), &mut errors);
    check_annotations(metadata, &root.child("annotations"), &mut errors);
    check_owners(metadata, &root.child("ownerReferences"), &mut errors);
    check_finalizers(metadata, &root.child("finalizers"), &mut errors);
    errors
}

/// Validates the labels of metadata.
pub fn check_labels(metadata: &Value, path: &Path<'_>, errors: &mut FieldErrors) {
    let labels = metadata.at(&["labels"]).and_then(Value::as_map);
    for (key, value) in labels.into_iter().flat_map(Map::iter) {
        let value = value.as_str().unwrap_or_default();
        let keys = name::is_label_key(key).into_iter().map(|p| (key, p));
        let values = name::is_label_value(value).into_iter().map(|p| (value, p));
        keys.chain(values).for_each(|(bad, p)| errors.add(|| FieldError::invalid(path, bad, p)));
    }
}

fn check_owners(metadata: &Value, path: &Path<'_>, errors: &mut FieldErrors) {
    let all = metadata.at(&["ownerReferences"]).unwrap_or(&Value::Null);
    let owners = all.as_list().unwrap_or_default();
    let mut controller: Option<String> = None;
    for owner in owners {
        let said = |field: &str| owner.str_at(&[field]);
        let found = GroupVersionKind::from_api_version_and_kind(said("apiVersion"), said("kind"));
        let empty = [
            ("apiVersion", found.version.is_empty(), "version must not be empty"),
            ("kind", found.kind.is_empty(), "must not be empty"),
            ("name", said("name").is_empty(), "must not be empty"),
            ("uid", said("uid").is_empty(), "must not be empty"),
        ];
        for (field, _, why) in empty.into_iter().filter(|(_, empty, _)| *empty) {
            errors.add(|| FieldError::invalid(&path.child(field), said(field), why));
        }
        if (said("apiVersion"), said("kind")) == ("v1", "Event") {
            let why = "/v1, Kind=Event is disallowed from being an owner";
            errors.add(|| FieldError::invalid(path, bad_value(owner), why));
        }
        if owner.at(&["controller"]).and_then(Value::as_bool) == Some(true) {
            let name = format!("{}/{}", said("kind"), said("name"));
            match &controller {
                None => controller = Some(name),
                Some(first) => errors.add(|| {
                    let why = format!(
                        "Only one reference can have Controller set to true. Found \"true\" in \
                         references for {first} and {name}"
                    );
                    FieldError::invalid(path, bad_value(all), why)
                }),
            }
        }
    }
}

/// A value as shown in an error.
fn bad_value(value: &Value) -> BadValue {
    BadValue::Text(kevel_codec::json::message_text(value))
}

fn check_finalizers(metadata: &Value, path: &Path<'_>, errors: &mut FieldErrors) {
    let finalizers = metadata.at(&["finalizers"]).and_then(Value::as_list);
    let finalizers: Vec<&str> =
        finalizers.unwrap_or_default().iter().filter_map(Value::as_str).collect();
    for finalizer in &finalizers {
        for problem in name::is_label_key(finalizer) {
            errors.add(|| FieldError::invalid(path, *finalizer, problem));
        }
    }
    if finalizers.contains(&"orphan") && finalizers.contains(&"foregroundDeletion") {
        let why = "finalizer orphan and foregroundDeletion cannot be both set";
        errors.add(|| FieldError::invalid(path, BadValue::strings(&finalizers), why));
    }
}

/// Validates the annotations of metadata: their keys, and their total size.
pub fn check_annotations(metadata: &Value, path: &Path<'_>, errors: &mut FieldErrors) {
    let annotations = metadata.at(&["annotations"]).and_then(Value::as_map);
    let mut size = 0;
    for (key, value) in annotations.into_iter().flat_map(Map::iter) {
        size += key.len() + value.as_str().map_or(0, str::len);
        for problem in name::is_annotation_key(&key.to_lowercase()) {
            errors.add(|| FieldError::invalid(path, key, problem));
        }
    }
    if size > MAX_ANNOTATIONS {
        errors.push(FieldError::too_long(path, MAX_ANNOTATIONS));
    }
}

/// Validates an update of metadata (upstream: `ValidateObjectMetaUpdate`).
pub(crate) fn check_update(object: &Value, old: &Value) -> FieldErrors {
    let root = Path::new("metadata");
    let mut errors = FieldErrors::new();
    errors.extend(check_new_finalizers(object, old, &root.child("finalizers")));
    for field in ["name", "namespace", "uid", "creationTimestamp"] {
        let (new, old) = (text(object, field), text(old, field));
        if new != old {
            errors.push(FieldError::invalid(&root.child(field), new, "field is immutable"));
        }
    }
    for field in ["deletionTimestamp", "deletionGracePeriodSeconds"] {
        let (new, old) = (object.at(&["metadata", field]), old.at(&["metadata", field]));
        if new != old {
            let new = bad_value(new.unwrap_or(&Value::Null));
            errors.push(FieldError::invalid(&root.child(field), new, "field is immutable"));
        }
    }
    let metadata = object.at(&["metadata"]).unwrap_or(&Value::Null);
    check_labels(metadata, &root.child("labels"), &mut errors);
    check_annotations(metadata, &root.child("annotations"), &mut errors);
    check_owners(metadata, &root.child("ownerReferences"), &mut errors);
    errors
}

/// Refuses new finalizers on an object that is being deleted.
fn check_new_finalizers(object: &Value, old: &Value, path: &Path<'_>) -> Option<FieldError> {
    if text(old, "deletionTimestamp").is_empty() {
        return None;
    }
    fn names(value: &Value) -> impl Iterator<Item = &str> {
        value.list_at(&["metadata", "finalizers"]).iter().filter_map(Value::as_str)
    }
    let before: HashSet<&str> = names(old).collect();
    let mut new: Vec<&str> = names(object).filter(|name| !before.contains(name)).collect();
    if new.is_empty() {
        return None;
    }
    new.sort_unstable();
    let quoted: Vec<String> = new.iter().map(|name| kevel_api::quote::quote(name)).collect();
    Some(FieldError::forbidden(
        path,
        format!(
            "no new finalizers can be added if the object is being deleted, found new finalizers \
             []string{{{}}}",
            quoted.join(", ")
        ),
    ))
}

/// UIDs drawn at a time: the system call for random bytes takes longer than the rest.
const DRAWN_UIDS: usize = 64;

/// A new random UID.
pub(crate) fn new_uid() -> String {
    thread_local! {
        static DRAWN: RefCell<Vec<uuid::Bytes>> = const { RefCell::new(Vec::new()) };
    }
    let drawn = DRAWN.with_borrow_mut(|drawn| {
        drawn.pop().or_else(|| {
            let mut random = [0; DRAWN_UIDS * size_of::<uuid::Bytes>()];
            SystemRandom::new().fill(&mut random).ok()?;
            drawn.extend_from_slice(random.as_chunks().0);
            drawn.pop()
        })
    });
    let uid = drawn.map(|bytes| uuid::Builder::from_random_bytes(bytes).into_uuid());
    uid.unwrap_or_else(uuid::Uuid::new_v4).to_string()
}
