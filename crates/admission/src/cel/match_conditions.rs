//! Match conditions: whether a webhook or policy applies to a request (upstream: matchconditions.Matcher).

use std::sync::Arc;

use kevel_clock::Stopwatch;
use kevel_server::metrics::{Counter, Description, Family, Histogram, Metrics};

use super::{
    Compiler, Error, Evaluator, Expression, Input, OptionalVariableDeclarations,
    RUNTIME_COST_BUDGET_MATCH_CONDITIONS, Returns, evaluate_nested,
};

/// `failurePolicy` of a webhook or policy: the outcome when it cannot be called or evaluated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FailurePolicy {
    /// The request is refused.
    #[default]
    Fail,
    /// The webhook or policy is skipped.
    Ignore,
}

impl FailurePolicy {
    /// Parses `failurePolicy`; missing and unknown values are [`FailurePolicy::Fail`].
    pub fn new(text: Option<&str>) -> Self {
        match text {
            Some("Ignore") => FailurePolicy::Ignore,
            _ => FailurePolicy::Fail,
        }
    }
}

/// One of the `matchConditions`.
#[derive(Clone, Debug)]
pub struct MatchCondition {
    /// Name of the condition.
    pub name: Arc<str>,
    /// Expression that must be true.
    pub expression: Expression,
}

/// Owner of match conditions, as labels of metrics.
#[derive(Clone, Debug)]
pub struct Matcher {
    /// `kind` label: `webhook` or `policy`.
    pub kind: &'static str,
    /// `type` label: `admit` or `validate`.
    pub step: &'static str,
    /// `name` label: the webhook or the policy.
    pub name: Arc<str>,
}

/// Compiled match conditions of a webhook or policy. An empty list matches every request.
#[derive(Clone, Debug)]
pub struct MatchConditions {
    conditions: Vec<MatchCondition>,
    /// Deepest nesting of an expression among them.
    nesting: usize,
    failure_policy: FailurePolicy,
    matcher: Matcher,
}

/// Outcome of match conditions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MatchResult {
    /// The webhook or policy applies.
    Matches,
    /// The webhook or policy is skipped.
    Excluded {
        /// The condition that is false; `None` if a condition failed to evaluate and `failurePolicy` is `Ignore`.
        failed_condition: Option<Arc<str>>,
    },
    /// A condition failed to evaluate and `failurePolicy` is `Fail`: the request is refused.
    Failed(String),
}

