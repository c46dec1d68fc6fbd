//! Validation of labels, annotations and selectors.

use kevel_api::field_error::BadValue;
use kevel_api::name;
use kevel_api::selector::label::LabelSelector;
use kevel_api::value::Value;

use super::Field;

/// Maximum total size of annotations, keys and values.
const MAX_ANNOTATIONS: usize = 256 << 10;

impl Field<'_, '_> {
    /// Checks a map of labels.
    pub fn labels(&self) {
        for (key, value) in self.entries() {
            self.each(name::is_label_key(key), key);
            self.each(name::is_label_value(value.str()), value.str());
        }
    }

    /// Checks a label key.
    pub fn label_name(&self) {
        self.form(name::is_label_key);
    }

    /// Checks a map of annotations.
    pub fn annotations(&self) {
        let mut size = 0;
        for (key, value) in self.entries() {
            size += key.len() + value.len();
            let problems = match key.bytes().any(|byte| byte.is_ascii_uppercase()) {
                true => name::is_annotation_key(key),
                false => name::is_label_key(key),
            };
            self.each(problems, key);
        }
        if size > MAX_ANNOTATIONS {
            self.too_long(MAX_ANNOTATIONS);
        }
    }

    /// Checks a label selector. With `any_values`, values that are not valid label values pass, as they did when
    /// stored.
    pub fn label_selector(&self, any_values: bool) {
        self.at("matchLabels").labels();
        for expression in self.at("matchExpressions").items() {
            let (operator, values) = (expression.at("operator"), expression.at("values"));
            match operator.str() {
                "In" | "NotIn" if values.is_empty() => {
                    values.required("must be specified when `operator` is 'In' or 'NotIn'");
                }
                "Exists" | "DoesNotExist" if !values.is_empty() => values.forbidden(
                    "may not be specified when `operator` is 'Exists' or 'DoesNotExist'",
                ),
                "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
                other => operator
                    .invalid_as(BadValue::named_string(other), "not a valid selector operator"),
            }
            expression.at("key").label_name();
            if !any_values {
                values.items().for_each(|value| value.form(name::is_label_value));
            }
        }
    }

    /// True if a label selector has values that are not valid label values.
    pub fn has_odd_values(&self) -> bool {
        let expressions = self.at("matchExpressions");
        expressions.items().any(|expression| {
            let values = expression.at("values");
            values.items().any(|value| !name::is_label_value(value.str()).is_empty())
        })
    }

    /// True if the label selector matches these labels; `None` if it is invalid.
    pub fn selects(&self, labels: &Field) -> Option<bool> {
        let selector = LabelSelector::from_value(self.get()).ok()?;
        let labels = labels.get().and_then(Value::as_map);
        Some(selector.selects(&labels))
    }

    fn each(&self, problems: Vec<String>, value: &str) {
        problems.into_iter().for_each(|problem| self.invalid_as(value, problem));
    }
}
