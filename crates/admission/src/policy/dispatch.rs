//! Selection of the policies, bindings and parameters that apply to a request.

use std::sync::Arc;
use std::time::Duration;

use kevel_api::value::Value;
use kevel_clock::Stopwatch;

use super::definition::{Binding, Evaluator, Hook, Policy};
use super::params::{Param, Params};
use crate::predicates::{Matched, Subject};

/// A policy to evaluate, with a binding and one of its parameters (upstream: PolicyInvocation).
#[derive(Debug)]
pub(super) struct Invocation<'h, E> {
    pub policy: &'h Policy<E>,
    pub binding: &'h Binding,
    /// Version in which the policy sees the object.
    pub matched: Matched,
    pub param: Option<Arc<Param>>,
}

/// A policy that cannot be evaluated because it, or its binding, is misconfigured.
#[derive(Debug)]
pub(super) struct Misconfigured<'h, E> {
    pub policy: &'h Policy<E>,
    /// `None` if the policy itself is at fault.
    pub binding: Option<&'h Binding>,
    pub error: String,
}

impl<E> Misconfigured<'_, E> {
    pub fn message(&self) -> String {
        let what = if self.binding.is_some() { "binding" } else { "policy" };
        format!("failed to configure {what}: {}", self.error)
    }
}

/// Invocation of a policy, or its configuration error.
pub(super) type Selected<'h, E> = Result<Invocation<'h, E>, Misconfigured<'h, E>>;

/// Policies, bindings and parameters that apply to a request, in order. Evaluates no expressions.
pub(super) async fn select<'h, E: Evaluator>(
    hooks: &'h [Hook<E>],
    subject: &Subject<'_>,
    object: Option<&Value>,
    params: &Params,
) -> Vec<Selected<'h, E>> {
    let mut selected = Vec::new();
    for Hook { policy, bindings } in hooks {
        // Most policies do not match the resource, so that check must be cheap.
        let Some(matched) = policy.constraints.matches_rules(subject) else { continue };
        match policy.constraints.selects(subject, object).await {
            Ok(false) => {}
            Ok(true) => {
                let hook = Matching { policy, matched, subject, object, params };
                hook.select(bindings, &mut selected).await;
            }
            Err(error) => {
                let error = error.to_string();
                selected.push(Err(Misconfigured { policy, binding: None, error }));
            }
        }
    }
    selected
}

/// A policy that matches a request.
struct Matching<'h, 's, E> {
    policy: &'h Policy<E>,
    matched: Matched,
    subject: &'s Subject<'s>,
    object: Option<&'s Value>,
    params: &'s Params,
}

impl<'h, E> Matching<'h, '_, E> {
    async fn select(&self, bindings: &'h [Arc<Binding>], selected: &mut Vec<Selected<'h, E>>) {
        let policy = self.policy;
        let kind = policy.param_kind.as_ref();
        let row = match kind.map(|kind| self.params.row(kind)).transpose() {
            Ok(row) => row,
            Err(error) => {
                selected.push(Err(Misconfigured { policy, binding: None, error }));
                return;
            }
        };
        for binding in bindings {
            if let Some(resources) = &binding.resources {
                match resources.matches(self.subject, self.object).await {
                    Ok(Some(_)) => {}
                    Ok(None) => continue,
                    Err(error) => {
                        let error = error.to_string();
                        let binding = Some(&**binding);
                        selected.push(Err(Misconfigured { policy, binding, error }));
                        continue;
                    }
                }
            }
            let namespace = self.subject.attributes.namespace;
            let reference = binding.param_ref.as_ref();
            match self.params.collect(kind.zip(row.as_deref()), reference, namespace).await {
                Ok(params) => selected.extend(params.into_iter().map(|param| {
                    let matched = self.matched.clone();
                    Ok(Invocation { policy, binding, matched, param })
                })),
                Err(error) => {
                    selected.push(Err(Misconfigured { policy, binding: Some(binding), error }));
                }
            }
        }
    }
}

/// Longest time that expressions are evaluated before the task yields, so that other tasks run and the request's
/// deadline is checked.
const TURN: Duration = Duration::from_millis(2);

/// Yields between policies: evaluating one may take a second.
#[derive(Debug)]
pub(super) struct Turn(Stopwatch);

impl Turn {
    pub fn begin() -> Self {
        Turn(Stopwatch::start())
    }

    pub async fn yield_if_long(&mut self) {
        if self.0.elapsed() > TURN {
            tokio::task::yield_now().await;
            self.0 = Stopwatch::start();
        }
    }
}

#[cfg(test)]
mod tests {
    use kevel_store::Revision;

    use super::super::params::Kinds;
    use super::*;
    use crate::predicates::tests::{World, read};

    /// Expressions, of which none is evaluated here.
    struct NoExpressions;

    impl Evaluator for NoExpressions {
        fn compile(_: &Arc<str>, _: &Value) -> Self {
            NoExpressions
        }
    }

    /// A policy or binding that cannot be matched with a request is not left out: its failure policy decides.
    #[tokio::test]
    async fn selectors_that_fail_are_errors_of_their_policy() {
        let world = World::new().await;
        let red = "namespaceSelector: {matchLabels: {team: red}}, objectSelector: {}";
        let all = "namespaceSelector: {}, objectSelector: {}";
        let unknown = "namespaceSelector: {}, \
                       objectSelector: {matchExpressions: [{key: app, operator: Like}]}";
        let like = "Internal error occurred: \"Like\" is not a valid label selector operator";
        let gone = "namespaces \"gone\" not found";
        for (policy, binding, namespace, expected) in [
            (all, all, "a", "invoked".to_owned()),
            (red, red, "a", "invoked".to_owned()),
            (red, all, "b", String::new()),
            (all, red, "b", String::new()),
            (red, all, "gone", format!("policy failed to configure policy: {gone}")),
            (all, red, "gone", format!("binding failed to configure binding: {gone}")),
            (unknown, all, "a", format!("policy failed to configure policy: {like}")),
            (all, unknown, "a", format!("binding failed to configure binding: {like}")),
        ] {
            let rules =
                "[{operations: ['*'], apiGroups: ['*'], apiVersions: ['*'], resources: ['*']}]";
            let spec = format!("{{matchConstraints: {{resourceRules: {rules}, {policy}}}}}");
            let policy = read(&format!("{{metadata: {{name: p}}, spec: {spec}}}"));
            let binding = format!("{{policyName: p, matchResources: {{{binding}}}}}");
            let binding = read(&format!("{{metadata: {{name: b}}, spec: {binding}}}"));
            let hooks: [Hook<NoExpressions>; 1] = [Hook {
                policy: Arc::new(Policy::new("p", Revision::INITIAL, &policy)),
                bindings: vec![Arc::new(Binding::new("b", Revision::INITIAL, &binding))],
            }];
            let params = Params::new(Vec::new(), Kinds::Said);
            let write = format!("CREATE v1 pods {namespace}/x with app=web");
            let found = world.with(&write, async |subject, object| {
                let selected = select(&hooks, subject, object, &params).await;
                let shown = selected.into_iter().map(|selected| match selected {
                    Ok(_) => "invoked".to_owned(),
                    Err(error) => {
                        let of = if error.binding.is_some() { "binding" } else { "policy" };
                        format!("{of} {}", error.message())
                    }
                });
                shown.collect::<Vec<_>>().join("; ")
            });
            assert_eq!(found.await, expected, "{write}");
        }
    }
}
