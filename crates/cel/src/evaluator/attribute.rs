//! Evaluation of attributes: variables with field selections and indexes.

use std::sync::Arc;

use super::evaluate::{Evaluator, Local, Outcome, not_cancelled};
use super::plan::{Attribute, Qualifier, QualifierKey, Root};
use crate::error::Error;
use crate::value::{Key, List, Value};

/// Operand of a selection: a value, or a variable whose fields are expressions.
enum Subject<'a> {
    Value(Value<'a>),
    Composition(Arc<str>),
}

impl<'e, 'a> Evaluator<'e, 'a> {
    /// Resolves an attribute and charges its cost.
    pub(super) fn attribute(&mut self, attribute: &'e Attribute) -> Outcome<'a> {
        let outcome = not_cancelled(self.resolve(attribute))?;
        let is_conditional = matches!(attribute.root, Root::Conditional(_));
        // An attribute costs 1, a choice between attributes 0, and a presence test 1 less.
        match (is_conditional, attribute.test_only) {
            (false, false) => self.charge(1)?,
            (true, true) => self.refund(1),
            _ => {}
        }
        match outcome {
            Ok(Value::Optional(value)) if attribute.test_only => Ok(Value::Bool(value.is_some())),
            outcome => outcome,
        }
    }

    /// Moves the accumulator out of its slot, so that it can be extended without a copy.
    pub(super) fn take(&mut self, place: usize) -> Outcome<'a> {
        let value = self.local(place);
        self.charge(1)?;
        if let Some(local) = self.locals.get_mut(place) {
            *local = Local::Ready(Ok(Value::Null));
        }
        value
    }

    fn local(&mut self, place: usize) -> Outcome<'a> {
        match self.locals.get(place) {
            Some(Local::Ready(outcome)) => outcome.clone(),
            Some(Local::Pending(plan)) => {
                let plan = *plan;
                // The initial value sees only the enclosing variables; its own use the slots of inner ones.
                let inner = self.locals.split_off(place);
                let outcome = not_cancelled(self.evaluate(plan))?;
                self.locals.truncate(place);
                self.locals.extend(inner);
                if let Some(local) = self.locals.get_mut(place) {
                    *local = Local::Ready(outcome.clone());
                }
                outcome
            }
            None => Err(Error::no_such_overload()),
        }
    }

    fn resolve(&mut self, attribute: &'e Attribute) -> Outcome<'a> {
        let subject = match &attribute.root {
            Root::Local(place) => Subject::Value(self.local(*place)?),
            Root::Relative(plan) => Subject::Value(self.evaluate(plan)?),
            Root::Global(name) => match self.activation.get(name) {
                Some(value) => Subject::Value(value.clone()),
                None if self.activation.composition(name).is_some() => {
                    Subject::Composition(name.clone())
                }
                None => return Err(Error::new(format!("no such attribute(s): {name}"))),
            },
            Root::Conditional(conditional) => {
                return match self.evaluate(&conditional.condition)? {
                    Value::Bool(true) => self.resolve(&conditional.truthy),
                    Value::Bool(false) => self.resolve(&conditional.falsy),
                    _ => Err(Error::no_such_overload()),
                };
            }
        };
        self.select(subject, &attribute.qualifiers)
    }

    fn select(
        &mut self,
        mut subject: Subject<'a>,
        qualifiers: &'e [Arc<Qualifier>],
    ) -> Outcome<'a> {
        let mut optional = false;
        if qualifiers.is_empty() {
            return self.whole(subject);
        }
        if let Subject::Value(Value::Optional(value)) = &subject {
            match value {
                None => return Ok(Value::Optional(None)),
                Some(value) => {
                    optional = true;
                    subject = Subject::Value((**value).clone());
                }
            }
        }
        for qualifier in qualifiers {
            optional |= qualifier.optional;
            let tested = optional || qualifier.test_only;
            let found = self.qualify(&subject, qualifier, tested);
            let found = match found {
                Err(error) if error.is_cancelled() => return Err(error),
                found => found,
            };
            // A presence test is charged; an absent optional is not.
            if !optional || matches!(found, Ok(Some(_))) {
                self.charge(1)?;
            }
            subject = Subject::Value(match found? {
                Some(_) if qualifier.test_only => Value::Bool(true),
                None if qualifier.test_only && !optional => Value::Bool(false),
                Some(value) => value,
                None if optional => return Ok(Value::Optional(None)),
                None => return Err(Error::no_such_overload()),
            });
        }
        let value = self.whole(subject)?;
        Ok(if optional { Value::some(value) } else { value })
    }

    fn whole(&mut self, subject: Subject<'a>) -> Outcome<'a> {
        match subject {
            Subject::Value(value) => Ok(value),
            Subject::Composition(name) => Err(Error::new(format!("no such attribute(s): {name}"))),
        }
    }

    /// Selected value; `None` only if it is absent and absence is `tested`.
    fn qualify(
        &mut self,
        subject: &Subject<'a>,
        qualifier: &'e Qualifier,
        tested: bool,
    ) -> Result<Option<Value<'a>>, Error> {
        let key = match &qualifier.key {
            QualifierKey::Constant(value) => value.clone(),
            QualifierKey::Attribute(attribute) => self.resolve(attribute)?,
        };
        if Key::of(&key).is_none() {
            return Err(Error::new(format!("invalid qualifier type: {}", key.go_type())));
        }
        let value = match subject {
            Subject::Value(value) => value,
            Subject::Composition(name) => {
                let Some(composition) = self.activation.composition(name) else { return Ok(None) };
                let field = key.as_str().unwrap_or_default();
                return match composition.field(field, self.activation, self.budget) {
                    Some(outcome) => outcome.map(Some),
                    None if tested => Ok(None),
                    None => Err(no_such_key(&key)),
                };
            }
        };
        match value {
            Value::Map(map) => match map.find(&key) {
                Some(found) => found.map(Some),
                None if tested => Ok(None),
                None => Err(no_such_key(&key)),
            },
            Value::List(list) => element(list, &key, tested),
            Value::Object(object) => {
                let name = key.as_str().unwrap_or_default();
                match object.fields.iter().find(|(known, _)| &**known == name) {
                    Some((_, value)) => Ok(Some(value.clone())),
                    None if tested => Ok(None),
                    None => Ok(Some(Value::Null)),
                }
            }
            _ if tested => Ok(None),
            _ => Err(no_such_key(&key)),
        }
    }
}

fn no_such_key(key: &Value<'_>) -> Error {
    Error::new(format!("no such key: {key}"))
}

fn element<'a>(list: &List<'a>, key: &Value<'a>, tested: bool) -> Result<Option<Value<'a>>, Error> {
    let unsupported = || Error::new(format!("unsupported index value {key} in list"));
    let index = match key {
        Value::Int(index) => *index,
        Value::Uint(index) => i64::try_from(*index).map_err(|_| unsupported())?,
        Value::Double(index) => {
            let whole =
                index.trunc() == *index && *index > i64::MIN as f64 && *index < i64::MAX as f64;
            if whole { *index as i64 } else { return Err(unsupported()) }
        }
        _ => {
            let ty = key.type_name();
            return Err(Error::new(format!("unsupported index type '{ty}' in list")));
        }
    };
    match usize::try_from(index).ok().and_then(|index| list.get(index)) {
        Some(element) => element.map(Some),
        None if tested => Ok(None),
        None => Err(Error::new(format!("index out of bounds: {key}"))),
    }
}
