//! Expressions that others refer to by name: the `variables` of an admission policy.

use std::cell::{Cell, OnceCell};
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use kevel_api::quote::quote;

use crate::declared::unescape;
use crate::error::Error;
use crate::program::{Activation, Budget, Evaluation, Program};
use crate::types::Type;
use crate::value::Value;

/// Named expressions, in order. Each may refer to those in front of it: see
/// [`Environment::compile_with`](crate::Environment::compile_with).
#[derive(Clone, Debug)]
pub struct Variables {
    type_name: Arc<str>,
    index: HashMap<Arc<str>, usize>,
    fields: Vec<Variable>,
}

#[derive(Clone, Debug)]
struct Variable {
    ty: Type,
    program: Result<Program, Arc<str>>,
}

impl Variables {
    /// None yet. The variable that has them as its fields is declared with the object type of this
    /// name.
    pub fn new(type_name: &str) -> Self {
        let (index, fields) = (HashMap::new(), Vec::new());
        Variables { type_name: type_name.into(), index, fields }
    }

    /// Adds an expression, or why it does not compile. One of the same name is replaced.
    pub fn push(&mut self, name: &str, program: Result<Program, String>) {
        let ty = program.as_ref().map_or(Type::Dyn, |program| declared(&program.output_type()));
        self.index.insert(name.into(), self.fields.len());
        self.fields.push(Variable { ty, program: program.map_err(Into::into) });
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.fields.is_empty()
    }

    /// The type of a field, if these are the fields of the object.
    pub(crate) fn field_type(&self, object: &str, field: &str) -> Option<Type> {
        if *object != *self.type_name {
            return None;
        }
        self.fields.get(*self.index.get(field)?).map(|variable| variable.ty.clone())
    }
}

/// What the checker remembers of the type of a variable.
fn declared(ty: &Type) -> Type {
    match ty {
        Type::List(element) => Type::list(declared(element)),
        Type::Map(entry) => Type::map(declared(&entry.0), declared(&entry.1)),
        Type::Any
        | Type::Null
        | Type::Bool
        | Type::Int
        | Type::Uint
        | Type::Double
        | Type::String
        | Type::Bytes
        | Type::Duration
        | Type::Timestamp => ty.clone(),
        _ => Type::Dyn,
    }
}

/// A variable whose fields are expressions, each evaluated when it is first looked at.
#[derive(Debug)]
pub(crate) struct Composed<'a> {
    pub name: &'a str,
    variables: &'a Variables,
    computed: Vec<OnceCell<Result<Value<'a>, Error>>>,
    pub cost: Cell<u64>,
}

impl<'a> Composed<'a> {
    pub fn new(name: &'a str, variables: &'a Variables) -> Self {
        let computed = variables.fields.iter().map(|_| OnceCell::new()).collect();
        Composed { name, variables, computed, cost: Cell::new(0) }
    }

    /// The value of a field, evaluated if it was not yet.
    pub fn field(
        &self,
        field: &str,
        activation: &Activation<'a>,
        budget: Budget<'_>,
    ) -> Option<Result<Value<'a>, Error>> {
        let place = *self.variables.index.get(unescape(field)?.as_str())?;
        let cell = self.computed.get(place)?;
        if let Some(known) = cell.get() {
            return Some(known.clone());
        }
        if budget.composition.is_some_and(|most| self.cost.get() > most) {
            return Some(Err(Error::cost_limit()));
        }
        let result = match &self.variables.fields.get(place)?.program {
            Ok(program) => {
                let Evaluation { result, cost } = program.evaluate(activation, budget);
                self.cost.set(self.cost.get().saturating_add(cost));
                // What a variable may cost is its own: the expression that looks at it goes on.
                result.map_err(|error| match error.is_interrupted() {
                    true => error,
                    false => fails(field, "evaluate", &error),
                })
            }
            Err(error) => Err(fails(field, "compile", error)),
        };
        Some(cell.get_or_init(|| result).clone())
    }
}

fn fails(field: &str, to: &str, error: &dyn fmt::Display) -> Error {
    Error::new(format!("composited variable {} fails to {to}: {error}", quote(field)))
}
