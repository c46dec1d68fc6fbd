//! Evaluation of a schema's CEL rules (`x-kubernetes-validations`; upstream: cel.Validator).

use std::borrow::Cow;

use kevel_api::field_error::{BadValue, FieldError, Path};
use kevel_api::quote::quote;
use kevel_api::value::Value;
use kevel_cel::{Activation, Budget, Error, Value as CelValue};

use super::bad_value::bad_value;
use super::node::Node;
use super::ratchet::{Correlated, MapList};
use super::rules::{Rule, Rules};
use super::{MAX_ERRORS, is_full};

/// Longest message of a `messageExpression`, in bytes.
const MAX_MESSAGE_SIZE: usize = 5 << 10;
const NO_BUDGET: &str =
    "validation failed due to running out of cost budget, no further validation rules will be run";

pub(crate) const UNDECLARED: &str = "rule compiler initialization error: failed to convert to declType for CEL \
                                     validation rules"; // reference message

/// Evaluation of all rules for one object.
pub(crate) struct Evaluator {
    /// Remaining cost budget.
    budget: u64,
    pub errors: Vec<FieldError>,
}

/// Evaluation must stop.
struct Stopped;

/// Old state of a value, for transition rules and for ratcheting.
#[derive(Clone, Copy)]
struct Before<'a> {
    old: Option<&'a Value>,
    correlated: Option<&'a Correlated<'a>>,
    /// Nearest enclosing value that has an old value.
    around: Option<&'a Correlated<'a>>,
}

impl Evaluator {
    pub fn new(budget: i64) -> Self {
        Evaluator { budget: u64::try_from(budget).unwrap_or(0), errors: Vec::new() }
    }

    /// Evaluates the rules of a schema and of the schemas inside it. Returns the remaining budget, or `None` if
    /// evaluation stopped. Without `ratchet`, unchanged values are validated too.
    pub fn evaluate(
        mut self,
        node: &Node,
        path: &Path<'_>,
        object: &Value,
        old: Option<&Value>,
        ratchet: bool,
    ) -> (Vec<FieldError>, Option<i64>) {
        let root = old.filter(|_| ratchet).map(|old| Correlated::new(object, old, node));
        let before = Before { old, correlated: root.as_ref(), around: None };
        let left = self.value(node, path, object, before);
        let left = left.is_ok().then(|| i64::try_from(self.budget).unwrap_or(i64::MAX));
        (self.errors, left)
    }

