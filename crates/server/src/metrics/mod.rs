//! Metrics of the server, by the reference's names and labels.
//!
//! Recording costs a few atomic operations, and a look-up under a read lock where labels are not known before.
//! [`Metrics`] is one server's; `/metrics` exports it.

mod about;
mod allowed;
mod family;
mod hidden;
mod in_flight;
pub mod labels;
mod process;
mod requests;
mod shared;
mod slis;
mod text;
mod watch_events;

use std::sync::{Arc, Mutex, PoisonError};

use kevel_clock::Clock;

pub use about::MetricDescription;
pub use allowed::MetricsOptions;
pub use family::{Description, Family, Metric};
use hidden::ShownFamily;
pub use in_flight::InFlightWatermark;
pub use kevel_component::metrics::{Counter, FloatGauge, Gauge, Histogram};
pub use kevel_component::summary::QuantileSummary;
pub use process::start_time;
pub use requests::{BodySizes, Series};
pub use shared::{AGGREGATIONS, OF_AGGREGATED, OF_WEBHOOKS, REST_CLIENT, RestCall};
pub use slis::Slis;
pub use text::Text;
pub use watch_events::WatchEvents;

/// The metrics of a server.
pub struct Metrics {
    /// Clock of the server, for gauges that show a time.
    pub clock: Clock,
    options: MetricsOptions,
    /// Values of labels that were not allowed.
    unexpected: Arc<Counter>,
    families: Mutex<Vec<Arc<dyn family::Show>>>,
    /// Functions that set gauges before a scrape.
    publishers: Mutex<Vec<Arc<dyn Fn() + Send + Sync>>>,
    seen: requests::Seen,
    request_total: Arc<Family<Counter>>,
    request_duration: Arc<Family<Histogram>>,
    request_sli_duration: Arc<Family<Histogram>>,
    response_sizes: Arc<Family<Histogram>>,
    longrunning_requests: Arc<Family<Gauge>>,
    request_terminations: Arc<Family<Counter>>,
    request_aborts: Arc<Family<Counter>>,
    requested_deprecated_apis: Arc<Family<Gauge>>,
    /// Time in a filter, by its name.
    pub filter_duration: Arc<Family<Histogram>>,
    watch_events: Arc<Family<Counter>>,
    watch_events_sizes: Arc<Family<Histogram>>,
    watch_list_duration: Arc<Family<Histogram>>,
    request_body_sizes: Arc<Family<Histogram>>,
    field_validation: Arc<Family<Histogram>>,
    self_requests: Arc<Family<Counter>>,
    /// Running read-only requests.
    pub read_only_in_flight: InFlightWatermark,
    /// Running mutating requests.
    pub mutating_in_flight: InFlightWatermark,
    /// Queued read-only requests.
    pub read_only_in_queue: InFlightWatermark,
    /// Queued mutating requests.
    pub mutating_in_queue: InFlightWatermark,
    /// Requests by user, with a few well-known names.
    pub authenticated_user_requests: Arc<Family<Counter>>,
    /// Authentications by result: `success`, `failure`, `error`.
    pub authentication_attempts: Arc<Family<Counter>>,
    /// Duration of authentication by result.
    pub authentication_duration: Arc<Family<Histogram>>,
    /// Authorizations by result: `allowed`, `denied`, `no-opinion`, `error`.
    pub authorization_attempts: Arc<Family<Counter>>,
    /// Duration of authorization by result.
    pub authorization_duration: Arc<Family<Histogram>>,
    /// Failed TLS handshakes.
    pub tls_handshake_errors: Arc<Counter>,
}

impl std::fmt::Debug for Metrics {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Metrics")
    }
}

const REQUEST: [&str; 7] =
    ["verb", "group", "version", "resource", "subresource", "scope", "component"];
const REQUEST_DRY_RUN: [&str; 8] =
    ["verb", "dry_run", "group", "version", "resource", "subresource", "scope", "component"];
