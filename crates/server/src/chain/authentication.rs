//! Authentication of requests (upstream: `WithAuthentication`).

use std::sync::Arc;

use http::{HeaderMap, Version, header};
use kevel_api::status::StatusError;
use kevel_clock::Stopwatch;
use kevel_compute::ComputeFlow;

use super::attempts::{Attempts, Recorded};
use super::audit;
use super::plain;
use crate::authentication::Authenticator;
use crate::handler::{Filter, Handler, Response};
use crate::latency_trackers::LatencyTrackers;
use crate::metrics::{Counter, Family, Metrics};
use crate::request::Request;
use crate::responses::failure_to;
use kevel_component::future::Pending;
use kevel_registry::latency::Phase;
use kevel_registry::user::{ALL_UNAUTHENTICATED, ANONYMOUS, User};

/// Headers of the front proxy (`--requestheader-*`) that are removed after authentication.
const FRONT_PROXY: [&str; 3] = ["x-remote-user", "x-remote-uid", "x-remote-group"];
const FRONT_PROXY_EXTRA: &str = "x-remote-extra-";

/// Authenticates the request, or responds 401.
pub(super) struct Authentication {
    authenticator: Arc<dyn Authenticator>,
    users: Arc<Family<Counter>>,
    attempts: Attempts<3>,
    ends_unauthenticated: bool,
}

impl Authentication {
    /// `ends_unauthenticated`: a failed or anonymous request ends its HTTP/2 connection.
    pub(super) fn new(
        authenticator: Arc<dyn Authenticator>,
        metrics: &Metrics,
        ends_unauthenticated: bool,
    ) -> Self {
        let attempts = Attempts {
            filter: metrics.filter_duration.with(&["authentication"]),
            total: metrics.authentication_attempts.clone(),
            duration: metrics.authentication_duration.clone(),
            results: ["success", "failure", "error"].map(|result| (result, Recorded::new())),
        };
        let users = metrics.authenticated_user_requests.clone();
        Authentication { authenticator, users, attempts, ends_unauthenticated }
    }
}

impl Filter for Authentication {
    fn filter<'a>(&'a self, mut request: Request, next: &'a dyn Handler) -> Pending<'a, Response> {
        Box::pin(async move {
            let started = Stopwatch::start();
            let found = self.authenticator.authenticate(&mut request).await;
            let result = match &found {
                Ok(Some(_)) => "success",
                Ok(None) => "failure",
                Err(_) => "error",
            };
            let took = self.attempts.record(result, started);
            LatencyTrackers::add_to(&request, Phase::Authentication, took);
            let http2 = request.parts.version == Version::HTTP_2;
            let (mut response, unknown) = match found {
                Ok(Some(user)) => {
                    let name = compressed(&user.name);
                    self.users.with(&[name]).increment();
                    forget_credentials(&mut request.parts.headers);
                    let unknown = is_anonymous(&user);
                    request.meter.set_flow(ComputeFlow::of(&user.name));
                    request.user = Some(user);
                    (next.handle(request).await, unknown)
                }
                other => {
                    if let Err(error) = other {
                        tracing::error!(err = %error, "Unable to authenticate the request");
                    }
                    let unauthorized = StatusError::unauthorized("Unauthorized");
                    let response = failure_to(&request, unauthorized);
                    let audited = audit::failed(&request, &response);
                    drop(request);
                    audited.await;
                    (response, true)
                }
            };
            if http2 && unknown && self.ends_unauthenticated {
                // A failed anonymous request ends its HTTP/2 connection, so that each attempt costs the client a
                // handshake.
                response.headers_mut().insert(header::CONNECTION, plain::CLOSE);
            }
            response
        })
    }
}

fn forget_credentials(headers: &mut HeaderMap) {
    headers.remove(header::AUTHORIZATION);
    for name in FRONT_PROXY {
        headers.remove(name);
    }
    let extra = headers.keys().filter(|name| name.as_str().starts_with(FRONT_PROXY_EXTRA));
    let extra: Vec<_> = extra.cloned().collect();
    for name in extra {
        headers.remove(name);
    }
}

fn is_anonymous(user: &User) -> bool {
    user.name == ANONYMOUS || user.groups.iter().any(|group| group == ALL_UNAUTHENTICATED)
}

/// User name as a metric label: a few well-known names, so that metrics do not disclose users.
fn compressed(name: &str) -> &str {
    const KNOWN: [&str; 5] =
        ["admin", "client", "kube_proxy", "kubelet", "system:serviceaccount:kube-system:default"];
    match name {
        name if KNOWN.contains(&name) => name,
        name if name.contains('@') => "email_id",
        _ => "other",
    }
}
