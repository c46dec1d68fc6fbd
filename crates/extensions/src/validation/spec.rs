//! Validation of `spec`.

use std::collections::HashSet;

use kevel_api::field_error::{BadValue, FieldError, Path};
use kevel_api::name;
use kevel_api::value::Value;

use super::definition::{Definition, Version, VersionParts};
use super::options::Options;
use super::version::{
    check_columns, check_deprecation, check_schema, check_selectable_fields, check_subresources,
};
use super::{conversion, dns_label_problem, internal, names, structural};
use crate::schema::is_full;
use crate::schema::props::Props;

/// Adds the errors of `spec`.
pub(crate) fn check(new: &Definition<'_>, options: &Options, errors: &mut Vec<FieldError>) {
    let path = Path::new("spec");
    let versions = path.child("versions");
    errors.extend(check_group(new.spec.text("group"), &path.child("group")));
    errors.extend(check_scope(new.spec.text("scope"), &path.child("scope")));
    errors.extend(check_schemas_present(new, options, &versions));
    let has_defaults =
        new.schemas().any(|schema| schema.any(&mut |schema| schema.default().is_some()));
    if has_defaults && new.preserves_unknown_fields() {
        let why = "must be false in order to use defaults in the schema";
        errors.push(FieldError::invalid(&path.child("preserveUnknownFields"), true, why));
    }
    let structural = options.structural
        || !new.preserves_unknown_fields()
        || has_defaults
        || new.schemas().any(|schema| schema.any(&mut has_extensions));
    let options = &Options { structural, ..options.clone() };

    for (index, version) in new.versions.iter().enumerate() {
        if is_full(errors) {
            break;
        }
        errors.extend(check_version(new, version, options, &versions.index(index)));
    }
    let shown = || match new.spec.get("versions") {
        Some(_) => internal::versions(&new.shown_versions()),
        None => BadValue::Text("null".to_owned()),
    };
    let names: HashSet<&str> = new.versions.iter().map(|version| version.name).collect();
    if names.len() < new.versions.len() {
        errors.push(FieldError::invalid(&versions, shown(), "must contain unique version names"));
    }
    if new.versions.iter().filter(|version| version.fields.flag("storage")).count() != 1 {
        let why = "must have exactly one version marked as storage version";
        errors.push(FieldError::invalid(&versions, shown(), why));
    }
    let first = new.versions.first().map_or("", |version| version.name);
    if let Some(why) = dns_label_problem(first).filter(|_| !first.is_empty()) {
        errors.push(FieldError::invalid(&path.child("version"), first, why));
    }
    errors.extend(check_names(new, &path.child("names")));
    errors.extend(check_common(new, first, options, &path));
    errors.extend(check_conversion(new, options, &path.child("conversion")));
}

/// Adds the errors of changed immutable fields.
pub(crate) fn check_unchanged(
    new: &Definition<'_>,
    old: &Definition<'_>,
    options: &Options,
    errors: &mut Vec<FieldError>,
) {
    let spec = Path::new("spec");
    let text = |definition: &Definition<'_>, path: &[&str]| {
        let at = [&["spec"], path].concat();
        definition.crd.str_at(&at).to_owned()
    };
    for (field, always) in [
        (&["scope"][..], false),
        (&["names", "kind"][..], false),
        (&["group"][..], true),
        (&["names", "plural"][..], true),
    ] {
        let now = text(new, field);
        if now != text(old, field) && (always || options.immutable_names) {
            let name = field.join(".");
            let shown = match field {
                ["scope"] => BadValue::named_string(&now),
                _ => BadValue::from(now),
            };
            errors.push(FieldError::invalid(&spec.child(&name), shown, "field is immutable"));
        }
    }
}

fn check_group(group: &str, path: &Path<'_>) -> Option<FieldError> {
    if group.is_empty() {
        return Some(FieldError::required(path, ""));
    }
    let problems = name::is_dns1123_subdomain(group);
    if !problems.is_empty() {
        return Some(FieldError::invalid(path, group, problems.join(",")));
    }
    let why = "should be a domain with at least one dot";
    (!group.contains('.')).then(|| FieldError::invalid(path, group, why))
}

fn check_scope(scope: &str, path: &Path<'_>) -> Option<FieldError> {
    match scope {
        "" => Some(FieldError::required(path, "")),
        "Cluster" | "Namespaced" => None,
        other => Some(FieldError::not_supported(path, other, ["Cluster", "Namespaced"])),
    }
}

