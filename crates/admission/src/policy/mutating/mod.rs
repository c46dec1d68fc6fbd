//! `MutatingAdmissionPolicy`: policies in CEL that change objects.

mod mutator;
mod object;
mod reinvocation;
mod tree;

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use kevel_api::status::{StatusCause, StatusError, reason};
use kevel_api::value::Value;
use kevel_clock::Stopwatch;
use kevel_component::future::Pending;
use kevel_registry::admission::{Attributes, Operation, Plugin, ready};
use kevel_server::authorization::Authorizer;
use kevel_server::endpoints::settle_changed;

use self::mutator::{Mutation, Mutator};
use self::object::{PatchError, Patched};
use self::reinvocation::{Key, Reinvocations};
use super::definition::{Binding, Hook, Policy};
use super::dispatch::{Invocation, Misconfigured, Turn, select};
use super::metrics::{NO_ERROR, PolicyMetrics, error_type};
use super::params::{Kinds, Params};
use super::source::{Hooks, Source};
use super::versions::{Versioned, converted, namespace, type_of};
use super::{Config, Follow};
use crate::cel::{
    CachingAuthorizer, FailurePolicy, Input, MatchConditionMetrics, MatchResult, versioned_object,
};
use crate::manifest::{MUTATING_POLICIES, ManifestError, Manifests};
use crate::predicates::Matcher;

/// Name in `--enable-admission-plugins`.
pub const NAME: &str = "MutatingAdmissionPolicy";

/// Admission plug-in of that name.
pub struct MutatingAdmissionPolicy {
    source: Source<Mutator>,
    params: Params,
    matcher: Arc<Matcher>,
    authorizer: Arc<dyn Authorizer>,
    metrics: PolicyMetrics,
    match_conditions: MatchConditionMetrics,
}

impl std::fmt::Debug for MutatingAdmissionPolicy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(NAME)
    }
}

impl MutatingAdmissionPolicy {
    /// Makes the plug-in, and the task that keeps its policies up to date. Manifests that cannot be loaded are an error.
    pub fn new(config: Config) -> Result<(Self, Follow), ManifestError> {
        let load = |folder| Manifests::load(NAME, folder, MUTATING_POLICIES, Hook::of_manifests);
        let manifests = config.manifests.map(load).transpose()?;
        let (source, follow) = Source::new(config.policies, config.bindings, manifests);
        let plugin = MutatingAdmissionPolicy {
            source,
            params: Params::new(config.tables, Kinds::Unsaid),
            matcher: config.matcher,
            authorizer: config.authorizer,
            metrics: PolicyMetrics::of_mutation(&config.metrics),
            match_conditions: config.match_conditions,
        };
        Ok((plugin, follow))
    }
}

impl Plugin for MutatingAdmissionPolicy {
    fn name(&self) -> &'static str {
        NAME
    }

    fn admit<'a>(
        &'a self,
        attributes: &'a Attributes<'a>,
        object: Option<&'a mut Value>,
    ) -> Pending<'a, Result<(), StatusError>> {
        // A deletion has no object to change.
        if attributes.operation == Operation::Delete || self.source.is_idle(attributes) {
            return ready(Ok(()));
        }
        Box::pin(async move {
            let hooks = self.source.hooks(attributes, &self.matcher).await?;
            self.dispatch(&hooks, attributes, object).await
        })
    }
}

impl MutatingAdmissionPolicy {
    async fn dispatch(
        &self,
        hooks: &Hooks<Mutator>,
        attributes: &Attributes<'_>,
        object: Option<&mut Value>,
    ) -> Result<(), StatusError> {
        let subject = self.matcher.subject(attributes);
        let selected = select(hooks, &subject, object.as_deref(), &self.params).await;
        if selected.is_empty() {
            return Ok(());
        }
        let (invocations, misconfigured): (Vec<_>, Vec<_>) =
            selected.into_iter().partition(Result::is_ok);
        let mut failures = Failures::default();
        misconfigured.into_iter().filter_map(Result::err).for_each(|e| failures.misconfigured(&e));
        let name = object.as_deref().map(name_of);
        if !invocations.is_empty() {
            let namespace = namespace(&subject, true).await?;
            let authorizer = CachingAuthorizer::new(&*self.authorizer, attributes.user);
            let mut request = Request {
                plugin: self,
                attributes,
                object,
                namespace: namespace.as_ref().map(|namespace| &namespace.0),
                authorizer: &authorizer,
                versions: Vec::new(),
                dirty: false,
            };
            let invocations: Vec<_> = invocations.into_iter().filter_map(Result::ok).collect();
            request.run(&invocations, &mut failures).await?;
        }
        failures.into_result(attributes, name.as_ref())
    }
}

