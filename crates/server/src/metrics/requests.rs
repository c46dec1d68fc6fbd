//! Metrics of served requests, found by one look-up for each request.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use http::request::Parts;

use super::family::{Family, MAX_SERIES};
use super::{Metrics, labels};
use crate::request_info::RequestInfo;
use kevel_component::metrics::{Counter, Gauge, Histogram};

/// Name of the component in metrics.
pub(super) const COMPONENT: &str = "apiserver";

const SHARDS: usize = 16;

/// Known label sets of requests, each with all of its metrics.
#[derive(Debug, Default)]
pub(super) struct Seen {
    hasher: RandomState,
    shards: [RwLock<HashMap<String, Arc<Series>>>; SHARDS],
}

/// Metrics of requests with the same labels.
#[derive(Debug)]
pub struct Series {
    labels: Labels,
    total: Arc<Family<Counter>>,
    terminations: Arc<Family<Counter>>,
    aborts: Arc<Family<Counter>>,
    deprecated: Arc<Family<Gauge>>,
    by_code: RwLock<Vec<(u16, Arc<Counter>)>>,
    duration: Arc<Histogram>,
    /// `None` for dry runs, which are not part of the SLI.
    sli_duration: Option<Arc<Histogram>>,
    response_sizes: Option<Arc<Histogram>>,
    long_running: Arc<Gauge>,
    /// Sizes of bodies, for writes.
    body_sizes: Option<Arc<Histogram>>,
}

/// Sizes of the bodies of a request's resource and verb, a request extension.
#[derive(Clone, Debug)]
pub struct BodySizes(pub(crate) Arc<Histogram>);

impl BodySizes {
    /// Records the body of a request, if it is counted.
    pub fn record(request: &Parts, bytes: usize) {
        if let Some(BodySizes(sizes)) = request.extensions.get() {
            sizes.observe(bytes as f64);
        }
    }
}

#[derive(Clone, Debug)]
struct Labels {
    verb: &'static str,
    dry_run: &'static str,
    group: String,
    version: String,
    resource: String,
    subresource: String,
    scope: &'static str,
}

impl Series {
    /// Records an answered request. `excluded` is the time of webhooks and queueing.
    pub fn record(&self, code: u16, size: u64, duration: Duration, excluded: Duration) {
        self.count(code);
        self.duration.observe(duration.as_secs_f64());
        if let Some(sli) = &self.sli_duration {
            sli.observe(duration.saturating_sub(excluded).as_secs_f64());
        }
        if let Some(sizes) = &self.response_sizes {
            sizes.observe(size as f64);
        }
    }

    /// Counts a request by its response code.
    pub fn count(&self, code: u16) {
        let known = |codes: &[(u16, Arc<Counter>)]| {
            codes.iter().find(|(known, _)| *known == code).map(|(_, counter)| counter.clone())
        };
        let found = known(&self.by_code.read().unwrap_or_else(PoisonError::into_inner));
        let counter = found.unwrap_or_else(|| {
            let mut codes = self.by_code.write().unwrap_or_else(PoisonError::into_inner);
            let counter = self.total.with(&self.labels.of_total(&code.to_string()));
            if known(&codes).is_none() {
                codes.push((code, counter.clone()));
            }
            counter
        });
        counter.increment();
    }

    /// Counts a request that the server terminated to protect itself.
    pub fn terminated(&self, code: u16) {
        let code = code.to_string();
        let labels = self.labels.without_dry_run();
        let [verb, group, version, resource, subresource, scope, component] = labels;
        let labels = [verb, group, version, resource, subresource, scope, component, &code];
        self.terminations.with(&labels).increment();
    }

    /// Counts a request whose response was aborted.
    pub fn aborted(&self) {
        let [labels @ .., _component] = self.labels.without_dry_run();
        self.aborts.with(&labels).increment();
    }

    /// Notes that a deprecated API was asked for, which is gone in a release, if that is known.
    pub fn deprecated(&self, removed: &str) {
        let Labels { group, version, resource, subresource, .. } = &self.labels;
        self.deprecated.with(&[group, version, resource, subresource, removed]).set(1);
    }

    /// Sizes of bodies, if the request is a write.
    pub fn body_sizes(&self) -> Option<BodySizes> {
        self.body_sizes.clone().map(BodySizes)
    }

