//! Evaluation of a plan, with its cost.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::plan::{CallPlan, ElementPlan, Plan};
use crate::ast::operator;
use crate::cost::{LIST_COST, MAP_COST, OBJECT_COST, call_cost, deep_traversal};
use crate::error::Error;
use crate::library::no_such_overload;
use crate::program::{Activation, Budget, Evaluation, PER_CALL_LIMIT};
use crate::value::{Key, ObjectValue, Value};

/// Limit on the bytes that one evaluation may read, beyond its cost: a quarter of a second. The reference charges 1 for
/// `size` of three megabytes, and a rule can call it a hundred thousand times.
const MAX_WORK: u64 = 256 << 20;

/// Result of evaluating a part of an expression.
pub(super) type Outcome<'a> = Result<Value<'a>, Error>;

/// Evaluates a plan.
pub(crate) fn evaluate<'a>(
    plan: &Plan,
    activation: &Activation<'a>,
    budget: Budget<'_>,
) -> Evaluation<'a> {
    let limit = budget.cost.unwrap_or(PER_CALL_LIMIT);
    let mut evaluator =
        Evaluator { activation, budget, limit, cost: 0, work: 0, locals: Vec::new(), rounds: 0 };
    let result = evaluator.evaluate(plan);
    Evaluation { result, cost: evaluator.cost }
}

/// Evaluates a call with constant arguments; an error message if it has no value.
pub(super) fn evaluate_constant(plan: &Plan) -> Result<Value<'static>, String> {
    let Plan::Call(call) = plan else { return Err("not a call".to_owned()) };
    let args: Vec<Value<'static>> = call
        .args
        .iter()
        .filter_map(|arg| if let Plan::Constant(value) = arg { Some(value.clone()) } else { None })
        .collect();
    dispatch(call, args).map_err(|error| error.to_string())
}

pub(super) struct Evaluator<'e, 'a> {
    pub activation: &'e Activation<'a>,
    pub budget: Budget<'e>,
    limit: u64,
    cost: u64,
    /// Bytes read so far: some calls cost the same for a large text as for a small one.
    work: u64,
    /// Variables of the enclosing comprehensions.
    pub locals: Vec<Local<'e, 'a>>,
    /// Iterations of comprehensions, for periodic checks of interruption.
    pub rounds: u32,
}

