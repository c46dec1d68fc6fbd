//! Exec and attach over WebSocket, translated to SPDY for the kubelet (upstream: `StreamTranslatorHandler`).

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

/// Whether a request must be translated.
pub fn is_asked(request: &Request) -> bool {
    websocket::is_stream_close_request(&request.parts.headers)
}

/// Responds to the client, then connects to the kubelet: a failure is reported on the error channel. `ended` gets the
/// status for metrics.
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
