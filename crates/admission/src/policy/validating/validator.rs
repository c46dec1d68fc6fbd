//! Expressions of a `ValidatingAdmissionPolicy`, and their decisions (upstream: validator).

use std::sync::Arc;
use std::time::Duration;

use kevel_api::status::reason;
use kevel_api::value::Value;
use kevel_cel::{PER_CALL_LIMIT, Variables};

use crate::cel::{
    Compiler, Error, ErrorKind, Evaluator as Evaluation, Expression, FailurePolicy, Input,
    MAX_EVALUATED_MESSAGE_EXPRESSION_SIZE, MatchConditions, Matcher, Mentions,
    OptionalVariableDeclarations, RUNTIME_COST_BUDGET, Returns, evaluate_nested,
};
use crate::policy::definition::{Evaluator, failure_policy, named};

/// Compiled expressions of a policy.
#[derive(Debug)]
pub(in crate::policy) struct Validator {
    pub conditions: MatchConditions,
    /// Costly variables that the expressions mention.
    pub mentions: Mentions,
    variables: Option<Variables>,
    validations: Vec<Validation>,
    audit_annotations: Vec<AuditAnnotation>,
    failure_policy: FailurePolicy,
    /// Deepest nesting of an expression of the policy.
    nesting: usize,
}

#[derive(Debug)]
struct Validation {
    expression: Expression,
    message: String,
    message_expression: Option<Expression>,
    reason: String,
}

#[derive(Debug)]
struct AuditAnnotation {
    key: String,
    expression: Expression,
}

/// Result of a policy for a request.
#[derive(Debug, Default)]
pub(super) struct ValidateResult {
    /// Decisions on validations that are not simply true.
    pub decisions: Vec<Decision>,
    pub audit_annotations: Vec<Annotation>,
}

/// Decision on a validation that is false, or could not be evaluated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Decision {
    /// Index in `validations`.
    pub index: usize,
    /// Whether the decision denies the request.
    pub denied: bool,
    pub message: String,
    /// Status reason.
    pub reason: String,
    pub elapsed: Duration,
}

/// Result of one of the `auditAnnotations`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Annotation {
    Publish {
        key: String,
        value: String,
    },
    /// The expression failed, and `failurePolicy` is `Fail`.
    Failed {
        message: String,
        elapsed: Duration,
    },
}

/// Upper bound of the cost of a message: its last call is counted only after it is done, and may exceed the limit.
const MESSAGE_LIMIT: u64 = 2 * PER_CALL_LIMIT;

impl Evaluator for Validator {
    fn compile(name: &Arc<str>, spec: &Value) -> Self {
        let has_params = spec.at(&["paramKind"]).is_some();
        let declarations = OptionalVariableDeclarations {
            has_params,
            has_authorizer: true,
            has_patch_types: false,
        };
        let of_messages = OptionalVariableDeclarations { has_authorizer: false, ..declarations };
        let failure_policy = failure_policy(spec);
        let mut compiler = Compiler::composited();
        for (name, expression) in named(spec, "variables", "expression") {
            // A variable that does not compile fails the expressions that read it.
            let _ = compiler.variable(name, expression, declarations);
        }
        let validation = |validation: &Value| {
            let expression = validation.str_at(&["expression"]);
            let message = validation.str_at(&["messageExpression"]);
            Validation {
                expression: compiler.compile(expression, Returns::Bool, declarations),
                message: validation.str_at(&["message"]).to_owned(),
                message_expression: (!message.is_empty())
                    .then(|| compiler.compile(message, Returns::String, of_messages)),
                reason: match validation.str_at(&["reason"]) {
                    "" => reason::INVALID.to_owned(),
                    reason => reason.to_owned(),
                },
            }
        };
        let annotation = |annotation: &Value| AuditAnnotation {
            key: annotation.str_at(&["key"]).to_owned(),
            expression: compiler.compile(
                annotation.str_at(&["valueExpression"]),
                Returns::StringOrNull,
                declarations,
            ),
        };
        let conditions = named(spec, "matchConditions", "expression");
        let matcher = Matcher { kind: "policy", step: "validate", name: name.clone() };
        let conditions =
            MatchConditions::compile(&compiler, conditions, declarations, failure_policy, matcher);
        let validations: Vec<Validation> =
            list(spec, "validations").iter().map(validation).collect();
        let audit_annotations: Vec<AuditAnnotation> =
            list(spec, "auditAnnotations").iter().map(annotation).collect();
        let of_validations = validations.iter().flat_map(|validation| {
            [Some(&validation.expression), validation.message_expression.as_ref()]
        });
        let of_annotations =
            audit_annotations.iter().map(|annotation| Some(&annotation.expression));
        let all = of_validations.chain(of_annotations).flatten();
        let nesting = all.map(|expression| expression.nesting).max().unwrap_or_default();
        let variables = compiler.variables().cloned();
        let mentions = Mentions::of(spec);
        Validator {
            conditions,
            mentions,
            variables,
            validations,
            audit_annotations,
            failure_policy,
            nesting,
        }
    }
}

fn list<'v>(spec: &'v Value, field: &'static str) -> &'v [Value] {
    spec.at(&[field]).and_then(Value::as_list).unwrap_or_default()
}

impl Validator {
    /// Compiled variables, for the input.
    pub fn variables(&self) -> Option<&Variables> {
        self.variables.as_ref()
    }

    /// Evaluates the policy; its match conditions hold already.
    pub fn validate(&self, input: &Input<'_>) -> ValidateResult {
        let result = evaluate_nested(self.nesting, || self.validate_here(input));
        result.unwrap_or_else(|error| self.failed(error.detail))
    }

