//! Policies and their bindings, parsed from API objects.

use std::sync::Arc;

use kevel_api::value::Value;
use kevel_store::Revision;

use super::params::{ParamKind, ParamRef};
use crate::cel::FailurePolicy;
use crate::manifest::ManifestObject;
use crate::predicates::MatchCriteria;

/// A policy with at least one binding; a policy without bindings is not in force (upstream: PolicyHook).
#[derive(Debug)]
pub(super) struct Hook<E> {
    pub policy: Arc<Policy<E>>,
    /// Bindings, ordered by name.
    pub bindings: Vec<Arc<Binding>>,
}

impl<E> Clone for Hook<E> {
    fn clone(&self) -> Self {
        Hook { policy: self.policy.clone(), bindings: self.bindings.clone() }
    }
}

impl<E: Evaluator> Hook<E> {
    /// Policies of manifest files with their bindings, in the order of their names. Those without bindings are there,
    /// too, and decide nothing.
    pub fn of_manifests(objects: Vec<ManifestObject>) -> Vec<Self> {
        let mut hooks = Vec::new();
        let mut bindings: Vec<Arc<Binding>> = Vec::new();
        for object in &objects {
            let name = object.name.as_str();
            match object.value.at(&["spec", "policyName"]) {
                Some(_) => bindings.push(Arc::new(Binding::new(name, NO_REVISION, &object.value))),
                None => hooks.push(Hook {
                    policy: Arc::new(Policy::new(name, NO_REVISION, &object.value)),
                    bindings: Vec::new(),
                }),
            }
        }
        for hook in &mut hooks {
            let own = bindings.iter().filter(|binding| *binding.policy_name == *hook.policy.name);
            hook.bindings = own.cloned().collect();
        }
        hooks
    }
}

/// Revision of objects that are not in the store.
const NO_REVISION: Revision = Revision(0);

/// Compiled expressions of a policy.
pub(super) trait Evaluator: Send + Sync + 'static {
    /// Compiles the expressions of a policy. An expression that does not compile fails when it is evaluated.
    fn compile(name: &Arc<str>, spec: &Value) -> Self;
}

/// A parsed policy.
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

/// `failurePolicy` of a policy.
pub(super) fn failure_policy(spec: &Value) -> FailurePolicy {
    FailurePolicy::new(spec.at(&["failurePolicy"]).and_then(Value::as_str))
}

/// Pairs of name and expression in a list of the spec, such as `variables` or `matchConditions`.
pub(super) fn named<'v>(
    spec: &'v Value,
    list: &'static str,
    expression: &'static str,
) -> impl Iterator<Item = (&'v str, &'v str)> {
    let list = spec.at(&[list]).and_then(Value::as_list).unwrap_or_default();
    list.iter().map(move |item| (item.str_at(&["name"]), item.str_at(&[expression])))
}

/// A parsed policy binding.
#[derive(Debug)]
pub(super) struct Binding {
    pub name: Arc<str>,
    pub revision: Revision,
    pub policy_name: String,
    pub param_ref: Option<ParamRef>,
    /// `matchResources`: narrows the policy's `matchConstraints`.
    pub resources: Option<MatchCriteria>,
    /// `validationActions`; empty for bindings of mutating policies.
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

/// One of the `validationActions`: the reaction to a validation that fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    /// Refuses the request.
    Deny,
    /// Sends a warning to the client.
    Warn,
    /// Adds an audit annotation.
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