/// Object with only `name` and `generateName`, for the message of a refusal.
fn name_of(object: &Value) -> Value {
    let mut named = Value::default();
    let metadata = named.make_map(&["metadata"]);
    for field in ["name", "generateName"] {
        metadata.insert(field, object.str_at(&["metadata", field]).into());
    }
    named
}

/// An admission request whose object is being changed.
struct Request<'r> {
    plugin: &'r MutatingAdmissionPolicy,
    attributes: &'r Attributes<'r>,
    object: Option<&'r mut Value>,
    namespace: Option<&'r Value>,
    authorizer: &'r CachingAuthorizer<'r>,
    /// Current objects of the request, in each version that a policy matched.
    versions: Vec<Versioned<'r>>,
    /// Whether a policy made a patch, even one without effect.
    dirty: bool,
}

impl Request<'_> {
    async fn run(
        &mut self,
        invocations: &[Invocation<'_, Mutator>],
        failures: &mut Failures,
    ) -> Result<(), StatusError> {
        if self.is_reinvoke() {
            let object = self.object.as_deref().cloned();
            self.remember(|known| known.begin_second_round(object.as_ref()));
        }
        let mut turn = Turn::begin();
        for invocation in invocations {
            turn.yield_if_long().await;
            self.invoke(invocation, failures).await?;
        }
        if self.dirty {
            self.changed();
        }
        let object = self.object.as_deref().cloned();
        self.remember(|known| known.end_round(object.as_ref()));
        Ok(())
    }

    async fn invoke(
        &mut self,
        invocation: &Invocation<'_, Mutator>,
        failures: &mut Failures,
    ) -> Result<(), StatusError> {
        let Invocation { policy, binding, param, .. } = invocation;
        let failed = |message: String| Failure::new(policy, Some(binding), message);
        let index = match self.version(invocation).await {
            Ok(index) => index,
            Err(error) => {
                let message = format!("failed to configure policy: {error}");
                failures.add(policy, Failure { reason: "", ..Failure::new(policy, None, message) });
                return Ok(());
            }
        };
        let input = self.input(index, invocation);
        let request = self.versions[index].conditions_request(self.attributes);
        let input = Input { request: Some(request), ..input };
        let metrics = &self.plugin.match_conditions;
        match policy.evaluator.conditions.matches(&input, metrics).await {
            MatchResult::Matches => {}
            MatchResult::Excluded { .. } => return Ok(()),
            MatchResult::Failed(message) => {
                failures.add(policy, failed(message));
                return Ok(());
            }
        }
        let key = Key {
            policy: policy.name.clone(),
            binding: binding.name.clone(),
            param: param.as_ref().map(|param| param.key.clone()),
        };
        if self.is_reinvoke() && !self.remember(|known| known.is_due(&key)) {
            return Ok(());
        }
        let before = self.object.as_deref().cloned();
        for mutation in &policy.evaluator.mutations {
            if self.object.is_none() {
                break;
            }
            let started = Stopwatch::start();
            let outcome = self.mutate(invocation, mutation).await;
            self.observe(policy, binding, &outcome, started.elapsed());
            match outcome {
                Ok(()) => {}
                Err(PatchError::Policy(message)) => failures.add(policy, failed(message)),
                Err(PatchError::Status(status)) => return Err(status),
            }
        }
        if self.object.as_deref() != before.as_ref() {
            self.changed();
        }
        if policy.evaluator.if_needed {
            self.remember(|known| known.invoked(key));
        }
        Ok(())
    }

    /// Evaluates one of a policy's mutations and applies the patch.
    async fn mutate(
        &mut self,
        invocation: &Invocation<'_, Mutator>,
        mutation: &Mutation,
    ) -> Result<(), PatchError> {
        let (attributes, matched) = (self.attributes, &invocation.matched);
        let index = self.version(invocation).await.map_err(PatchError::Status)?;
        let input = self.input(index, invocation);
        let change = self.authorizer.settle(|| mutation.evaluate(&input)).await;
        let change = change.map_err(|error| error.detail)??;
        let row = matched.resource(attributes);
        let (kind, ty) = (matched.kind(attributes), type_of(row, attributes.subresource));
        let at_home = kind.group == row.kind.group && kind.version == row.kind.version;
        let patched = Patched { kind, ty, at_home };
        let object = self.versions[index].object(attributes);
        let tree = object.map(|object| versioned_object(object.tree, object.schema, object.kind));
        let value = patched.apply(&tree.unwrap_or_default(), change)?;
        let value =
            settle_changed(value, kind, ty, attributes.clock).map_err(PatchError::Status)?;
        let asked = attributes.kind();
        let value = converted(attributes.resource, Cow::Owned(value), kind, asked).await;
        let value = value.map_err(PatchError::Status)?.into_owned();
        if let Some(object) = self.object.as_deref_mut() {
            *object = value;
        }
        self.dirty = true;
        self.versions.clear();
        Ok(())
    }

    fn input<'i>(&'i self, index: usize, invocation: &'i Invocation<'_, Mutator>) -> Input<'i> {
        let versioned = &self.versions[index];
        Input {
            attributes: self.attributes,
            request: Some(versioned.request(self.attributes)),
            object: versioned.object(self.attributes),
            old_object: versioned.old_object(self.attributes),
            params: invocation.param.as_ref().map(|param| &param.tree),
            namespace: self.namespace,
            authorizer: Some(self.authorizer),
            variables: invocation.policy.evaluator.variables(),
        }
    }

    /// Index into `versions` of the version that a policy matched; converts the object if needed.
    async fn version(
        &mut self,
        invocation: &Invocation<'_, Mutator>,
    ) -> Result<usize, StatusError> {
        let (attributes, matched) = (self.attributes, &invocation.matched);
        let mut versions = self.versions.iter();
        if let Some(index) = versions.position(|version| version.is(attributes, matched)) {
            return Ok(index);
        }
        let object = self.object.as_deref().cloned().map(Cow::Owned);
        let made = Versioned::new(attributes, matched, object).await?;
        self.versions.push(made);
        Ok(self.versions.len() - 1)
    }

    fn observe(
        &self,
        policy: &Policy<Mutator>,
        binding: &Binding,
        outcome: &Result<(), PatchError>,
        elapsed: Duration,
    ) {
        let error = match outcome {
            Ok(()) => NO_ERROR,
            Err(PatchError::Policy(message)) => error_type(message),
            Err(PatchError::Status(status)) => error_type(&status.to_string()),
        };
        self.plugin.metrics.observe(&[&*policy.name, &*binding.name, error], elapsed);
    }

    fn is_reinvoke(&self) -> bool {
        self.attributes.reinvocation.is_some_and(|round| round.is_reinvoke())
    }

    /// Requests reinvocation: earlier policies, and earlier plug-ins, may need to see the changed object.
    fn changed(&self) {
        self.remember(Reinvocations::object_changed);
        if let Some(round) = self.attributes.reinvocation {
            round.request();
        }
    }

    fn remember<R>(&self, work: impl FnOnce(&mut Reinvocations) -> R) -> R {
        match self.attributes.reinvocation {
            Some(round) => round.with(NAME, work),
            None => work(&mut Reinvocations::default()),
        }
    }
}

