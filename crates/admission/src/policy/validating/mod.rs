//! `ValidatingAdmissionPolicy`: policies in CEL that refuse requests.

mod annotations;
mod validator;

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use kevel_api::status::{StatusCause, StatusError, reason};
use kevel_api::value::Value;
use kevel_component::future::Pending;
use kevel_registry::admission::{Attributes, Plugin, ready};
use kevel_server::authorization::Authorizer;

use self::annotations::{AuditAnnotations, validation_failure};
use self::validator::{Annotation, Decision, ValidateResult, Validator};
use super::definition::{Action, Binding, Hook, Policy};
use super::dispatch::{Invocation, Turn, select};
use super::metrics::{PolicyMetrics, error_type};
use super::params::{Kinds, Params};
use super::source::{Hooks, Source};
use super::versions::{Versioned, namespace};
use super::{Config, Follow};
use crate::cel::{CachingAuthorizer, FailurePolicy, Input, MatchConditionMetrics, MatchResult};
use crate::manifest::{ManifestError, Manifests, VALIDATING_POLICIES};
use crate::predicates::Matcher;

/// Name in `--enable-admission-plugins`.
pub const NAME: &str = "ValidatingAdmissionPolicy";

/// Admission plug-in of that name.
pub struct ValidatingAdmissionPolicy {
    source: Source<Validator>,
    params: Params,
    matcher: Arc<Matcher>,
    authorizer: Arc<dyn Authorizer>,
    metrics: PolicyMetrics,
    match_conditions: MatchConditionMetrics,
}

impl std::fmt::Debug for ValidatingAdmissionPolicy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(NAME)
    }
}

impl ValidatingAdmissionPolicy {
    /// Makes the plug-in, and the task that keeps its policies up to date. Manifests that cannot be loaded are an error.
    pub fn new(config: Config) -> Result<(Self, Follow), ManifestError> {
        let load = |folder| Manifests::load(NAME, folder, VALIDATING_POLICIES, Hook::of_manifests);
        let manifests = config.manifests.map(load).transpose()?;
        let (source, follow) = Source::new(config.policies, config.bindings, manifests);
        let plugin = ValidatingAdmissionPolicy {
            source,
            params: Params::new(config.tables, Kinds::Said),
            matcher: config.matcher,
            authorizer: config.authorizer,
            metrics: PolicyMetrics::of_validation(&config.metrics),
            match_conditions: config.match_conditions,
        };
        Ok((plugin, follow))
    }
}

impl Plugin for ValidatingAdmissionPolicy {
    fn name(&self) -> &'static str {
        NAME
    }

    fn validate<'a>(
        &'a self,
        attributes: &'a Attributes<'a>,
        object: Option<&'a Value>,
    ) -> Pending<'a, Result<(), StatusError>> {
        if self.source.is_idle(attributes) {
            return ready(Ok(()));
        }
        Box::pin(async move {
            let hooks = self.source.hooks(attributes, &self.matcher).await?;
            self.dispatch(&hooks, attributes, object).await
        })
    }
}

impl ValidatingAdmissionPolicy {
    async fn dispatch(
        &self,
        hooks: &Hooks<Validator>,
        attributes: &Attributes<'_>,
        object: Option<&Value>,
    ) -> Result<(), StatusError> {
        let subject = self.matcher.subject(attributes);
        let selected = select(hooks, &subject, object, &self.params).await;
        if selected.is_empty() {
            return Ok(());
        }
        let mentions_namespace = selected
            .iter()
            .filter_map(|selected| selected.as_ref().ok())
            .any(|invocation| invocation.policy.evaluator.mentions.namespace_object);
        let namespace = namespace(&subject, mentions_namespace).await?;
        let authorizer = CachingAuthorizer::new(&*self.authorizer, attributes.user);
        let mut request = Request {
            plugin: self,
            attributes,
            object,
            namespace: namespace.as_ref().map(|namespace| &namespace.0),
            authorizer: &authorizer,
            versions: Vec::new(),
            annotations: AuditAnnotations::default(),
            denial: None,
        };
        let mut turn = Turn::begin();
        for selected in selected {
            turn.yield_if_long().await;
            match selected {
                Ok(invocation) => request.invoke(&invocation).await,
                Err(error) => request.misconfigured(error.policy, error.binding, error.message()),
            }
        }
        request.annotations.publish(attributes.audit);
        request.denial.map_or(Ok(()), |denial| Err(denial.into_status(attributes, object)))
    }
}

/// An admission request under validation.
struct Request<'r> {
    plugin: &'r ValidatingAdmissionPolicy,
    attributes: &'r Attributes<'r>,
    object: Option<&'r Value>,
    namespace: Option<&'r Value>,
    authorizer: &'r CachingAuthorizer<'r>,
    /// Objects of the request, in each version that a policy matched so far.
    versions: Vec<Versioned<'r>>,
    annotations: AuditAnnotations,
    /// The first denial.
    denial: Option<Denial>,
}

