//! `EventRateLimit` admission plug-in: limits the rate of events per server, namespace, user or source and object.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use kevel_api::field_error::{FieldError, Path, aggregate};
use kevel_api::status::StatusError;
use kevel_api::value::Value;
use kevel_clock::monotonic_now;
use kevel_component::future::Pending;
use kevel_registry::admission::{Attributes, Operation, Plugin, ready};

use super::Registration;
use super::{Context, configuration};

const KINDS: [(&str, &str); 1] = [("eventratelimit.admission.k8s.io/v1alpha1", "Configuration")];
const TYPES: [(&str, KeyOf); 4] = [
    ("Server", |_, _| String::new()),
    ("Namespace", |attributes, _| attributes.namespace.to_owned()),
    ("User", |attributes, _| attributes.user.name.clone()),
    ("SourceAndObject", |_, event| source_and_object(event)),
];
/// Default `cacheSize`: number of keys whose buckets a limit keeps.
const DEFAULT_CACHE: i64 = 4096;

/// Key of the bucket that an event is charged to.
type KeyOf = fn(&Attributes<'_>, &Value) -> String;

/// Registration of the `EventRateLimit` admission plug-in.
pub const REGISTRATION: Registration =
    Registration::off("EventRateLimit", |context| Ok(Arc::new(EventRateLimit::new(context)?)));

/// The `EventRateLimit` admission plug-in.
#[derive(Debug)]
pub struct EventRateLimit {
    limits: Vec<Limit>,
}

impl EventRateLimit {
    pub fn new(context: &Context<'_>) -> Result<Self, String> {
        let value = match (context.configuration)("EventRateLimit")? {
            Some(text) => configuration::decode(&text, &KINDS)?,
            None => Value::Null,
        };
        let rows = value.list_at(&["limits"]);
        match aggregate(check(rows)) {
            Some(error) => Err(error),
            None => Ok(EventRateLimit { limits: rows.iter().filter_map(Limit::new).collect() }),
        }
    }
}

impl Plugin for EventRateLimit {
    fn name(&self) -> &'static str {
        REGISTRATION.name
    }

    fn validate<'a>(
        &'a self,
        attributes: &'a Attributes<'a>,
        object: Option<&'a Value>,
    ) -> Pending<'a, Result<(), StatusError>> {
        let writes = matches!(attributes.operation, Operation::Create | Operation::Update);
        let concerns = writes && !attributes.dry_run && attributes.concerns("", "events");
        let Some(event) = object.filter(|_| concerns) else { return ready(Ok(())) };
        let refusals = self.limits.iter().filter_map(|limit| limit.refuses(attributes, event));
        ready(match aggregate(refusals.collect::<Vec<_>>()) {
            Some(error) => Err(StatusError::too_many_requests_error(&error)),
            None => Ok(()),
        })
    }
}

/// Limit of a configuration: a token bucket per key, with this rate and burst.
#[derive(Debug)]
struct Limit {
    kind: &'static str,
    key_of: KeyOf,
    per_second: f64,
    burst: f64,
    cache: usize,
    buckets: Mutex<HashMap<String, Bucket>>,
}

#[derive(Clone, Copy, Debug)]
struct Bucket {
    tokens: f64,
    filled: Instant,
}

impl Limit {
    fn new(row: &Value) -> Option<Self> {
        let kind = row.str_at(&["type"]);
        let (kind, key_of) = TYPES.into_iter().find(|(known, _)| *known == kind)?;
        let number = |field| row.at(&[field]).and_then(Value::as_int).unwrap_or(0);
        let cache = match number("cacheSize") {
            0 => DEFAULT_CACHE,
            size => size,
        };
        Some(Limit {
            kind,
            key_of,
            per_second: number("qps") as f64,
            burst: number("burst") as f64,
            cache: usize::try_from(cache).unwrap_or(1),
            buckets: Mutex::default(),
        })
    }

    fn refuses(&self, attributes: &Attributes<'_>, event: &Value) -> Option<String> {
        let key = (self.key_of)(attributes, event);
        let now = monotonic_now();
        let mut buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        if !buckets.contains_key(&key) && buckets.len() >= self.cache {
            // The least recently used bucket is full again, or nearly, so that little is lost with it.
            let oldest = buckets.iter().min_by_key(|(_, bucket)| bucket.filled);
            let oldest = oldest.map(|(key, _)| key.clone());
            oldest.map(|oldest| buckets.remove(&oldest));
        }
        let full = Bucket { tokens: self.burst, filled: now };
        let bucket = buckets.entry(key.clone()).or_insert(full);
        let grown = now.duration_since(bucket.filled).as_secs_f64() * self.per_second;
        *bucket = Bucket { tokens: (bucket.tokens + grown).min(self.burst), filled: now };
        if bucket.tokens < 1.0 {
            return Some(format!("limit reached on type {} for key {key}", self.kind));
        }
        bucket.tokens -= 1.0;
        None
    }
}

fn check(rows: &[Value]) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let root = Path::new("limits");
    if rows.is_empty() {
        errors.push(FieldError::invalid(&root, "[]", "must not be empty"));
    }
    for (index, row) in rows.iter().enumerate() {
        let item = root.index(index);
        let number = |field| row.at(&[field]).and_then(Value::as_int).unwrap_or(0);
        let kind = row.str_at(&["type"]);
        if !TYPES.iter().any(|(known, _)| *known == kind) {
            let known = TYPES.map(|(known, _)| known);
            errors.push(FieldError::not_supported(&item.child("type"), kind, known));
        }
        for field in ["burst", "qps"] {
            if number(field) <= 0 {
                let path = item.child(field);
                errors.push(FieldError::invalid(&path, number(field), "must be positive"));
            }
        }
        if kind != "Server" && number("cacheSize") < 0 {
            let (path, size) = (item.child("cacheSize"), number("cacheSize"));
            errors.push(FieldError::invalid(&path, size, "must not be negative"));
        }
    }
    errors
}

fn source_and_object(event: &Value) -> String {
    let source = ["component", "host"].map(|field| event.str_at(&["source", field]));
    let object = ["kind", "namespace", "name", "uid", "apiVersion"];
    let object = object.map(|field| event.str_at(&["involvedObject", field]));
    source.into_iter().chain(object).collect()
}
