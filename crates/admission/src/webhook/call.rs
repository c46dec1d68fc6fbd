//! Calls of webhooks.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Response, header};
use kevel_api::gvk::GroupResource;
use kevel_api::status::{SUCCESS, StatusError};
use kevel_clock::{Stopwatch, monotonic_now};
use kevel_codec::json;
use kevel_registry::admission::Attributes;
use kevel_registry::latency::Phase;
use kevel_server::webhook::{Client, Error, REQUEST_TIMEOUT};
use kevel_trace::{TraceSpan, text};

use super::annotations;
use super::client::ClientManager;
use super::definition::{SideEffects, Step, Webhook};
use super::failure::{CallError, Failure, dry_run_unsupported, rejected, status};
use super::review::{AdmissionResponse, ReviewError, ReviewRequest, ReviewVersion, verify};
use super::versions::Encoded;

/// Limit on repeated calls of a webhook that answers with Retry-After.
const MAX_RETRIES: usize = 10;

/// Longest part of an invalid answer that an error message includes.
const MAX_TOLD: usize = 2048;

/// Calls a webhook for a request. Its warnings and audit annotations are passed on, whether it allows the request or
/// not.
pub(super) async fn call(
    webhook: &Webhook,
    clients: &ClientManager,
    attributes: &Attributes<'_>,
    encoded: &Encoded<'_>,
) -> Result<AdmissionResponse, Failure> {
    if attributes.dry_run {
        match webhook.side_effects {
            SideEffects::None => {}
            SideEffects::Unsaid => {
                return Err(CallError::new(400, "Webhook SideEffects is nil").into());
            }
            SideEffects::Some => {
                return Err(Failure::Internal(dry_run_unsupported(&webhook.name)));
            }
        }
    }
    let version = webhook.review.ok_or_else(|| {
        let why = "could not create admission objects: webhook does not accept known \
                   AdmissionReview versions (v1, v1beta1)";
        CallError::new(400, why)
    })?;
    let client = webhook.client(clients);
    let client = client
        .map_err(|error| CallError::new(500, format!("could not get REST client: {error}")))?;
    let uid = uuid::Uuid::new_v4().to_string();
    let request = ReviewRequest {
        uid: &uid,
        attributes,
        resource: encoded.resource,
        object: encoded.object.as_deref(),
        old: encoded.old.as_deref(),
    };
    let body = request.encode(version);
    let started = Stopwatch::start();
    let span = span(webhook, attributes, &uid);
    let answer = span.scope(ask(webhook, &client, attributes, body)).await;
    if answer.is_ok() {
        span.event("Request completed");
    }
    if let Some(trackers) = attributes.trackers {
        let phase = match webhook.step {
            Step::Admit => Phase::MutatingWebhook,
            Step::Validate => Phase::ValidatingWebhook,
        };
        trackers.add(phase, started.elapsed());
    }
    let response = read(webhook, &answer?, version, &uid)?;
    annotations::pass_on(&webhook.name, &response, attributes);
    match response.allowed {
        true => Ok(response),
        false => Err(Failure::Rejected(rejected(&webhook.name, response.status.as_ref()))),
    }
}

/// Starts the span of a call.
fn span(webhook: &Webhook, attributes: &Attributes<'_>, uid: &str) -> TraceSpan {
    let name = match webhook.step {
        Step::Admit => "Call mutating webhook",
        Step::Validate => "Call validating webhook",
    };
    kevel_trace::start(name, || {
        let resource = attributes.resource;
        let version = resource.kind.group_version();
        vec![
            text("configuration", &*webhook.configuration),
            text("webhook", &*webhook.name),
            text("resource", format!("{version}, Resource={}", resource.plural)),
            text("subresource", attributes.subresource),
            text("operation", attributes.operation.name()),
            text("UID", uid),
        ]
    })
}

