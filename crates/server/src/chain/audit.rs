//! What happened, for people who must know later. The seam: policy and backends are elsewhere.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use http::header::AUTHORIZATION;

use super::held::{Hold, hold};
use super::long_running::is_long_running;
use super::panic_recovery::{caught, message};
use super::plain;
use crate::handler::{Filter, Handler, Pending, Response};
use crate::request::Request;
use crate::user::User;

/// Decides what is audited, and keeps it.
pub trait AuditSink: Send + Sync + 'static {
    /// Begins the event of a request; `None` if it is not to be audited.
    fn begin(&self, request: &Request) -> Option<Box<dyn AuditEvent>>;
}

/// What is known about a request, stage by stage.
pub trait AuditEvent: Send + 'static {
    /// Keeps the event as it is at this stage. `false` if it cannot be kept.
    fn process(&mut self, stage: Stage, outcome: Option<&Outcome>) -> bool;

    /// Adds an annotation.
    fn annotate(&mut self, _key: &str, _value: &str) {}

    /// The user speaks for another one, permitted by the constrained verb, if it is one.
    fn impersonate(&mut self, _user: &User, _constraint: &str) {}
}

/// How far a request has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// The request is known, its answer not yet.
    RequestReceived,
    /// The answer has begun; for long-running requests only, and for those that are refused.
    ResponseStarted,
    /// The answer has been given.
    ResponseComplete,
    /// There is no answer but a panic.
    Panic,
}

/// How a request was answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// The HTTP status code.
    pub code: u16,
    /// What the event says about it, if anything.
    pub message: String,
}

/// The event of a request that is audited, for everybody on its way to add to.
#[derive(Clone)]
pub struct Audit(Arc<Mutex<Box<dyn AuditEvent>>>);

impl std::fmt::Debug for Audit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Audit")
    }
}

impl Audit {
    /// That of a request; `None` if it is not audited.
    pub fn of(request: &Request) -> Option<&Self> {
        request.parts.extensions.get()
    }

    /// Adds an annotation.
    pub fn annotate(&self, key: &str, value: &str) {
        self.event().annotate(key, value);
    }

    /// Says that the user speaks for another one.
    pub fn impersonate(&self, user: &User, constraint: &str) {
        self.event().impersonate(user, constraint);
    }

    fn process(&self, stage: Stage, outcome: Option<&Outcome>) -> bool {
        self.event().process(stage, outcome)
    }

    fn event(&self) -> MutexGuard<'_, Box<dyn AuditEvent>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Audits requests whose user is known.
pub(super) struct WithAudit(pub Arc<dyn AuditSink>);

impl Filter for WithAudit {
    fn filter<'a>(&'a self, mut request: Request, next: &'a dyn Handler) -> Pending<'a, Response> {
        let Some(event) = self.0.begin(&request) else {
            return next.handle(request);
        };
        let audit = Audit(Arc::new(Mutex::new(event)));
        if !audit.process(Stage::RequestReceived, None) {
            let response = plain::internal_error(&request.parts.uri, "failed to store audit event");
            return Box::pin(std::future::ready(response));
        }
        request.parts.extensions.insert(audit.clone());
        let long_running = is_long_running(&request.info);
        let mut complete = Complete { audit, long_running, outcome: None };
        Box::pin(async move {
            match caught(async { next.handle(request).await }).await {
                Ok(response) => {
                    complete.begin(&response);
                    hold(response, complete)
                }
                Err(panic) => {
                    complete.panicked(&message(&panic));
                    std::panic::resume_unwind(panic)
                }
            }
        })
    }
}

/// Processes the last stage when the answer has been sent, or its client is gone.
struct Complete {
    audit: Audit,
    long_running: bool,
    outcome: Option<Outcome>,
}

impl Complete {
    fn begin(&mut self, response: &Response) {
        let outcome = Outcome { code: response.status().as_u16(), message: String::new() };
        if self.long_running {
            self.audit.process(Stage::ResponseStarted, Some(&outcome));
        }
        self.outcome = Some(outcome);
    }

    fn panicked(self, message: &str) {
        let message = format!("APIServer panic'd: {message}");
        self.audit.process(Stage::Panic, Some(&Outcome { code: 500, message }));
        // Nothing is complete.
        std::mem::forget(self);
    }
}

impl Hold for Complete {}

impl Drop for Complete {
    fn drop(&mut self) {
        let outcome = self.outcome.take().unwrap_or_else(|| {
            let closed = Outcome { code: 200, message: "Connection closed early".to_owned() };
            if self.long_running {
                self.audit.process(Stage::ResponseStarted, Some(&closed));
            }
            closed
        });
        self.audit.process(Stage::ResponseComplete, Some(&outcome));
    }
}

/// Audits a request that is refused before its turn.
pub(super) fn failed(
    sink: Option<&dyn AuditSink>,
    request: &Request,
    response: &Response,
    message: &str,
) {
    if let Some(mut event) = sink.and_then(|sink| sink.begin(request)) {
        let outcome = Outcome { code: response.status().as_u16(), message: message.to_owned() };
        event.process(Stage::ResponseStarted, Some(&outcome));
    }
}

/// What is said about a request whose user could not be known.
pub(super) fn attempted(request: &Request) -> String {
    let authorization = request.header(AUTHORIZATION).trim();
    let scheme = authorization.split_once(' ').map(|(scheme, _)| scheme).unwrap_or_default();
    let in_query = crate::query::pairs(request.query())
        .iter()
        .any(|(key, value)| key == "access_token" && !value.trim().is_empty());
    let methods = [
        ("basic", scheme.eq_ignore_ascii_case("basic")),
        ("bearer", scheme.eq_ignore_ascii_case("bearer")),
        ("access_token", in_query),
        ("x509", !request.connection.certificates.is_empty()),
    ];
    let tried: Vec<_> = methods.iter().filter(|(_, tried)| *tried).map(|(name, _)| *name).collect();
    match tried.as_slice() {
        [] => "Authentication failed, no credentials provided".to_owned(),
        tried => format!("Authentication failed, attempted: {}", tried.join(", ")),
    }
}