/// A local variable.
pub(super) enum Local<'e, 'a> {
    /// Initial value of an accumulator, evaluated on first use.
    Pending(&'e Plan),
    Ready(Outcome<'a>),
}

impl<'e, 'a> Evaluator<'e, 'a> {
    /// Adds to the cost; an error above the limit.
    pub fn charge(&mut self, cost: u64) -> Result<(), Error> {
        kevel_compute::checkpoint(1).map_err(|_| Error::interrupted())?;
        self.cost = self.cost.saturating_add(cost);
        if self.cost > self.limit { Err(Error::cost_limit()) } else { Ok(()) }
    }

    /// Adds to the bytes read; an error above the limit.
    fn look_at(&mut self, bytes: usize) -> Result<(), Error> {
        kevel_compute::checkpoint(bytes / 16).map_err(|_| Error::interrupted())?;
        self.work = self.work.saturating_add(bytes as u64);
        if self.work > MAX_WORK { Err(Error::cost_limit()) } else { Ok(()) }
    }

    /// Subtracts from the cost.
    pub fn refund(&mut self, cost: u64) {
        self.cost = self.cost.saturating_sub(cost);
    }

    pub fn evaluate(&mut self, plan: &'e Plan) -> Outcome<'a> {
        match plan {
            Plan::Constant(value) => Ok(value.clone()),
            Plan::Attribute(attribute) => self.attribute(attribute),
            Plan::And(terms) => self.logical(terms, false),
            Plan::Or(terms) => self.logical(terms, true),
            Plan::Equals { args, negated } => self.equals(args, *negated),
            Plan::NotStrictlyFalse(plan) => {
                let outcome = not_cancelled(self.evaluate(plan))?;
                self.charge(1)?;
                Ok(Value::Bool(!matches!(outcome, Ok(Value::Bool(false)))))
            }
            Plan::Call(call) => self.call(call),
            Plan::InSet { value, set } => {
                let value = self.evaluate(value)?;
                Ok(Value::Bool(Key::of(&value).is_some_and(|key| set.contains(&key))))
            }
            Plan::OptionalOr { first, second, unwrap } => match self.evaluate(first)? {
                Value::Optional(None) => self.evaluate(second),
                Value::Optional(Some(value)) if *unwrap => Ok((*value).clone()),
                other => Ok(other),
            },
            Plan::List(elements) => {
                let outcome = not_cancelled(self.list(elements))?;
                self.charge(LIST_COST)?;
                outcome
            }
            Plan::Map(entries) => {
                let outcome = not_cancelled(self.map(entries))?;
                self.charge(MAP_COST)?;
                outcome
            }
            Plan::Object { type_name, fields, known } => {
                let outcome = not_cancelled(self.object(type_name, fields, *known))?;
                self.charge(OBJECT_COST)?;
                outcome
            }
            Plan::Fold(fold) => self.fold(fold),
        }
    }

    /// Evaluates `&&` and `||`: one `decisive` term decides, even if others fail.
    fn logical(&mut self, terms: &'e [Plan], decisive: bool) -> Outcome<'a> {
        let mut failure = None;
        for term in terms {
            match not_cancelled(self.evaluate(term))? {
                Ok(Value::Bool(value)) if value == decisive => return Ok(Value::Bool(decisive)),
                Ok(Value::Bool(_)) => {}
                Ok(_) => failure = failure.or(Some(Error::no_such_overload())),
                Err(error) => failure = failure.or(Some(error)),
            }
        }
        failure.map_or(Ok(Value::Bool(!decisive)), Err)
    }

    fn equals(&mut self, args: &'e [Plan; 2], negated: bool) -> Outcome<'a> {
        let [left, right] = args;
        let args = [not_cancelled(self.evaluate(left))?, not_cancelled(self.evaluate(right))?];
        if let [Ok(left), Ok(right)] = &args {
            self.look_at(compared(left, right))?;
        }
        let outcome = match &args {
            [Ok(left), Ok(right)] => match left.equals(right) {
                // For `!=`, values that cannot be compared are unequal.
                equal if negated => Ok(Value::Bool(!equal.unwrap_or(false))),
                equal => equal.map(Value::Bool),
            },
            [Err(error), _] | [_, Err(error)] => Err(error.clone()),
        };
        let (function, overload) = match negated {
            true => (operator::NOT_EQUALS, "not_equals"),
            false => (operator::EQUALS, "equals"),
        };
        self.charge(call_cost(function, overload, &args, &outcome))?;
        outcome
    }

    fn call(&mut self, call: &'e CallPlan) -> Outcome<'a> {
        let mut args = Vec::with_capacity(call.args.len());
        for (i, arg) in call.args.iter().enumerate() {
            let outcome = match call.gathers.filter(|_| i == 0) {
                Some(accumulator) => self.take(accumulator),
                None => self.evaluate(arg),
            };
            let outcome = not_cancelled(outcome)?;
            // A call that ends before all arguments are evaluated is not charged.
            if call.ordered && outcome.is_err() && i + 1 < call.args.len() {
                return outcome;
            }
            args.push(outcome);
        }
        let sizes = args_for_cost(call, &args);
        self.look_at(args.iter().flatten().map(text_len).sum())?;
        let values: Result<Vec<Value<'a>>, Error> = args.into_iter().collect();
        let outcome = not_cancelled(values.and_then(|values| dispatch(call, values)))?;
        let overload = call.overload.map_or("", |overload| overload.id);
        self.charge(call_cost(call.function.name, overload, &sizes, &outcome))?;
        outcome
    }

    fn element(
        &mut self,
        element: &'e ElementPlan,
        what: &dyn Fn() -> String,
    ) -> Result<Option<Value<'a>>, Error> {
        let value = self.evaluate(&element.value)?;
        match value {
            Value::Optional(value) if element.optional => Ok(value.map(|value| (*value).clone())),
            other if element.optional => Err(Error::new(format!(
                "cannot initialize optional {} from non-optional value {other}",
                what()
            ))),
            other => Ok(Some(other)),
        }
    }

    fn list(&mut self, elements: &'e [ElementPlan]) -> Outcome<'a> {
        let mut values = Vec::with_capacity(elements.len());
        for element in elements {
            values.extend(self.element(element, &|| "list element".to_owned())?);
        }
        Ok(Value::list(values))
    }

    fn map(&mut self, entries: &'e [(Plan, ElementPlan)]) -> Outcome<'a> {
        let mut values = BTreeMap::new();
        for (key, element) in entries {
            let key = self.evaluate(key)?;
            let value = self.element(element, &|| format!("entry '{key}'"))?;
            let Some(place) = Key::of(&key) else {
                return Err(Error::new(format!("unsupported key type: {}", key.type_name())));
            };
            match value {
                Some(value) => values.insert(place, value),
                None => values.remove(&place),
            };
        }
        Ok(Value::Map(values.into()))
    }

    fn object(
        &mut self,
        type_name: &Arc<str>,
        fields: &'e [(Arc<str>, ElementPlan)],
        known: bool,
    ) -> Outcome<'a> {
        let mut values: Vec<(Arc<str>, Value<'a>)> = Vec::with_capacity(fields.len());
        for (name, element) in fields {
            let value = self.element(element, &|| format!("entry '{name}'"))?;
            values.retain(|(known, _)| known != name);
            values.extend(value.map(|value| (name.clone(), value)));
        }
        if !known {
            return Err(Error::new(format!("unknown type '{type_name}'")));
        }
        let type_name = type_name.clone();
        Ok(Value::Object(Arc::new(ObjectValue { type_name, fields: values })))
    }
}

fn text_len(value: &Value<'_>) -> usize {
    match value {
        Value::String(text) => text.len(),
        Value::Bytes(bytes) => bytes.len(),
        _ => 0,
    }
}

/// Bytes read by comparing two values.
fn compared(left: &Value<'_>, right: &Value<'_>) -> usize {
    match (left, right) {
        (Value::String(a), Value::String(b)) if a.len() == b.len() => a.len(),
        (Value::List(a), Value::List(b)) if a.len() != b.len() => 1,
        (Value::Map(a), Value::Map(b)) if a.len() != b.len() => 1,
        (Value::List(_), Value::List(_)) | (Value::Map(_), Value::Map(_)) => {
            usize::try_from(deep_traversal(left)).unwrap_or(usize::MAX).saturating_mul(NODE)
        }
        _ => 1,
    }
}

/// Work of reading one value, in bytes of text.
const NODE: usize = 64;

/// Returns errors that end the whole evaluation as the outer error; others may still be ignored.
pub(super) fn not_cancelled(outcome: Outcome<'_>) -> Result<Outcome<'_>, Error> {
    match outcome {
        Err(error) if error.is_cancelled() => Err(error),
        outcome => Ok(outcome),
    }
}

/// Arguments for the cost. The accumulated list is left out: a second reference would force a copy.
fn args_for_cost<'a>(call: &CallPlan, args: &[Outcome<'a>]) -> Vec<Outcome<'a>> {
    match call.gathers {
        Some(_) => vec![Ok(Value::Null); args.len()],
        None => args.to_vec(),
    }
}

/// Calls the overload chosen by the checker, or else the one that fits the arguments.
fn dispatch<'a>(call: &CallPlan, mut args: Vec<Value<'a>>) -> Outcome<'a> {
    if let Some((function, regex)) = &call.regex {
        return function.call(regex, &args);
    }
    let function = call.function;
    if call.gathers.is_some()
        && function.name == operator::ADD
        && args.len() == 2
        && let (Some(added), Some(gathered)) = (args.pop(), args.pop())
    {
        return match gathered {
            Value::List(list) => crate::library::append(list, &added),
            other => crate::library::add(&[other, added]),
        };
    }
    if let Some(singleton) = function.singleton {
        let Some(first) = args.first() else { return Err(no_such_overload(function.name, &args)) };
        if (singleton.takes)(first) {
            return (singleton.call)(&args);
        }
        // Strings, durations and timestamps dispatch methods themselves in the reference, with another message.
        return Err(match first {
            Value::String(_) | Value::Duration(_) | Value::Timestamp(_) => {
                Error::no_such_overload()
            }
            _ => Error::new(format!("no such overload: {}", function.name)),
        });
    }
    let meant = call.overload.filter(|overload| overload.call().is_some());
    let overload = match meant {
        Some(overload) => (!function.guarded || overload.takes(&args)).then_some(overload),
        None => function
            .overloads
            .iter()
            .find(|overload| overload.call().is_some() && overload.takes(&args)),
    };
    match overload.and_then(|overload| overload.call()) {
        Some(call) => call(&args),
        None => Err(no_such_overload(function.name, &args)),
    }
}
