//! CEL expressions of policies and match conditions: compilation and evaluation.
//!
//! A [`Compiler`] compiles expressions, with the variables of a policy or without. The result is an [`Expression`] even
//! if compilation fails: the error counts only when the expression is evaluated. For a request, an [`Input`] has the
//! values of the variables, and an [`Evaluator`] evaluates expressions over it within a budget. Evaluation never waits:
//! an authorization check that needs to wait ends it, and [`CachingAuthorizer::settle`] evaluates again with the
//! decision. Webhooks and policies share [`MatchConditions`].

mod authorizer;
mod compile;
mod environment;
mod evaluate;
mod match_conditions;
mod mentions;
mod request;
#[cfg(test)]
mod tests;
mod type_check;

pub use authorizer::CachingAuthorizer;
pub use compile::{Compiler, Error, ErrorKind, Expression, Returns};
pub use environment::OptionalVariableDeclarations;
pub use evaluate::{Evaluator, Input, Object, evaluate_nested};
pub use match_conditions::{
    FailurePolicy, MatchCondition, MatchConditionMetrics, MatchConditions, MatchResult, Matcher,
};
pub use mentions::Mentions;
pub use request::{admission_request, namespace_object, versioned_object};
pub use type_check::TypeChecker;

/// Cost budget of all expressions of a policy for one binding and parameter: about a second.
pub const RUNTIME_COST_BUDGET: u64 = 10_000_000;
/// Cost budget of the match conditions of one webhook or policy: about a quarter of a second.
pub const RUNTIME_COST_BUDGET_MATCH_CONDITIONS: u64 = 2_500_000;
/// Longest message that a `messageExpression` may return, in bytes.
pub const MAX_EVALUATED_MESSAGE_EXPRESSION_SIZE: usize = 5 * 1024;
