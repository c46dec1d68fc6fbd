//! A request on its way through the server.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Instant, SystemTime};

use bytes::Bytes;
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use kevel_api::status::StatusError;
use kevel_api::value::Value;
use kevel_api::warning::WarningList;
use kevel_clock::{Clock, monotonic_now};
use kevel_compute::ComputeMeter;

use crate::audit::{AuditContext, AuditedRequest};
use crate::incoming::{IncomingBody, MAX_BODY};
use crate::request_info::RequestInfo;
use crate::user::User;

/// A request, with what the chain finds out about it on the way.
#[derive(Debug)]
pub struct Request {
    /// Method, URI, headers.
    pub parts: http::request::Parts,
    /// What is not read yet, or the bytes.
    pub body: RequestBody,
    /// What path, method and query say.
    pub info: RequestInfo,
    /// The connection that it came by.
    pub connection: Arc<Connection>,
    /// The user; filled in by authentication.
    pub user: Option<Arc<User>>,
    /// When it came.
    pub received: Received,
    /// When the answer must have been given.
    pub deadline: Option<Instant>,
    /// What the client should know beside the answer.
    pub warnings: Warnings,
    /// Compute account: flow, deadline, and whether it computes beside the workers.
    pub meter: ComputeMeter,
    /// What it is called in the audit log.
    pub audit_id: String,
    /// The request's audit event.
    pub audit: AuditContext,
    /// Whether it is from the server's own client, which takes objects and failures as they are.
    pub in_process: bool,
}

/// When a request came in.
#[derive(Clone, Copy, Debug)]
pub struct Received {
    /// By the server's clock.
    pub at: SystemTime,
    /// In real time, for what is measured.
    pub started: Instant,
}

/// What all requests of a connection share.
#[derive(Debug, Default)]
pub struct Connection {
    /// Where the client is; unknown for the server's own.
    pub peer: Option<SocketAddr>,
    /// The client's certificates, its own first, as they were presented (DER). The handshake does
    /// not judge them: authentication does.
    pub certificates: Vec<Bytes>,
    /// Time of the server.
    pub clock: Clock,
}

/// A body that has not been read yet.
#[derive(Debug)]
pub enum RequestBody {
    /// What comes from the connection while it is read.
    Incoming(IncomingBody),
    /// What is there already.
    Bytes(Bytes),
    /// The tree of an object, from the server's own client: no bytes at all.
    Object(Value),
}

impl Request {
    /// A request as it comes in; `None` where its path cannot be read.
    pub fn new(
        parts: http::request::Parts,
        body: RequestBody,
        connection: Arc<Connection>,
    ) -> Option<Self> {
        let info = RequestInfo::new(&parts.method, &parts.uri)?;
        let received = Received { at: connection.clock.now(), started: monotonic_now() };
        Some(Request {
            parts,
            body,
            info,
            connection,
            user: None,
            received,
            deadline: None,
            warnings: Warnings::default(),
            meter: ComputeMeter::default(),
            audit_id: String::new(),
            audit: AuditContext::default(),
            in_process: false,
        })
    }

    /// Time of the server.
    pub fn clock(&self) -> &Clock {
        &self.connection.clock
    }

    /// The text of a header; empty if it is not there.
    pub fn header(&self, name: http::HeaderName) -> &str {
        self.parts.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }

    /// The query, undecoded; empty if there is none.
    pub fn query(&self) -> &str {
        self.parts.uri.query().unwrap_or_default()
    }

    /// Whether it wants to go on as a WebSocket.
    pub fn is_websocket(&self) -> bool {
        kevel_streaming::upgrade::websocket::is_request(&self.parts.headers)
    }

    /// What auditors see of it.
    pub(crate) fn audited(&self) -> AuditedRequest<'_> {
        AuditedRequest {
            parts: &self.parts,
            info: &self.info,
            user: self.user.as_ref(),
            peer: self.connection.peer,
            received: self.received.at,
        }
    }

    /// The body, where it is the tree of an object.
    pub fn take_object(&mut self) -> Option<Value> {
        match std::mem::replace(&mut self.body, RequestBody::Bytes(Bytes::new())) {
            RequestBody::Object(tree) => Some(tree),
            body => {
                self.body = body;
                None
            }
        }
    }

    /// The whole body, if it is not too large. What is done with a large one is heavy work.
    pub async fn read_body(&mut self) -> Result<Bytes, StatusError> {
        let body = self.collect_body().await?;
        kevel_compute::expect(&self.meter, body.len()).await;
        Ok(body)
    }

    async fn collect_body(&mut self) -> Result<Bytes, StatusError> {
        let body = std::mem::replace(&mut self.body, RequestBody::Bytes(Bytes::new()));
        let too_large = || StatusError::request_entity_too_large(&format!("limit is {MAX_BODY}"));
        match body {
            RequestBody::Bytes(bytes) if bytes.len() > MAX_BODY => Err(too_large()),
            RequestBody::Bytes(bytes) => Ok(bytes),
            RequestBody::Object(tree) => Ok(json_text(&tree)),
            RequestBody::Incoming(incoming) => {
                match Limited::new(incoming, MAX_BODY).collect().await {
                    Ok(body) => Ok(body.to_bytes()),
                    Err(error) if error.is::<LengthLimitError>() => Err(too_large()),
                    Err(error) => Err(StatusError::bad_request(error.to_string())),
                }
            }
        }
    }
}

/// What the client should be told besides the answer: `Warning` headers.
#[derive(Clone, Debug, Default)]
pub struct Warnings(Arc<Mutex<WarningList>>);

impl Warnings {
    /// Adds a warning, unless it was said before.
    pub fn add(&self, warning: impl Into<String>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).add(warning);
    }

    /// The warnings as they are said.
    pub fn take(&self) -> Vec<String> {
        let warnings = &mut *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(warnings).into_said()
    }
}

/// A tree as JSON.
pub fn json_text(tree: &Value) -> Bytes {
    let mut text = Vec::with_capacity(1024);
    kevel_codec::json::encode_any(tree, &mut text);
    text.into()
}
