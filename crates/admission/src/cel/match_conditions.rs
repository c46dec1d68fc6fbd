//! Match conditions: when a webhook or policy is asked at all.

use std::sync::Arc;

use kevel_clock::Stopwatch;
use kevel_server::metrics::{Counter, Description, Family, Histogram, Metrics};

use super::{
    Compiler, Error, Evaluator, Expression, Input, OptionalVariableDeclarations,
    RUNTIME_COST_BUDGET_MATCH_CONDITIONS, Returns, evaluate_nested,
};

/// What counts when a webhook or policy cannot be asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FailurePolicy {
    /// The write is refused.
    #[default]
    Fail,
    /// The write goes on.
    Ignore,
}

impl FailurePolicy {
    /// As it is written; what is not written, or not known, is [`FailurePolicy::Fail`].
    pub fn new(text: Option<&str>) -> Self {
        match text {
            Some("Ignore") => FailurePolicy::Ignore,
            _ => FailurePolicy::Fail,
        }
    }
}

/// A condition.
#[derive(Clone, Debug)]
pub struct MatchCondition {
    /// What it is called.
    pub name: Arc<str>,
    /// What must be true.
    pub expression: Expression,
}

/// Whose conditions they are, as metrics have it.
#[derive(Clone, Debug)]
pub struct Matcher {
    /// `webhook` or `policy`.
    pub kind: &'static str,
    /// `admit` or `validate`.
    pub step: &'static str,
    /// The webhook or the policy.
    pub name: Arc<str>,
}

/// The conditions of a webhook or policy. None at all always hold.
#[derive(Clone, Debug)]
pub struct MatchConditions {
    conditions: Vec<MatchCondition>,
    /// How deep the deepest of them nests.
    nesting: usize,
    failure_policy: FailurePolicy,
    matcher: Matcher,
}

/// What conditions come to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MatchResult {
    /// The webhook or policy is asked.
    Matches,
    /// It is not.
    Excluded {
        /// The condition that does not hold; none if conditions failed and that is to be ignored.
        failed_condition: Option<Arc<str>>,
    },
    /// It is not, and the write is refused.
    Failed(String),
}

impl MatchConditions {
    /// Compiles conditions, given by name and expression.
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

    /// Whether there are none, and nothing need be prepared for them.
    pub fn is_empty(&self) -> bool {
        self.conditions.is_empty()
    }

    /// Whether the conditions hold. `namespaceObject` is null in them, whatever the input has. A
    /// condition that is false decides, even if others cannot be evaluated.
    ///
    /// Where the input has an authorizer, call it within
    /// [`settle`](super::CachingAuthorizer::settle), or use [`MatchConditions::matches`].
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

    /// Whether the conditions hold, waiting for the authorizer where it must be; counted.
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
            // What excludes a policy is not counted there either.
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
                MatchResult::Failed(kevel_server::failure::aggregate(errors).unwrap_or_default())
            }
        }
    }
}

/// What conditions come to, and how many failed on the way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Evaluated {
    /// What follows.
    pub result: MatchResult,
    /// How many failed before that was known.
    pub errors: usize,
}

/// What is counted about match conditions, by the reference's names.
#[derive(Clone, Debug)]
pub struct MatchConditionMetrics {
    errors: Arc<Family<Counter>>,
    exclusions: Arc<Family<Counter>>,
    seconds: Arc<Family<Histogram>>,
}

impl MatchConditionMetrics {
    /// Adds them to those of a server: once, for webhooks and policies together.
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
                "[ALPHA] Webhooks and policies not asked because of their match conditions.",
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
