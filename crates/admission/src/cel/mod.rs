//! Expressions of policies and match conditions: where they are compiled, what they are evaluated
//! with.
//!
//! A [`Compiler`] compiles expressions, with the variables of a policy or without; they are
//! [`Expression`]s, be it that they do not compile, for that counts when they are evaluated. For a
//! request, an [`Input`] says what the variables are, and an [`Evaluator`] evaluates expressions
//! over it within a budget. Evaluation never waits: what the authorizer cannot answer at once ends
//! it, and [`CachingAuthorizer::settle`] does it again with the answer. [`MatchConditions`] are what
//! webhooks and policies share.

mod authorizer;
mod compile;
mod environment;
mod evaluate;
mod match_conditions;
mod mentions;
mod request;
#[cfg(test)]
mod tests;

pub use authorizer::CachingAuthorizer;
pub use compile::{Compiler, Error, ErrorKind, Expression, Returns};
pub use environment::OptionalVariableDeclarations;
pub use evaluate::{Evaluator, Input, Object, evaluate_nested};
pub use match_conditions::{
    FailurePolicy, MatchCondition, MatchConditionMetrics, MatchConditions, MatchResult, Matcher,
};
pub use mentions::Mentions;
pub use request::{admission_request, namespace_object, versioned_object};

/// The most that all expressions of a policy may cost for one binding and parameter: about a second.
pub const RUNTIME_COST_BUDGET: u64 = 10_000_000;
/// The most that the match conditions of one webhook or policy may cost: about a quarter of that.
pub const RUNTIME_COST_BUDGET_MATCH_CONDITIONS: u64 = 2_500_000;
/// The longest message that an expression may make, in bytes.
pub const MAX_EVALUATED_MESSAGE_EXPRESSION_SIZE: usize = 5 * 1024;