    fn validate_here(&self, input: &Input<'_>) -> ValidateResult {
        let decisions = match self.decisions(input) {
            Ok(decisions) => decisions,
            Err(error) => return self.failed(error.detail),
        };
        // Messages and annotations may not use the authorizer.
        let input = Input { authorizer: None, ..*input };
        match self.annotations(&input) {
            Ok(audit_annotations) => ValidateResult { decisions, audit_annotations },
            Err(error) => self.failed(error.detail),
        }
    }

    /// Result when the policy as a whole cannot be evaluated.
    pub fn failed(&self, message: String) -> ValidateResult {
        let decisions = vec![self.error(0, message, Duration::ZERO)];
        ValidateResult { decisions, audit_annotations: Vec::new() }
    }

    fn error(&self, index: usize, message: String, elapsed: Duration) -> Decision {
        let denied = self.failure_policy == FailurePolicy::Fail;
        Decision { index, denied, message, reason: String::new(), elapsed }
    }

    fn decisions(&self, input: &Input<'_>) -> Result<Vec<Decision>, Error> {
        let mut evaluation = Evaluation::new(input, RUNTIME_COST_BUDGET);
        let mut outcomes = Vec::with_capacity(self.validations.len());
        for validation in &self.validations {
            let outcome = evaluation.evaluate(&validation.expression)?;
            let holds = outcome.map(|value| value.as_bool() == Some(true));
            outcomes.push((holds, evaluation.elapsed()));
        }
        let all_hold = outcomes.iter().all(|(outcome, _)| matches!(outcome, Ok(true)));
        let remaining = evaluation.remaining();
        if all_hold && self.can_afford_messages(remaining) {
            return Ok(Vec::new());
        }
        let input = Input { authorizer: None, ..*input };
        let messages = self.messages(&input, remaining);
        let decisions = self.validations.iter().zip(outcomes).enumerate();
        Ok(decisions
            .filter_map(|(index, (validation, (outcome, elapsed)))| match (outcome, &messages) {
                (Err(error), _) => Some(self.error(index, error.detail, elapsed)),
                (Ok(_), Err(error)) if error.kind != ErrorKind::Invalid => {
                    let message = format!("failed messageExpression: {error}");
                    Some(self.error(index, message, elapsed))
                }
                (Ok(true), _) => None,
                (Ok(false), messages) => {
                    let made = messages.as_ref().ok().and_then(|all| all.get(index)?.clone());
                    let message = made.unwrap_or_else(|| validation.message());
                    let reason = validation.reason.clone();
                    Some(Decision { index, denied: true, message, reason, elapsed })
                }
            })
            .collect())
    }

    /// Whether evaluating all unused messages cannot exceed the remaining budget. If it could, they are evaluated,
    /// because exceeding the budget denies the request.
    fn can_afford_messages(&self, remaining: u64) -> bool {
        let messages = self.validations.iter().filter(|v| v.message_expression.is_some()).count();
        let variables = self.variables.as_ref().map_or(0, Variables::len);
        messages == 0 || (messages + variables) as u64 * MESSAGE_LIMIT <= remaining
    }

    /// Results of the `messageExpression`s; `None` where there is none or the result is unusable.
    fn messages(&self, input: &Input<'_>, budget: u64) -> Result<Vec<Option<String>>, Error> {
        let mut evaluation = Evaluation::new(input, budget);
        let message = |validation: &Validation| {
            let Some(expression) = &validation.message_expression else { return Ok(None) };
            let outcome = evaluation.evaluate(expression)?;
            let message = outcome.ok().and_then(|value| value.as_str().and_then(usable));
            Ok(message)
        };
        self.validations.iter().map(message).collect()
    }

    fn annotations(&self, input: &Input<'_>) -> Result<Vec<Annotation>, Error> {
        if self.audit_annotations.is_empty() {
            return Ok(Vec::new());
        }
        let mut evaluation = Evaluation::new(input, RUNTIME_COST_BUDGET);
        let mut annotations = Vec::new();
        for AuditAnnotation { key, expression } in &self.audit_annotations {
            let outcome = evaluation.evaluate(expression)?;
            let elapsed = evaluation.elapsed();
            match outcome {
                Ok(kevel_cel::Value::String(value)) if !value.trim().is_empty() => {
                    let value = value.trim().to_owned();
                    annotations.push(Annotation::Publish { key: key.clone(), value });
                }
                Ok(kevel_cel::Value::String(_) | kevel_cel::Value::Null) => {}
                Ok(other) => {
                    let message = format!(
                        "valueExpression '{}' resulted in unsupported return type: {}. Return \
                         type must be either string or null.",
                        expression.text,
                        other.runtime_type()
                    );
                    annotations.push(Annotation::Failed { message, elapsed });
                }
                Err(_) if self.failure_policy == FailurePolicy::Ignore => {}
                Err(error) => {
                    annotations.push(Annotation::Failed { message: error.detail, elapsed });
                }
            }
        }
        Ok(annotations)
    }
}

impl Validation {
    /// `message` of the validation, or the default message.
    fn message(&self) -> String {
        match self.message.trim() {
            "" => format!("failed expression: {}", self.expression.text.trim()),
            message => message.to_owned(),
        }
    }
}

/// Message of an expression, if it is a single non-empty line within the size limit.
fn usable(message: &str) -> Option<String> {
    let message = message.trim();
    let fits = message.len() <= MAX_EVALUATED_MESSAGE_EXPRESSION_SIZE;
    (fits && !message.is_empty() && !message.contains('\n')).then(|| message.to_owned())
}