/// Errors of versions without a schema. If the old definition had versions without one, only served versions are
/// checked.
fn check_schemas_present(
    new: &Definition<'_>,
    options: &Options,
    path: &Path<'_>,
) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if new.common.open_api().is_some() || (!options.schemas && new.preserves_unknown_fields()) {
        return errors;
    }
    for (index, version) in new.versions.iter().enumerate() {
        let asked = options.schemas || version.fields.flag("served");
        if asked && version.parts.open_api().is_none() {
            let why = match options.schemas {
                true => "",
                false => "because otherwise all fields are pruned",
            };
            let version = path.index(index);
            errors.push(FieldError::required(&version.child("schema.openAPIV3Schema"), why));
        }
    }
    errors
}

fn has_extensions(schema: Props<'_>) -> bool {
    schema.embedded()
        || schema.int_or_string()
        || !schema.rules().is_empty()
        || schema.list_map_keys().next().is_some()
        || schema.list_type().is_some()
        || schema.has("x-kubernetes-preserve-unknown-fields")
}

fn check_version(
    new: &Definition<'_>,
    version: &Version<'_>,
    options: &Options,
    path: &Path<'_>,
) -> Vec<FieldError> {
    let Version { name, fields, parts } = version;
    let mut errors = Vec::new();
    if let Some(why) = dns_label_problem(name) {
        errors.push(FieldError::invalid(&path.child("name"), *name, why));
    }
    errors.extend(check_deprecation(*fields, &path.child("deprecationWarning")));
    // Of versions with the same name, which is an error of its own, the first counts.
    let first = new.version(name);
    let has_status = new.common.has_status() || first.is_some_and(|first| first.parts.has_status());
    let unchanged = options.unchanged.contains(*name);
    let at_schema = path.child("schema");
    errors.extend(check_schema(*parts, has_status, unchanged, options, &at_schema));
    errors.extend(check_subresources(*parts, &path.child("subresources")));
    errors.extend(check_columns(*parts, &path.child("additionalPrinterColumns")));
    let why = "may only be set when `version.schema.openAPIV3Schema` is not included";
    errors.extend(check_selectable(*parts, name, why, options, path));
    errors
}

/// Errors of the parts that all versions share.
fn check_common(
    new: &Definition<'_>,
    first: &str,
    options: &Options,
    path: &Path<'_>,
) -> Vec<FieldError> {
    let parts = new.common;
    let has_status =
        parts.has_status() || new.versions.iter().any(|version| version.parts.has_status());
    let unchanged = options.unchanged.contains(first);
    let at_schema = path.child("validation");
    let mut errors = check_schema(parts, has_status, unchanged, options, &at_schema);
    errors.extend(check_subresources(parts, &path.child("subresources")));
    errors.extend(check_columns(parts, &path.child("additionalPrinterColumns")));
    let why = "may only be set when validations.schema is included";
    errors.extend(check_selectable(parts, "", why, options, path));
    errors
}

/// Errors of selectable fields; `without_schema` is the message if there is no schema.
fn check_selectable(
    parts: VersionParts<'_>,
    version: &str,
    without_schema: &'static str,
    options: &Options,
    path: &Path<'_>,
) -> Vec<FieldError> {
    let selectable = parts.selectable_fields.and_then(Value::as_list).unwrap_or_default();
    if selectable.is_empty() {
        return Vec::new();
    }
    let at = path.child("selectableFields");
    let Some(schema) = parts.open_api() else {
        return vec![FieldError::invalid(&at, "", without_schema)];
    };
    let mut errors: Vec<FieldError> = without_structure(schema, path).into_iter().collect();
    errors.extend(check_selectable_fields(selectable, schema, version, options, &at));
    errors
}

fn without_structure(schema: Props<'_>, path: &Path<'_>) -> Option<FieldError> {
    let why = structural::unsupported(schema)?;
    Some(FieldError::invalid(&path.child("schema.openAPIV3Schema"), "", why))
}

fn check_names(new: &Definition<'_>, path: &Path<'_>) -> Vec<FieldError> {
    let said = Props::new(new.spec.get("names").unwrap_or(&Value::Null));
    let missing = ["plural", "singular", "kind", "listKind"].into_iter();
    let missing = missing.filter(|field| said.text(field).is_empty());
    let mut errors: Vec<FieldError> =
        missing.map(|field| FieldError::required(&path.child(field), "")).collect();
    errors.extend(names::check(said, path));
    errors
}

fn check_conversion(new: &Definition<'_>, options: &Options, path: &Path<'_>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let conversion = new.spec.get("conversion");
    let strategy = conversion.map_or("None", |conversion| conversion.str_at(&["strategy"]));
    if strategy != "None" && new.preserves_unknown_fields() {
        let why = "must be None if spec.preserveUnknownFields is true";
        let shown = BadValue::named_string(strategy);
        errors.push(FieldError::invalid(&path.child("strategy"), shown, why));
    }
    errors.extend(conversion::check(new, options, path));
    errors
}