const REQUEST_CODE: [&str; 8] =
    ["verb", "group", "version", "resource", "subresource", "scope", "component", "code"];
const REQUEST_DRY_RUN_CODE: [&str; 9] = [
    "verb",
    "dry_run",
    "group",
    "version",
    "resource",
    "subresource",
    "scope",
    "component",
    "code",
];

const SECONDS: &[f64] = &[
    0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0,
    10.0, 15.0, 20.0, 30.0, 45.0, 60.0,
];
const SLI_SECONDS: &[f64] = SECONDS.split_at(2).1;
const FILTER_SECONDS: &[f64] =
    &[0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 5.0, 10.0, 15.0, 30.0];
const AUTH_SECONDS: &[f64] = &[
    0.001, 0.002, 0.004, 0.008, 0.016, 0.032, 0.064, 0.128, 0.256, 0.512, 1.024, 2.048, 4.096,
    8.192, 16.384,
];
const ANSWER_BYTES: &[f64] = &[1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9];
const WATCH_LIST_SECONDS: &[f64] =
    &[0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 2.0, 4.0, 6.0, 8.0, 10.0, 15.0, 20.0, 30.0, 45.0, 60.0];
/// From 50 kB in steps of 100 kB, above the largest body.
const BODY_BYTES: &[f64] = &[
    5e4, 1.5e5, 2.5e5, 3.5e5, 4.5e5, 5.5e5, 6.5e5, 7.5e5, 8.5e5, 9.5e5, 1.05e6, 1.15e6, 1.25e6,
    1.35e6, 1.45e6, 1.55e6, 1.65e6, 1.75e6, 1.85e6, 1.95e6, 2.05e6, 2.15e6, 2.25e6, 2.35e6, 2.45e6,
    2.55e6, 2.65e6, 2.75e6, 2.85e6, 2.95e6, 3.05e6,
];
const EVENT_BYTES: &[f64] = &[1024.0, 2048.0, 4096.0, 8192.0, 16384.0, 32768.0, 65536.0, 131_072.0];

impl Default for Metrics {
    fn default() -> Self {
        Metrics::new(Clock::system(), MetricsOptions::default())
    }
}

