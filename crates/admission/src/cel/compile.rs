//! Compiler of CEL expressions in webhooks and policies.

use std::fmt;
use std::sync::Arc;

use kevel_cel::{CompileError, Program, Type, Variables};

use super::environment::{OptionalVariableDeclarations, VARIABLES_TYPE, environment};

/// Compiler of the expressions of webhooks or of one policy (upstream: ConditionCompiler, CompositedCompiler).
#[derive(Clone, Debug)]
pub struct Compiler {
    variables: Option<Variables>,
}

/// Type that an expression must return.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Returns {
    /// Any type: the expression is a variable.
    Anything,
    /// A condition.
    Bool,
    /// A message.
    String,
    /// The value of an audit annotation.
    StringOrNull,
    /// JSON patches.
    JsonPatches,
    /// An apply configuration.
    Object,
}

/// A CEL expression, compiled or with its compile error.
#[derive(Clone, Debug)]
pub struct Expression {
    /// Source text.
    pub text: Arc<str>,
    /// Compiled program, or the compile error.
    pub program: Result<Program, Error>,
    /// Nesting depth, with the variables that the expression refers to.
    pub nesting: usize,
}

/// Error of compiling or evaluating an expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    /// Class of the error.
    pub kind: ErrorKind,
    /// Message, in the words of the reference.
    pub detail: String,
}

/// Class of an [`Error`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// The expression is at fault.
    Invalid,
    /// The server is at fault, or a constant in the expression.
    Internal,
    /// The expressions evaluated so far exceed the cost budget; no further expression is evaluated.
    OutOfBudget,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.detail)
    }
}

impl std::error::Error for Error {}

impl Error {
    pub(super) fn invalid(detail: impl Into<String>) -> Self {
        Error { kind: ErrorKind::Invalid, detail: detail.into() }
    }

    pub(super) fn internal(detail: impl Into<String>) -> Self {
        Error { kind: ErrorKind::Internal, detail: detail.into() }
    }

    pub(super) fn out_of_budget() -> Self {
        let detail = "validation failed due to running out of cost budget, no further validation \
                      rules will be run";
        Error { kind: ErrorKind::OutOfBudget, detail: detail.to_owned() }
    }
}

impl Compiler {
    /// Compiler for expressions without `variables`: match conditions of webhooks.
    pub fn new() -> Self {
        Compiler { variables: None }
    }

    /// Compiler for the expressions of a policy. The policy's variables must be compiled first, in order: see
    /// [`Compiler::variable`].
    pub fn composited() -> Self {
        Compiler { variables: Some(Variables::new(VARIABLES_TYPE)) }
    }

    /// Compiles a variable for use in later expressions. If the variable does not compile, expressions fail when they
    /// read it.
    pub fn variable(
        &mut self,
        name: &str,
        expression: &str,
        declarations: OptionalVariableDeclarations,
    ) -> Result<(), Error> {
        let compiled = self.compile(expression, Returns::Anything, declarations).program;
        let result = compiled.as_ref().map(|_| ()).map_err(Clone::clone);
        if let Some(variables) = &mut self.variables {
            variables.push(name, compiled.map_err(|error| error.detail));
        }
        result
    }

    /// Compiles an expression.
    pub fn compile(
        &self,
        expression: &str,
        returns: Returns,
        declarations: OptionalVariableDeclarations,
    ) -> Expression {
        let environment = environment(declarations, self.variables.is_some());
        let program = match &self.variables {
            Some(variables) => environment.compile_with(expression, variables),
            None => environment.compile(expression),
        };
        let program = match program {
            Ok(program) => returns.check(&program.output_type()).map(|()| program),
            Err(CompileError::Issues(issues)) => {
                Err(Error::invalid(format!("compilation failed: {issues}")))
            }
            Err(CompileError::Program { why, output_type }) => {
                returns.check(&output_type).and_then(|()| {
                    Err(Error::internal(format!("program instantiation failed: {why}")))
                })
            }
        };
        let nesting = program.as_ref().map_or(0, |program| match &self.variables {
            Some(variables) => variables.nesting_of(program),
            None => program.nesting(),
        });
        Expression { text: expression.into(), program, nesting }
    }

    /// Variables compiled so far, for [`Input::variables`](super::Input::variables).
    pub fn variables(&self) -> Option<&Variables> {
        self.variables.as_ref()
    }
}

impl Default for Compiler {
    fn default() -> Self {
        Compiler::new()
    }
}

impl Returns {
    fn check(self, found: &Type) -> Result<(), Error> {
        let types = match self {
            Returns::Anything => return Ok(()),
            Returns::Bool => vec![Type::Bool],
            Returns::String => vec![Type::String],
            Returns::StringOrNull => vec![Type::String, Type::Null],
            Returns::JsonPatches => vec![Type::list(Type::object("JSONPatch"))],
            Returns::Object => vec![Type::object("Object")],
        };
        if types.contains(found) {
            return Ok(());
        }
        let names: Vec<String> = types.iter().map(Type::full_name).collect();
        let found = found.full_name();
        Err(Error::invalid(match &names[..] {
            [name] => format!("must evaluate to {name} but got {found}"),
            names => format!("must evaluate to one of [{}] but got {found}", names.join(" ")),
        }))
    }
}
