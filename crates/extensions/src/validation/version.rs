//! Validation of the parts of versions: schemas, subresources, columns, selectable fields.

use std::collections::HashSet;

use kevel_api::field_error::{BadValue, FieldError, Path};
use kevel_api::quote::quote;
use kevel_api::value::Value;

use super::defaults;
use super::definition::VersionParts;
use super::internal;
use super::open_api_schema::{Checker, Demands};
use super::options::Options;
use super::structural;
use crate::schema::props::Props;
use crate::schema::{field_path, is_full};

/// Limit on the selectable fields of a version.
pub(crate) const MAX_SELECTABLE_FIELDS: usize = 8;

const COLUMN_TYPES: &str = "boolean,date,integer,number,string";
const COLUMN_FORMATS: &str = "byte,date,date-time,double,float,int32,int64,password";

/// Go fields that the root of a schema may have if the status subresource is enabled.
const AT_ROOT: [&str; 22] = [
    "Description",
    "Type",
    "Format",
    "Title",
    "Maximum",
    "ExclusiveMaximum",
    "Minimum",
    "ExclusiveMinimum",
    "MaxLength",
    "MinLength",
    "Pattern",
    "MaxItems",
    "MinItems",
    "UniqueItems",
    "MultipleOf",
    "Required",
    "Items",
    "Properties",
    "ExternalDocs",
    "Example",
    "XPreserveUnknownFields",
    "XValidations",
];

/// Errors of the schema of a version, or of the shared one; `path` is that of the enclosing field. `unchanged`: the old
/// definition has the same schema.
pub(crate) fn check_schema(
    parts: VersionParts<'_>,
    has_status: bool,
    unchanged: bool,
    options: &Options,
    path: &Path<'_>,
) -> Vec<FieldError> {
    let path = path.child("openAPIV3Schema");
    let Some(value) = parts.schema.and_then(|schema| schema.at(&["openAPIV3Schema"])) else {
        return Vec::new();
    };
    let schema = Props::new(value);
    let mut errors = Vec::new();
    if has_status {
        errors.extend(check_root(value, &path));
    }
    if schema.flag("nullable") {
        let why = "nullable cannot be true at the root";
        errors.push(FieldError::forbidden(&path.child("nullable"), why));
    }
    let mut without_structure = None;
    let mut with_rules = false;
    if options.structural {
        without_structure = structural::unsupported(schema);
        if without_structure.is_none() {
            let mut wrong = structural::check(&path, schema);
            if wrong.is_empty() {
                wrong = defaults::check(&path, schema, options.pruned_defaults);
            }
            with_rules = wrong.is_empty();
            errors.extend(wrong);
        }
    }
    let demands = Demands { rule_cost: !unchanged, ..options.demands };
    let mut checker = Checker::new(demands);
    checker.check(&path, schema, with_rules);
    errors.extend(checker.take_errors());
    // The conversion error has the same causes; the other errors name the fields.
    if let Some(why) = without_structure.filter(|_| errors.is_empty()) {
        errors.push(FieldError::invalid(&path, "", why));
    }
    errors.extend(checker.cost.check(&path));
    errors
}

/// Error of a root field that would have no effect on the status subresource, which is validated by its part of the
/// schema alone.
fn check_root(schema: &Value, path: &Path<'_>) -> Option<FieldError> {
    for (go, json) in internal::schema_fields() {
        let Some(value) = schema.at(&[json]) else { continue };
        if go == "Type" {
            let kind = value.as_str().unwrap_or_default();
            if kind != "object" {
                let why = "only \"object\" is allowed as the type at the root of the schema if \
                           the status subresource is enabled";
                return Some(FieldError::invalid(&path.child("type"), kind, why));
            }
        } else if !AT_ROOT.contains(&go) {
            let why = format!(
                "only [{}] fields are allowed at the root of the schema if the status \
                 subresource is enabled",
                AT_ROOT.join(" ")
            );
            return Some(FieldError::invalid(path, internal::schema(schema), why));
        }
    }
    None
}

/// Errors of `subresources`.
pub(crate) fn check_subresources(parts: VersionParts<'_>, path: &Path<'_>) -> Vec<FieldError> {
    let scale = parts.subresources.and_then(|subresources| subresources.at(&["scale"]));
    let Some(scale) = scale.map(Props::new) else { return Vec::new() };
    let path = path.child("scale");
    let mut errors = Vec::new();
    for (field, under) in [("specReplicasPath", ".spec"), ("statusReplicasPath", ".status")] {
        let (said, path) = (scale.text(field), path.child(field));
        if said.is_empty() {
            errors.push(FieldError::required(&path, ""));
        } else if let Some(error) = check_json_path(said, &path) {
            errors.push(error);
        } else if !is_under(said, under) {
            let why = format!("should be a json path under {under}");
            errors.push(FieldError::invalid(&path, said, why));
        }
    }
    let (said, path) = (scale.text("labelSelectorPath"), path.child("labelSelectorPath"));
    if said.is_empty() {
        return errors;
    }
    if let Some(error) = check_json_path(said, &path) {
        errors.push(error);
    } else if !is_under(said, ".spec") && !is_under(said, ".status") {
        let why = "should be a json path under either .spec or .status";
        errors.push(FieldError::invalid(&path, BadValue::named_string(said), why));
    }
    errors
}

