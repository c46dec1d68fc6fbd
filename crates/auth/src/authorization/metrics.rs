//! Metrics of authorizers, with the reference's names.

use std::sync::Arc;
use std::time::Duration;

use kevel_component::future::Pending;
use kevel_registry::user::User;
use kevel_server::authorization::{Attributes, Authorizer, Decision, Opinion, Rules};
use kevel_server::metrics::{Counter, Description, Family, Histogram, Metrics};

use kevel_server::config_file::Reloads;

const SECONDS: &[f64] = &[0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];
const MATCH_SECONDS: &[f64] = &[0.001, 0.005, 0.01, 0.025, 0.1, 0.2, 0.25];

/// The metrics of a server's authorizers.
#[derive(Debug)]
pub struct AuthorizationMetrics {
    /// Decisions, by type, name, and decision (`allowed`, `denied`).
    pub decisions: Arc<Family<Counter>>,
    webhook_evaluations: Arc<Family<Counter>>,
    webhook_duration: Arc<Family<Histogram>>,
    /// Failed webhook calls with failure policy `NoOpinion`, by the webhook's name and result.
    pub fail_open: Arc<Family<Counter>>,
    /// Errors of match conditions, by type and name.
    pub match_errors: Arc<Family<Counter>>,
    /// Requests excluded by match conditions, by type and name.
    pub match_exclusions: Arc<Family<Counter>>,
    /// Duration of match conditions, by type and name.
    pub match_duration: Arc<Family<Histogram>>,
    /// Reloads of the configuration file.
    pub(super) reloads: Reloads,
}

impl AuthorizationMetrics {
    /// Registers the metrics of a server with this ID.
    pub fn new(metrics: &Metrics, server_id: &str) -> Self {
        let describe = |name, help, labels| Description { name, help, labels };
        AuthorizationMetrics {
            decisions: metrics.counter(describe(
                "apiserver_authorization_decisions_total",
                "[ALPHA] Decisions of authorizers that allowed or denied a request.",
                &["type", "name", "decision"],
            )),
            webhook_evaluations: metrics.counter(describe(
                "apiserver_authorization_webhook_evaluations_total",
                "[ALPHA] Calls of authorization webhooks, by result.",
                &["name", "result"],
            )),
            webhook_duration: metrics.histogram(
                describe(
                    "apiserver_authorization_webhook_duration_seconds",
                    "[ALPHA] Seconds that calls of authorization webhooks took, by result.",
                    &["name", "result"],
                ),
                SECONDS,
            ),
            fail_open: metrics.counter(describe(
                "apiserver_authorization_webhook_evaluations_fail_open_total",
                "[ALPHA] Calls of authorization webhooks that failed without a decision.",
                &["name", "result"],
            )),
            match_errors: metrics.counter(describe(
                "apiserver_authorization_match_condition_evaluation_errors_total",
                "[ALPHA] Match conditions that could not be evaluated.",
                &["type", "name"],
            )),
            match_exclusions: metrics.counter(describe(
                "apiserver_authorization_match_condition_exclusions_total",
                "[ALPHA] Authorization webhooks that were not called because of their match conditions.",
                &["type", "name"],
            )),
            match_duration: metrics.histogram(
                describe(
                    "apiserver_authorization_match_condition_evaluation_seconds",
                    "[ALPHA] Seconds that match conditions took.",
                    &["type", "name"],
                ),
                MATCH_SECONDS,
            ),
            reloads: Reloads::authorization(metrics, server_id),
        }
    }

    /// Records a call of a webhook.
    pub(super) fn webhook(&self, name: &str, result: &str, took: Duration) {
        self.webhook_evaluations.with(&[name, result]).increment();
        self.webhook_duration.with(&[name, result]).observe(took.as_secs_f64());
    }
}

/// Authorizer that counts decisions.
pub(super) struct Instrumented {
    authorizer: Arc<dyn Authorizer>,
    allowed: Arc<Counter>,
    denied: Arc<Counter>,
}

impl Instrumented {
    pub fn new(
        authorizer: Arc<dyn Authorizer>,
        kind: &str,
        name: &str,
        metrics: &AuthorizationMetrics,
    ) -> Self {
        let [allowed, denied] =
            ["allowed", "denied"].map(|decision| metrics.decisions.with(&[kind, name, decision]));
        Instrumented { authorizer, allowed, denied }
    }
}

impl Authorizer for Instrumented {
    fn authorize<'a>(&'a self, attributes: &'a Attributes<'a>) -> Pending<'a, Opinion> {
        Box::pin(async move {
            let opinion = self.authorizer.authorize(attributes).await;
            match opinion.decision {
                Decision::Allow => self.allowed.increment(),
                Decision::Deny => self.denied.increment(),
                Decision::NoOpinion => {}
            }
            opinion
        })
    }

    fn rules_for(&self, user: &User, namespace: &str) -> Rules {
        self.authorizer.rules_for(user, namespace)
    }
}
