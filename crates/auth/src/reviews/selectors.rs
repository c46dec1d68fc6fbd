//! Field and label selectors in a review's `resourceAttributes`.

use kevel_api::field_error::{FieldError, Path};
use kevel_api::name::{is_label_key, is_label_value};
use kevel_api::selector::{field, label};
use kevel_api::value::Value;
use kevel_registry::selectors::Selectors;

/// Parsed selectors, and whether parts could not be parsed.
#[derive(Debug, Default)]
pub(super) struct Selected {
    pub selectors: Selectors,
    fields_failed: bool,
    labels_failed: bool,
}

impl Selected {
    /// Errors about parts that could not be parsed. Requirements only narrow, so that the check without them covers
    /// more than was requested.
    pub fn errors(&self) -> impl Iterator<Item = String> {
        let failed = |failed: bool, some: bool, field: &str| {
            let partially = if some { "partially " } else { "" };
            failed.then(|| {
                format!("spec.resourceAttributes.{field} {partially}ignored due to parse error")
            })
        };
        let Selectors { fields, labels } = &self.selectors;
        let fields = failed(self.fields_failed, !fields.is_empty(), "fieldSelector");
        let labels = failed(self.labels_failed, !labels.is_empty(), "labelSelector");
        fields.into_iter().chain(labels)
    }
}

/// Parses the selectors of `resourceAttributes`.
pub(super) fn read(attributes: &Value) -> Selected {
    let mut selected = Selected::default();
    if let Some(selector) = attributes.at(&["fieldSelector"]) {
        let raw = selector.str_at(&["rawSelector"]);
        match raw.parse::<field::FieldSelector>() {
            Ok(parsed) => selected.selectors.fields = parsed.requirements().to_vec(),
            Err(_) => selected.fields_failed = true,
        }
        let read: Vec<_> = requirements(selector).iter().map(field_requirement).collect();
        selected.fields_failed |= read.iter().any(Option::is_none);
        selected.selectors.fields.extend(read.into_iter().flatten());
    }
    if let Some(selector) = attributes.at(&["labelSelector"]) {
        let raw = selector.str_at(&["rawSelector"]);
        match raw.parse::<label::LabelSelector>() {
            Ok(parsed) => selected.selectors.labels = parsed.requirements().to_vec(),
            Err(_) => selected.labels_failed = true,
        }
        let read: Vec<_> = requirements(selector).iter().map(label_requirement).collect();
        selected.labels_failed |= read.iter().any(Option::is_none);
        selected.selectors.labels.extend(read.into_iter().flatten());
    }
    selected
}

/// Errors in the selectors of `resourceAttributes`.
pub(super) fn check(attributes: &Value) -> Vec<FieldError> {
    let path = Path::new("spec.resourceAttributes");
    let mut errors = Vec::new();
    for (name, check) in [
        ("fieldSelector", check_field_requirement as fn(&Value, &Path<'_>) -> Vec<FieldError>),
        ("labelSelector", check_label_requirement),
    ] {
        let Some(selector) = attributes.at(&[name]) else { continue };
        let path = path.child(name);
        let (raw, parts) = (selector.str_at(&["rawSelector"]), requirements(selector));
        match (raw.is_empty(), parts.is_empty()) {
            (false, false) => errors.push(FieldError::invalid(
                &path.child("rawSelector"),
                raw,
                "may not specified at the same time as requirements",
            )),
            (true, true) => errors.push(FieldError::required(
                &path.child("requirements"),
                format!("when {path} is specified, requirements or rawSelector is required"),
            )),
            _ => {}
        }
        for (index, part) in parts.iter().enumerate() {
            errors.extend(check(part, &path.child("requirements").index(index)));
        }
    }
    errors
}

/// Texts of a list.
pub(super) fn strings(list: Option<&Value>) -> Vec<String> {
    let list = list.and_then(Value::as_list).unwrap_or_default();
    list.iter().filter_map(Value::as_str).map(str::to_owned).collect()
}

fn requirements(selector: &Value) -> &[Value] {
    selector.at(&["requirements"]).and_then(Value::as_list).unwrap_or_default()
}

fn field_requirement(part: &Value) -> Option<field::Requirement> {
    let operator = match part.str_at(&["operator"]) {
        "In" => field::Operator::Equals,
        "NotIn" => field::Operator::NotEquals,
        _ => return None,
    };
    let [value] = <[String; 1]>::try_from(strings(part.at(&["values"]))).ok()?;
    Some(field::Requirement { field: part.str_at(&["key"]).into(), operator, value: value.into() })
}

fn label_requirement(part: &Value) -> Option<label::Requirement> {
    let operator = match part.str_at(&["operator"]) {
        "In" => label::Operator::In,
        "NotIn" => label::Operator::NotIn,
        "Exists" => label::Operator::Exists,
        "DoesNotExist" => label::Operator::DoesNotExist,
        _ => return None,
    };
    let values = strings(part.at(&["values"])).into_iter().map(Into::into).collect();
    label::Requirement::new(part.str_at(&["key"]), operator, values, &Path::NONE).ok()
}

fn check_field_requirement(part: &Value, path: &Path<'_>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if part.str_at(&["key"]).is_empty() {
        errors.push(FieldError::required(&path.child("key"), "must be specified"));
    }
    errors.extend(check_number_of_values(part, path));
    errors
}

fn check_label_requirement(part: &Value, path: &Path<'_>) -> Vec<FieldError> {
    let mut errors = Vec::from_iter(check_number_of_values(part, path));
    let key = part.str_at(&["key"]);
    let problems = is_label_key(key);
    errors.extend(
        problems.into_iter().map(|problem| FieldError::invalid(&path.child("key"), key, problem)),
    );
    let at = path.child("values");
    for (index, value) in strings(part.at(&["values"])).iter().enumerate() {
        let problems = is_label_value(value).into_iter();
        errors.extend(
            problems.map(|problem| FieldError::invalid(&at.index(index), value.as_str(), problem)),
        );
    }
    errors
}

/// Checks the number of values. Unknown operators pass, because newer clients may send them.
fn check_number_of_values(part: &Value, path: &Path<'_>) -> Option<FieldError> {
    let path = path.child("values");
    let none = part.at(&["values"]).is_none_or(Value::is_empty);
    match part.str_at(&["operator"]) {
        "In" | "NotIn" => none.then(|| {
            FieldError::required(&path, "must be specified when `operator` is 'In' or 'NotIn'")
        }),
        "Exists" | "DoesNotExist" => (!none).then(|| {
            let detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
            FieldError::forbidden(&path, detail)
        }),
        _ => None,
    }
}
