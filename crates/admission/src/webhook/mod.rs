//! Admission webhooks: remote services that may refuse or change requests.
//!
//! ```text
//! configurations (cache, files) ── compiled on change ──▶ Source ── load ──▶ [Webhook]
//! request ─▶ predicates ─▶ match conditions ─▶ matched version ─▶ AdmissionReview ─▶ verdict, patch
//! ```
//!
//! - `definition`: webhooks, parsed
//! - `source`: the current webhooks, from the cache and from files
//! - `client`: endpoints, credentials and connections
//! - `versions`: the request's objects in the version that a webhook matches
//! - `review`: the AdmissionReview sent, and the checks of the response
//! - `call`: the call of one webhook; `failure`: the classes of its errors
//! - [`mutating`]: webhooks called in sequence; [`validating`]: webhooks called in parallel

mod annotations;
mod call;
mod client;
mod definition;
mod failure;
mod metrics;
pub mod mutating;
mod patch;
mod review;
mod source;
#[cfg(test)]
mod tests;
pub mod validating;
mod versions;

use std::sync::Arc;
use std::time::Duration;

use kevel_api::status::StatusError;
use kevel_component::future::Pending;
use kevel_registry::admission::Attributes;
use kevel_registry::storage::Storage;
use kevel_server::authorization::Authorizer;

use crate::cel::{
    CachingAuthorizer, FailurePolicy, Input, MatchConditionMetrics, MatchResult, Object,
    admission_request,
};
use crate::manifest::{ManifestError, ManifestFolder};
use crate::predicates::{Matcher, is_exempt};

use self::annotations::Place;
use self::definition::Webhook;
use self::failure::{Failure, timed_out};
use self::metrics::ErrorType;
use self::source::Source;
use self::versions::Versioned;

pub use client::{ClientManager, Resolve};
pub use metrics::WebhookMetrics;
pub use mutating::MutatingAdmissionWebhook;
pub use review::{AdmissionResponse, ReviewError, ReviewVersion, verify};
pub use validating::ValidatingAdmissionWebhook;

/// Dependencies of the webhook plug-ins.
pub struct Config {
    /// Storage of the webhook configurations.
    pub configurations: Arc<Storage>,
    /// Namespaces and resources, for predicates.
    pub matcher: Arc<Matcher>,
    /// Authorizer behind `authorizer` in match conditions.
    pub authorizer: Arc<dyn Authorizer>,
    /// Folder with configurations in files, if there is one.
    pub manifests: Option<ManifestFolder>,
    /// Clients of webhooks.
    pub clients: Arc<ClientManager>,
    /// Metrics of calls.
    pub metrics: WebhookMetrics,
    /// Metrics of match conditions.
    pub match_conditions: MatchConditionMetrics,
}

impl std::fmt::Debug for Config {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Config")
            .field("configurations", &self.configurations)
            .finish_non_exhaustive()
    }
}

/// Background task that keeps a plug-in's webhooks up to date while the server runs.
pub type Follow = Pending<'static, ()>;

/// State that both plug-ins have.
#[derive(Debug)]
struct Webhooks {
    source: Source,
    config: Config,
}

impl Webhooks {
    fn new(config: Config, step: definition::Step) -> Result<(Self, Follow), ManifestError> {
        let folder = config.manifests.clone();
        let (source, follow) = Source::new(config.configurations.clone(), folder, step)?;
        Ok((Webhooks { source, config }, follow))
    }

    /// Current webhooks. Waits until they are loaded, and refuses the request if that takes too long.
    async fn hooks(
        &self,
        attributes: &Attributes<'_>,
    ) -> Result<Arc<Vec<Arc<Webhook>>>, StatusError> {
        if is_exempt(attributes) {
            return Ok(self.source.of_files());
        }
        let ready = self.source.wait_until_ready(&self.config.matcher).await;
        match ready {
            true => Ok(self.source.webhooks()),
            false => Err(attributes.forbidden(None, "not yet ready to handle request")),
        }
    }

