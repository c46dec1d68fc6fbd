//! Named expressions that other expressions refer to: the `variables` of an admission policy (upstream:
//! CompositedCompiler).

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

/// Named expressions, in order. Each may refer to earlier ones: see
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
    /// Nesting depth, with the variables that the expression refers to.
    nesting: usize,
}

impl Variables {
    /// Makes an empty set. `type_name` is the object type of the variable whose fields they are.
    pub fn new(type_name: &str) -> Self {
        let (index, fields) = (HashMap::new(), Vec::new());
        Variables { type_name: type_name.into(), index, fields }
    }

    /// Adds a compiled expression, or its compile error. Replaces one of the same name.
    pub fn push(&mut self, name: &str, program: Result<Program, String>) {
        let ty = program.as_ref().map_or(Type::Dyn, |program| declared(&program.output_type()));
        let nesting = program.as_ref().map_or(0, |program| self.nesting_of(program));
        self.index.insert(name.into(), self.fields.len());
        self.fields.push(Variable { ty, program: program.map_err(Into::into), nesting });
    }

    /// Nesting depth of an expression with the variables that it refers to, for [`with_stack`](crate::with_stack).
    pub fn nesting_of(&self, program: &Program) -> usize {
        let mut deepest = 0;
        program.for_each_selected(&mut |field| {
            let place = unescape(field).and_then(|name| self.index.get(name.as_str()));
            let variable = place.and_then(|place| self.fields.get(*place));
            deepest = deepest.max(variable.map_or(0, |variable| variable.nesting));
        });
        program.nesting() + deepest
    }

    /// Number of named expressions.
    pub fn len(&self) -> usize {
        self.fields.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.fields.is_empty()
    }

    /// Type of a field, if `object` is the type whose fields these are.
    pub(crate) fn field_type(&self, object: &str, field: &str) -> Option<Type> {
        if *object != *self.type_name {
            return None;
        }
        self.fields.get(*self.index.get(field)?).map(|variable| variable.ty.clone())
    }
}

/// Deepest nesting of a variable's type that is kept. With lists in lists in lists, each variable could add a level,
/// which every expression would have to traverse.
const MAX_TYPE_NESTING: usize = 32;

/// Type of a variable as the checker keeps it: `dyn` below [`MAX_TYPE_NESTING`].
fn declared(ty: &Type) -> Type {
    declared_within(ty, MAX_TYPE_NESTING)
}

fn declared_within(ty: &Type, levels: usize) -> Type {
    let Some(levels) = levels.checked_sub(1) else { return Type::Dyn };
    match ty {
        Type::List(element) => Type::list(declared_within(element, levels)),
        Type::Map(entry) => {
            Type::map(declared_within(&entry.0, levels), declared_within(&entry.1, levels))
        }
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

/// A variable whose fields are expressions, each evaluated on first use.
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

    /// Value of a field, evaluated on first use.
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
                // Exceeding the cost of a variable fails that variable; the expression that reads it goes on.
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
