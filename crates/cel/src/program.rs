//! Compiled expressions and their evaluation.

use std::fmt;
use std::sync::Arc;

use kevel_clock::Stopwatch;

use crate::ast::{Ast, ExprKind, Literal, operator};
use crate::checker::Checked;
use crate::composition::{Composed, Variables};
use crate::environment::Environment;
use crate::error::Error;
use crate::evaluator::{Plan, evaluate};
use crate::metrics::EVALUATION_SECONDS;
use crate::source::Issues;
use crate::types::Type;
use crate::value::Value;

/// Cost limit of one evaluation: about a tenth of a second.
pub const PER_CALL_LIMIT: u64 = 1_000_000;
/// Iterations of comprehensions between checks of interruption.
pub const CHECK_FREQUENCY: u32 = 100;

/// Error of compiling an expression.
#[derive(Clone, Debug)]
pub enum CompileError {
    /// Issues of parsing or type checking.
    Issues(Issues),
    /// A constant is invalid: a malformed regular expression, `int('x')`.
    Program {
        /// Message.
        why: String,
        /// Type that the result would have.
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

    /// Nesting depth, for [`with_stack`](crate::with_stack). That of variables comes on top: see
    /// [`Variables::nesting_of`].
    pub fn nesting(&self) -> usize {
        self.0.nesting
    }

    /// Type of the result.
    pub fn output_type(&self) -> Type {
        self.0.checked.types.get(&self.0.ast.root.id).cloned().unwrap_or(Type::Dyn)
    }

    /// Evaluates the expression. The result borrows what the variables borrow; the cost is returned with or without a
    /// result.
    pub fn evaluate<'a>(&self, activation: &Activation<'a>, budget: Budget<'_>) -> Evaluation<'a> {
        let started = Stopwatch::start();
        let evaluation = evaluate(&self.0.plan, activation, budget);
        EVALUATION_SECONDS.observe_seconds(started.elapsed());
        evaluation
    }

    /// Minimum and maximum cost of an evaluation, by the declared sizes.
    pub fn estimate_cost(&self) -> crate::cost::CostEstimate {
        crate::cost::estimate(&self.0.ast, &self.0.checked, &self.0.environment)
    }

    /// Whether the expression selects a field of this name anywhere.
    pub fn selects_field(&self, name: &str) -> bool {
        let mut found = false;
        self.for_each_selected(&mut |field| found |= field == name);
        found
    }

    /// Visits the names of all selected fields, on any operand.
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

/// Outcome of an evaluation.
#[derive(Debug)]
pub struct Evaluation<'a> {
    /// Value or error.
    pub result: Result<Value<'a>, Error>,
    /// Actual cost, in CEL's units.
    pub cost: u64,
}

/// Limits of an evaluation.
#[derive(Clone, Copy, Default)]
pub struct Budget<'b> {
    /// Cost limit; [`PER_CALL_LIMIT`] if not given. It also applies to each field of a composed variable by itself.
    pub cost: Option<u64>,
    /// Cost limit of all such fields together, after which no more are evaluated.
    pub composition: Option<u64>,
    /// Polled from time to time; true interrupts the evaluation.
    pub interrupted: Option<&'b dyn Fn() -> bool>,
}

impl fmt::Debug for Budget<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Budget({:?})", self.cost)
    }
}

/// Values of variables.
#[derive(Debug, Default)]
pub struct Activation<'a> {
    variables: Vec<(&'a str, Value<'a>)>,
    pub(crate) compositions: Vec<Composed<'a>>,
}

impl<'a> Activation<'a> {
    /// Makes an activation without variables.
    pub fn new() -> Self {
        Activation::default()
    }

    /// Binds a variable to a value.
    pub fn bind(&mut self, name: &'a str, value: Value<'a>) -> &mut Self {
        self.variables.push((name, value));
        self
    }

    /// Binds a variable whose fields are expressions over the same variables and earlier fields: the `variables` of an
    /// admission policy. A field that does not compile fails when it is read.
    pub fn compose(&mut self, name: &'a str, variables: &'a Variables) -> &mut Self {
        self.compositions.push(Composed::new(name, variables));
        self
    }

    /// Cost of the fields evaluated since the last call.
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
