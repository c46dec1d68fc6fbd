//! OpenAPI validation of values, with the messages of the reference.

use kevel_api::field_error::{BadValue, FieldErrorKind};
use kevel_api::quote::quote;
use kevel_api::value::{Map, Value};

use super::bad_value::{bad_value, json};
use super::dotted_path::DottedPath;
use super::finding::{Finding, Outcome};
use super::node::{AdditionalNode, Node, Pattern};
use super::number;
use super::ratchet::{Correlated, MapList};

/// Limit on the steps of validating one object: pairs of a value and a schema, names, pieces of text.
const MAX_STEPS: usize = 5_000_000;
/// Bytes of text that count as one step.
const BYTES_PER_STEP: usize = 16;
/// Steps that formatting a finding counts as.
const STEPS_PER_FINDING: usize = 4;
/// Limit on the text of findings, many of which are not reported in the end.
const MAX_TEXT: usize = 4 << 20;

/// Validation of one object, with its limits.
#[derive(Debug, Default)]
pub(crate) struct Walk {
    steps: usize,
    text: usize,
}

impl Walk {
    /// Adds a finding to an outcome.
    pub fn add(&mut self, outcome: &mut Outcome, finding: impl FnOnce() -> Finding) {
        let finding = if self.text > MAX_TEXT {
            Finding::general("more is wrong than can be told")
        } else {
            finding()
        };
        self.text += finding.len();
        self.steps += STEPS_PER_FINDING;
        outcome.add(finding);
    }

    /// Validates a value; with `old`, values equal to the old ones pass.
    pub fn check(
        &mut self,
        node: &Node,
        value: &Value,
        place: &DottedPath<'_>,
        old: Option<&Correlated<'_>>,
    ) -> Outcome {
        let mut outcome = self.check_here(node, value, place, old);
        if !outcome.is_valid() && old.is_some_and(Correlated::is_unchanged) {
            outcome.forget();
        }
        outcome
    }

    fn check_here(
        &mut self,
        node: &Node,
        value: &Value,
        place: &DottedPath<'_>,
        old: Option<&Correlated<'_>>,
    ) -> Outcome {
        let mut outcome = Outcome::default();
        self.steps += 1;
        if self.steps > MAX_STEPS {
            outcome.add(Finding::general("validation takes too long"));
            return outcome;
        }
        if value.is_null() {
            self.check_null(node, place, &mut outcome);
            self.check_values(node, value, place, &mut outcome);
            return outcome;
        }
        if !node.types.is_empty() || node.format.is_some() {
            outcome.matches += 1;
            match wrong_type(node, value) {
                None => outcome.matches += 1,
                Some((expected, found)) => {
                    self.add(&mut outcome, || Finding::wrong_type(place, &expected, found));
                }
            }
        }
        outcome.merge(self.check_combinations(node, value, place));
        outcome.matches += 1;
        match value {
            Value::String(text) => self.check_string(node, text, place, &mut outcome),
            Value::Int(_) | Value::Float(_) => {
                outcome.matches += 2;
                number::check(node, value, place, self, &mut outcome);
            }
            Value::List(list) => {
                outcome.matches += 2;
                self.check_list(node, list, place, old, &mut outcome);
            }
            _ => {}
        }
        outcome.matches += 1;
        self.check_values(node, value, place, &mut outcome);
        if let Value::Map(map) = value {
            outcome.matches += 1;
            self.check_object(node, map, place, old, &mut outcome);
        }
        outcome.matches += 1;
        outcome
    }

    fn check_null(&mut self, node: &Node, place: &DottedPath<'_>, outcome: &mut Outcome) {
        if node.types.is_empty() || node.is_type("null") || node.nullable {
            outcome.matches += 1;
        } else {
            self.add(outcome, || Finding::wrong_type(place, &node.types.join(","), "null"));
        }
    }

    fn check_values(
        &mut self,
        node: &Node,
        value: &Value,
        place: &DottedPath<'_>,
        outcome: &mut Outcome,
    ) {
        let is = |known: &Value| match (known, value) {
            (Value::Null, _) => false,
            // The reference compares after converting one number to the type of the other.
            (Value::Int(known), Value::Float(value)) => *known == *value as i64,
            (Value::Float(known), Value::Int(value)) => *known == *value as f64,
            (known, value) => known == value,
        };
        self.steps += node.values.len();
        if node.values.is_empty() || node.values.iter().any(is) {
            return;
        }
        self.add(outcome, || {
            let quoted = node.values.iter().map(|value| match value {
                Value::String(text) => quote(text),
                value => quote(&json(value)),
            });
            let detail = format!("supported values: {}", quoted.collect::<Vec<_>>().join(", "));
            Finding::new(FieldErrorKind::NotSupported, place, bad_value(value), detail)
        });
    }