fn is_under(path: &str, root: &str) -> bool {
    path.strip_prefix(root).is_some_and(|rest| rest.starts_with('.'))
}

/// Errors of `additionalPrinterColumns`.
pub(crate) fn check_columns(parts: VersionParts<'_>, path: &Path<'_>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let columns = parts.columns.and_then(Value::as_list).unwrap_or_default();
    for (index, column) in columns.iter().map(Props::new).enumerate() {
        if is_full(&errors) {
            return errors;
        }
        let path = path.index(index);
        if column.text("name").is_empty() {
            errors.push(FieldError::required(&path.child("name"), ""));
        }
        let (kind, at_type) = (column.text("type"), path.child("type"));
        let why = format!("must be one of {COLUMN_TYPES}");
        if kind.is_empty() {
            errors.push(FieldError::required(&at_type, why));
        } else if !COLUMN_TYPES.split(',').any(|known| known == kind) {
            errors.push(FieldError::invalid(&at_type, kind, why));
        }
        let format = column.text("format");
        if !format.is_empty() && !COLUMN_FORMATS.split(',').any(|known| known == format) {
            let why = format!("must be one of {COLUMN_FORMATS}");
            errors.push(FieldError::invalid(&path.child("format"), format, why));
        }
        let (json_path, path) = (column.text("jsonPath"), path.child("JSONPath"));
        if json_path.is_empty() {
            errors.push(FieldError::required(&path, ""));
        } else {
            errors.extend(check_json_path(json_path, &path));
        }
    }
    errors
}

fn check_json_path(said: &str, path: &Path<'_>) -> Option<FieldError> {
    let why = "must be a simple json path starting with .";
    (!said.starts_with('.')).then(|| FieldError::invalid(path, said, why))
}

/// Errors of `selectableFields`; `version` is empty for the shared list.
pub(crate) fn check_selectable_fields(
    selectable: &[Value],
    schema: Props<'_>,
    version: &str,
    options: &Options,
    path: &Path<'_>,
) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let mut unique = HashSet::new();
    for (index, field) in selectable.iter().enumerate() {
        if is_full(&errors) {
            return errors;
        }
        let said = field.str_at(&["jsonPath"]);
        let item = path.index(index);
        let path = item.child("jsonPath");
        if said.is_empty() {
            errors.push(FieldError::required(&path, ""));
            continue;
        }
        let found = match field_path::parse(said, schema, false) {
            Ok(found) => found,
            Err(why) => {
                let why = format!("is an invalid path: {why}");
                errors.push(FieldError::invalid(&path, said, why));
                continue;
            }
        };
        if found.root == "metadata" {
            let why = "must not point to fields in metadata";
            errors.push(FieldError::invalid(&path, said, why));
        }
        let kind = found.schema.map_or("", Props::kind);
        if !["string", "boolean", "integer"].contains(&kind) {
            let why = "must point to a field of type string, boolean or integer. Enum string \
                       fields and strings with formats are allowed.";
            errors.push(FieldError::invalid(&path, said, why));
        }
        if !unique.insert(found.text) {
            errors.push(FieldError::duplicate(&path, said));
        }
    }
    let allowed = options.many_selectable_fields.contains(version);
    if unique.len() > MAX_SELECTABLE_FIELDS && !allowed {
        errors.push(FieldError::too_many(path, Some(unique.len()), MAX_SELECTABLE_FIELDS));
    }
    errors
}

/// Errors of `deprecationWarning`.
pub(crate) fn check_deprecation(version: Props<'_>, path: &Path<'_>) -> Vec<FieldError> {
    let Some(warning) = version.get("deprecationWarning").and_then(Value::as_str) else {
        return Vec::new();
    };
    let mut problems = Vec::new();
    if !version.flag("deprecated") {
        problems.push("can only be set for deprecated versions".to_owned());
    } else {
        if warning.len() > 256 {
            problems.push("must be <= 256 characters long".to_owned());
        }
        if warning.is_empty() {
            problems.push("must not be an empty string".to_owned());
        }
        if let Some((index, _)) = warning.char_indices().find(|(_, c)| !is_printable(*c)) {
            problems.push(format!(
                "must only contain printable UTF-8 characters; non-printable character found at \
                 index {index}"
            ));
        }
    }
    let shown = || BadValue::named_string(warning);
    problems.into_iter().map(|why| FieldError::invalid(path, shown(), why)).collect()
}

fn is_printable(c: char) -> bool {
    matches!(c, '"' | '\\') || !quote(c.encode_utf8(&mut [0; 4])).starts_with("\"\\")
}
