//! Expressions that can be evaluated.

use std::fmt;
use std::sync::Arc;

use crate::ast::{Ast, ExprKind, Literal, operator};
use crate::checker::Checked;
use crate::composition::{Composed, Variables};
use crate::environment::Environment;
use crate::error::Error;
use crate::evaluator::{Plan, evaluate};
use crate::source::Issues;
use crate::types::Type;
use crate::value::Value;

/// The most that one evaluation may cost: about a tenth of a second.
pub const PER_CALL_LIMIT: u64 = 1_000_000;
/// How many rounds of comprehensions pass between checks whether evaluation is to stop.
pub const CHECK_FREQUENCY: u32 = 100;

/// Why an expression cannot be evaluated.
#[derive(Clone, Debug)]
pub enum CompileError {
    /// It cannot be parsed, or its types do not fit.
    Issues(Issues),
    /// A constant in it makes no sense: a regular expression that is none, `int('x')`.
    Program {
        /// What makes no sense.
        why: String,
        /// The type that the result would have.
        output_type: Type,
    },
}

impl From<Issues> for CompileError {
    fn from(issues: Issues) -> Self {
        CompileError::Issues(issues)
    }
}

impl fmt::Display for CompileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CompileError::Issues(issues) => issues.fmt(f),
            CompileError::Program { why, .. } => f.write_str(why),
        }
    }
}

impl std::error::Error for CompileError {}

/// A compiled expression.
#[derive(Clone, Debug)]
pub struct Program(Arc<Compiled>);

#[derive(Debug)]
struct Compiled {
    ast: Ast,
    checked: Checked,
    plan: Plan,
    environment: Environment,
    nesting: usize,
}

impl Program {
    pub(crate) fn new(ast: Ast, checked: Checked, plan: Plan, environment: Environment) -> Self {
        let nesting = ast.root.nesting();
        Program(Arc::new(Compiled { ast, checked, plan, environment, nesting }))
    }

    /// How deep it nests, for [`with_stack`](crate::with_stack). What variables are made of comes on top: see
    /// [`Variables::nesting_of`].
    pub fn nesting(&self) -> usize {
        self.0.nesting
    }

    /// The type of the result.
    pub fn output_type(&self) -> Type {
        self.0.checked.types.get(&self.0.ast.root.id).cloned().unwrap_or(Type::Dyn)
    }

    /// Evaluates the expression. The result borrows from what the variables borrow; the cost is told
    /// whether there is a result or not.
    pub fn evaluate<'a>(&self, activation: &Activation<'a>, budget: Budget<'_>) -> Evaluation<'a> {
        evaluate(&self.0.plan, activation, budget)
    }

    /// What an evaluation costs at least and at most, as far as the declared sizes tell.
    pub fn estimate_cost(&self) -> crate::cost::CostEstimate {
        crate::cost::estimate(&self.0.ast, &self.0.checked, &self.0.environment)
    }

    /// Whether the expression selects a field of this name anywhere.
    pub fn selects_field(&self, name: &str) -> bool {
        let mut found = false;
        self.for_each_selected(&mut |field| found |= field == name);
        found
    }

    /// Visits the names of all fields that are selected, of whatever.
    pub(crate) fn for_each_selected(&self, visit: &mut dyn FnMut(&str)) {
        self.0.ast.root.visit(&mut |node| match &node.kind {
            ExprKind::Select { field, .. } => visit(field),
            ExprKind::Call { function, args, .. } if &**function == operator::OPT_SELECT => {
                for arg in args {
                    if let ExprKind::Literal(Literal::String(field)) = &arg.kind {
                        visit(field);
                    }
                }
            }
            _ => {}
        });
    }

    /// Whether the expression refers to a variable.
    pub fn uses_variable(&self, name: &str) -> bool {
        let is_name = |reference: &crate::checker::Reference| matches!(reference, crate::checker::Reference::Name(known) if &**known == name);
        self.0.checked.references.values().any(is_name)
    }
}

/// How an evaluation went.
#[derive(Debug)]
pub struct Evaluation<'a> {
    /// The value, or why there is none.
    pub result: Result<Value<'a>, Error>,
    /// What it has cost, in CEL's units.
    pub cost: u64,
}

/// How much an evaluation may take.
#[derive(Clone, Copy, Default)]
pub struct Budget<'b> {
    /// The most that it may cost; [`PER_CALL_LIMIT`] if not given.
    pub cost: Option<u64>,
    /// Asked from time to time whether to stop.
    pub interrupted: Option<&'b dyn Fn() -> bool>,
}

impl fmt::Debug for Budget<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Budget({:?})", self.cost)
    }
}

/// The values of variables.
#[derive(Debug, Default)]
pub struct Activation<'a> {
    variables: Vec<(&'a str, Value<'a>)>,
    pub(crate) compositions: Vec<Composed<'a>>,
}

impl<'a> Activation<'a> {
    /// An activation without variables.
    pub fn new() -> Self {
        Activation::default()
    }

    /// Gives a variable its value.
    pub fn bind(&mut self, name: &'a str, value: Value<'a>) -> &mut Self {
        self.variables.push((name, value));
        self
    }

    /// Gives a variable its fields, which are expressions over the same variables and over the
    /// fields in front of them: the `variables` of an admission policy. What comes of one that does
    /// not compile is that it does not.
    pub fn compose(&mut self, name: &'a str, variables: &'a Variables) -> &mut Self {
        self.compositions.push(Composed::new(name, variables));
        self
    }

    /// What the fields that were looked at since the last call cost.
    pub fn take_composition_cost(&self) -> u64 {
        self.compositions.iter().map(|composition| composition.cost.take()).sum()
    }

    pub(crate) fn get(&self, name: &str) -> Option<&Value<'a>> {
        self.variables.iter().rev().find(|(known, _)| *known == name).map(|(_, value)| value)
    }

    pub(crate) fn composition(&self, name: &str) -> Option<&Composed<'a>> {
        self.compositions.iter().find(|composition| composition.name == name)
    }
}
