//! Commands of clients that speak WebSocket, translated for a kubelet that speaks SPDY
//! (`StreamTranslatorHandler`).

use std::sync::Arc;

use http::StatusCode;
use kevel_streaming::channel::TRANSLATED;
use kevel_streaming::rate::Rate;
use kevel_streaming::remote_command::{connect, not_sent};
use kevel_streaming::translator::{Options, Translated, translate};
use kevel_streaming::upgrade::websocket;

use super::{Location, Transport, go_on, refused};
use crate::handler::Response;
use crate::request::Request;

/// Whether a request is one to be translated.
pub fn is_asked(request: &Request) -> bool {
    websocket::is_stream_close_request(&request.parts.headers)
}

/// Answers the client, and then asks the kubelet at a location: where that fails, the client is told on its error
/// channel. How it ended is told for whoever counts.
pub fn serve(
    request: &Request,
    location: &Location,
    transport: Arc<Transport>,
    options: Options,
    rate: Option<Rate>,
    ended: impl FnOnce(StatusCode) + Send + 'static,
) -> Response {
    let accepted = websocket::accept(&request.parts.method, &request.parts.headers, TRANSLATED);
    let (accepted, protocol) = match accepted {
        Ok(accepted) => accepted,
        Err(refusal) => {
            ended(StatusCode::BAD_REQUEST);
            return refused(*refusal);
        }
    };
    let target = location.uri();
    let connecting = async move {
        let target = target?;
        let dialled = transport.dial(&target).await;
        let io = dialled.map_err(|why| not_sent(&target.to_string(), &why))?;
        connect(io, target).await
    };
    go_on(accepted.into_parts().0, async move |client| {
        match translate(client, protocol, options, rate, connecting).await {
            Translated::Ended(outcome) => ended(outcome.code()),
            Translated::ClientGone => ended(StatusCode::INTERNAL_SERVER_ERROR),
        }
    })
}
