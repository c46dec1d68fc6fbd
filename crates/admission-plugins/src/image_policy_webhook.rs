//! Plug-in `ImagePolicyWebhook`: a webhook decides which images may be used.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use kevel_api::duration::Duration as GoDuration;
use kevel_api::quote::quote;
use kevel_api::status::StatusError;
use kevel_api::value::{Map, Value};
use kevel_clock::Clock;
use kevel_codec::json::{self, Unknown};
use kevel_codec::yaml;
use kevel_component::future::Pending;
use kevel_registry::admission::{Attributes, Operation, Plugin, ready};
use kevel_server::webhook::{
    AnswerCache, Backoff, CacheKey, Client, Endpoint, REQUEST_TIMEOUT, succeeded,
};

use super::Registration;
#[cfg(test)]
mod tests;

const API_VERSION: &str = "imagepolicy.k8s.io/v1alpha1";
const KIND: &str = "ImageReview";
/// Substring of the pod annotations that are sent to the webhook.
const ANNOTATIONS: &str = ".image-policy.k8s.io/";
/// Prefix of the audit annotations.
const AUDIT_PREFIX: &str = "imagepolicywebhook.image-policy.k8s.io/";
/// Capacity of the cache of answers.
const MAX_ANSWERS: usize = 1024;
/// Value in a configuration that disables a setting.
const NONE: i64 = -1;

const SECOND: i64 = 1_000_000_000;
const RETRY_BACKOFF: Setting = Setting {
    field: "retryBackoff",
    unit: SECOND / 1000,
    default: SECOND / 2,
    least: 1,
    most: 5 * 60 * SECOND,
};
const ALLOW_TTL: Setting = Setting {
    field: "allowTTL",
    unit: SECOND,
    default: 5 * 60 * SECOND,
    least: SECOND,
    most: 30 * 60 * SECOND,
};
const DENY_TTL: Setting = Setting { field: "denyTTL", default: 30 * SECOND, ..ALLOW_TTL };

/// `ImagePolicyWebhook`, as the command line knows it.
pub const REGISTRATION: Registration = Registration::off("ImagePolicyWebhook", |context| {
    let text = (context.configuration)("ImagePolicyWebhook")?.ok_or("no config specified")?;
    Ok(Arc::new(ImagePolicyWebhook::new(&text, context.client.clock())?))
});

/// The admission plug-in of that name.
#[derive(Debug)]
pub struct ImagePolicyWebhook {
    client: Client,
    backoff: Backoff,
    answers: AnswerCache<Status>,
    allow_ttl: Duration,
    deny_ttl: Duration,
    /// Whether pods are admitted if the webhook does not answer.
    default_allow: bool,
}

/// Cached answer.
#[derive(Clone, Debug)]
struct Status {
    allowed: bool,
    reason: String,
    audit_annotations: Vec<(String, String)>,
}

impl ImagePolicyWebhook {
    pub fn new(text: &str, clock: &Clock) -> Result<Self, String> {
        let decoded = yaml::decode_any(text.as_bytes(), Unknown::Ignore);
        let decoded = decoded.map_err(|error| error.to_string())?.value;
        let config = decoded.at(&["imagePolicy"]).unwrap_or(&Value::Null);
        let backoff = Backoff::starting_with(RETRY_BACKOFF.read(config)?);
        let (allow_ttl, deny_ttl) = (ALLOW_TTL.read(config)?, DENY_TTL.read(config)?);
        let endpoint = Endpoint::from_kubeconfig(Path::new(config.str_at(&["kubeConfigFile"])))?;
        Ok(ImagePolicyWebhook {
            client: Client::new(endpoint)?,
            backoff,
            answers: AnswerCache::new(MAX_ANSWERS, clock),
            allow_ttl,
            deny_ttl,
            default_allow: config.at(&["defaultAllow"]) == Some(&Value::Bool(true)),
        })
    }

    async fn review(
        &self,
        attributes: &Attributes<'_>,
        pod: &Value,
        containers: &[&str],
    ) -> Result<(), StatusError> {
        let spec = encode(&spec(attributes.namespace, pod, containers));
        let key = CacheKey::of(&spec);
        let status = match self.answers.get(&key) {
            Some(status) => status,
            None => match self.ask(&spec).await {
                Ok(status) => {
                    let ttl = if status.allowed { self.allow_ttl } else { self.deny_ttl };
                    self.answers.put(key, status.clone(), ttl);
                    status
                }
                Err(error) if self.default_allow => {
                    tracing::info!("pod allowed in spite of webhook backend failure: {error}");
                    attributes.audit.annotate(&format!("{AUDIT_PREFIX}failed-open"), "true");
                    return Ok(());
                }
                Err(error) => return Err(attributes.forbidden(Some(pod), error)),
            },
        };
        for (key, value) in &status.audit_annotations {
            attributes.audit.annotate(&format!("{AUDIT_PREFIX}{key}"), value);
        }
        match (status.allowed, &*status.reason) {
            (true, _) => Ok(()),
            (false, "") => {
                let refused = "one or more images rejected by webhook backend";
                Err(attributes.forbidden(Some(pod), refused))
            }
            (false, reason) => {
                let refused = "image policy webhook backend denied one or more images";
                Err(attributes.forbidden(Some(pod), format!("{refused}: {reason}")))
            }
        }
    }