    fn check_string(
        &mut self,
        node: &Node,
        text: &str,
        place: &DottedPath<'_>,
        outcome: &mut Outcome,
    ) {
        self.steps += text.len() / BYTES_PER_STEP;
        outcome.matches += 1;
        if let Some(finding) = broken_string_rule(node, text) {
            self.add(outcome, || finding.at(place, text));
        }
        if let Some(format) = &node.format
            && let Some(check) = format.check
        {
            outcome.matches += 1;
            if !check(text) {
                self.add(outcome, || Finding::wrong_type(place, &format.name, text));
            }
        }
    }

    fn check_list(
        &mut self,
        node: &Node,
        list: &[Value],
        place: &DottedPath<'_>,
        old: Option<&Correlated<'_>>,
        outcome: &mut Outcome,
    ) {
        if let Some(items) = &node.items {
            let before = old.map(MapList::of);
            for (index, item) in list.iter().enumerate() {
                let before = before.as_ref().and_then(|before| before.get(item));
                let before = before.map(|before| Correlated::new(item, before, items));
                outcome.merge(self.check(items, item, &place.index(index), before.as_ref()));
            }
        }
        let count = i64::try_from(list.len()).unwrap_or(i64::MAX);
        if let Some(min) = node.min_items.filter(|min| count < *min) {
            let rule = format!("should have at least {min} items");
            self.add(outcome, || Finding::invalid(place, count.into(), rule));
        }
        if let Some(max) = node.max_items.filter(|max| count > *max) {
            self.add(outcome, || too_many(place, count, max));
        }
    }

    fn check_object(
        &mut self,
        node: &Node,
        map: &Map,
        place: &DottedPath<'_>,
        old: Option<&Correlated<'_>>,
        outcome: &mut Outcome,
    ) {
        let count = i64::try_from(map.len()).unwrap_or(i64::MAX);
        if let Some(min) = node.min_properties.filter(|min| count < *min) {
            let rule = format!("should have at least {min} properties");
            self.add(outcome, || Finding::invalid(place, count.into(), rule));
        }
        if let Some(max) = node.max_properties.filter(|max| count > *max) {
            self.add(outcome, || too_many(place, count, max));
        }
        self.steps += map.len() + node.required.len();
        let unnamed = || map.iter().filter(|(key, _)| node.property(key).is_none());
        match &node.additional {
            AdditionalNode::Allowed => {}
            AdditionalNode::Forbidden => {
                for (key, _) in unnamed() {
                    self.add(outcome, || {
                        let detail = format!("{place}.{key} in body is a forbidden property");
                        Finding::new(FieldErrorKind::Invalid, place, BadValue::from(key), detail)
                    });
                }
            }
            AdditionalNode::Schema(schema) => {
                for (key, value) in unnamed() {
                    let before = old.and_then(|old| old.key(key));
                    let place = place.additional(key);
                    outcome.merge(self.check(schema, value, &place, before.as_ref()));
                }
            }
        }
        for (name, value) in map.iter() {
            let Some(property) = node.property(name) else { continue };
            // Conversion may have changed `apiVersion` and `kind`, so they are not ratcheted.
            let is_type_meta = place.is_root() && matches!(name, "kind" | "apiVersion");
            let before = old.filter(|_| !is_type_meta).and_then(|old| old.key(name));
            outcome.merge(self.check(property, value, &place.property(name), before.as_ref()));
        }
        for name in node.required.iter().filter(|name| !map.contains_key(name)) {
            let place = place.additional(name);
            self.add(outcome, || {
                Finding::new(FieldErrorKind::Required, &place, BadValue::Omitted, "")
            });
        }
    }

    /// Validates `anyOf`, `oneOf`, `allOf` and `not`, in which nothing is ratcheted.
    fn check_combinations(
        &mut self,
        node: &Node,
        value: &Value,
        place: &DottedPath<'_>,
    ) -> Outcome {
        let mut outcome = Outcome::default();
        let name = || quote(&place.to_string());
        if !node.any_of.is_empty() {
            let (valid, best) = self.alternatives(&node.any_of, value, place, 1);
            if valid == 0 {
                self.add(&mut outcome, || {
                    Finding::general(format!(
                        "{} must validate at least one schema (anyOf)",
                        name()
                    ))
                });
            }
            outcome.merge(best);
        }
        if !node.one_of.is_empty() {
            let (valid, best) = self.alternatives(&node.one_of, value, place, usize::MAX);
            if valid != 1 {
                let found = match valid {
                    0 => "Found none valid".to_owned(),
                    valid => format!("Found {valid} valid alternatives"),
                };
                self.add(&mut outcome, || {
                    Finding::general(format!(
                        "{} must validate one and only one schema (oneOf). {found}",
                        name()
                    ))
                });
            }
            if valid <= 1 {
                outcome.merge(best);
            }
        }
        if !node.all_of.is_empty() {
            let mut valid = 0;
            for schema in &node.all_of {
                let one = self.check(schema, value, place, None);
                valid += usize::from(one.is_valid());
                outcome.merge(one);
            }
            if valid != node.all_of.len() {
                let none = if valid == 0 { ". None validated" } else { "" };
                self.add(&mut outcome, || {
                    Finding::general(format!(
                        "{} must validate all the schemas (allOf){none}",
                        name()
                    ))
                });
            }
        }
        if let Some(not) = &node.not
            && self.check(not, value, place, None).is_valid()
        {
            self.add(&mut outcome, || {
                Finding::general(format!("{} must not validate the schema (not)", name()))
            });
        }
        outcome.matches += 1;
        outcome
    }