/// Posts a review, within the webhook's timeout or the request's deadline, whichever ends first.
async fn ask(
    webhook: &Webhook,
    client: &Arc<Client>,
    attributes: &Attributes<'_>,
    body: Bytes,
) -> Result<Response<Bytes>, Failure> {
    let now = monotonic_now();
    let left = attributes.deadline.map(|deadline| deadline.saturating_duration_since(now));
    let Some(timeout) = [webhook.timeout, left].into_iter().flatten().min() else {
        return post(client, "?timeout=30s", body, REQUEST_TIMEOUT).await.map_err(calling);
    };
    if timeout.is_zero() {
        return Err(Failure::TimedOut);
    }
    // `timeout` is sent in whole seconds.
    let seconds = timeout.as_secs() + u64::from(timeout.subsec_nanos() > 0);
    let query = format!("?timeout={seconds}s");
    let answer = post(client, &query, body, timeout.min(REQUEST_TIMEOUT)).await;
    answer.map_err(|error| {
        let late = matches!(error, Error::Timeout { .. });
        match late && attributes.deadline.is_some_and(|deadline| monotonic_now() >= deadline) {
            true => Failure::TimedOut,
            false => calling(error),
        }
    })
}

/// Posts a review, and again after answers with Retry-After.
async fn post(
    client: &Client,
    query: &str,
    body: Bytes,
    timeout: Duration,
) -> Result<Response<Bytes>, Error> {
    let deadline = monotonic_now() + timeout;
    let mut retries = 0..MAX_RETRIES;
    loop {
        let left = deadline.saturating_duration_since(monotonic_now());
        let answer = client.post_json(query, body.clone(), left).await?;
        match retry_after(&answer).filter(|_| retries.next().is_some()) {
            None => return Ok(answer),
            Some(wait) => tokio::time::sleep(wait.min(left)).await,
        }
    }
}

/// Delay of a Retry-After header, if the status allows one.
fn retry_after(answer: &Response<Bytes>) -> Option<Duration> {
    let code = answer.status();
    if code.as_u16() != 429 && !code.is_server_error() {
        return None;
    }
    let seconds = answer.headers().get(header::RETRY_AFTER)?.to_str().ok()?.parse().ok()?;
    Some(Duration::from_secs(seconds))
}

fn calling(error: Error) -> Failure {
    CallError::new(503, format!("failed to call webhook: {error}")).into()
}

fn read(
    webhook: &Webhook,
    answer: &Response<Bytes>,
    version: ReviewVersion,
    uid: &str,
) -> Result<AdmissionResponse, CallError> {
    let failed =
        |code: u16, why: String| CallError::new(code, format!("failed to call webhook: {why}"));
    if let Some(error) = refused(answer) {
        return Err(failed(error.status().code, error.to_string()));
    }
    let body = answer.body();
    if body.is_empty() {
        let code = answer.status().as_u16();
        let content_type = content_type(answer);
        let content_type = if content_type.is_empty() { "application/json" } else { content_type };
        let why =
            format!("0-length response with status code: {code} and content type: {content_type}");
        return Err(failed(503, why));
    }
    let mutating = webhook.step == Step::Admit;
    verify(body, version, uid, mutating).map_err(|error| match error {
        ReviewError::Decode(why) => failed(503, why),
        ReviewError::Invalid(why) => {
            CallError::new(503, format!("received invalid webhook response: {why}"))
        }
    })
}

/// Error of an answer that is not a success: the `Status` in its body if there is one, or one made from its HTTP
/// status.
fn refused(answer: &Response<Bytes>) -> Option<StatusError> {
    let code = answer.status().as_u16();
    if (200..=206).contains(&code) {
        return None;
    }
    let body = answer.body();
    if let Ok(decoded) = json::decode_any(body, json::Unknown::Ignore)
        && decoded.value.str_at(&["kind"]) == "Status"
        && decoded.value.str_at(&["apiVersion"]) == "v1"
        && decoded.value.str_at(&["status"]) != SUCCESS
    {
        return Some(status(&decoded.value).into());
    }
    let told = match content_type(answer).starts_with("text/") {
        true => {
            let told = body.get(..body.len().min(MAX_TOLD)).unwrap_or_default();
            String::from_utf8_lossy(told).trim().to_owned()
        }
        false => "unknown".to_owned(),
    };
    let after = retry_after(answer).map_or(0, |wait| wait.as_secs().try_into().unwrap_or(0));
    Some(StatusError::generic(code, "POST", &GroupResource::default(), "", &told, after, true))
}

fn content_type(answer: &Response<Bytes>) -> &str {
    let content_type = answer.headers().get(header::CONTENT_TYPE);
    content_type.and_then(|value| value.to_str().ok()).unwrap_or_default()
}
