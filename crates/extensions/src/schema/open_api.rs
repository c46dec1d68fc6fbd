//! What an OpenAPI schema says against a value, in the reference's words.

use kevel_api::field_error::{BadValue, FieldErrorKind};
use kevel_api::quote::quote;
use kevel_api::value::{Map, Value};

use super::MAX_ERRORS;
use super::node::{AdditionalNode, Node};
use super::number;
use super::place::Place;
use super::ratchet::{Correlated, MapList};
use super::shown::{json, shown};

/// How many pairs of a value and a schema are looked at for one object.
const MAX_STEPS: u64 = 20_000_000;

/// Something that is wrong.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Finding {
    pub kind: FieldErrorKind,
    /// Where, in the object; none for what is said about the object as a whole.
    pub field: Option<String>,
    pub value: BadValue,
    pub detail: String,
}

/// What came out of one schema and one value.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    pub findings: Vec<Finding>,
    /// How many checks were passed: of several alternatives, the one that fits best is reported.
    matches: u64,
}

impl Outcome {
    pub fn is_valid(&self) -> bool {
        self.findings.is_empty()
    }

    /// Adds a finding, unless it has been made before.
    pub fn add(&mut self, finding: Finding) {
        let said = |known: &Finding| {
            (known.kind, &known.field, &known.detail)
                == (finding.kind, &finding.field, &finding.detail)
        };
        if self.findings.len() < MAX_ERRORS && !self.findings.iter().any(said) {
            self.findings.push(finding);
        }
    }

    fn merge(&mut self, other: Outcome) {
        self.matches += other.matches;
        if self.findings.is_empty() {
            self.findings = other.findings;
        } else {
            other.findings.into_iter().for_each(|finding| self.add(finding));
        }
    }
}

impl Finding {
    pub fn new(
        kind: FieldErrorKind,
        place: &Place<'_>,
        value: BadValue,
        detail: impl Into<String>,
    ) -> Self {
        Finding { kind, field: Some(place.to_string()), value, detail: detail.into() }
    }

    /// A value that breaks a rule; the message begins with the place.
    pub fn invalid(place: &Place<'_>, value: BadValue, rule: impl std::fmt::Display) -> Self {
        let detail = format!("{place} in body {rule}");
        Finding::new(FieldErrorKind::Invalid, place, value, detail)
    }

    /// Something that the reference does not say of any place in particular.
    pub fn general(detail: impl Into<String>) -> Self {
        let value = BadValue::from("");
        Finding { kind: FieldErrorKind::Invalid, field: None, value, detail: detail.into() }
    }

    fn wrong_type(place: &Place<'_>, expected: &str, found: &str) -> Self {
        let detail = format!("{place} in body must be of type {expected}: {}", quote(found));
        Finding::new(FieldErrorKind::TypeInvalid, place, BadValue::from(found), detail)
    }
}

/// One walk through an object.
#[derive(Debug, Default)]
pub(crate) struct Walk {
    steps: u64,
}

impl Walk {
    /// Checks a value; with `old`, what is equal to what was there before passes.
    pub fn check(
        &mut self,
        node: &Node,
        value: &Value,
        place: &Place<'_>,
        old: Option<&Correlated<'_>>,
    ) -> Outcome {
        let mut outcome = self.check_here(node, value, place, old);
        if !outcome.is_valid() && old.is_some_and(Correlated::is_unchanged) {
            outcome.findings.clear();
        }
        outcome
    }