    /// Gauge of running requests with these labels, for long-running ones.
    pub fn long_running(&self) -> &Gauge {
        &self.long_running
    }
}

impl Metrics {
    /// Metrics of a request. Nothing is recorded unless `installed` says that the resource exists, since clients may
    /// send any name.
    pub fn of_request(
        &self,
        info: &RequestInfo,
        parts: &Parts,
        installed: impl FnOnce() -> bool,
    ) -> Option<Arc<Series>> {
        let verb = labels::verb(info, parts);
        let dry_run = labels::dry_run(info);
        let scope = labels::scope(info);
        // The path of a plain request is its `subresource` label.
        let subresource = if info.is_resource { &info.subresource } else { &info.path };
        let key = [verb, dry_run, &info.group, &info.version, &info.resource, subresource, scope];
        let key = key.join("\u{1f}");
        let shard = &self.seen.shards[self.seen.hasher.hash_one(&key) as usize % SHARDS];
        if let Some(series) = shard.read().unwrap_or_else(PoisonError::into_inner).get(&key) {
            return Some(series.clone());
        }
        if !installed() {
            return None;
        }
        let labels = Labels {
            verb,
            dry_run,
            group: info.group.clone(),
            version: info.version.clone(),
            resource: info.resource.clone(),
            subresource: subresource.clone(),
            scope,
        };
        let mut known = shard.write().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= MAX_SERIES / SHARDS {
            return None;
        }
        Some(known.entry(key).or_insert_with(|| Arc::new(self.series(labels))).clone())
    }

    fn series(&self, labels: Labels) -> Series {
        let short = labels.without_dry_run();
        let read = matches!(labels.verb, "GET" | "LIST");
        Series {
            total: self.request_total.clone(),
            terminations: self.request_terminations.clone(),
            aborts: self.request_aborts.clone(),
            deprecated: self.requested_deprecated_apis.clone(),
            by_code: RwLock::default(),
            duration: self.request_duration.with(&labels.of_duration()),
            sli_duration: labels.dry_run.is_empty().then(|| self.request_sli_duration.with(&short)),
            response_sizes: read.then(|| self.response_sizes.with(&short)),
            // Created only for verbs that can be long-running.
            long_running: match labels.verb {
                "WATCH" | "CONNECT" => self.longrunning_requests.with(&short),
                _ => Arc::default(),
            },
            body_sizes: body_verb(&labels)
                .map(|verb| self.request_body_sizes.with(&[&labels.group, &labels.resource, verb])),
            labels,
        }
    }

    /// Records a request of the server to itself.
    pub(crate) fn count_self_request(&self, info: &RequestInfo, parts: &Parts) {
        let verb = labels::verb(info, parts);
        let labels = [verb, &info.group, &info.resource, &info.subresource];
        self.self_requests.with(&labels).increment();
    }

    /// Records an answered write by its `fieldValidation`.
    pub(crate) fn count_validated(&self, label: &str, duration: Duration) {
        self.field_validation.with(&[label]).observe_seconds(duration);
    }
}

/// Verb of a write as the sizes of bodies name it.
fn body_verb(labels: &Labels) -> Option<&'static str> {
    match labels.verb {
        "POST" => Some("create"),
        "PUT" => Some("update"),
        "PATCH" | "APPLY" => Some("patch"),
        "DELETE" if labels.scope == "resource" => Some("delete"),
        "DELETE" => Some("delete_collection"),
        _ => None,
    }
    .filter(|_| !labels.resource.is_empty())
}

/// Label values, in the order of the families' labels.
impl Labels {
    fn without_dry_run(&self) -> [&str; 7] {
        let Labels { verb, dry_run: _, group, version, resource, subresource, scope } = self;
        [verb, group, version, resource, subresource, scope, COMPONENT]
    }

    fn of_duration(&self) -> [&str; 8] {
        let [verb, group, version, resource, subresource, scope, component] =
            self.without_dry_run();
        [verb, self.dry_run, group, version, resource, subresource, scope, component]
    }

    fn of_total<'a>(&'a self, code: &'a str) -> [&'a str; 9] {
        let [verb, dry_run, group, version, resource, subresource, scope, component] =
            self.of_duration();
        [verb, dry_run, group, version, resource, subresource, scope, component, code]
    }
}
