//! When a webhook is asked: CEL expressions over what is asked.

use std::time::Instant;

use kevel_api::field_error::{FieldError, Path};
use kevel_api::value::Value;

use super::metrics::AuthorizationMetrics;

/// How many conditions a webhook may have.
const MAX_CONDITIONS: usize = 64;

/// Conditions that must all hold. None at all always do.
#[derive(Clone, Debug, Default)]
pub struct MatchConditions {
    conditions: Vec<Condition>,
}

#[derive(Clone, Debug)]
struct Condition {}

impl MatchConditions {
    /// Compiles expressions; otherwise all that is wrong with them, below `path`.
    pub(super) fn compile(
        expressions: &[String],
        path: &Path<'_>,
    ) -> Result<Self, Vec<FieldError>> {
        let at = path.child("matchConditions");
        if expressions.len() > MAX_CONDITIONS {
            let error = FieldError::too_many(&at, Some(expressions.len()), MAX_CONDITIONS);
            return Err(vec![error]);
        }
        let (mut conditions, mut errors) = (Vec::new(), Vec::new());
        for (index, expression) in expressions.iter().enumerate() {
            let at = at.index(index);
            let at = at.child("expression");
            if expression.trim().is_empty() {
                errors.push(FieldError::required(&at, ""));
            } else if expressions.iter().take(index).any(|other| other == expression) {
                errors.push(FieldError::duplicate(&at, expression.as_str()));
            } else {
                match Condition::compile(expression) {
                    Ok(condition) => conditions.push(condition),
                    Err(error) => {
                        errors.push(FieldError::invalid(&at, expression.as_str(), error));
                    }
                }
            }
        }
        if errors.is_empty() { Ok(MatchConditions { conditions }) } else { Err(errors) }
    }

    /// Whether all conditions hold for the `spec` of a review. One that does not hold counts, even
    /// if others cannot be evaluated.
    pub(super) fn matches(
        &self,
        spec: &Value,
        name: &str,
        metrics: &AuthorizationMetrics,
    ) -> Result<bool, String> {
        if self.conditions.is_empty() {
            return Ok(true);
        }
        let labels = ["Webhook", name];
        let started = Instant::now();
        let mut errors = Vec::new();
        let mut all = true;
        for condition in &self.conditions {
            match condition.evaluate(spec) {
                Ok(true) => {}
                Ok(false) => {
                    all = false;
                    break;
                }
                Err(error) => errors.push(error),
            }
        }
        metrics.match_duration.with(&labels).observe(started.elapsed().as_secs_f64());
        if !errors.is_empty() {
            metrics.match_errors.with(&labels).increment();
        }
        if !all {
            metrics.match_exclusions.with(&labels).increment();
            return Ok(false);
        }
        crate::rbac::aggregate(errors.into_iter()).map_or(Ok(true), Err)
    }
}

impl Condition {
    fn compile(_: &str) -> Result<Self, String> {
        Err("match conditions are not built yet".to_owned())
    }

    fn evaluate(&self, _: &Value) -> Result<bool, String> {
        Err("match conditions are not built yet".to_owned())
    }
}
