//! Audit of requests (upstream: `WithAudit`): see [`crate::audit`].

use std::io::Read as _;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use http::HeaderMap;
use http::header::{CONTENT_ENCODING, CONTENT_TYPE};
use http_body::Body as _;
use kevel_api::status::{FAILURE, SUCCESS, Status, reason};
use kevel_clock::{Stopwatch, monotonic_now};

use super::long_running::is_long_running;
use super::panic_recovery::{caught, message};
use super::plain;
use super::timeout::out_of_time;
use crate::audit::{AuditContext, ResponseStatus, Stage};
use crate::body::{Body, Piece, Pieces};
use crate::handler::{Filter, Handler, Response};
use crate::latency_trackers::LatencyTrackers;
use crate::negotiate::MediaType;
use crate::request::Request;
use crate::responses::ResponseObject;
use kevel_component::future::Pending;
use kevel_registry::audit::AuditEvent as _;
use kevel_registry::audit::Level;
use kevel_registry::latency::{Phase, TrackLatency as _};

/// Latency above which the audit event is annotated with the latency of each phase.
const SLOW: Duration = Duration::from_millis(500);

/// Audits authenticated requests (upstream: `WithAudit`).
#[derive(Debug)]
pub(super) struct WithAudit;

impl Filter for WithAudit {
    fn filter<'a>(&'a self, request: Request, next: &'a dyn Handler) -> Pending<'a, Response> {
        if !request.audit.begin(&request.audited()) {
            return next.handle(request);
        }
        let audited = Audited {
            audit: request.audit.clone(),
            long_running: is_long_running(&request.info),
            started: request.received.started,
            deadline: request.deadline,
            trackers: LatencyTrackers::of(&request).cloned(),
            answered: false,
            done: false,
        };
        Box::pin(async move {
            let mut audited = audited;
            if !audited.audit.process(Stage::RequestReceived).await {
                audited.done = true;
                audited.audit.reject();
                return plain::internal_error(&request.parts.uri, "failed to store audit event");
            }
            match caught(async { next.handle(request).await }).await {
                Ok(response) => audited.answer(response).await,
                Err(panic) => {
                    audited.panicked(&message(&panic)).await;
                    std::panic::resume_unwind(panic)
                }
            }
        })
    }
}

/// Audits a request refused before the audit filter: failed authentication, invalid timeout (upstream:
/// `WithFailedAuthenticationAudit`).
pub(super) fn failed(request: &Request, response: &Response) -> Pending<'static, ()> {
    let audit = request.audit.clone();
    if !audit.begin(&request.audited()) {
        return Box::pin(std::future::ready(()));
    }
    answered(&audit, response);
    Box::pin(async move {
        audit.process(Stage::ResponseStarted).await;
    })
}

/// Records the response in the audit event: its code, failure and object.
fn answered(audit: &AuditContext, response: &Response) {
    let code = response.status().as_u16();
    match response.extensions().get() {
        Some(ResponseObject::Object(object, ty)) => {
            audit.respond(ResponseStatus::code(code));
            return audit.response_tree(object, ty.schema());
        }
        Some(ResponseObject::Failure(status)) => {
            audit.respond(ResponseStatus::of(code, status));
            return audit.response_object(MediaType::Json.name(), &status.to_json());
        }
        None => {}
    }
    let body = response.body().bytes().unwrap_or_default();
    audit.respond(ResponseStatus::read(code, content_type(response), &body));
    audit.response_object(content_type(response), &body);
}

fn content_type(response: &Response) -> &str {
    let value = response.headers().get(CONTENT_TYPE);
    value.and_then(|value| value.to_str().ok()).unwrap_or_default()
}

/// Audit of a running request. If it is dropped before `done`, the client has disconnected.
struct Audited {
    audit: AuditContext,
    long_running: bool,
    started: Instant,
    deadline: Option<Instant>,
    trackers: Option<LatencyTrackers>,
    answered: bool,
    done: bool,
}