impl Metrics {
    /// Metrics of a server with this clock.
    pub fn new(clock: Clock, options: MetricsOptions) -> Self {
        let unexpected = Family::new(UNEXPECTED, Counter::default);
        let counter = unexpected.with(&[]);
        let mut all = Families { all: vec![Arc::new(unexpected)], options, unexpected: counter };
        let in_flight = all.gauge(
            "apiserver_current_inflight_requests",
            "[STABLE] Most requests at a time within the last second, by request kind.",
            &["request_kind"],
        );
        let in_queue = all.gauge(
            "apiserver_current_inqueue_requests",
            "[ALPHA] Most requests in queues at a time within the last second, by request kind.",
            &["request_kind"],
        );
        let tls_handshake_errors = all.counter(
            "apiserver_tls_handshake_errors_total",
            "[ALPHA] TLS handshakes that failed.",
            &[],
        );
        let metrics = Metrics {
            request_total: all.counter(
                "apiserver_request_total",
                "[STABLE] Served requests, by verb, resource and response code.",
                &REQUEST_DRY_RUN_CODE,
            ),
            request_duration: all.histogram(
                "apiserver_request_duration_seconds",
                "[STABLE] Seconds to the end of the response.",
                &REQUEST_DRY_RUN,
                SECONDS,
            ),
            request_sli_duration: all.histogram(
                "apiserver_request_sli_duration_seconds",
                "[ALPHA] Seconds to the end of the response, without webhooks and queues.",
                &REQUEST,
                SLI_SECONDS,
            ),
            response_sizes: all.histogram(
                "apiserver_response_sizes",
                "[STABLE] Size of responses to GET and LIST in bytes.",
                &REQUEST,
                ANSWER_BYTES,
            ),
            longrunning_requests: all.gauge(
                "apiserver_longrunning_requests",
                "[STABLE] Long-running requests in progress.",
                &REQUEST,
            ),
            request_terminations: all.counter(
                "apiserver_request_terminations_total",
                "[ALPHA] Requests that the server terminated to protect itself.",
                &REQUEST_CODE,
            ),
            requested_deprecated_apis: all.gauge(
                "apiserver_requested_deprecated_apis",
                "[STABLE] Deprecated APIs that were asked for, by group, version, resource, \
                 subresource and the release without them.",
                &["group", "version", "resource", "subresource", "removed_release"],
            ),
            request_aborts: all.counter(
                "apiserver_request_aborts_total",
                "[ALPHA] Requests whose response was aborted.",
                &REQUEST[..6],
            ),
            filter_duration: all.histogram(
                "apiserver_request_filter_duration_seconds",
                "[ALPHA] Seconds in a filter of the handler chain.",
                &["filter"],
                FILTER_SECONDS,
            ),
            watch_events: all.counter(
                "apiserver_watch_events_total",
                "[ALPHA] Events sent to watches.",
                &["group", "version", "resource"],
            ),
            watch_events_sizes: all.histogram(
                "apiserver_watch_events_sizes",
                "[ALPHA] Bytes of events sent to watches.",
                &["group", "version", "resource"],
                EVENT_BYTES,
            ),
            watch_list_duration: all.histogram(
                "apiserver_watch_list_duration_seconds",
                "[BETA] Seconds until a watch has sent the state that it begins with.",
                &["group", "version", "resource", "scope"],
                WATCH_LIST_SECONDS,
            ),
            request_body_sizes: all.histogram(
                "apiserver_request_body_size_bytes",
                "[ALPHA] Bytes of the bodies of writes, by resource and verb.",
                &["group", "resource", "verb"],
                BODY_BYTES,
            ),
            field_validation: all.histogram(
                "field_validation_request_duration_seconds",
                "[ALPHA] Seconds to the end of the answer to a write, by its fieldValidation.",
                &["field_validation"],
                SLI_SECONDS,
            ),
            self_requests: all.counter(
                "apiserver_selfrequest_total",
                "[ALPHA] Requests of the server to itself, by what was asked for.",
                &["verb", "group", "resource", "subresource"],
            ),
            read_only_in_flight: InFlightWatermark::new(in_flight.with(&["readOnly"])),
            mutating_in_flight: InFlightWatermark::new(in_flight.with(&["mutating"])),
            read_only_in_queue: InFlightWatermark::new(in_queue.with(&["readOnly"])),
            mutating_in_queue: InFlightWatermark::new(in_queue.with(&["mutating"])),
            authenticated_user_requests: all.counter(
                "authenticated_user_requests",
                "[ALPHA] Authenticated requests, by a few user names.",
                &["username"],
            ),
            authentication_attempts: all.counter(
                "authentication_attempts",
                "[ALPHA] Authentication attempts, by result.",
                &["result"],
            ),
            authentication_duration: all.histogram(
                "authentication_duration_seconds",
                "[ALPHA] Seconds of authentication, by result.",
                &["result"],
                AUTH_SECONDS,
            ),
            authorization_attempts: all.counter(
                "authorization_attempts_total",
                "[ALPHA] Authorization decisions, by result.",
                &["result"],
            ),
            authorization_duration: all.histogram(
                "authorization_duration_seconds",
                "[ALPHA] Seconds of an authorization decision, by result.",
                &["result"],
                AUTH_SECONDS,
            ),
            tls_handshake_errors: tls_handshake_errors.with(&[]),
            seen: requests::Seen::default(),
            clock,
            families: Mutex::new(all.all),
            publishers: Mutex::default(),
            options: all.options,
            unexpected: all.unexpected,
        };
        shared::show_in(&metrics);
        metrics
    }