/// Failures of policies whose `failurePolicy` is `Fail`.
#[derive(Debug, Default)]
struct Failures(Vec<Failure>);

#[derive(Debug)]
struct Failure {
    message: String,
    /// Status reason; empty if the policy is misconfigured.
    reason: &'static str,
}

impl Failure {
    fn new(policy: &Policy<Mutator>, binding: Option<&Binding>, message: String) -> Self {
        let name = &policy.name;
        let message = match binding {
            Some(binding) => {
                format!("policy '{name}' with binding '{}' denied request: {message}", binding.name)
            }
            None => format!("policy \"{name}\" denied request: {message}"),
        };
        Failure { message, reason: reason::INVALID }
    }
}

impl Failures {
    fn add(&mut self, policy: &Policy<Mutator>, failure: Failure) {
        if policy.failure_policy == FailurePolicy::Fail {
            self.0.push(failure);
        }
    }

    fn misconfigured(&mut self, error: &Misconfigured<'_, Mutator>) {
        let failure = Failure::new(error.policy, error.binding, error.message());
        self.add(error.policy, Failure { reason: "", ..failure });
    }

    fn into_result(
        self,
        attributes: &Attributes<'_>,
        object: Option<&Value>,
    ) -> Result<(), StatusError> {
        let Some(first) = self.0.first() else { return Ok(()) };
        let mut status = attributes.forbidden(object, "").into_status();
        status.message = first.message.clone().into();
        if !first.reason.is_empty() {
            status.reason = first.reason.into();
        }
        let causes = self.0.into_iter();
        let causes = causes
            .map(|failure| StatusCause { message: failure.message.into(), ..Default::default() });
        status.details.get_or_insert_default().causes.extend(causes);
        Err(StatusError::from(status))
    }
}
