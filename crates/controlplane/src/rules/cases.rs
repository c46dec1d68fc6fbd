//! Cases for the rules of kinds, as text: an object to write, and the reference's answer.
//!
//! For objects with values that tests generate, such as certificates. Cases of plain text are in files that the
//! reference fills in: see `tests/verbs/rules/case.rs`.
//!
//! ```text
//! # A line that begins so is a remark. Cases stand apart by empty lines.
//! status
//!   was spec.signerName = "kubernetes.io/legacy-unknown"
//!   status.conditions = [{"type": "Approved", "status": "True"}]
//!   ! status.conditions: Forbidden: updates may not add a condition of type "Approved"
//!   = status.certificate $NONE
//! ```
//!
//! The first line of a case names the rules. `was` changes the stored object, other lines the object that is written
//! over it (or the new one, if nothing is stored). `!` is an error, all of them in order; `=` is a field of the
//! object that would be stored. `$NAME` stands for a value that the test makes (in an error, with a colon after it),
//! `$NONE` for no value at all.

use std::collections::HashMap;

use kevel_api::value::{Map, Value};
use kevel_codec::json::{Unknown, decode_any, encode_any};

use super::Rules;
use crate::capabilities::Capabilities;
use crate::validation::Field;

/// Cases with their objects and rules.
pub struct Cases<'a> {
    /// Object that the cases change.
    pub object: Value,
    /// Rules of `create`, and of updates by their names in the cases.
    pub create: Rules,
    pub updates: Vec<(&'static str, Update)>,
    /// Values of `$NAME`.
    pub values: HashMap<&'a str, Value>,
    /// Texts of `$NAME` in errors, for long and frequent ones.
    pub texts: HashMap<&'a str, &'a str>,
    /// Capabilities of the server.
    pub capabilities: Capabilities,
}

/// Preparation and validation of an update.
pub type Update = (fn(&mut Value, &Value, &Capabilities), fn(Field, Field));

impl Cases<'_> {
    /// Runs all cases of a text.
    pub fn run(&self, text: &str) {
        let mut count = 0;
        for case in text.split("\n\n") {
            let lines = case.lines().map(str::trim);
            let lines: Vec<&str> =
                lines.filter(|line| !line.is_empty() && !line.starts_with('#')).collect();
            if let [operation, lines @ ..] = &lines[..] {
                self.case(operation, lines, case);
                count += 1;
            }
        }
        assert!(count > 0, "no cases");
    }

    fn case(&self, operation: &str, lines: &[&str], case: &str) {
        let (mut old, mut new) = (self.object.clone(), self.object.clone());
        let (mut errors, mut stored) = (Vec::new(), Vec::new());
        for line in lines {
            if let Some(error) = line.strip_prefix("! ") {
                errors.push(self.expand(error));
            } else if let Some(field) = line.strip_prefix("= ") {
                stored.push(field.split_once(' ').unwrap());
            } else if let Some(line) = line.strip_prefix("was ") {
                self.set(&mut old, line);
                self.set(&mut new, line);
            } else {
                self.set(&mut new, line);
            }
        }
        let found = if operation == "create" {
            (self.create.prepare_for_create)(&mut new, &self.capabilities);
            self.capabilities.errors(&new, self.create.validate_create)
        } else {
            let update = self.updates.iter().find(|(name, _)| *name == operation);
            let (_, (prepare, check)) = update.unwrap_or_else(|| panic!("{operation}: {case}"));
            prepare(&mut new, &old, &self.capabilities);
            self.capabilities.update_errors(&new, &old, check)
        };
        let found: Vec<String> = found.iter().map(ToString::to_string).collect();
        assert_eq!(found, errors, "\n{case}");
        for (path, expected) in stored {
            let found = place(&mut new, path).cloned();
            assert_eq!(json(found.as_ref()), json(self.value(expected).as_ref()), "{path}\n{case}");
        }
    }

    /// Error with all names replaced.
    fn expand(&self, error: &str) -> String {
        let mut text = error.to_owned();
        for (name, value) in &self.values {
            text = text.replace(&format!("${name}:"), &format!("{}:", json(Some(value))));
        }
        for (name, value) in &self.texts {
            text = text.replace(&format!("${name}"), value);
        }
        text
    }

    /// Sets a field: `spec.usages = ["any"]`.
    fn set(&self, object: &mut Value, line: &str) {
        let (path, value) = line.split_once(" = ").unwrap_or_else(|| panic!("{line}"));
        let (parent, name) = path.rsplit_once('.').unwrap_or(("", path));
        let steps: Vec<&str> = parent.split('.').filter(|step| !step.is_empty()).collect();
        let parent = object.make_map(&steps);
        match self.value(value) {
            Some(value) => parent.insert(name, value),
            None => parent.remove(name),
        };
    }

    fn value(&self, text: &str) -> Option<Value> {
        match text.strip_prefix('$') {
            Some("NONE") => None,
            Some(name) => Some(self.values.get(name).unwrap_or_else(|| panic!("{name}")).clone()),
            None => Some(value(text)),
        }
    }
}

/// Decodes a JSON value.
pub fn value(json: &str) -> Value {
    let decoded = decode_any(json.as_bytes(), Unknown::Report);
    decoded.unwrap_or_else(|error| panic!("{json}: {error}")).value
}

/// Value at a path: `status.conditions[0].type`.
fn place<'v>(object: &'v mut Value, path: &str) -> Option<&'v mut Value> {
    path.split('.').try_fold(object, |value, step| {
        let (name, index) = match step.split_once('[') {
            Some((name, index)) => (name, index.trim_end_matches(']').parse::<usize>().ok()),
            None => (step, None),
        };
        let value = value.as_map_mut().and_then(|map: &mut Map| map.get_mut(name))?;
        match index {
            Some(index) => value.as_list_mut()?.get_mut(index),
            None => Some(value),
        }
    })
}

fn json(value: Option<&Value>) -> String {
    let mut text = Vec::new();
    value.into_iter().for_each(|value| encode_any(value, &mut text));
    String::from_utf8(text).unwrap()
}