    /// Whether no webhook can apply: there are none, or those of files alone would see the request and there are none.
    fn is_idle(&self, attributes: &Attributes<'_>) -> bool {
        self.source.has_no_files() && (is_exempt(attributes) || self.source.is_empty())
    }

    /// Counts a call.
    fn observe<T>(
        &self,
        webhook: &Webhook,
        attributes: &Attributes<'_>,
        elapsed: Duration,
        result: &Result<T, Failure>,
    ) {
        let fails = webhook.failure_policy == FailurePolicy::Fail;
        let (code, refused) = match result {
            Ok(_) => (200, None),
            Err(Failure::Calling(error)) => {
                (error.code, fails.then_some(ErrorType::CallingWebhook))
            }
            Err(Failure::TimedOut) => (503, fails.then_some(ErrorType::CallingWebhook)),
            Err(Failure::Rejected(error)) => (error.status().code, Some(ErrorType::NoError)),
            Err(Failure::Internal(_)) => (0, Some(ErrorType::ApiServerInternal)),
        };
        let (metrics, operation) = (&self.config.metrics, attributes.operation);
        if let Some(error) = refused {
            metrics.observe_rejection(webhook, operation, error, code);
        }
        metrics.observe(webhook, operation, elapsed, code, refused.is_some());
    }

    /// Outcome of a failed call: a refusal, or none if `failurePolicy` is `Ignore`.
    fn judge(
        &self,
        webhook: &Webhook,
        attributes: &Attributes<'_>,
        place: Place,
        failure: Failure,
    ) -> Result<(), StatusError> {
        let name = &*webhook.name;
        match failure {
            Failure::Rejected(error) | Failure::Internal(error) => {
                tracing::warn!("rejected by webhook {name:?}: {error}");
                Err(error)
            }
            Failure::TimedOut => Err(timed_out()),
            Failure::Calling(error) => {
                let message = error.message(name);
                match webhook.failure_policy {
                    FailurePolicy::Fail => {
                        tracing::warn!("Failed calling webhook, failing closed {name}: {message}");
                        Err(StatusError::internal(message))
                    }
                    FailurePolicy::Ignore => {
                        tracing::warn!("Failed calling webhook, failing open {name}: {message}");
                        self.config.metrics.observe_fail_open(name, webhook.step);
                        place.failed_open(webhook, attributes);
                        Ok(())
                    }
                }
            }
        }
    }

    /// Whether the match conditions of a webhook hold.
    async fn conditions_hold(
        &self,
        webhook: &Webhook,
        attributes: &Attributes<'_>,
        authorizer: &CachingAuthorizer<'_>,
        versioned: &Versioned<'_>,
    ) -> Result<bool, StatusError> {
        if webhook.conditions.is_empty() {
            return Ok(true);
        }
        let (schema, kind) = (versioned.ty.schema(), versioned.kind);
        let seen = |tree| Object { tree, schema, kind };
        let options = attributes.options.object();
        let mut request = admission_request(attributes, versioned.resource, options.as_ref());
        // Match conditions see the kind that the webhook matched, but the requested resource.
        let asked = request.at(&["requestResource"]).cloned();
        if let (Some(request), Some(asked)) = (request.as_map_mut(), asked) {
            request.insert("resource", asked);
        }
        let input = Input {
            attributes,
            request: Some(&request),
            object: versioned.object.map(seen),
            old_object: versioned.old.map(seen),
            params: None,
            namespace: None,
            authorizer: Some(authorizer),
            variables: None,
        };
        let result = webhook.conditions.matches(&input, &self.config.match_conditions).await;
        match result {
            MatchResult::Matches => Ok(true),
            MatchResult::Excluded { .. } => Ok(false),
            MatchResult::Failed(error) => {
                tracing::warn!(
                    webhook = &*webhook.name,
                    error,
                    "Failed evaluating match conditions, failing closed"
                );
                let resource = attributes.resource.group_resource();
                Err(StatusError::forbidden(&resource, attributes.name, error))
            }
        }
    }
}