    fn check_here(
        &mut self,
        node: &Node,
        value: &Value,
        place: &Place<'_>,
        old: Option<&Correlated<'_>>,
    ) -> Outcome {
        let mut outcome = Outcome::default();
        self.steps += 1;
        if self.steps > MAX_STEPS {
            outcome.add(Finding::general("validation takes too long"));
            return outcome;
        }
        if value.is_null() {
            check_null(node, place, &mut outcome);
            check_values(node, value, place, &mut outcome);
            return outcome;
        }
        if !node.types.is_empty() || node.format.is_some() {
            match check_type(node, value, place) {
                None => outcome.matches += 2,
                Some(finding) => {
                    outcome.add(finding);
                    outcome.matches += 1;
                }
            }
        }
        outcome.merge(self.check_combinations(node, value, place));
        outcome.matches += 1;
        match value {
            Value::String(text) => {
                outcome.matches += 1;
                if let Some(finding) = check_string(node, text, place) {
                    outcome.add(finding);
                }
                if let Some(format) = &node.format
                    && let Some(check) = format.check
                {
                    outcome.matches += 1;
                    if !check(text) {
                        outcome.add(Finding::wrong_type(place, &format.name, text));
                    }
                }
            }
            Value::Int(_) | Value::Float(_) => {
                outcome.matches += 2;
                number::check(node, value, place, &mut outcome);
            }
            Value::List(list) => {
                outcome.matches += 2;
                self.check_list(node, list, place, old, &mut outcome);
            }
            _ => {}
        }
        outcome.matches += 1;
        check_values(node, value, place, &mut outcome);
        if let Value::Map(map) = value {
            outcome.matches += 1;
            self.check_object(node, map, place, old, &mut outcome);
        }
        outcome.matches += 1;
        outcome
    }

    fn check_list(
        &mut self,
        node: &Node,
        list: &[Value],
        place: &Place<'_>,
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
            outcome.add(Finding::invalid(place, count.into(), rule));
        }
        if let Some(max) = node.max_items.filter(|max| count > *max) {
            outcome.add(too_many(place, count, max));
        }
    }

    fn check_object(
        &mut self,
        node: &Node,
        map: &Map,
        place: &Place<'_>,
        old: Option<&Correlated<'_>>,
        outcome: &mut Outcome,
    ) {
        let count = i64::try_from(map.len()).unwrap_or(i64::MAX);
        if let Some(min) = node.min_properties.filter(|min| count < *min) {
            let rule = format!("should have at least {min} properties");
            outcome.add(Finding::invalid(place, count.into(), rule));
        }
        if let Some(max) = node.max_properties.filter(|max| count > *max) {
            outcome.add(too_many(place, count, max));
        }
        let unnamed = || map.iter().filter(|(key, _)| node.property(key).is_none());
        match &node.additional {
            AdditionalNode::Allowed => {}
            AdditionalNode::Forbidden => {
                for (key, _) in unnamed() {
                    let detail = format!("{place}.{key} in body is a forbidden property");
                    let kind = FieldErrorKind::Invalid;
                    outcome.add(Finding::new(kind, place, BadValue::from(key), detail));
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
        for (name, property) in &node.properties {
            let Some(value) = map.get(name) else { continue };
            // Both objects were converted to one version: this says nothing about a change.
            let is_type_meta = place.is_root() && matches!(&**name, "kind" | "apiVersion");
            let before = old.filter(|_| !is_type_meta).and_then(|old| old.key(name));
            outcome.merge(self.check(property, value, &place.property(name), before.as_ref()));
        }
        for name in node.required.iter().filter(|name| !map.contains_key(name)) {
            let place = place.additional(name);
            outcome.add(Finding::new(FieldErrorKind::Required, &place, BadValue::Omitted, ""));
        }
    }

    /// `anyOf`, `oneOf`, `allOf` and `not`. What is unchanged is not told apart in there.
    fn check_combinations(&mut self, node: &Node, value: &Value, place: &Place<'_>) -> Outcome {
        let mut outcome = Outcome::default();
        let name = || quote(&place.to_string());
        if !node.any_of.is_empty() {
            let (valid, best) = self.alternatives(&node.any_of, value, place, 1);
            if valid == 0 {
                let why = format!("{} must validate at least one schema (anyOf)", name());
                outcome.add(Finding::general(why));
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
                let why = format!("{} must validate one and only one schema (oneOf). {found}", name());
                outcome.add(Finding::general(why));
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
                let why = format!("{} must validate all the schemas (allOf){none}", name());
                outcome.add(Finding::general(why));
            }
        }
        if let Some(not) = &node.not
            && self.check(not, value, place, None).is_valid()
        {
            outcome.add(Finding::general(format!("{} must not validate the schema (not)", name())));
        }
        outcome.matches += 1;
        outcome
    }

    /// How many alternatives are valid, up to `enough`, and the first of them; if there is none, the
    /// one that fits best.
    fn alternatives(
        &mut self,
        schemas: &[Node],
        value: &Value,
        place: &Place<'_>,
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
            } else if valid == 0 && best.as_ref().is_none_or(|best| outcome.matches > best.matches) {
                best = Some(outcome);
            }
        }
        (valid, best.unwrap_or_default())
    }
}