    async fn ask(&self, spec: &[u8]) -> Result<Status, String> {
        let body = Bytes::from(request(spec));
        let call =
            || async { succeeded(self.client.post_json("", body.clone(), REQUEST_TIMEOUT).await?) };
        let answer = self.backoff.call(call).await.map_err(|error| error.to_string())?;
        let decoded = json::decode_any(&answer, Unknown::Ignore);
        let review = decoded.map_err(|error| error.to_string())?.value;
        match (review.str_at(&["apiVersion"]), review.str_at(&["kind"])) {
            (API_VERSION, KIND) => Ok(Status::read(&review)),
            (version, kind) => {
                let (version, kind) = (quote(version), quote(kind));
                Err(format!("no kind {kind} is registered for version {version}"))
            }
        }
    }
}

impl Status {
    fn read(review: &Value) -> Self {
        let annotations = review.at(&["status", "auditAnnotations"]).and_then(Value::as_map);
        let text =
            |(key, value): (&str, &Value)| Some((key.to_owned(), value.as_str()?.to_owned()));
        Status {
            allowed: review.at(&["status", "allowed"]) == Some(&Value::Bool(true)),
            reason: review.str_at(&["status", "reason"]).to_owned(),
            audit_annotations: annotations
                .into_iter()
                .flat_map(Map::iter)
                .filter_map(text)
                .collect(),
        }
    }
}

impl Plugin for ImagePolicyWebhook {
    fn name(&self) -> &'static str {
        REGISTRATION.name
    }

    fn validate<'a>(
        &'a self,
        attributes: &'a Attributes<'a>,
        object: Option<&'a Value>,
    ) -> Pending<'a, Result<(), StatusError>> {
        let writes = matches!(attributes.operation, Operation::Create | Operation::Update);
        let containers: &[&str] = match attributes.subresource {
            "" => &["containers", "initContainers"],
            "ephemeralcontainers" => &["ephemeralContainers"],
            _ => return ready(Ok(())),
        };
        match object.filter(|_| writes && attributes.concerns("", "pods")) {
            Some(pod) => Box::pin(self.review(attributes, pod, containers)),
            None => ready(Ok(())),
        }
    }
}

/// Spec of the ImageReview.
fn spec(namespace: &str, pod: &Value, containers: &[&str]) -> Value {
    let containers = containers.iter().flat_map(|kind| pod.list_at(&["spec", kind]));
    let image = |container: &Value| {
        let image = container.str_at(&["image"]);
        let image = (!image.is_empty()).then(|| ("image", Value::from(image)));
        Value::from(Map::from_iter(image))
    };
    let annotations = pod.at(&["metadata", "annotations"]).and_then(Value::as_map);
    let annotations = annotations.into_iter().flat_map(Map::iter);
    let told = annotations.filter(|(key, _)| key.contains(ANNOTATIONS));
    let told: Map = told.map(|(key, value)| (key, value.clone())).collect();
    let fields = [
        ("containers", Value::List(containers.map(image).collect())),
        ("annotations", told.into()),
        ("namespace", namespace.into()),
    ];
    Map::from_iter(fields.into_iter().filter(|(_, value)| !value.is_empty())).into()
}

/// The review about a spec.
fn request(spec: &[u8]) -> Vec<u8> {
    let head = format!(r#"{{"kind":"{KIND}","apiVersion":"{API_VERSION}","metadata":{{}},"spec":"#);
    [head.as_bytes(), spec, br#","status":{"allowed":false}}"#].concat()
}

fn encode(value: &Value) -> Vec<u8> {
    let mut text = Vec::new();
    json::encode_any(value, &mut text);
    text
}

/// A duration that the configuration may say, as a number of units; 0 is the default. In nanoseconds.
struct Setting {
    field: &'static str,
    unit: i64,
    default: i64,
    least: i64,
    most: i64,
}

impl Setting {
    fn read(&self, config: &Value) -> Result<Duration, String> {
        let number = match config.at(&[self.field]) {
            None | Some(Value::Null) => Some(0),
            Some(value) => value.as_int(),
        };
        let number = number.ok_or_else(|| format!("{} must be a whole number", self.field))?;
        let nanos = match number {
            NONE => 0,
            0 => self.default,
            number => {
                let nanos = number.saturating_mul(self.unit);
                if !(self.least..=self.most).contains(&nanos) {
                    let [least, most, got] = [self.least, self.most, nanos].map(GoDuration);
                    return Err(format!("valid value is between {least} and {most}, got {got}"));
                }
                nanos
            }
        };
        Ok(Duration::from_nanos(nanos.unsigned_abs()))
    }
}
