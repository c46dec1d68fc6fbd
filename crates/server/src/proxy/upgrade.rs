//! Protocol upgrades of proxied requests.

use std::io;

use http::{HeaderValue, Response as HttpResponse, header, response};
use kevel_api::status::StatusError;
use kevel_streaming::upgrade::Rewound;
use kevel_streaming::upgrade::backend::{self, Answer};

use super::{Transport, unknown};
use crate::body::Body;
use crate::egress::Connection;
use crate::handler::Response;
use crate::serving::{Taken, Upgrade};

/// Result of an upgrade request.
pub enum Upgraded {
    /// Accepted: the response, and the connection.
    Switched(response::Parts, Rewound<Box<dyn Connection>>),
    /// Refused, with a response.
    Refused(Response),
}

impl std::fmt::Debug for Upgraded {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if matches!(self, Upgraded::Switched(..)) { "Switched" } else { "Refused" })
    }
}

/// Requests an upgrade on a new connection.
pub(super) async fn ask(
    transport: &Transport,
    request: &http::Request<()>,
) -> Result<Upgraded, StatusError> {
    let dialled = transport.dial(request.uri()).await;
    let io = dialled.map_err(|why| unknown(format!("error dialing backend: {why}")))?;
    switch_protocols(io, request).await.map_err(unknown)
}

/// Requests an upgrade on a connection of its own. A redirect is an error: it is never followed to another host.
pub async fn switch_protocols(
    io: Box<dyn Connection>,
    request: &http::Request<()>,
) -> Result<Upgraded, String> {
    match backend::handshake(io, request).await.map_err(|error| unanswered(&error))? {
        Answer::Switched(parts, io) => Ok(Upgraded::Switched(parts, io)),
        Answer::Refused(answer) if answer.status().as_u16() < 400 => {
            Err(format!("invalid upgrade response: status code {}", answer.status().as_u16()))
        }
        Answer::Refused(answer) => {
            let mut response = answer.map(Body::from);
            let close = HeaderValue::from_static("close");
            response.headers_mut().insert(header::CONNECTION, close);
            Ok(Upgraded::Refused(response))
        }
    }
}

fn unanswered(error: &backend::Error) -> String {
    match error {
        backend::Error::Io(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
            "unexpected EOF".to_owned()
        }
        error => error.to_string(),
    }
}

/// The response after which the client's connection is upgraded, until `takeover` ends.
pub fn go_on<F>(
    parts: response::Parts,
    takeover: impl FnOnce(Taken) -> F + Send + 'static,
) -> Response
where
    F: Future + Send + 'static,
{
    let mut response = HttpResponse::from_parts(parts, Body::held());
    let takeover = async move |client: Taken, body: Body| {
        takeover(client).await;
        // Values held by the response live until here.
        drop(body);
    };
    response.extensions_mut().insert(Upgrade::new(takeover));
    response
}

/// Response to an invalid upgrade request.
pub fn refused(refusal: HttpResponse<String>) -> Response {
    refusal.map(Body::from)
}
