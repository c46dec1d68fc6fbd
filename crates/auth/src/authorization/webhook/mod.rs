//! Webhook authorizer, which sends SubjectAccessReviews.

mod review;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use kevel_api::value::Value;
use kevel_clock::{Clock, Stopwatch};
use kevel_component::future::Pending;
use kevel_registry::user::User;
use kevel_server::authorization::{Attributes, Authorizer, Decision, Opinion, Rules};
use kevel_server::webhook::{AnswerCache, Backoff, CacheKey, Client, Error, succeeded};

pub use self::review::ReviewVersion;
use self::review::{Status, canonical, spec};
use super::match_conditions::MatchConditions;
use super::metrics::AuthorizationMetrics;

/// Maximum number of cached answers.
const MAX_ANSWERS: usize = 8192;
/// Maximum size of client-controlled attributes of a cached request: longer ones are not cached, against abuse.
const MAX_CONTROLLED: usize = 10_000;

/// The webhook authorizer.
#[derive(Debug)]
pub struct Webhook {
    config: WebhookConfig,
    client: Client,
    answers: AnswerCache<Status>,
    metrics: Arc<AuthorizationMetrics>,
}

/// Configuration of a webhook.
#[derive(Debug)]
pub struct WebhookConfig {
    /// Name in metrics.
    pub name: String,
    /// Version of the reviews.
    pub version: ReviewVersion,
    /// Timeout of a call.
    pub timeout: Duration,
    /// Backoff between calls.
    pub backoff: Backoff,
    /// Cache time of allowed requests.
    pub authorized_ttl: Duration,
    /// Cache time of other decisions.
    pub unauthorized_ttl: Duration,
    /// Decision if the call fails: [`Decision::Deny`] or [`Decision::NoOpinion`].
    pub on_error: Decision,
    /// Match conditions: requests that the webhook is called for.
    pub match_conditions: MatchConditions,
}

impl Webhook {
    /// Makes the authorizer; `client` calls the webhook.
    pub fn new(
        client: Client,
        config: WebhookConfig,
        metrics: Arc<AuthorizationMetrics>,
        clock: &Clock,
    ) -> Self {
        Webhook { config, client, answers: AnswerCache::new(MAX_ANSWERS, clock), metrics }
    }

    async fn decide(&self, asked: &Attributes<'_>) -> Opinion {
        let spec = spec(asked);
        match self.config.match_conditions.matches(&spec, &self.config.name, &self.metrics) {
            Ok(true) => {}
            Ok(false) => return Opinion::none(""),
            Err(error) => return self.failed(error),
        }
        let canonical = canonical(&spec);
        let key = CacheKey::of(&canonical);
        let status = match self.answers.get(&key) {
            Some(status) => status,
            None => match self.ask(&spec, &canonical).await {
                Ok(status) => {
                    self.remember(asked, key, &status);
                    status
                }
                Err(error) => return self.failed(error),
            },
        };
        let Status { allowed, denied, reason } = status;
        match (denied, allowed) {
            (true, true) => {
                let error = "webhook subject access review returned both allow and deny response";
                Opinion { error: Some(error.to_owned()), ..Opinion::deny(reason) }
            }
            (true, false) => Opinion::deny(reason),
            (false, true) => Opinion { reason, ..Opinion::allow() },
            (false, false) => Opinion::none(reason),
        }
    }

    async fn ask(&self, spec: &Value, canonical: &[u8]) -> Result<Status, String> {
        let WebhookConfig { name, version, backoff, .. } = &self.config;
        let body = version.request(spec, canonical);
        let answer = backoff.call(async || {
            let started = Stopwatch::start();
            let answer = self.call(body.clone()).await;
            self.metrics.webhook(name, result(&answer), started.elapsed());
            answer
        });
        let answer = answer.await;
        let mut result = result(&answer);
        let status = answer.map_err(|error| error.to_string()).and_then(|answer| {
            result = "error";
            version.status(&answer)
        });
        if status.is_err() && self.config.on_error == Decision::NoOpinion {
            self.metrics.fail_open.with(&[name, result]).increment();
        }
        status
    }

    async fn call(&self, body: Bytes) -> Result<Bytes, Error> {
        succeeded(self.client.post_json("", body, self.config.timeout).await?)
    }

    fn remember(&self, asked: &Attributes<'_>, key: CacheKey, status: &Status) {
        let ttl = match status.allowed {
            true => self.config.authorized_ttl,
            false => self.config.unauthorized_ttl,
        };
        if !ttl.is_zero() && controlled(asked) < MAX_CONTROLLED {
            self.answers.put(key, status.clone(), ttl);
        }
    }

    fn failed(&self, error: String) -> Opinion {
        tracing::error!(
            webhook = self.config.name,
            error,
            "Failed to make webhook authorizer request"
        );
        Opinion { decision: self.config.on_error, reason: String::new(), error: Some(error) }
    }
}

impl Authorizer for Webhook {
    fn authorize<'a>(&'a self, attributes: &'a Attributes<'a>) -> Pending<'a, Opinion> {
        Box::pin(self.decide(attributes))
    }

    fn rules_for(&self, _: &User, _: &str) -> Rules {
        Rules::unknown("webhook authorizer does not support user rule resolution")
    }
}

fn result(answer: &Result<Bytes, Error>) -> &'static str {
    match answer {
        Ok(_) => "success",
        Err(Error::Timeout { .. }) => "timeout",
        Err(Error::Status { code, .. }) if code.as_u16() == 504 => "timeout",
        Err(_) => "error",
    }
}

fn controlled(asked: &Attributes<'_>) -> usize {
    let Attributes { namespace, verb, group, version, resource, subresource, name, path, .. } =
        asked;
    let texts = [namespace, verb, group, version, resource, subresource, name, path];
    texts.into_iter().map(|text| text.len()).sum()
}
