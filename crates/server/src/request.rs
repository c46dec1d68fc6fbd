//! Requests in the handler chain.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Instant, SystemTime};

use bytes::Bytes;
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use kevel_api::status::StatusError;
use kevel_api::value::Value;
use kevel_clock::{Clock, monotonic_now};
use kevel_compute::ComputeMeter;

use crate::audit::{AuditContext, AuditedRequest};
use crate::incoming::{IncomingBody, MAX_BODY};
use crate::metrics::BodySizes;
use crate::request_info::RequestInfo;
use kevel_registry::user::User;
use kevel_registry::warnings::Warnings;

/// A request, with the facts that filters add to it.
#[derive(Debug)]
pub struct Request {
    /// Method, URI and headers.
    pub parts: http::request::Parts,
    /// Body, read or unread.
    pub body: RequestBody,
    /// RequestInfo of path, method and query.
    pub info: RequestInfo,
    /// Connection of the request.
    pub connection: Arc<Connection>,
    /// Authenticated user; set by the authentication filter.
    pub user: Option<Arc<User>>,
    /// Time of arrival.
    pub received: Received,
    /// Deadline of the response.
    pub deadline: Option<Instant>,
    /// Warnings for the client.
    pub warnings: Warnings,
    /// Compute account: flow, deadline, and whether the request computes outside the workers.
    pub meter: ComputeMeter,
    /// Audit ID.
    pub audit_id: String,
    /// The request's audit event.
    pub audit: AuditContext,
    /// Whether the request is from the in-process client, which takes objects and failures as trees.
    pub in_process: bool,
}

/// Time of a request's arrival.
#[derive(Clone, Copy, Debug)]
pub struct Received {
    /// Time of the server's clock.
    pub at: SystemTime,
    /// Monotonic time, for measurements.
    pub started: Instant,
}

/// Facts shared by all requests of a connection.
#[derive(Debug, Default)]
pub struct Connection {
    /// Address of the client; `None` for in-process requests.
    pub peer: Option<SocketAddr>,
    /// Client certificates as presented (DER), the leaf first. They are verified by authentication, not by the
    /// handshake.
    pub certificates: Vec<Bytes>,
    /// Clock of the server.
    pub clock: Clock,
}

/// Body of a request.
#[derive(Debug)]
pub enum RequestBody {
    /// Not read yet.
    Incoming(IncomingBody),
    /// Bytes in memory.
    Bytes(Bytes),
    /// Tree of an object from the in-process client, without any bytes.
    Object(Value),
}

impl Request {
    /// A new request; `None` if its path has an invalid escape.
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

    /// Clock of the server.
    pub fn clock(&self) -> &Clock {
        &self.connection.clock
    }

    /// Text of a header; empty if absent.
    pub fn header(&self, name: http::HeaderName) -> &str {
        self.parts.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }

    /// Query, not decoded; empty if absent.
    pub fn query(&self) -> &str {
        self.parts.uri.query().unwrap_or_default()
    }

    /// Whether it is a WebSocket handshake.
    pub fn is_websocket(&self) -> bool {
        kevel_streaming::upgrade::websocket::is_request(&self.parts.headers)
    }

    /// The facts for the audit event.
    pub(crate) fn audited(&self) -> AuditedRequest<'_> {
        AuditedRequest {
            parts: &self.parts,
            info: &self.info,
            user: self.user.as_ref(),
            peer: self.connection.peer,
            received: self.received.at,
        }
    }

    /// Takes the body, if it is the tree of an object.
    pub fn take_object(&mut self) -> Option<Value> {
        match std::mem::replace(&mut self.body, RequestBody::Bytes(Bytes::new())) {
            RequestBody::Object(tree) => Some(tree),
            body => {
                self.body = body;
                None
            }
        }
    }

    /// Reads the whole body, up to the limit. Processing a large one is charged as heavy work.
    pub async fn read_body(&mut self) -> Result<Bytes, StatusError> {
        let body = self.collect_body().await?;
        BodySizes::record(&self.parts, body.len());
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

/// Encodes a tree as JSON.
pub fn json_text(tree: &Value) -> Bytes {
    let mut text = Vec::with_capacity(1024);
    kevel_codec::json::encode_any(tree, &mut text);
    text.into()
}
