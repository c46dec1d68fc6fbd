//! Validation of `x-kubernetes-*` extensions in schemas, except rules.

use std::collections::HashSet;

use kevel_api::field_error::{BadValue, FieldError, Path};

use super::internal;
use super::open_api_schema::{Demands, Errors};
use crate::schema::is_full;
use crate::schema::props::{Items, Props};

/// Validates the extensions of a schema.
pub(super) fn check(path: &Path<'_>, schema: Props<'_>, demands: Demands, errors: &mut Errors) {
    let preserve = "x-kubernetes-preserve-unknown-fields";
    if schema.optional_flag(preserve) == Some(false) {
        errors.invalid(&path.child(preserve), false, "must be true or undefined");
    }
    let kind = schema.kind();
    let at_type = path.child("type");
    let must_be = |errors: &mut Errors, expected: &str, extension: &str| {
        let why = format!("must be {expected} if {extension} is specified");
        match kind {
            "" => errors.require(&at_type, &why),
            kind => errors.invalid(&at_type, kind, &why),
        }
    };
    if let Some(map_type) = schema.map_type() {
        if kind != "object" {
            must_be(errors, "object", "x-kubernetes-map-type");
        }
        if !["atomic", "granular"].contains(&map_type) {
            let path = path.child("x-kubernetes-map-type");
            let error = FieldError::not_supported(&path, map_type, ["atomic", "granular"]);
            errors.schema.push(error);
        }
    }
    let list_type = schema.list_type();
    if list_type.is_some() && kind != "array" {
        must_be(errors, "array", "x-kubernetes-list-type");
    } else if demands.atomic_sets
        && let Some((extension, value)) = non_atomic_set(schema)
    {
        let why = "must be atomic as item of a list with x-kubernetes-list-type=set";
        errors.invalid(&path.child("items").child(extension), value, why);
    }
    if let Some(list_type) = list_type
        && !["atomic", "set", "map"].contains(&list_type)
    {
        let path = path.child("x-kubernetes-list-type");
        errors.schema.push(FieldError::not_supported(&path, list_type, ["atomic", "set", "map"]));
    }
    list_map(path, schema, errors);
}

/// Field and value because of which the items of a set are not atomic.
pub(crate) fn non_atomic_set(schema: Props<'_>) -> Option<(&'static str, BadValue)> {
    let item = schema.item().filter(|_| schema.list_type() == Some("set"))?;
    let list_type = item.list_type();
    let shown = list_type.map_or_else(|| BadValue::Text("null".to_owned()), BadValue::named_string);
    match item.kind() {
        "array" if !matches!(list_type, None | Some("atomic")) => {
            Some(("x-kubernetes-list-type", shown))
        }
        "object" if item.map_type() != Some("atomic") => Some(("x-kubernetes-map-type", shown)),
        _ => None,
    }
}

fn list_map(path: &Path<'_>, schema: Props<'_>, errors: &mut Errors) {
    let at_keys = path.child("x-kubernetes-list-map-keys");
    let keys: Vec<&str> = schema.list_map_keys().collect();
    let at_list_type = path.child("x-kubernetes-list-type");
    let why = "must be map if x-kubernetes-list-map-keys is non-empty";
    match schema.list_type() {
        Some("map") => {}
        _ if keys.is_empty() => return,
        None => return errors.require(&at_list_type, why),
        Some(other) => return errors.invalid(&at_list_type, other, why),
    }
    if keys.is_empty() {
        errors.require(&at_keys, "must not be empty if x-kubernetes-list-type is map");
    }
    let at_items = path.child("items");
    let item = match schema.items() {
        None => {
            return errors
                .require(&at_items, "must have a schema if x-kubernetes-list-type is map");
        }
        Some(Items::List(_)) => {
            let shown = schema.get("items").map_or(BadValue::Omitted, internal::items);
            let why = "must only have a single schema if x-kubernetes-list-type is map";
            return errors.invalid(&at_items, shown, why);
        }
        Some(Items::Schema(item)) => item,
    };
    if item.kind() != "object" {
        let why = "must be object if parent array's x-kubernetes-list-type is map";
        return errors.invalid(&at_items.child("type"), item.kind(), why);
    }
    let properties = at_items.child("properties");
    let mut seen = HashSet::new();
    for key in &keys {
        if is_full(&errors.schema) {
            return;
        }
        match item.property(key) {
            Some(property) if matches!(property.kind(), "array" | "object") => {
                let why = "must be a scalar type if parent array's x-kubernetes-list-type is map";
                errors.invalid(&properties.key(key).child("type"), item.kind(), why);
            }
            Some(_) => {}
            None => {
                let why = "entries must all be names of item properties";
                errors.invalid(&at_keys, BadValue::strings(&keys), why);
            }
        }
        if !seen.insert(*key) {
            let why = "must not contain duplicate entries";
            errors.invalid(&at_keys, BadValue::strings(&keys), why);
        }
    }
}

/// Errors of nullable elements in sets and maps, and of keys of maps that are neither required nor defaulted.
pub(crate) fn list_keys(path: &Path<'_>, schema: Props<'_>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let (Some(item), Some(list_type @ ("set" | "map"))) = (schema.item(), schema.list_type())
    else {
        return errors;
    };
    let items = path.child("items");
    if item.flag("nullable") {
        let why = format!("cannot be nullable when x-kubernetes-list-type is {list_type}");
        errors.push(FieldError::forbidden(&items.child("nullable"), why));
    }
    let properties = items.child("properties");
    let required: HashSet<&str> = item.texts("required").collect();
    for key in schema.list_map_keys().filter(|_| list_type == "map") {
        if is_full(&errors) {
            break;
        }
        let Some(property) = item.property(key) else { continue };
        let path = properties.key(key);
        if !required.contains(key) && property.default().is_none() {
            let why = "this property is in x-kubernetes-list-map-keys, so it must have a default \
                       or be a required property";
            errors.push(FieldError::required(&path.child("default"), why));
        }
        if property.flag("nullable") {
            let why = "this property is in x-kubernetes-list-map-keys, so it cannot be nullable";
            errors.push(FieldError::forbidden(&path.child("nullable"), why));
        }
    }
    errors
}