    fn value(
        &mut self,
        node: &Node,
        path: &Path<'_>,
        object: &Value,
        before: Before<'_>,
    ) -> Result<(), Stopped> {
        kevel_compute::charge(1);
        if !node.inside.rules || object.is_null() {
            return Ok(());
        }
        if is_full(&self.errors) {
            return Err(Stopped);
        }
        if let Some(kind) = &node.undeclared {
            self.errors.push(FieldError::invalid(path, &**kind, UNDECLARED));
        }
        if let Some(rules) = &node.rules {
            self.rules(rules, path, object, before)?;
        }
        match object {
            Value::Map(map) => {
                let old = before.old.and_then(Value::as_map);
                for (key, value) in map.iter() {
                    let old = old.and_then(|old| old.get(key));
                    if let Some(schema) = node.additional_schema() {
                        self.key(schema, &path.key(key), key, value, old, before)?;
                    }
                    if let Some(property) = node.property(key) {
                        self.key(property, &path.child(key), key, value, old, before)?;
                    }
                }
            }
            Value::List(list) => {
                let Some(items) = node.items.as_deref().filter(|items| items.inside.rules) else {
                    return Ok(());
                };
                let elements = MapList::new(node, before.old);
                for (index, item) in list.iter().enumerate() {
                    let old = elements.get(item);
                    let pair = old.filter(|_| before.correlated.is_some());
                    let pair = pair.map(|old| Correlated::new(item, old, items));
                    let inner = Before {
                        old,
                        correlated: pair.as_ref(),
                        around: before.correlated.or(before.around),
                    };
                    self.value(items, &path.index(index), item, inner)?;
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn key(
        &mut self,
        node: &Node,
        path: &Path<'_>,
        key: &str,
        value: &Value,
        old: Option<&Value>,
        before: Before<'_>,
    ) -> Result<(), Stopped> {
        // Conversion may have changed `apiVersion` and `kind`, so they are not ratcheted.
        let is_root = before.correlated.is_some() && before.around.is_none();
        if is_root && matches!(key, "apiVersion" | "kind") {
            let nothing = Before { old, correlated: None, around: None };
            return self.value(node, path, value, nothing);
        }
        let pair = before.correlated.and_then(|pair| pair.key(key));
        let around = before.correlated.or(before.around);
        self.value(node, path, value, Before { old, correlated: pair.as_ref(), around })
    }

    fn rules(
        &mut self,
        rules: &Rules,
        path: &Path<'_>,
        object: &Value,
        before: Before<'_>,
    ) -> Result<(), Stopped> {
        let invalid = |why: String| FieldError::invalid(path, &*rules.kind, why);
        if self.budget == 0 {
            self.errors.push(invalid(NO_BUDGET.to_owned()));
            return Err(Stopped);
        }
        let old = before.old.filter(|old| !old.is_null() && rules.use_old());
        let now = CelValue::from_declared(object, &rules.declared);
        let then = old.map(|old| CelValue::from_declared(old, &rules.declared)).transpose();
        for rule in &rules.rules {
            if self.errors.len() >= MAX_ERRORS {
                return Err(Stopped);
            }
            let program = match &rule.program {
                None => continue,
                Some(Ok(program)) => program,
                Some(Err(why)) => {
                    self.errors.push(invalid(format!("rule compile error: {why}")));
                    continue;
                }
            };
            // A transition rule applies only if there is an old value.
            if rule.uses_old && old.is_none() && !rule.optional_old {
                continue;
            }
            let activation = bind(&now, &then, rule.optional_old);
            let (result, cost) = match &activation {
                Ok(activation) => {
                    let evaluation = program.evaluate(activation, Budget::default());
                    (evaluation.result, evaluation.cost)
                }
                Err(error) => (Err(error.clone()), 1),
            };
            if cost > self.budget {
                self.errors.push(invalid(NO_BUDGET.to_owned()));
                return Err(Stopped);
            }
            self.budget -= cost;
            match result {
                Ok(value) if value.as_bool() == Some(true) => {}
                Ok(_) => {
                    // A messageExpression sees `oldSelf` as a plain value, even with optionalOldSelf.
                    let plain = bind(&now, &then, false);
                    self.broken(rules, rule, path, object, before, &plain)?;
                }
                Err(error) if error.is_cancelled() => {
                    self.errors.push(invalid(format!(
                        "'{error}': no further validation rules will be run due to call cost \
                         exceeds limit for rule: {}",
                        rule.title
                    )));
                    return Err(Stopped);
                }
                Err(error) if error.to_string().starts_with("no such overload") => {
                    self.errors.push(invalid(format!(
                        "'{error}': call arguments did not match a supported operator, function \
                         or macro signature for rule: {}",
                        rule.title
                    )));
                }
                Err(error) => {
                    self.errors.push(invalid(format!("{error} evaluating rule: {}", rule.title)));
                }
            }
        }
        Ok(())
    }

    /// Adds the error of a rule that is false, with the message of its messageExpression.
    fn broken(
        &mut self,
        rules: &Rules,
        rule: &Rule,
        path: &Path<'_>,
        object: &Value,
        before: Before<'_>,
        activation: &Result<Activation<'_>, Error>,
    ) -> Result<(), Stopped> {
        let at = path.child(&rule.field);
        let at = if rule.field.is_empty() { path } else { &at };
        let unchanged =
            || before.correlated.or(before.around).is_some_and(Correlated::is_unchanged);
        let mut add = |error: FieldError| {
            if rule.uses_old || !unchanged() {
                self.errors.push(error);
            }
        };
        let mut detail: Cow<'_, str> = Cow::Borrowed(&rule.message);
        if let Some((text, Ok(program))) = &rule.message_expression
            && let Ok(activation) = activation
        {
            let evaluation = program.evaluate(activation, Budget::default());
            if evaluation.cost > self.budget {
                add(FieldError::invalid(
                    at,
                    &*rules.kind,
                    "messageExpression evaluation failed due to running out of cost budget, no \
                     further validation rules will be run",
                ));
                return Err(Stopped);
            }
            match evaluation.result {
                Err(error) if error.is_cancelled() => {
                    let why = "no further validation rules will be run due to call cost exceeds \
                               limit for messageExpression";
                    add(FieldError::invalid(at, &*rules.kind, format!("{why}: {}", quote(text))));
                    return Err(Stopped);
                }
                Ok(value) => {
                    let said = value.as_str().map(str::trim).filter(|said| {
                        !said.is_empty() && said.len() <= MAX_MESSAGE_SIZE && !said.contains('\n')
                    });
                    if let Some(said) = said {
                        detail = Cow::Owned(said.to_owned());
                    }
                }
                Err(_) => {}
            }
            self.budget -= evaluation.cost;
        }
        let value = match &*rules.kind {
            "object" | "array" => BadValue::Omitted,
            _ => bad_value(object),
        };
        let detail = detail.into_owned();
        let error = match &*rule.reason {
            "FieldValueForbidden" => FieldError::forbidden(at, detail),
            "FieldValueRequired" => FieldError::required(at, detail),
            "FieldValueDuplicate" => FieldError::duplicate(at, value),
            _ => FieldError::invalid(at, value, detail),
        };
        if rule.uses_old || !unchanged() {
            self.errors.push(error);
        }
        Ok(())
    }
}

type Converted<'a> = Result<CelValue<'a>, Error>;

fn bind<'a>(
    now: &Converted<'a>,
    then: &Result<Option<CelValue<'a>>, Error>,
    optional: bool,
) -> Result<Activation<'a>, Error> {
    let mut activation = Activation::new();
    activation.bind("self", now.clone()?);
    match then.clone()? {
        old if optional => {
            activation.bind("oldSelf", CelValue::Optional(old.map(Into::into)));
        }
        Some(old) => {
            activation.bind("oldSelf", old);
        }
        None => {}
    }
    Ok(activation)
}
