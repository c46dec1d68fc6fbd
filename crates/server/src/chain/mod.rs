//! The handler chain: what every request passes on its way to the server that knows its path.
//!
//! [`build`] says it all. A filter that has nothing to do with a request passes it on at the cost
//! of a call.

mod attempts;
mod audit;
mod audit_init;
mod authentication;
mod authorization;
mod cache_control;
mod compute_budget;
mod cors;
mod goaway;
mod held;
mod hsts;
mod http_logging;
mod impersonation;
mod instrument;
mod internal;
mod latency_trackers;
mod leaving;
mod long_running;
mod max_in_flight;
mod mux_and_discovery;
mod own_requests;
mod panic_recovery;
mod plain;
mod priority_and_fairness;
mod request_deadline;
mod request_info;
mod retry_after;
mod spans;
mod timeout;
mod too_many_requests;
mod wait_group;
mod warning;
mod watch_termination;

use std::sync::Arc;
use std::time::Duration;

use kevel_regexp::Regexp;
use kevel_trace::TraceProvider;

pub use cors::origins as cors_origins;
pub use internal::internal;
pub use long_running::is_long_running;
pub use mux_and_discovery::MuxAndDiscoveryIncomplete;

pub(crate) use audit_init::logged;
pub(crate) use held::{Hold, hold};

use crate::audit::Auditor;
use crate::authentication::Authenticator;
use crate::authorization::Authorizer;
use crate::flowcontrol::{FlowControl, NoFacts, ResourceFacts};
use crate::handler::{Filter, Filtered, Handler};
use crate::lifecycle::{Lifecycle, RequestGroup};
use crate::metrics::Metrics;
use crate::request_info::RequestInfo;
use kevel_component::signals::Signals;

/// Builds the chain before `handler`, in the order in which a request passes it (upstream: `BuildHandlerChain`,
/// `DefaultBuildHandlerChain`).
pub fn build(config: Config, handler: Arc<dyn Handler>) -> Arc<dyn Handler> {
    let Config { authenticator, authorizer, audit, metrics, installed, .. } = config;
    let Config { signals, requests, watches, send_retry_after, goaway_chance, .. } = config;
    let tracer = config.tracer;
    let span = |name| spans::FilterSpan::of(tracer.as_ref(), name);
    let mut chain = Chain::default();
    // First, so that every response, whatever becomes of the request, can be found in the audit log.
    chain.push(audit_init::AuditInit::new(audit.clone()));
    // Around all that follows: a panic anywhere in it is one request's.
    chain.push(panic_recovery::PanicRecovery::new());
    // Looks at the time of arrival, before anything that could wait.
    let complete = signals.mux_and_discovery_complete;
    chain.push(mux_and_discovery::MuxAndDiscoveryComplete(complete));
    // What the path says is in the request from the start, as is its time of arrival.
    chain.push(request_info::WithRequestInfo);
    // Before all that adds to them or reads them.
    chain.push(latency_trackers::WithLatencyTrackers);
    // Around all that responds from here on, so that refused requests are logged, too.
    chain.push(http_logging::HttpLogging);
    // Before anything is done for a request that will not be served.
    let not_accepting = signals.not_accepting_new_request;
    chain.push_if(send_retry_after.then_some(retry_after::RetryAfter(not_accepting)));
    // Around all responses: each may be the last of its connection.
    chain.push(leaving::Leaving(signals.leaving));
    // On all responses.
    chain.push_if(hsts::Hsts::new(&config.hsts_directives));
    // The same; what an endpoint says about caches counts more.
    chain.push(cache_control::CacheControl);
    // Whatever the response is, its connection may be the one to end.
    chain.push_if((goaway_chance > 0.0).then(|| goaway::ProbabilisticGoaway::new(goaway_chance)));
    // Outside of all that takes time: the server does not go before they are through.
    chain.push(watch_termination::WatchTermination(watches));
    chain.push(wait_group::WaitGroup(requests));
    // Before what enforces it.
    let maximum = config.request_timeout;
    chain.push(request_deadline::RequestDeadline { maximum });
    // Around all that may take long, authentication by a webhook among it.
    chain.push(timeout::Timeout);
    // Inside of the timeout, which must not wait for what is computed; around all that computes.
    chain.push(compute_budget::ComputeBudget);
    // Inside of the timeout, whose response has no warnings.
    chain.push(warning::WarningRecorder);
    // Before authentication: preflight requests have no credentials.
    let origins = config.cors_allowed_origins;
    chain.push_if((!origins.is_empty()).then_some(cors::Cors(origins)));
    // Authenticates the request: from here on it has a user.
    let ends = config.ends_unauthenticated_connections;
    chain.push_if(span("authentication"));
    chain.push(authentication::Authentication::new(authenticator, &metrics, ends));
    // After authentication: anonymous clients do not decide what is traced.
    chain.push(spans::Tracing(tracer.clone()));
    // Needs the user; sees what impersonation, limits and authorization say.
    chain.push_if(span("audit"));
    chain.push_if(audit.map(|_| audit::WithAudit));
    // Before all that treats users differently.
    let (to_impersonate, metrics_of) = (authorizer.clone(), metrics.clone());
    chain.push_if(span(match config.constrained_impersonation {
        true => "constrainedimpersonation",
        false => "impersonation",
    }));
    chain.push(impersonation::Impersonation {
        authorizer: to_impersonate,
        metrics: metrics_of,
        constrained: config.constrained_impersonation,
    });
    // After impersonation, whose user counts; before authorization, which may call webhooks.
    chain.push_if(config.flow_control.is_some().then(|| span("priorityandfairness")).flatten());
    match config.flow_control {
        Some(flow_control) => chain.push(priority_and_fairness::PriorityAndFairness {
            flow_control,
            resources: config.resources,
            default_wait: config.request_timeout / 4,
            metrics: metrics.clone(),
            installed: installed.clone(),
            duration: metrics.filter_duration.with(&["priorityandfairness"]),
        }),
        None => chain.push(max_in_flight::MaxInFlight {
            read_only: config.max_requests_in_flight,
            mutating: config.max_mutating_requests_in_flight,
            metrics: metrics.clone(),
            installed: installed.clone(),
        }),
    }
    // The last filter that refuses.
    chain.push_if(span("authorization"));
    chain.push(authorization::Authorization::new(authorizer, &metrics));
    // Innermost of all that refuses: it knows resources, and who may not write is not told about them.
    chain.push_if(config.storage_versions);
    // After every filter that refuses: the request is proxied as its final user, and the peer counts it.
    chain.push_if(config.peer_proxy);
    // Counts what is served.
    chain.push(instrument::Instrument { metrics, installed });
    chain.before(handler)
}