impl Audited {
    async fn answer(mut self, response: Response) -> Response {
        answered(&self.audit, &response);
        self.answered = true;
        if self.long_running {
            self.audit.process(Stage::ResponseStarted).await;
        }
        if response.body().size_hint().exact().is_some() {
            self.done = true;
            self.annotate_latency();
            self.audit.process(Stage::ResponseComplete).await;
            return response;
        }
        let keep = !self.long_running && self.audit.level() >= Level::RequestResponse;
        let kept = keep.then(|| Kept {
            content_type: content_type(&response).to_owned(),
            compressed: response.headers().contains_key(CONTENT_ENCODING),
            body: Vec::new(),
        });
        let began = Stopwatch::start();
        response.map(|body| Body::pieces(AuditedBody { body, kept, began, audited: Some(self) }))
    }

    async fn panicked(mut self, message: &str) {
        self.done = true;
        let code = 500;
        let status = Status {
            status: FAILURE.into(),
            reason: reason::INTERNAL_ERROR.into(),
            message: format!("APIServer panic'd: {message}").into(),
            ..Status::default()
        };
        self.audit.respond(ResponseStatus::of(code, &status));
        self.audit.process(Stage::Panic).await;
    }

    /// Status of a request without a response: its deadline has passed, or its client has disconnected.
    fn given_up(&self) -> Status {
        if self.deadline.is_some_and(|deadline| deadline <= monotonic_now()) {
            return out_of_time().into_status();
        }
        let message = "Connection closed early".into();
        Status { status: SUCCESS.into(), message, code: 200, ..Status::default() }
    }

    fn annotate_latency(&self) {
        let total = self.started.elapsed();
        let Some(trackers) = self.trackers.as_ref().filter(|_| total > SLOW) else { return };
        for (key, time) in trackers.all().chain([("apiserver.latency.k8s.io/total", total)]) {
            let nanos = i64::try_from(time.as_nanos()).unwrap_or(i64::MAX);
            self.audit.annotate(key, &kevel_api::duration::Duration(nanos).to_string());
        }
    }
}

impl Drop for Audited {
    fn drop(&mut self) {
        if self.done {
            return;
        }
        if !self.answered {
            let status = self.given_up();
            self.audit.respond(ResponseStatus::of(status.code, &status));
            if self.long_running {
                self.audit.process_detached(Stage::ResponseStarted);
            }
        }
        self.annotate_latency();
        self.audit.process_detached(Stage::ResponseComplete);
    }
}

/// A streamed body, whose audit event is completed when it ends or the client disconnects.
struct AuditedBody {
    body: Body,
    kept: Option<Kept>,
    began: Stopwatch,
    audited: Option<Audited>,
}

/// Bytes sent so far, for an event at level RequestResponse.
struct Kept {
    content_type: String,
    compressed: bool,
    body: Vec<u8>,
}

impl Kept {
    /// The body, decompressed.
    fn whole(self) -> Vec<u8> {
        if !self.compressed {
            return self.body;
        }
        let mut whole = Vec::new();
        // A truncated body is not recorded: it is not a whole object.
        match flate2::read::GzDecoder::new(&self.body[..]).read_to_end(&mut whole) {
            Ok(_) => whole,
            Err(_) => Vec::new(),
        }
    }
}

impl Pieces for AuditedBody {
    fn poll_piece(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Piece>> {
        let piece = ready!(self.body.poll_piece(context));
        match (&piece, &mut self.kept) {
            (Some(Ok(piece)), Some(kept)) => kept.body.extend_from_slice(piece),
            (Some(Ok(_)), None) => {}
            (None | Some(Err(_)), _) => self.complete(),
        }
        Poll::Ready(piece)
    }

    fn trailers(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Option<HeaderMap> {
        self.body.trailers(context)
    }
}

impl AuditedBody {
    fn complete(&mut self) {
        if let (Some(audited), Some(kept)) = (&self.audited, self.kept.take()) {
            let content_type = kept.content_type.clone();
            audited.audit.response_object(&content_type, &kept.whole());
        }
        // A watch mostly waits for events, which is not latency.
        let audited = self.audited.take().filter(|audited| !audited.long_running);
        if let Some(trackers) = audited.as_ref().and_then(|audited| audited.trackers.as_ref()) {
            trackers.add(Phase::ResponseWrite, self.began.elapsed());
        }
    }
}