    /// Registers a counter.
    pub fn counter(&self, description: Description) -> Arc<Family<Counter>> {
        self.add(Family::new(description, Counter::default))
    }

    /// Registers a gauge.
    pub fn gauge(&self, description: Description) -> Arc<Family<Gauge>> {
        self.add(Family::new(description, Gauge::default))
    }

    /// Registers a histogram with these upper bounds.
    pub fn histogram(
        &self,
        description: Description,
        bounds: &'static [f64],
    ) -> Arc<Family<Histogram>> {
        self.add(Family::new(description, move || Histogram::new(bounds)))
    }

    /// Registers metrics of a custom type.
    pub fn family<M: Metric>(
        &self,
        description: Description,
        make: impl Fn() -> M + Send + Sync + 'static,
    ) -> Arc<Family<M>> {
        self.add(Family::new(description, make))
    }

    /// Registers a function that sets gauges before each scrape.
    pub fn before_show(&self, publish: impl Fn() + Send + Sync + 'static) {
        let mut publishers = self.publishers.lock().unwrap_or_else(PoisonError::into_inner);
        publishers.push(Arc::new(publish));
    }

    fn add<M: Metric>(&self, family: Family<M>) -> Arc<Family<M>> {
        let family = Arc::new(family);
        self.share(family.clone());
        family
    }

    /// Shows a family that other servers of the process may show as well.
    pub fn share<M: Metric>(&self, family: Arc<Family<M>>) {
        family.limit(&self.options, &self.unexpected);
        let mut families = self.families.lock().unwrap_or_else(PoisonError::into_inner);
        families.push(family);
    }

    /// All metrics as text.
    pub fn show(&self) -> String {
        self.read_only_in_flight.publish();
        self.mutating_in_flight.publish();
        self.read_only_in_queue.publish();
        self.mutating_in_queue.publish();
        let publishers = self.publishers.lock().unwrap_or_else(PoisonError::into_inner).clone();
        publishers.iter().for_each(|publish| publish());
        let families = self.families.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let mut shown: Vec<_> = families.iter().flat_map(hidden::names_of).collect();
        shown.retain(|shown| self.shows(shown.description));
        shown.sort_by_key(|shown| shown.description.name);
        let mut text = Text::default();
        for ShownFamily { family, description, kind } in &shown {
            family.show_as(description, kind, &mut text);
        }
        self.show_about(&shown, &mut text);
        process::show(&mut text, &self.options.disabled);
        text.into_string()
    }
}

/// Counter of label values that were not allowed.
const UNEXPECTED: Description = Description {
    name: "cardinality_enforcement_unexpected_categorizations_total",
    help: "[ALPHA] Label values that were replaced by `unexpected`: see --allow-metric-labels.",
    labels: &[],
};

/// Families while they are created.
struct Families {
    all: Vec<Arc<dyn family::Show>>,
    options: MetricsOptions,
    unexpected: Arc<Counter>,
}

impl Families {
    fn counter(
        &mut self,
        name: &'static str,
        help: &'static str,
        labels: &'static [&'static str],
    ) -> Arc<Family<Counter>> {
        self.add(Family::new(Description { name, help, labels }, Counter::default))
    }

    fn gauge(
        &mut self,
        name: &'static str,
        help: &'static str,
        labels: &'static [&'static str],
    ) -> Arc<Family<Gauge>> {
        self.add(Family::new(Description { name, help, labels }, Gauge::default))
    }

    fn histogram(
        &mut self,
        name: &'static str,
        help: &'static str,
        labels: &'static [&'static str],
        bounds: &'static [f64],
    ) -> Arc<Family<Histogram>> {
        self.add(Family::new(Description { name, help, labels }, move || Histogram::new(bounds)))
    }

    fn add<M: Metric>(&mut self, family: Family<M>) -> Arc<Family<M>> {
        family.limit(&self.options, &self.unexpected);
        let family = Arc::new(family);
        self.all.push(family.clone());
        family
    }
}
