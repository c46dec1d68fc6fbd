//! Connections that go on in another protocol.

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

/// What a server says to a request for another protocol.
pub enum Upgraded {
    /// It agrees: what it said, and the connection.
    Switched(response::Parts, Rewound<Box<dyn Connection>>),
    /// It does not, and says why.
    Refused(Response),
}

impl std::fmt::Debug for Upgraded {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if matches!(self, Upgraded::Switched(..)) { "Switched" } else { "Refused" })
    }
}

/// Asks a server for another protocol, on a connection of its own.
pub(super) async fn ask(
    transport: &Transport,
    request: &http::Request<()>,
) -> Result<Upgraded, StatusError> {
    let dialled = transport.dial(request.uri()).await;
    let io = dialled.map_err(|why| unknown(format!("error dialing backend: {why}")))?;
    switch_protocols(io, request).await.map_err(unknown)
}

/// Asks for another protocol on a connection that is used for nothing else. A redirect is no answer: nobody is led
/// to other hosts.
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

/// The answer after which the client's connection goes on in another protocol, until what takes it over ends.
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
        // What the handler chain has hung on the answer lasts until here.
        drop(body);
    };
    response.extensions_mut().insert(Upgrade::new(takeover));
    response
}

/// An answer to a client whose request for another protocol makes no sense.
pub fn refused(refusal: HttpResponse<String>) -> Response {
    refusal.map(Body::from)
}
