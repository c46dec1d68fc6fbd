//! A policy and its bindings, read once.

use std::sync::Arc;

use kevel_api::value::Value;
use kevel_store::Revision;

use super::params::{ParamKind, ParamRef};
use crate::cel::FailurePolicy;
use crate::predicates::MatchCriteria;

/// A policy that is in force: it has bindings.
#[derive(Debug)]
pub(super) struct Hook<E> {
    pub policy: Arc<Policy<E>>,
    /// By name.
    pub bindings: Vec<Arc<Binding>>,
}

/// What the expressions of a policy are compiled to.
pub(super) trait Evaluator: Send + Sync + 'static {
    /// Compiles a policy. What does not compile fails when it is evaluated.
    fn compile(name: &Arc<str>, spec: &Value) -> Self;
}

/// What a policy says.
#[derive(Debug)]
pub(super) struct Policy<E> {
    pub name: Arc<str>,
    pub revision: Revision,
    pub constraints: MatchCriteria,
    pub param_kind: Option<ParamKind>,
    pub failure_policy: FailurePolicy,
    pub evaluator: E,
}

impl<E: Evaluator> Policy<E> {
    pub fn new(name: &str, revision: Revision, object: &Value) -> Self {
        let name: Arc<str> = name.into();
        let spec = object.at(&["spec"]).unwrap_or(&Value::Null);
        let constraints = spec.at(&["matchConstraints"]).unwrap_or(&Value::Null);
        Policy {
            revision,
            constraints: MatchCriteria::of_match_resources(constraints),
            param_kind: spec.at(&["paramKind"]).map(ParamKind::new),
            failure_policy: failure_policy(spec),
            evaluator: E::compile(&name, spec),
            name,
        }
    }
}

/// What counts when a policy cannot be evaluated.
pub(super) fn failure_policy(spec: &Value) -> FailurePolicy {
    FailurePolicy::new(spec.at(&["failurePolicy"]).and_then(Value::as_str))
}

/// The pairs of `name` (or whatever it is called) and expression that stand in a list.
pub(super) fn named<'v>(
    spec: &'v Value,
    list: &'static str,
    expression: &'static str,
) -> impl Iterator<Item = (&'v str, &'v str)> {
    let list = spec.at(&[list]).and_then(Value::as_list).unwrap_or_default();
    list.iter().map(move |item| (item.str_at(&["name"]), item.str_at(&[expression])))
}

/// Where and with what a policy is in force.
#[derive(Debug)]
pub(super) struct Binding {
    pub name: Arc<str>,
    pub revision: Revision,
    pub policy_name: String,
    pub param_ref: Option<ParamRef>,
    /// What it narrows the policy down to, if it does.
    pub resources: Option<MatchCriteria>,
    /// What is done about what fails; nothing of the kind is said of mutations.
    pub actions: Vec<Action>,
}

impl Binding {
    pub fn new(name: &str, revision: Revision, object: &Value) -> Self {
        let spec = object.at(&["spec"]).unwrap_or(&Value::Null);
        let actions = spec.at(&["validationActions"]).and_then(Value::as_list).unwrap_or_default();
        Binding {
            name: name.into(),
            revision,
            policy_name: spec.str_at(&["policyName"]).to_owned(),
            param_ref: spec.at(&["paramRef"]).map(ParamRef::new),
            resources: spec.at(&["matchResources"]).map(MatchCriteria::of_match_resources),
            actions: actions.iter().filter_map(|name| Action::parse(name.as_str()?)).collect(),
        }
    }
}

/// What is done about a validation that fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    /// The write is refused.
    Deny,
    /// The client is told.
    Warn,
    /// The auditors are told.
    Audit,
}

impl Action {
    const ALL: [Action; 3] = [Action::Deny, Action::Warn, Action::Audit];

    pub fn name(self) -> &'static str {
        match self {
            Action::Deny => "Deny",
            Action::Warn => "Warn",
            Action::Audit => "Audit",
        }
    }

    fn parse(name: &str) -> Option<Self> {
        Action::ALL.into_iter().find(|action| action.name() == name)
    }
}