/// Whether there is such a resource, subresource included.
pub type Installed = Arc<dyn Fn(&RequestInfo) -> bool + Send + Sync>;

/// Parts that the chain is built from.
pub struct Config {
    /// Authenticates requests.
    pub authenticator: Arc<dyn Authenticator>,
    /// Authorizes requests.
    pub authorizer: Arc<dyn Authorizer>,
    /// The auditor, if there is an audit policy.
    pub audit: Option<Arc<Auditor>>,
    /// The metrics of requests.
    pub metrics: Arc<Metrics>,
    /// The recorder of spans, if they are recorded (`--tracing-config-file`).
    pub tracer: Option<TraceProvider>,
    /// Names of existing resources, for labels of metrics: clients may invent names.
    pub installed: Installed,
    /// Lifecycle signals of the server.
    pub signals: Signals,
    /// Requests to be waited for when the server stops.
    pub requests: RequestGroup,
    /// Watches to be ended when the server stops.
    pub watches: RequestGroup,
    /// `--shutdown-send-retry-after`
    pub send_retry_after: bool,
    /// `--strict-transport-security-directives`
    pub hsts_directives: Vec<String>,
    /// `--goaway-chance`
    pub goaway_chance: f64,
    /// `--request-timeout`
    pub request_timeout: Duration,
    /// `--cors-allowed-origins`; see [`cors_origins`].
    pub cors_allowed_origins: Vec<Regexp>,
    /// Priority and fairness; `None` for max-in-flight.
    pub flow_control: Option<Arc<FlowControl>>,
    /// Object counts of resources, for work estimates.
    pub resources: Arc<dyn ResourceFacts>,
    /// Failed and anonymous requests end their HTTP/2 connection (`UnauthenticatedHTTP2DOSMitigation`).
    pub ends_unauthenticated_connections: bool,
    /// Impersonation may be permitted for some requests only (`ConstrainedImpersonation`).
    pub constrained_impersonation: bool,
    /// Refuses writes until the storage versions of this server are published to its peers.
    pub storage_versions: Option<Arc<dyn Filter>>,
    /// Proxies requests for resources that only a peer serves.
    pub peer_proxy: Option<Arc<dyn Filter>>,
    /// `--max-requests-inflight`; 0 is no limit.
    pub max_requests_in_flight: usize,
    /// `--max-mutating-requests-inflight`; 0 is no limit.
    pub max_mutating_requests_in_flight: usize,
}

impl std::fmt::Debug for Config {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Config").finish_non_exhaustive()
    }
}

impl Config {
    /// Configuration of the reference without flags.
    pub fn new(
        lifecycle: &Lifecycle,
        authenticator: Arc<dyn Authenticator>,
        authorizer: Arc<dyn Authorizer>,
    ) -> Self {
        Config {
            authenticator,
            authorizer,
            audit: None,
            metrics: Arc::default(),
            tracer: None,
            installed: Arc::new(|_| false),
            signals: lifecycle.signals.clone(),
            requests: lifecycle.requests.clone(),
            watches: lifecycle.watches.clone(),
            send_retry_after: false,
            hsts_directives: Vec::new(),
            goaway_chance: 0.0,
            request_timeout: Duration::from_secs(60),
            cors_allowed_origins: Vec::new(),
            flow_control: None,
            resources: Arc::new(NoFacts),
            ends_unauthenticated_connections: true,
            constrained_impersonation: true,
            storage_versions: None,
            peer_proxy: None,
            max_requests_in_flight: 400,
            max_mutating_requests_in_flight: 200,
        }
    }
}

/// Plain paths that are counted by their names.
fn is_instrumented_path(path: &str) -> bool {
    const PATHS: [&str; 5] = ["/healthz", "/livez", "/readyz", "/openapi/v2", "/openapi/v3"];
    PATHS.contains(&path)
}

/// Filters, in the order in which a request passes them.
#[derive(Default)]
pub struct Chain(Vec<Link>);

type Link = Box<dyn FnOnce(Arc<dyn Handler>) -> Arc<dyn Handler>>;

impl std::fmt::Debug for Chain {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Chain of {} filters", self.0.len())
    }
}

impl Chain {
    /// Adds a filter behind the others.
    pub fn push(&mut self, filter: impl Filter) {
        self.0.push(Box::new(|next| Arc::new(Filtered::new(filter, next))));
    }

    /// Adds a filter if there is one.
    pub fn push_if(&mut self, filter: Option<impl Filter>) {
        filter.into_iter().for_each(|filter| self.push(filter));
    }

    /// The filters before a handler.
    pub fn before(self, handler: Arc<dyn Handler>) -> Arc<dyn Handler> {
        self.0.into_iter().rev().fold(handler, |next, link| link(next))
    }
}
