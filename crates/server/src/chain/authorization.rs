//! Authorization of requests (upstream: `WithAuthorization`).

use std::sync::Arc;

use http::header;
use kevel_api::status::StatusError;
use kevel_clock::Stopwatch;
use kevel_compute::ComputeFlow;

use super::attempts::{Attempts, Recorded};
use super::plain;
use crate::authorization::{Attributes, Authorizer, Decision, Opinion, forbidden};
use crate::handler::{Filter, Handler, Response};
use crate::latency_trackers::LatencyTrackers;
use crate::metrics::Metrics;
use crate::request::Request;
use crate::responses::failure_to;
use kevel_component::future::Pending;
use kevel_registry::audit::AuditEvent as _;
use kevel_registry::latency::Phase;

const DECISION: &str = "authorization.k8s.io/decision";
const REASON: &str = "authorization.k8s.io/reason";

/// Passes allowed requests on, and responds 403 to others.
pub(super) struct Authorization {
    authorizer: Arc<dyn Authorizer>,
    attempts: Attempts<4>,
}

impl Authorization {
    pub(super) fn new(authorizer: Arc<dyn Authorizer>, metrics: &Metrics) -> Self {
        let results = ["allowed", "denied", "no-opinion", "error"];
        let attempts = Attempts {
            filter: metrics.filter_duration.with(&["authorization"]),
            total: metrics.authorization_attempts.clone(),
            duration: metrics.authorization_duration.clone(),
            results: results.map(|result| (result, Recorded::new())),
        };
        Authorization { authorizer, attempts }
    }
}

impl Filter for Authorization {
    fn filter<'a>(&'a self, request: Request, next: &'a dyn Handler) -> Pending<'a, Response> {
        Box::pin(async move {
            let Some(user) = &request.user else {
                return plain::internal_error(&request.parts.uri, "no user on request.");
            };
            // User after impersonation, as for priority and fairness.
            request.meter.set_flow(ComputeFlow::of(&user.name));
            let started = Stopwatch::start();
            let attributes = Attributes::of(&request.info, user);
            let opinion = self.authorizer.authorize(&attributes).await;
            let took = self.attempts.record(result(&opinion), started);
            LatencyTrackers::add_to(&request, Phase::Authorization, took);
            // An authorizer may allow a request and report an error, too.
            if opinion.decision == Decision::Allow {
                annotate_allowed(&request, &opinion.reason);
                return next.handle(request).await;
            }
            if let Some(error) = opinion.error {
                annotate(&request, &[(REASON, "internal error")]);
                return plain::internal_error(&request.parts.uri, &error);
            }
            tracing::debug!(URI = %request.parts.uri, reason = opinion.reason, "Forbidden");
            annotate(&request, &[(DECISION, "forbid"), (REASON, &opinion.reason)]);
            refused(&request, forbidden(&attributes, &opinion.reason))
        })
    }
}

fn result(opinion: &Opinion) -> &'static str {
    match (opinion.decision, &opinion.error) {
        (Decision::Allow, _) => "allowed",
        (_, Some(_)) => "error",
        (Decision::Deny, None) => "denied",
        (Decision::NoOpinion, None) => "no-opinion",
    }
}

/// Records in the audit event that the request is allowed, and the reason.
pub(super) fn annotate_allowed(request: &Request, reason: &str) {
    annotate(request, &[(DECISION, "allow"), (REASON, reason)]);
}

fn annotate(request: &Request, annotations: &[(&str, &str)]) {
    annotations.iter().for_each(|(key, value)| request.audit.annotate(key, value));
}

/// The response to a refused request. `nosniff`, since the message repeats text of the request.
pub(super) fn refused(request: &Request, error: StatusError) -> Response {
    let mut response = failure_to(request, error);
    response.headers_mut().insert(header::X_CONTENT_TYPE_OPTIONS, plain::NO_SNIFF);
    response
}