impl Request<'_> {
    async fn invoke(&mut self, invocation: &Invocation<'_, Validator>) {
        let Invocation { policy, binding, param, .. } = invocation;
        let index = match self.version(invocation).await {
            Ok(index) => index,
            Err(error) => {
                let error = format!("failed to convert object version: {error}");
                let message = format!("failed to configure binding: {error}");
                return self.misconfigured(policy, Some(binding), message);
            }
        };
        let versioned = &self.versions[index];
        let validator = &policy.evaluator;
        let mentions = validator.mentions;
        let conditions = Input {
            attributes: self.attributes,
            request: mentions.request.then(|| versioned.conditions_request(self.attributes)),
            object: versioned.object(self.attributes),
            old_object: versioned.old_object(self.attributes),
            params: param.as_ref().map(|param| &param.tree),
            namespace: self.namespace,
            authorizer: mentions.authorizer.then_some(self.authorizer),
            variables: validator.variables(),
        };
        let metrics = &self.plugin.match_conditions;
        let result = match validator.conditions.matches(&conditions, metrics).await {
            MatchResult::Matches => {
                let request = mentions.request.then(|| versioned.request(self.attributes));
                let input = Input { request, ..conditions };
                let ready = self.authorizer.settle(|| validator.validate(&input)).await;
                ready.unwrap_or_else(|error| validator.failed(error.detail))
            }
            MatchResult::Excluded { .. } => return,
            MatchResult::Failed(message) => validator.failed(message),
        };
        self.act(policy, binding, result);
    }

    /// Index into `versions` of the version that a policy matched; converts the objects if needed.
    async fn version(
        &mut self,
        invocation: &Invocation<'_, Validator>,
    ) -> Result<usize, StatusError> {
        let (attributes, matched) = (self.attributes, &invocation.matched);
        let mut versions = self.versions.iter();
        if let Some(index) = versions.position(|version| version.is(attributes, matched)) {
            return Ok(index);
        }
        let object = self.object.map(Cow::Borrowed);
        let made = Versioned::new(attributes, matched, object).await?;
        self.versions.push(made);
        Ok(self.versions.len() - 1)
    }

    /// Carries out the binding's `validationActions` on a policy's result.
    fn act(&mut self, policy: &Policy<Validator>, binding: &Binding, result: ValidateResult) {
        let metrics = &self.plugin.metrics;
        let observe = |message: &str, elapsed: Duration, enforced: &str| {
            let labels = [&*policy.name, &*binding.name, error_type(message), enforced];
            metrics.observe(&labels, elapsed);
        };
        for decision in result.decisions {
            let Decision { index, message, elapsed, .. } = &decision;
            if !decision.denied {
                observe(message, *elapsed, "allow");
                continue;
            }
            for action in &binding.actions {
                match action {
                    Action::Deny => {
                        observe(message, *elapsed, "deny");
                        let denial = || Denial::new(policy, Some(binding), &decision);
                        self.denial.get_or_insert_with(denial);
                    }
                    Action::Audit => {
                        observe(message, *elapsed, "audit");
                        let (key, value) = validation_failure(binding, *index, message);
                        self.attributes.audit.annotate(key, &value);
                    }
                    Action::Warn => {
                        observe(message, *elapsed, "warn");
                        self.attributes.warnings.add(format!(
                            "Validation failed for ValidatingAdmissionPolicy '{}' with binding \
                             '{}': {message}",
                            policy.name, binding.name
                        ));
                    }
                }
            }
        }
        for annotation in result.audit_annotations {
            match annotation {
                Annotation::Publish { key, value } => {
                    self.annotations.add(&policy.name, &key, value);
                }
                Annotation::Failed { message, elapsed } => {
                    observe(&message, elapsed, "deny");
                    let denial = || Denial::failure(policy, Some(binding), message);
                    self.denial.get_or_insert_with(denial);
                }
            }
        }
    }

    /// Handles a policy that cannot be evaluated: denies the request unless `failurePolicy` is `Ignore`.
    fn misconfigured(
        &mut self,
        policy: &Policy<Validator>,
        binding: Option<&Binding>,
        message: String,
    ) {
        if policy.failure_policy == FailurePolicy::Fail {
            self.denial.get_or_insert_with(|| Denial::failure(policy, binding, message));
        }
    }
}

/// Denial of a request.
#[derive(Debug)]
struct Denial {
    message: String,
    reason: String,
}

impl Denial {
    fn new(policy: &Policy<Validator>, binding: Option<&Binding>, decision: &Decision) -> Self {
        let Decision { message, reason, .. } = decision;
        let name = &policy.name;
        let message = match binding {
            Some(binding) => format!(
                "ValidatingAdmissionPolicy '{name}' with binding '{}' denied request: {message}",
                binding.name
            ),
            None => format!("ValidatingAdmissionPolicy '{name}' denied request: {message}"),
        };
        Denial { message, reason: reason.clone() }
    }

    /// Denial without a status reason.
    fn failure(policy: &Policy<Validator>, binding: Option<&Binding>, message: String) -> Self {
        let (reason, elapsed) = (String::new(), Duration::ZERO);
        let decision = Decision { index: 0, denied: true, message, reason, elapsed };
        Denial::new(policy, binding, &decision)
    }

    fn into_status(self, attributes: &Attributes<'_>, object: Option<&Value>) -> StatusError {
        let mut status = attributes.forbidden(object, &self.message).into_status();
        let reason = if self.reason.is_empty() { reason::INVALID.into() } else { self.reason };
        status.code = code(&reason);
        status.reason = reason.into();
        let cause = StatusCause { message: self.message.into(), ..StatusCause::default() };
        status.details.get_or_insert_default().causes.push(cause);
        StatusError::from(status)
    }
}

/// HTTP code of the `reason` of a validation.
fn code(given: &str) -> u16 {
    match given {
        reason::FORBIDDEN => 403,
        reason::UNAUTHORIZED => 401,
        reason::REQUEST_ENTITY_TOO_LARGE => 413,
        _ => 422,
    }
}