fn check_null(node: &Node, place: &Place<'_>, outcome: &mut Outcome) {
    if node.types.is_empty() || node.is_type("null") || node.nullable {
        outcome.matches += 1;
    } else {
        outcome.add(Finding::wrong_type(place, &node.types.join(","), "null"));
    }
}

fn check_type(node: &Node, value: &Value, place: &Place<'_>) -> Option<Finding> {
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
            Some(Finding::wrong_type(place, &expected.name, format))
        }
        Some(_) if is_text && !node.is_type("number") && !node.is_type("integer") => None,
        _ if fits => None,
        _ => Some(Finding::wrong_type(place, &node.types.join(","), found)),
    }
}

fn check_string(node: &Node, text: &str, place: &Place<'_>) -> Option<Finding> {
    let length = || i64::try_from(text.chars().count()).unwrap_or(i64::MAX);
    if let Some(max) = node.max_length.filter(|max| length() > *max) {
        let detail = match max {
            1 => "may not be more than 1 byte".to_owned(),
            0.. => format!("may not be more than {max} bytes"),
            _ => "value is too long".to_owned(),
        };
        return Some(Finding::new(FieldErrorKind::TooLong, place, BadValue::Omitted, detail));
    }
    if let Some(min) = node.min_length.filter(|min| length() < *min) {
        let rule = format!("should be at least {min} chars long");
        return Some(Finding::invalid(place, text.into(), rule));
    }
    let pattern = node.pattern.as_ref()?;
    let rule = match &pattern.regex {
        Ok(regex) if regex.is_match(text) => return None,
        Ok(_) => format!("should match '{}'", pattern.text),
        Err(why) => format!("should match '{}, but pattern is invalid: {why}'", pattern.text),
    };
    Some(Finding::invalid(place, text.into(), rule))
}

fn check_values(node: &Node, value: &Value, place: &Place<'_>, outcome: &mut Outcome) {
    let is = |known: &Value| match (known, value) {
        (Value::Null, _) => false,
        // The reference compares after turning one into the type of the other.
        (Value::Int(known), Value::Float(value)) => *known == *value as i64,
        (Value::Float(known), Value::Int(value)) => *known == *value as f64,
        (known, value) => known == value,
    };
    if node.values.is_empty() || node.values.iter().any(is) {
        return;
    }
    let quoted = node.values.iter().map(|value| match value {
        Value::String(text) => quote(text),
        value => quote(&json(value)),
    });
    let detail = format!("supported values: {}", quoted.collect::<Vec<_>>().join(", "));
    outcome.add(Finding::new(FieldErrorKind::NotSupported, place, shown(value), detail));
}

fn too_many(place: &Place<'_>, count: i64, max: i64) -> Finding {
    let detail = match max {
        1 => "must have at most 1 item".to_owned(),
        0.. => format!("must have at most {max} items"),
        _ => "has too many items".to_owned(),
    };
    Finding::new(FieldErrorKind::TooMany, place, count.into(), detail)
}