impl MatchConditions {
    /// Compiles conditions from pairs of name and expression.
    pub fn compile<'n>(
        compiler: &Compiler,
        conditions: impl IntoIterator<Item = (&'n str, &'n str)>,
        declarations: OptionalVariableDeclarations,
        failure_policy: FailurePolicy,
        matcher: Matcher,
    ) -> Self {
        let conditions = conditions.into_iter().map(|(name, expression)| MatchCondition {
            name: name.into(),
            expression: compiler.compile(expression, Returns::Bool, declarations),
        });
        let conditions: Vec<MatchCondition> = conditions.collect();
        let nesting = conditions.iter().map(|condition| condition.expression.nesting).max();
        let nesting = nesting.unwrap_or_default();
        MatchConditions { conditions, nesting, failure_policy, matcher }
    }

    /// Whether there are no conditions, so that no input need be prepared.
    pub fn is_empty(&self) -> bool {
        self.conditions.is_empty()
    }

    /// Evaluates the conditions. `namespaceObject` is null in them, whatever the input has. A false condition decides,
    /// even if others fail to evaluate.
    ///
    /// If the input has an authorizer, call this within [`settle`](super::CachingAuthorizer::settle), or use
    /// [`MatchConditions::matches`].
    pub fn evaluate(&self, input: &Input<'_>) -> Evaluated {
        if self.conditions.is_empty() {
            return Evaluated { result: MatchResult::Matches, errors: 0 };
        }
        let input = Input { namespace: None, ..*input };
        let mut evaluator = Evaluator::new(&input, RUNTIME_COST_BUDGET_MATCH_CONDITIONS);
        let mut results = Vec::with_capacity(self.conditions.len());
        for condition in &self.conditions {
            match evaluator.evaluate(&condition.expression) {
                Ok(result) => results.push(result.map(|value| value.as_bool())),
                Err(error) => return Evaluated { result: self.failed(vec![error]), errors: 0 },
            }
        }
        let mut errors = Vec::new();
        for (condition, result) in self.conditions.iter().zip(results) {
            match result {
                Ok(Some(false)) => {
                    let failed_condition = Some(condition.name.clone());
                    let result = MatchResult::Excluded { failed_condition };
                    return Evaluated { result, errors: errors.len() };
                }
                Ok(_) => {}
                Err(error) => errors.push(error),
            }
        }
        let count = errors.len();
        let result = if count == 0 { MatchResult::Matches } else { self.failed(errors) };
        Evaluated { result, errors: count }
    }

    /// Evaluates the conditions, waits for the authorizer where needed, and updates metrics.
    pub async fn matches(&self, input: &Input<'_>, metrics: &MatchConditionMetrics) -> MatchResult {
        if self.conditions.is_empty() {
            return MatchResult::Matches;
        }
        let started = Stopwatch::start();
        let evaluate = || evaluate_nested(self.nesting, || self.evaluate(input));
        let evaluated = match input.authorizer {
            Some(authorizer) => authorizer.settle(evaluate).await.and_then(|evaluated| evaluated),
            None => evaluate(),
        };
        let Evaluated { result, errors } = evaluated
            .unwrap_or_else(|error| Evaluated { result: self.failed(vec![error]), errors: 0 });
        let Matcher { kind, step, name } = &self.matcher;
        let labels = [&**name, kind, step, input.attributes.operation.name()];
        for _ in 0..errors {
            metrics.errors.with(&labels).increment();
        }
        // The reference does not count the time of conditions that all hold.
        if result != MatchResult::Matches {
            metrics.seconds.with(&labels).observe(started.elapsed().as_secs_f64());
            // Nor does it count the exclusion of a policy.
            if matches!(result, MatchResult::Excluded { .. }) && *kind == "webhook" {
                metrics.exclusions.with(&labels).increment();
            }
        }
        result
    }

    fn failed(&self, errors: Vec<Error>) -> MatchResult {
        match self.failure_policy {
            FailurePolicy::Ignore => MatchResult::Excluded { failed_condition: None },
            FailurePolicy::Fail => {
                let errors = errors.into_iter().map(|error| error.detail).collect();
                MatchResult::Failed(kevel_registry::failure::aggregate(errors).unwrap_or_default())
            }
        }
    }
}

/// Outcome of match conditions, with the number of evaluation errors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Evaluated {
    /// Outcome.
    pub result: MatchResult,
    /// Number of conditions that failed to evaluate.
    pub errors: usize,
}

/// Metrics of match conditions, with the names of the reference.
#[derive(Clone, Debug)]
pub struct MatchConditionMetrics {
    errors: Arc<Family<Counter>>,
    exclusions: Arc<Family<Counter>>,
    seconds: Arc<Family<Histogram>>,
}

impl MatchConditionMetrics {
    /// Registers the metrics: once per server, for webhooks and policies together.
    pub fn new(metrics: &Metrics) -> Self {
        const LABELS: &[&str] = &["name", "kind", "type", "operation"];
        const SECONDS: &[f64] = &[0.001, 0.005, 0.01, 0.025, 0.1, 0.2, 0.25];
        let describe = |name, help| Description { name, help, labels: LABELS };
        MatchConditionMetrics {
            errors: metrics.counter(describe(
                "apiserver_admission_match_condition_evaluation_errors_total",
                "[ALPHA] Match conditions of webhooks and policies that could not be evaluated.",
            )),
            exclusions: metrics.counter(describe(
                "apiserver_admission_match_condition_exclusions_total",
                "[ALPHA] Webhooks and policies that were not evaluated because of their match conditions.",
            )),
            seconds: metrics.histogram(
                describe(
                    "apiserver_admission_match_condition_evaluation_seconds",
                    "[ALPHA] Seconds that match conditions of webhooks and policies took.",
                ),
                SECONDS,
            ),
        }
    }
}
