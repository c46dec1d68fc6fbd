//! Structural schemas: every field is specified with a type outside of `allOf`, `anyOf`, `oneOf` and `not`.

use kevel_api::field_error::{FieldError, Path};

use crate::schema::is_full;
use crate::schema::pattern::Patterns;
use crate::schema::props::{Additional, Items, Props};

/// Reason why a schema cannot be converted to a structural schema.
pub(crate) fn unsupported(schema: Props<'_>) -> Option<&'static str> {
    let mut why = None;
    schema.any(&mut |schema| {
        why = unsupported_here(schema);
        why.is_some()
    });
    why
}

fn unsupported_here(schema: Props<'_>) -> Option<&'static str> {
    let filled = |name| schema.named(name).next().is_some();
    if schema.has("id") {
        Some("OpenAPIV3Schema 'id' is not supported")
    } else if schema.has("$schema") {
        Some("OpenAPIV3Schema 'schema' is not supported")
    } else if !schema.text("$ref").is_empty() {
        Some("OpenAPIV3Schema '$ref' is not supported")
    } else if filled("patternProperties") {
        Some("OpenAPIV3Schema 'patternProperties' is not supported")
    } else if filled("dependencies") {
        Some("OpenAPIV3Schema 'dependencies' is not supported")
    } else if schema.has("additionalItems") {
        Some("OpenAPIV3Schema 'additionalItems' is not supported")
    } else if filled("definitions") {
        Some("OpenAPIV3Schema 'definitions' is not supported")
    } else if schema.optional_flag("x-kubernetes-preserve-unknown-fields") == Some(false) {
        Some("internal error: 'x-kubernetes-preserve-unknown-fields' must be true or undefined")
    } else if matches!(schema.items(), Some(Items::List([_, ..]))) {
        Some("OpenAPIV3Schema 'items' must be a schema, but is an array")
    } else {
        None
    }
}

/// Violations of the structural schema rules, sorted by message.
pub(crate) fn check(path: &Path<'_>, schema: Props<'_>) -> Vec<FieldError> {
    let mut found = Found::default();
    invariants(schema, Level::Root, path, &mut found);
    completeness(schema, Some(schema), path, path, &mut found);
    found.errors.sort_by_cached_key(FieldError::to_string);
    found.errors
}

#[derive(Default)]
struct Found {
    errors: Vec<FieldError>,
    patterns: Patterns,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Level {
    Root,
    Item,
    Field,
}

fn invariants(schema: Props<'_>, level: Level, path: &Path<'_>, found: &mut Found) {
    if is_full(&found.errors) {
        return;
    }
    let kind = schema.kind();
    if kind == "array" && schema.items().is_none() {
        found.errors.push(FieldError::required(&path.child("items"), "must be specified"));
    }
    if let Some(item) = schema.item() {
        invariants(item, Level::Item, &path.child("items"), found);
    }
    let properties = path.child("properties");
    for (name, property) in schema.properties() {
        invariants(property, Level::Field, &properties.key(name), found);
    }
    if let Some(additional) = schema.additional() {
        let path = path.child("additionalProperties");
        if level == Level::Root {
            found.errors.push(FieldError::forbidden(&path, "must not be used at the root"));
        }
        if let Additional::Schema(values) = additional {
            invariants(values, Level::Field, &path, found);
        }
    }
    extensions(schema, path, found);
    let skip_any_of = is_int_or_string(schema);
    let skip_all_of = schema.schemas("allOf").next().is_some_and(is_int_or_string);
    value_validation(schema, skip_any_of, skip_all_of, path, found);

    let at_type = path.child("type");
    if schema.embedded() && kind != "object" {
        let why = "must be object if x-kubernetes-embedded-resource is true";
        found.errors.push(match kind {
            "" => FieldError::required(&at_type, why),
            kind => FieldError::invalid(&at_type, kind, why),
        });
    } else if kind.is_empty() && !schema.int_or_string() && !schema.preserves() {
        let why = match level {
            Level::Root => "must not be empty at the root",
            Level::Item => "must not be empty for specified array items",
            Level::Field => "must not be empty for specified object fields",
        };
        found.errors.push(FieldError::required(&at_type, why));
    }
    if schema.embedded() && schema.additional().is_some() {
        let why = "must not be used if x-kubernetes-embedded-resource is set";
        found.errors.push(FieldError::forbidden(&path.child("additionalProperties"), why));
    }
    if level == Level::Root && !kind.is_empty() && kind != "object" {
        found.errors.push(FieldError::invalid(&at_type, kind, "must be object at the root"));
    }
    metadata(schema, level, &properties, found);
    if schema.embedded() && !schema.preserves() && !schema.has_properties() {
        let why = "must not be empty if x-kubernetes-embedded-resource is true without \
                   x-kubernetes-preserve-unknown-fields";
        found.errors.push(FieldError::required(&properties, why));
    }
}

fn extensions(schema: Props<'_>, path: &Path<'_>, found: &mut Found) {
    let why = "must be false if x-kubernetes-int-or-string is true";
    for name in ["x-kubernetes-preserve-unknown-fields", "x-kubernetes-embedded-resource"] {
        if schema.int_or_string() && schema.flag(name) {
            found.errors.push(FieldError::invalid(&path.child(name), true, why));
        }
    }
}

/// Checks restrictions of `apiVersion`, `kind` and `metadata`, of which few are allowed.
fn metadata(schema: Props<'_>, level: Level, path: &Path<'_>, found: &mut Found) {
    let is_resource = level == Level::Root || schema.embedded();
    for (name, kind, why) in [
        ("kind", "string", "must be string"),
        ("apiVersion", "string", "must be string"),
        ("metadata", "object", "must be object"),
    ] {
        let Some(property) = schema.property(name).filter(|_| is_resource) else { continue };
        if property.kind() != kind {
            let path = path.key(name);
            found.errors.push(FieldError::invalid(&path.child("type"), property.kind(), why));
        }
    }
    let Some(metadata) = schema.property("metadata").filter(|_| level == Level::Root) else {
        return;
    };
    let only_names =
        || metadata.properties().all(|(name, _)| matches!(name, "name" | "generateName"));
    let is_plain = metadata.fields().all(|(name, value)| match name {
        "type" | "default" => true,
        "properties" => only_names(),
        _ => value.is_empty(),
    });
    if !is_plain {
        let why = "must not specify anything other than name and generateName, but metadata is \
                   implicitly specified";
        found.errors.push(FieldError::forbidden(&path.key("metadata"), why));
    }
}

/// Whether `anyOf` is the allowed pattern of integer or string, which may name types.
fn is_int_or_string(schema: Props<'_>) -> bool {
    let mut any_of = schema.schemas("anyOf");
    // `additionalProperties: false` is allowed in the pattern.
    let closed = |schema: Props<'_>| {
        usize::from(matches!(schema.additional(), Some(Additional::Allowed(false))))
    };
    let is_type = |schema: Option<Props<'_>>, kind: &str| {
        schema.is_some_and(|schema| {
            schema.kind() == kind && schema.fields().count() == 1 + closed(schema)
        })
    };
    any_of.len() == 2 && is_type(any_of.next(), "integer") && is_type(any_of.next(), "string")
}

fn value_validation(
    schema: Props<'_>,
    skip_any_of: bool,
    skip_first_all_of: bool,
    path: &Path<'_>,
    found: &mut Found,
) {
    for (name, skip) in [("anyOf", skip_any_of), ("allOf", false), ("oneOf", false)] {
        let path = path.child(name);
        for (index, inner) in schema.schemas(name).enumerate().filter(|_| !skip) {
            let skip_any_of = name == "allOf" && index == 0 && skip_first_all_of;
            nested(inner, skip_any_of, &path.index(index), found);
        }
    }
    if let Some(not) = schema.schema("not") {
        nested(not, false, &path.child("not"), found);
    }
    let pattern = schema.text("pattern");
    if let Some(why) = found.patterns.compile(pattern).err() {
        let why = format!("must be a valid regular expression, but isn't: {why}");
        found.errors.push(FieldError::invalid(&path.child("pattern"), pattern, why));
    }
}

/// Checks a schema under `allOf`, `anyOf`, `oneOf` or `not` for forbidden fields.
fn nested(schema: Props<'_>, skip_any_of: bool, path: &Path<'_>, found: &mut Found) {
    if is_full(&found.errors) {
        return;
    }
    value_validation(schema, skip_any_of, false, path, found);
    if let Some(item) = schema.item() {
        nested(item, false, &path.child("items"), found);
    }
    let properties = path.child("properties");
    for (name, property) in schema.properties() {
        nested(property, false, &properties.key(name), found);
    }
    let additional = !matches!(schema.additional(), None | Some(Additional::Allowed(false)));
    const EMPTY: &str = "must be empty to be structural";
    const FALSE: &str = "must be false to be structural";
    const UNDEFINED: &str = "must be undefined to be structural";
    for (name, is_set, why) in [
        ("type", !schema.kind().is_empty(), EMPTY),
        ("additionalProperties", additional, UNDEFINED),
        ("default", schema.default().is_some(), UNDEFINED),
        ("title", !schema.text("title").is_empty(), EMPTY),
        ("description", !schema.text("description").is_empty(), EMPTY),
        ("nullable", schema.flag("nullable"), FALSE),
        ("x-kubernetes-preserve-unknown-fields", schema.preserves(), FALSE),
        ("x-kubernetes-embedded-resource", schema.embedded(), FALSE),
        ("x-kubernetes-int-or-string", schema.int_or_string(), FALSE),
        ("x-kubernetes-list-map-keys", schema.list_map_keys().next().is_some(), EMPTY),
        ("x-kubernetes-list-type", schema.list_type().is_some(), UNDEFINED),
        ("x-kubernetes-map-type", schema.map_type().is_some(), UNDEFINED),
        ("x-kubernetes-validations", !schema.rules().is_empty(), EMPTY),
    ] {
        if is_set {
            found.errors.push(FieldError::forbidden(&path.child(name), why));
        }
    }
    if schema.property("metadata").is_some() {
        let why = "must not be specified in a nested context";
        found.errors.push(FieldError::forbidden(&properties.key("metadata"), why));
    }
}

/// Checks that fields in nested schemas are also specified in `spine`, at the path `at`.
fn completeness(
    schema: Props<'_>,
    spine: Option<Props<'_>>,
    at: &Path<'_>,
    path: &Path<'_>,
    found: &mut Found,
) {
    if let Some(not) = schema.schema("not") {
        nested_completeness(not, spine, at, &path.child("not"), found);
    }
    for name in ["allOf", "anyOf", "oneOf"] {
        let path = path.child(name);
        for (index, inner) in schema.schemas(name).enumerate() {
            nested_completeness(inner, spine, at, &path.index(index), found);
        }
    }
}

fn nested_completeness(
    schema: Props<'_>,
    spine: Option<Props<'_>>,
    at: &Path<'_>,
    path: &Path<'_>,
    found: &mut Found,
) {
    if is_full(&found.errors) {
        return;
    }
    if spine.is_none() {
        let why = format!("because it is defined in {path}");
        found.errors.push(FieldError::required(at, why));
        return;
    }
    completeness(schema, spine, at, path, found);
    if let Some(item) = schema.item() {
        let (at, path) = (at.child("items"), path.child("items"));
        nested_completeness(item, spine.and_then(Props::item), &at, &path, found);
    }
    let (at, path) = (at.child("properties"), path.child("properties"));
    for (name, property) in schema.properties() {
        let named = spine.and_then(|spine| spine.property(name));
        nested_completeness(property, named, &at.key(name), &path.key(name), found);
    }
}