    /// Number of valid alternatives, up to `enough`, and the outcome of the first valid one; if none is valid, that of
    /// the best match.
    fn alternatives(
        &mut self,
        schemas: &[Node],
        value: &Value,
        place: &DottedPath<'_>,
        enough: usize,
    ) -> (usize, Outcome) {
        let mut valid = 0;
        let mut best: Option<Outcome> = None;
        for schema in schemas {
            let outcome = self.check(schema, value, place, None);
            if outcome.is_valid() {
                valid += 1;
                if valid == 1 {
                    best = Some(outcome);
                }
                if valid == enough {
                    break;
                }
            } else if valid == 0 && best.as_ref().is_none_or(|best| outcome.matches > best.matches)
            {
                best = Some(outcome);
            }
        }
        (valid, best.unwrap_or_default())
    }
}

/// Expected and found type, if they differ.
fn wrong_type(node: &Node, value: &Value) -> Option<(String, &'static str)> {
    let (found, format) = match value {
        Value::Bool(_) => ("boolean", ""),
        Value::Int(_) => ("integer", "int64"),
        Value::Float(_) => ("number", "float64"),
        Value::String(_) | Value::Raw(_) => ("string", ""),
        Value::List(_) => ("array", ""),
        Value::Map(_) => ("object", ""),
        Value::Null => ("null", ""),
    };
    let is_number = match value {
        Value::Float(float) => number::is_integer(*float) && node.is_type("integer"),
        Value::Int(_) => node.is_type("number"),
        _ => false,
    };
    let fits = node.is_type(found) || is_number;
    let is_text = matches!(value, Value::String(_) | Value::List(_));
    match &node.format {
        Some(expected) if !is_text && !fits && *expected.name != *format => {
            Some((expected.name.to_string(), format))
        }
        Some(_) if is_text && !node.is_type("number") && !node.is_type("integer") => None,
        _ if fits => None,
        _ => Some((node.types.join(","), found)),
    }
}

/// String rule that a value violates.
enum StringRule<'n> {
    MaxLength(i64),
    MinLength(i64),
    Pattern(&'n Pattern),
}

fn broken_string_rule<'n>(node: &'n Node, text: &str) -> Option<StringRule<'n>> {
    let length = || i64::try_from(text.chars().count()).unwrap_or(i64::MAX);
    let too_long = |max: &i64| length() > *max;
    let too_short = |min: &i64| length() < *min;
    let matches =
        |pattern: &Pattern| pattern.regex.as_ref().is_ok_and(|r| r.is_match(text) == Ok(true));
    if let Some(max) = node.max_length.filter(too_long) {
        Some(StringRule::MaxLength(max))
    } else if let Some(min) = node.min_length.filter(too_short) {
        Some(StringRule::MinLength(min))
    } else {
        node.pattern.as_ref().filter(|pattern| !matches(pattern)).map(StringRule::Pattern)
    }
}

impl StringRule<'_> {
    fn at(self, place: &DottedPath<'_>, text: &str) -> Finding {
        let rule = match self {
            StringRule::MaxLength(max) => {
                let detail = match max {
                    1 => "may not be more than 1 byte".to_owned(),
                    0.. => format!("may not be more than {max} bytes"),
                    _ => "value is too long".to_owned(),
                };
                return Finding::new(FieldErrorKind::TooLong, place, BadValue::Omitted, detail);
            }
            StringRule::MinLength(min) => format!("should be at least {min} chars long"),
            StringRule::Pattern(Pattern { text, regex: Ok(_) }) => format!("should match '{text}'"),
            StringRule::Pattern(Pattern { text, regex: Err(why) }) => {
                format!("should match '{text}, but pattern is invalid: {why}'")
            }
        };
        Finding::invalid(place, text.into(), rule)
    }
}

fn too_many(place: &DottedPath<'_>, count: i64, max: i64) -> Finding {
    let detail = match max {
        1 => "must have at most 1 item".to_owned(),
        0.. => format!("must have at most {max} items"),
        _ => "has too many items".to_owned(),
    };
    Finding::new(FieldErrorKind::TooMany, place, count.into(), detail)
}
